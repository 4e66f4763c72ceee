import pytest
import torch

from hf_xmtc.models.cornet import CorNet
from hf_xmtc.models.label_head import LabelHead
from hf_xmtc.models.label_losses import LABEL_LOSSES
from hf_xmtc.models.label_scorer import LinearLogits
from models.dense_scoring import (
    BLOCK_SIZES,
    LABELS,
    MEMORY_MIB,
    NUM_LABELS,
    WIDTH,
    ShapesMade,
    build_head,
    dense_logits,
    dense_loss,
    documents,
    parameters_of,
    take_gradients,
)
from models.golden import assert_close, load_golden

CANDIDATES = torch.tensor([[0, 10, 3], [4, 1, 5], [9, 1, 2], [2, 3, 10]])

# ---- best and chosen labels ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_blocks", [0, 2])
@pytest.mark.parametrize("block_size", BLOCK_SIZES)
def test_top_k_by_blocks_equals_a_stable_sort(block_size, num_blocks):
    for k in (1, 4, NUM_LABELS, 50):
        head, cornet = build_head(num_blocks, block_size=block_size)
        with torch.no_grad():
            head.output.weight.mul_(2).round_()  # whole weights and states: many equal logits
            head.output.bias.zero_()
            for parameter in cornet.parameters() if cornet is not None else ():
                parameter.zero_()
        hidden = documents().round()
        scores, label_ids, loss = head.topk_and_loss(hidden, k, LABELS, cornet=cornet)
        expected = dense_logits(head, hidden, cornet).sort(dim=1, descending=True, stable=True)
        assert label_ids.tolist() == expected.indices[:, :k].tolist()
        torch.testing.assert_close(scores, expected.values[:, :k].sigmoid())
        torch.testing.assert_close(loss, dense_loss(dense_logits(head, hidden, cornet), LABELS))
        assert head.topk(hidden, k, cornet)[1].tolist() == label_ids.tolist()


@pytest.mark.parametrize("memory_mib", MEMORY_MIB.values(), ids=MEMORY_MIB)
@pytest.mark.parametrize("num_blocks", [1, 2, 3])
def test_top_k_through_cornet_is_that_of_the_full_logits(num_blocks, memory_mib):
    head, cornet = build_head(num_blocks, block_size=3, memory_mib=memory_mib)
    scores, label_ids = head.topk(documents(), 5, cornet)
    expected = dense_logits(head, documents(), cornet).topk(5)
    assert torch.equal(label_ids, expected.indices)
    torch.testing.assert_close(scores, expected.values.sigmoid())


def test_features_that_are_not_numbers_are_scored_without_a_crash():
    head, cornet = build_head(1, block_size=4)
    hidden = documents()
    hidden[1] = float("nan")
    scores, label_ids, loss = head.topk_and_loss(hidden, 3, LABELS, cornet=cornet)
    assert loss.isnan() and scores[1].isnan().all()
    assert ((label_ids >= 0) & (label_ids < NUM_LABELS)).all()
    assert torch.equal(label_ids[[0, 2, 3]], head.topk(documents(), 3, cornet)[1][[0, 2, 3]])


def test_a_block_is_never_wider_than_the_block_size(monkeypatch):
    head, cornet = build_head(2, block_size=4)
    widths = []
    original = LinearLogits.block

    def counting(raw, start, stop, dtype):
        widths.append(stop - start)
        return original(raw, start, stop, dtype)

    monkeypatch.setattr(LinearLogits, "block", counting)
    head.loss(documents().requires_grad_(), LABELS, cornet=cornet).backward()
    head.topk(documents(), 3, cornet)
    assert max(widths) == 4


def test_chosen_labels_score_as_in_the_full_logits():
    head, _ = build_head(block_size=4, bottleneck_size=3)
    label_ids = torch.tensor([[0, 10], [4, 4], [9, 1], [2, 3]])
    torch.testing.assert_close(
        head.scores_for(documents(), label_ids), head.logits(documents()).sigmoid().gather(1, label_ids)
    )


