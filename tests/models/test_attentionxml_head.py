"""`LabelAttentionHead`: equal to the authors' layers, and by blocks to the computation of all labels at once."""

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from hf_xmtc.models.attentionxml_head import DocumentStates, LabelAttentionHead, attend
from hf_xmtc.models.cornet import CorNet
from models.golden import assert_close, load_golden

NUM_LABELS, NUM_TOKENS, WIDTH = 11, 6, 4
LENGTHS = torch.tensor([6, 1, 3, 4])
LABELS = torch.tensor([[0, 3], [10, -100], [-100, -100], [3, 3]])


def build(num_blocks: int = 0, dtype=torch.float32, **settings) -> tuple[LabelAttentionHead, CorNet | None]:
    torch.manual_seed(0)
    head = LabelAttentionHead(WIDTH, NUM_LABELS, (5, 3), **settings).to(dtype)
    with torch.no_grad():
        head.attention.weight.mul_(3)
    return head, CorNet(NUM_LABELS, 4, num_blocks).to(dtype) if num_blocks else None


def documents(dtype=torch.float32) -> DocumentStates:
    states = torch.randn(4, NUM_TOKENS, WIDTH, generator=torch.Generator().manual_seed(1)).to(dtype)
    return DocumentStates(states.requires_grad_(), torch.arange(NUM_TOKENS) < LENGTHS[:, None])


def one_by_one(head: LabelAttentionHead, hidden: DocumentStates) -> torch.Tensor:
    """Equations 4 to 6 for each document and label by itself."""
    rows = []
    for states, read in zip(*hidden, strict=True):
        words = states[read]  # (T, D)
        logits = []
        for vector in head.attention.weight:
            context = torch.softmax(words @ vector, dim=0) @ words
            for linear in head.linears:
                context = torch.relu(linear(context))
            logits.append(head.output(context)[0])
        rows.append(torch.stack(logits))
    return torch.stack(rows)


def gradients_of(loss: torch.Tensor, head: LabelAttentionHead, cornet: CorNet | None, hidden: DocumentStates) -> list:
    parameters = [*head.parameters(), *(cornet.parameters() if cornet is not None else ())]
    return list(torch.autograd.grad(loss, [hidden.states, *parameters]))


@torch.no_grad()
def test_attention_equals_the_authors():
    golden, _ = load_golden("mlattention")
    states, weight = golden["hidden"], golden["label_attention.weight"]
    for mask, output in (("mask", "output"), ("mask_with_hole", "output_with_hole")):
        contexts = attend(weight @ states.mT, golden[mask].bool()) @ states
        assert_close(contexts, golden[output], 1e-5, output)


@torch.no_grad()
@pytest.mark.parametrize("num_hidden", [0, 1, 2])
def test_shared_layers_equal_the_authors(num_hidden):
    golden, settings = load_golden(f"mllinear_{num_hidden}hidden")
    first, *sizes = settings["sizes"]
    head = LabelAttentionHead(first, 6, sizes)
    renamed = {name.replace("mlp.", "linears.").replace("mlp_output.", "output."): value for name, value in golden.items()}
    head.load_state_dict({name: renamed[name] for name in head.state_dict() if name in renamed}, strict=False)
    # One position, so that what is attended to is the input.
    flat = golden["input"].reshape(-1, 1, first)
    logits = head.raw_logits(DocumentStates(flat, torch.ones(len(flat), 1, dtype=torch.bool)))
    assert_close(logits[:, 0].reshape(4, 6), golden["output"], 1e-5)


@pytest.mark.parametrize("settings", [{"memory_mib": 64}, {"memory_mib": 0, "block_size": 4}, {"memory_mib": 0}], ids=str)
@pytest.mark.parametrize("num_blocks", [0, 2])
def test_loss_and_all_gradients_equal_those_of_labels_one_by_one(num_blocks, settings):
    (head, cornet), hidden = build(num_blocks, torch.float64, **settings), documents(torch.float64)
    loss = head.loss(hidden, LABELS, cornet=cornet)
    raw = one_by_one(head, hidden)
    logits = cornet(raw) if cornet is not None else raw
    targets = torch.zeros(4, NUM_LABELS, dtype=torch.float64)
    targets[[0, 0, 1, 3], [0, 3, 10, 3]] = 1
    expected = nn.functional.binary_cross_entropy_with_logits(logits, targets)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(gradients_of(loss, head, cornet, hidden), gradients_of(expected, head, cornet, hidden))
    with torch.no_grad():
        torch.testing.assert_close(head.logits(hidden, cornet), logits)