def test_padding_of_candidates_scores_nothing_and_leaves_the_others_alone():
    head, cornet = build_head(2)
    short, padded = (
        torch.tensor([[3], [5], [0], [9]]),
        torch.tensor([[-100, 3, -100], [5, -100, -100], [-100, -100, 0], [9, -100, -100]]),
    )
    for refine in (None, cornet):
        scores = head.scores_for(documents(), padded, refine)
        assert torch.equal(scores == 0, padded == -100)
        torch.testing.assert_close(scores[padded >= 0][:, None], head.scores_for(documents(), short, refine))


def test_candidates_that_are_all_labels_score_as_the_full_model():
    head, cornet = build_head(2)
    label_ids = torch.stack([torch.randperm(NUM_LABELS) for _ in range(4)])
    expected = dense_logits(head, documents(), cornet).sigmoid().gather(1, label_ids)
    torch.testing.assert_close(head.scores_for(documents(), label_ids, cornet), expected)


@pytest.mark.parametrize("sparse_rows", [False, True])
@pytest.mark.parametrize("bottleneck_size", [None, 3])
def test_logits_and_gradients_of_candidates_are_those_of_all_labels(bottleneck_size, sparse_rows):  # W9
    head, _ = build_head(dtype=torch.float64, bottleneck_size=bottleneck_size)
    head.sparse_rows = sparse_rows
    hidden, weights = documents(dtype=torch.float64), torch.linspace(-1, 1, 12, dtype=torch.float64).view(4, 3)
    found = head.raw_logits_of(hidden, CANDIDATES)
    torch.testing.assert_close(found, head.raw_logits(hidden).gather(1, CANDIDATES))
    (found * weights).sum().backward()
    ours = [parameter.grad.to_dense() for parameter in head.parameters()]
    head.zero_grad()
    (head.raw_logits(hidden).gather(1, CANDIDATES) * weights).sum().backward()
    torch.testing.assert_close(ours, [parameter.grad for parameter in head.parameters()])


@torch.no_grad()
def test_the_score_of_a_candidate_does_not_depend_on_the_others():  # W8
    head, _ = build_head()
    logits, order = head.raw_logits_of(documents(), CANDIDATES), torch.tensor([2, 0, 1])
    torch.testing.assert_close(head.raw_logits_of(documents(), CANDIDATES[:, order]), logits[:, order])
    torch.testing.assert_close(head.raw_logits_of(documents(), CANDIDATES[:, 1:2]), logits[:, 1:2])


@torch.no_grad()
def test_logits_and_loss_equal_lightxml_without_groups():
    golden, settings = load_golden("lightxml_flat")
    head = LabelHead(settings["feature_layers"] * golden["hidden_states"].shape[-1], settings["num_labels"])
    head.output.load_state_dict({name: golden[f"classifier.{name}"] for name in ("weight", "bias")})
    last_first = golden["hidden_states"].flip(0)[: settings["feature_layers"]]  # (layers, B, T, H)
    feature = last_first[:, :, 0].transpose(0, 1).flatten(1)  # of the first token
    labels = [row.nonzero()[:, 0].tolist() for row in golden["targets"]]
    padded = torch.tensor([row + [-100] * (max(map(len, labels)) - len(row)) for row in labels])
    logits, loss = head.logits_and_loss(feature, padded)
    assert_close(logits, golden["logits"], 1e-5, "logits")
    assert_close(loss, golden["loss"], 1e-5, "loss")


@pytest.mark.parametrize("wrong", [NUM_LABELS, -1])
def test_unknown_candidates_are_refused(wrong):
    head, _ = build_head()
    with pytest.raises(ValueError, match=f"label_ids holds label id {wrong}, but the ids are 0 … 10"):
        head.scores_for(documents(1), torch.tensor([[0, wrong]]))


def test_a_gradient_that_an_updated_matrix_would_never_get_is_refused():
    head, _ = build_head()
    head.updates = {}
    for call in (lambda: head.scores_for(documents(1), torch.tensor([[0]])), lambda: head.logits(documents(1))):
        with pytest.raises(ValueError, match="updated in the backward pass.*asked for with their gradient"):
            call()
        with torch.no_grad():
            call()