@pytest.mark.parametrize("block_size", [1, 3, 11])
def test_gradients_equal_finite_differences(block_size):
    (head, _), hidden = build(dtype=torch.float64, memory_mib=0, block_size=block_size), documents(torch.float64)
    parameters = list(head.parameters())

    def logits(states, *_):
        return head.raw_logits(DocumentStates(states, hidden.read))

    assert torch.autograd.gradcheck(logits, (hidden.states, *parameters))


@pytest.mark.parametrize("frozen", ["states", "attention", "linears", "all but states"])
def test_what_is_frozen_gets_no_gradient_and_the_rest_the_same(frozen):
    found = []
    for settings in ({"memory_mib": 64}, {"memory_mib": 0, "block_size": 4}):
        (head, _), hidden = build(**settings), documents()
        if frozen == "states":
            hidden = DocumentStates(hidden.states.detach(), hidden.read)
        for name, parameter in head.named_parameters():
            parameter.requires_grad_(frozen not in name and frozen != "all but states")
        head.loss(hidden, LABELS).backward()
        found.append([hidden.states.grad, *(parameter.grad for parameter in head.parameters())])
    assert [gradient is None for gradient in found[0]] == [gradient is None for gradient in found[1]]
    for kept, blocks in zip(*found, strict=True):
        torch.testing.assert_close(kept, blocks)


def test_candidates_and_best_labels_are_those_of_all_logits():
    (head, cornet), hidden = build(2, memory_mib=0, block_size=4), documents()
    ids = torch.tensor([[0, 10], [4, -100], [9, 1], [2, 3]])
    with torch.no_grad():
        scores = head.logits(hidden).sigmoid()
        expected = scores.gather(1, ids.clamp(min=0)).masked_fill(ids < 0, 0.0)
        torch.testing.assert_close(head.scores_for(hidden, ids), expected)
        refined, best = head.logits(hidden, cornet).sigmoid().sort(dim=1, descending=True, stable=True)
        found, labels = head.topk(hidden, 3, cornet)
    torch.testing.assert_close(found, refined[:, :3])
    assert torch.equal(labels, best[:, :3])