def test_unknown_losses_and_reductions_are_refused():
    with pytest.raises(ValueError, match="loss='focal' is none of bce, propensity_bce, asymmetric"):
        LabelHead(4, 3, loss="focal")
    with pytest.raises(ValueError, match="loss_settings=.*'gamma': 1.* does not fit loss='bce'"):
        LabelHead(4, 3, loss_settings={"gamma": 1})
    head, _ = build_head()
    with pytest.raises(ValueError, match="reduction='average' is none of mean, sum_labels, sum"):
        head.loss(documents(), LABELS, "average")


# ---- labels ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (LABELS[:3], "labels has 3 rows but there are 4 documents"),
        (torch.cat([LABELS, LABELS]), "labels has 8 rows but there are 4 documents"),
        (torch.full((4, 1), NUM_LABELS), "Label id 11 is outside 0 … 10"),
        (torch.full((4, 1), -1), "Label id -1 is outside 0 … 10"),
        (torch.zeros(4, 3), "have 3 columns but the model has num_labels=11"),
    ],
)
def test_wrong_labels_are_refused(labels, message):
    head, cornet = build_head(1, block_size=4)
    calls = (
        lambda: head.loss(documents(), labels, cornet=cornet),
        lambda: head.loss_from_logits(head.logits(documents()), labels),
        lambda: head.topk_and_loss(documents(), 2, labels),
    )
    for call in calls:
        with pytest.raises(ValueError, match=message):
            call()


def test_label_weights_that_nobody_has_set_are_refused():
    head = LabelHead(WIDTH, NUM_LABELS, loss="propensity_bce")
    with pytest.raises(ValueError, match="weighs labels, but 11 of the 11 weights are not set"):
        head.loss(documents(), LABELS)
    head.positive_weight[:9] = 2.0
    with pytest.raises(ValueError, match="weighs labels, but 2 of the 11 weights are not set"):
        head.topk_and_loss(documents(), 3, LABELS)
    head.topk(documents(), 3)  # needs none


# ---- precision -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_blocks", [0, 2])
@pytest.mark.parametrize("around", ["forward", "forward and backward"])
def test_autocast_changes_nothing_about_loss_gradients_and_best_labels(num_blocks, around):
    torch.manual_seed(0)
    head = LabelHead(64, 320, block_size=64, memory_mib=0.0)
    cornet = CorNet(320, 32, num_blocks) if num_blocks else None
    labels = torch.tensor([[0, 319], [3, -100], [-100, -100]])
    hidden = torch.randn(3, 64, requires_grad=True)
    tensors = [hidden, *parameters_of(head, cornet)]

    def run(enabled: bool) -> tuple:
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            loss = head.loss(hidden, labels, cornet=cornet)
            best = head.topk_and_loss(hidden, 5, labels, cornet=cornet)
            if around == "forward and backward":
                loss.backward()
        if around == "forward":
            loss.backward()
        return loss.detach(), take_gradients(tensors), best

    torch.testing.assert_close(run(True), run(False), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "fp16"])
@pytest.mark.parametrize("num_blocks", [0, 2], ids=["plain", "cornet"])
@pytest.mark.parametrize("name", LABEL_LOSSES)
def test_half_precision_is_finite_by_blocks(name, num_blocks, dtype):  # AC-29
    head, cornet = build_head(num_blocks, block_size=3, loss=name)
    best = head.topk(documents(), 1, cornet)[1]
    half = documents().to(dtype).requires_grad_()
    head.to(dtype), cornet and cornet.to(dtype)
    # The features of the first document are large, as without layer norm they may be.
    with torch.no_grad():
        loud = half * torch.tensor([[100.0], [1.0], [1.0], [1.0]]).to(dtype)
    for features in (half, loud):
        loss = head.loss(features, LABELS, cornet=cornet)
        assert loss.isfinite() and loss.dtype == torch.float32
        loss.backward()
        assert all(parameter.grad.isfinite().all() for parameter in parameters_of(head, cornet))
        scores, label_ids, beside = head.topk_and_loss(features, 3, LABELS, cornet=cornet)
        assert scores.isfinite().all() and torch.equal(label_ids[:, :1], best)
        torch.testing.assert_close(beside, loss)
    assert half.grad.dtype == dtype and half.grad.isfinite().all()


def test_loss_is_computed_in_single_precision_for_half_precision_logits():
    head, _ = build_head(num_labels=20_000)
    logits = torch.full((4, 20_000), 4.0, dtype=torch.float16)  # the sum, 3e5, is beyond float16
    loss = head.loss_from_logits(logits, torch.full((4, 1), -100), "sum")
    assert loss.item() == pytest.approx(4 * 20_000 * 4.01815, rel=1e-4)


def test_a_batch_without_any_label_has_a_loss():
    head, _ = build_head(num_labels=3)
    for labels in (torch.full((2, 1), -100), torch.zeros(2, 0, dtype=torch.long), torch.zeros(2, 3)):
        assert head.loss_from_logits(torch.zeros(2, 3), labels).item() == pytest.approx(0.6931472)


# ---- memory ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_blocks", [0, 2], ids=["plain", "cornet"])
def test_no_tensor_of_documents_times_labels_is_ever_made(num_blocks):
    num_labels, num_documents, width, context_size = 200_000, 16, 32, 8
    head = LabelHead(width, num_labels, block_size=10_000, memory_mib=0.0)
    cornet = CorNet(num_labels, context_size, num_blocks) if num_blocks else None
    hidden = torch.randn(num_documents, width, requires_grad=True)
    labels = torch.randint(0, num_labels, (num_documents, 5), generator=torch.Generator().manual_seed(0))
    with ShapesMade() as made:
        head.loss(hidden, labels, cornet=cornet).backward()
        head.topk_and_loss(hidden, 10, labels, cornet=cornet)
    # Gradients of the parameters and views of them are as large as they are; all else is the work of one block.
    parameters = {(num_labels,), (num_labels, width), (width, num_labels)}
    parameters |= {(num_labels, context_size), (context_size, num_labels)}
    largest = max(torch.Size(shape).numel() for shape in made.shapes - parameters)
    assert largest <= 10_000 * max(num_documents, width) < num_documents * num_labels
    assert (10_000, num_documents) in made.shapes  # it was watched


def test_the_dense_way_does_make_one():
    head, _ = build_head()
    with ShapesMade() as made:
        dense_loss(dense_logits(head, documents().requires_grad_()), LABELS).backward()
    assert (4, NUM_LABELS) in made.shapes


# ---- the label space -------------------------------------------------------------------------------------------------------


def test_labels_that_stay_keep_their_rows_and_the_bottleneck_stays_as_it_is():
    head = LabelHead(4, 3, bottleneck_size=2)
    weight, bias = head.output.weight.detach().clone(), head.output.bias.detach().clone()
    bottleneck = head.bottleneck.weight.detach().clone()
    head.resize_labels(torch.tensor([-1, 2, 1, -1]))
    assert head.num_labels == 4 and head.logits(torch.randn(1, 4)).shape == (1, 4)
    assert torch.equal(head.output.weight[1:3], weight[[2, 1]]) and torch.equal(head.output.bias[1:3], bias[[2, 1]])
    assert torch.equal(head.bottleneck.weight, bottleneck)


def test_labels_that_stay_keep_their_weight_in_the_loss_and_new_ones_need_one():
    head = LabelHead(4, 3, loss="propensity_bce")
    head.positive_weight.copy_(torch.tensor([2.0, 3.0, 4.0]))
    head.resize_labels(torch.tensor([-1, 2, 1]))
    assert head.positive_weight.tolist() == [0.0, 4.0, 3.0]
    with pytest.raises(ValueError, match="1 of the 3 weights are not set"):
        head.loss(torch.randn(1, 4), torch.tensor([[1]]))
    head.resize_labels(torch.tensor([2, 1]))
    assert head.positive_weight.tolist() == [3.0, 4.0]
    assert head.loss(torch.randn(1, 4), torch.tensor([[1]])).isfinite()