class Sizes(TorchDispatchMode):
    """The largest number of elements of any tensor that is made, other than a view."""

    def __init__(self):
        super().__init__()
        self.largest = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        if isinstance(made, torch.Tensor) and made._base is None:
            self.largest = max(self.largest, made.untyped_storage().nbytes() // made.element_size())
        return made


def test_attention_and_contexts_of_all_labels_never_exist_at_once():
    torch.manual_seed(0)
    num_documents, num_tokens, width, num_labels = 4, 40, 16, 6_000
    hidden = DocumentStates(torch.randn(num_documents, num_tokens, width, requires_grad=True), torch.ones(4, 40).bool())
    labels = torch.zeros(num_documents, 1, dtype=torch.long)
    largest = []
    for memory_mib in (0, 1_000):
        head = LabelAttentionHead(width, num_labels, (8,), memory_mib=memory_mib, block_size=100)
        with Sizes() as sizes:
            head.loss(hidden, labels).backward()
        largest.append(sizes.largest)
    assert largest[0] == num_labels * width  # the label vectors and their gradient; logits are documents x labels
    assert largest[1] >= num_documents * num_labels * num_tokens


@pytest.mark.parametrize("dtype", [torch.bfloat16])
def test_under_autocast_blocks_are_as_exact_as_all_at_once(dtype):
    losses = []
    for settings in ({"memory_mib": 64}, {"memory_mib": 0, "block_size": 4}):
        (head, _), hidden = build(**settings), documents()
        with torch.autocast("cpu", dtype=dtype):
            loss = head.loss(hidden, LABELS)
        losses.append([loss, *gradients_of(loss, head, None, hidden)])
        assert all(value.isfinite().all() for value in losses[-1])
        assert losses[-1][1].dtype == torch.float32
    for kept, blocks in zip(*losses, strict=True):
        torch.testing.assert_close(kept, blocks, rtol=2e-2, atol=2e-3)


def test_weights_that_change_between_forward_and_backward_are_refused():
    (head, _), hidden = build(memory_mib=0), documents()
    loss = head.loss(hidden, LABELS)
    with torch.no_grad():
        head.attention.weight.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


# ---- candidates ------------------------------------------------------------------------------------------------------------

CANDIDATES = torch.tensor([[3, 0, 10], [2, 9, 4], [7, 7, 1], [10, 5, 0]])


@pytest.mark.parametrize("memory", [64.0, 0.0], ids=["kept", "blocks"])
@pytest.mark.parametrize("label_bias", [False, True])
def test_logits_and_gradients_of_candidates_are_those_of_all_labels(memory, label_bias, monkeypatch):  # W9
    monkeypatch.setattr("hf_xmtc.models.attentionxml_head.suitable_block_size", lambda *_: 3)
    head, _ = build(dtype=torch.float64, memory_mib=memory, label_bias=label_bias)
    hidden, weights = documents(torch.float64), torch.linspace(-1, 1, 12, dtype=torch.float64).view(4, 3)
    found, expected = head.raw_logits_of(hidden, CANDIDATES), head.raw_logits(hidden).gather(1, CANDIDATES)
    torch.testing.assert_close(found, expected)
    with torch.no_grad():
        torch.testing.assert_close(head.raw_logits_of(hidden, CANDIDATES), expected)
    gradients = [gradients_of((logits * weights).sum(), head, None, hidden) for logits in (found, expected)]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("memory", [64.0, 0.0], ids=["kept", "blocks"])
def test_a_sparse_gradient_is_the_dense_one_of_the_candidates_rows(memory, monkeypatch):
    monkeypatch.setattr("hf_xmtc.models.attentionxml_head.suitable_block_size", lambda *_: 3)
    head, _ = build(dtype=torch.float64, memory_mib=memory)
    hidden, found = documents(torch.float64), []
    for head.sparse_rows in (False, True):
        logits = head.raw_logits_of(hidden, CANDIDATES)
        found.append(gradients_of((logits * torch.linspace(-1, 1, 12).view(4, 3)).sum(), head, None, hidden))
    for dense, sparse in zip(*found, strict=True):
        torch.testing.assert_close(sparse.to_dense() if sparse.is_sparse else sparse, dense)
    assert [gradient.is_sparse for gradient in found[1]].count(True) == 1
    assert found[1][1].coalesce().indices()[0].tolist() == CANDIDATES.unique().tolist()


@pytest.mark.parametrize("memory", [64.0, 0.0], ids=["kept", "blocks"])
def test_candidates_are_scored_in_half_precision(memory):
    head, _ = build(memory_mib=memory)
    with torch.autocast("cpu", torch.bfloat16):
        logits = head.raw_logits_of(documents(), CANDIDATES)
    logits.float().sum().backward()
    assert logits.isfinite().all() and head.attention.weight.grad.isfinite().all()


def test_the_score_of_a_candidate_does_not_depend_on_the_others():  # W8
    head, _ = build()
    hidden, order = documents(), torch.tensor([2, 0, 1])
    logits = head.raw_logits_of(hidden, CANDIDATES)
    torch.testing.assert_close(head.raw_logits_of(hidden, CANDIDATES[:, order]), logits[:, order])
    torch.testing.assert_close(head.raw_logits_of(hidden, CANDIDATES[:, :1]), logits[:, :1])


@torch.no_grad()
def test_attention_is_three_quarters_and_one():  # P2
    weights = attend(torch.tensor([[[torch.log(torch.tensor(3.0)), 0.0]]]), torch.ones(1, 2, dtype=torch.bool))
    torch.testing.assert_close(weights, torch.tensor([[[0.75, 0.25]]]))
    torch.testing.assert_close(weights @ torch.eye(2), torch.tensor([[[0.75, 0.25]]]))  # of the states (1, 0) and (0, 1)


@torch.no_grad()
def test_attention_is_that_of_the_words_alone():  # W7
    head, _ = build()
    hidden = documents()
    weights = head.attention_of(hidden, CANDIDATES)
    torch.testing.assert_close(weights.sum(dim=2), torch.ones(4, 3))
    assert not weights.masked_select(~hidden.read[:, None]).any()
    alone = hidden.states[1, 0]  # the second document has one word, whose state is what each label sees
    torch.testing.assert_close((weights @ hidden.states)[1], alone.expand(3, -1))
    wide = DocumentStates(
        *(nn.functional.pad(part, pad) for part, pad in zip(hidden, ((0, 0, 0, 50), (0, 50)), strict=True))
    )
    torch.testing.assert_close(head.raw_logits_of(wide, CANDIDATES), head.raw_logits_of(hidden, CANDIDATES))
