import pytest
import torch

from hf_xmtc.models.cornet import ACTIVATIONS, CorNet
from hf_xmtc.models.label_block_loss import block_loss
from hf_xmtc.models.label_losses import BinaryCrossEntropy, LabelLoss, positive_ids
from hf_xmtc.models.label_scorer import BlockSettings, GivenLogits, LabelLayers, LabelScorer, LinearLogits, LinearWeights
from models.dense_scoring import LABELS, NUM_LABELS
from models.golden import assert_close, gradient_of, load_golden

GOLDEN = ["cornet_blocks1", "cornet_blocks2", "cornet_blocks3"]
GOLDEN += [f"cornet_blocks2_act_{activation}" for activation in ("relu", "tanh", "elu")]


class WeightedSum(LabelLoss):
    """Σ R · x, with R (B, L) instead of targets; labels are known by their weight, which is their id."""

    weighs_labels = True

    def __init__(self, factors: torch.Tensor):
        self.factors = factors

    def value(self, logits, positives):
        return (logits * self.gradient(logits, positives)).sum().double()

    def gradient(self, logits, positives):
        first = int(positives.weights[0])
        return self.factors[:, first : first + len(logits)].t().clone()


def golden_cornet(name: str) -> tuple[CorNet, dict[str, torch.Tensor]]:
    golden, settings = load_golden(name)
    cornet = CorNet(settings["num_labels"], settings["context_size"], settings["num_blocks"], settings["input_activation"])
    cornet.load_state_dict({key.replace("cornet.", "blocks."): golden[key] for key in golden if key.startswith("cornet.")})
    return cornet, golden


def raw_logits(kind: str, logits: torch.Tensor) -> LinearLogits | GivenLogits:
    """Raw logits as they are, or as features of a head that changes nothing."""
    if kind == "given logits":
        return GivenLogits(logits)
    return LinearLogits(logits, LinearWeights(torch.eye(logits.shape[1]), torch.zeros(logits.shape[1])))


@pytest.mark.parametrize("memory_mib", [0.0, 64.0], ids=["computed again", "kept"])
@pytest.mark.parametrize("kind", ["identity head", "given logits"])
@pytest.mark.parametrize("name", GOLDEN)
def test_cornet_by_blocks_gives_the_outputs_and_gradients_of_the_authors(name, kind, memory_mib):
    for block_size in (1, 4, 23, 100):
        cornet, golden = golden_cornet(name)
        source = golden["input"].clone().requires_grad_()
        layers, settings = LabelLayers.of(raw_logits(kind, source), cornet), BlockSettings(block_size, memory_mib)
        with torch.no_grad():
            scorer = LabelScorer(layers, settings)
            scorer.compute_contexts()
            for index in range(len(cornet.blocks)):
                blocks = [
                    scorer.logits_per_block(start, stop, len(cornet.blocks))[index + 1] for start, stop in scorer.blocks()
                ]
                assert_close(torch.cat(blocks).t(), golden[f"block_output.{index}"], 1e-5, f"block {index}")
        assert_close(torch.cat(blocks).t(), golden["output"], 1e-5, "output")

        num_labels = source.shape[1]
        every_label = torch.arange(num_labels).expand(len(source), -1)
        loss = block_loss(layers, settings, WeightedSum(golden["R"]), every_label, torch.arange(num_labels))
        torch.testing.assert_close(loss, (golden["output"] * golden["R"]).sum(), rtol=1e-5, atol=1e-5)
        loss.backward()
        assert_close(source.grad, golden["grad.input"], 3e-5, "input")
        gradients = gradient_of(golden, "grad.cornet.")
        assert len(gradients) == len(list(cornet.parameters()))
        for key, gradient in gradients.items():
            assert_close(cornet.get_parameter(f"blocks.{key}").grad, gradient, 3e-5, key)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_slope_of_an_activation_is_its_derivative(activation):
    function, slope = ACTIVATIONS[activation]
    points = torch.linspace(-5, 5, 40, dtype=torch.float64, requires_grad=True)
    function(points).sum().backward()
    torch.testing.assert_close(slope(function(points.detach())), points.grad)


# ---- blocks and memory -----------------------------------------------------------------------------------------------------


def make_scorer(num_blocks: int, block_size: int = 4, memory_mib: float = 0.0, dtype=torch.float32) -> LabelScorer:
    torch.manual_seed(0)
    weight, bias = torch.randn(NUM_LABELS, 6, dtype=dtype), torch.randn(NUM_LABELS, dtype=dtype)
    cornet = CorNet(NUM_LABELS, 5, num_blocks).to(dtype).requires_grad_(False)
    raw = LinearLogits(torch.randn(4, 6, dtype=dtype), LinearWeights(weight, bias))
    settings = BlockSettings(block_size, memory_mib)
    return LabelScorer(LabelLayers.of(raw, cornet), settings, BinaryCrossEntropy(), positive_ids(LABELS, NUM_LABELS))


@pytest.fixture
def computed(monkeypatch):
    """The blocks whose raw logits were computed, in order."""
    blocks = []
    original = LinearLogits.block

    def counting(raw, start, stop, dtype):
        blocks.append((start, stop))
        return original(raw, start, stop, dtype)

    monkeypatch.setattr(LinearLogits, "block", counting)
    return blocks


def run(scorer: LabelScorer) -> None:
    scorer.compute_contexts()
    scorer.total_loss()
    scorer.compute_context_gradients()
    for start, stop in scorer.blocks():
        logits = scorer.logits_per_block(start, stop)
        scorer.output_factors(logits, scorer.gradients(start, stop, logits, 0))
        scorer.release(start)


def test_blocks_cover_the_labels_and_none_is_wider_than_the_block_size():
    assert list(make_scorer(0, block_size=4).blocks()) == [(0, 4), (4, 8), (8, 11)]
    assert list(make_scorer(0, block_size=11).blocks()) == list(make_scorer(0, block_size=500).blocks()) == [(0, 11)]


def test_without_a_block_size_a_block_of_weights_stays_in_a_cpus_cache():
    def block_size(width: int, context_size: int = 0) -> int:
        raw = LinearLogits(torch.zeros(1, width), LinearWeights(torch.zeros(1, width), torch.zeros(1)))
        cornet = CorNet(1, context_size, 1) if context_size else None
        return LabelScorer(LabelLayers.of(raw, cornet), BlockSettings()).block_size

    assert (block_size(512), block_size(1024), block_size(512, context_size=1000)) == (4096, 2048, 2048)
    assert (block_size(2**16), block_size(10_000_000)) == (32, 1)
    assert block_size(768) % 64 == 0


@pytest.mark.parametrize("num_blocks", [0, 1, 2])
def test_without_memory_each_pass_over_the_labels_computes_every_block_once(num_blocks, computed):
    scorer = make_scorer(num_blocks)
    run(scorer)
    # One pass per context, one for the loss, one per gradient of a context, and one for all others.
    assert computed == list(scorer.blocks()) * (2 * num_blocks + 2)
    assert not scorer.memory


@pytest.mark.parametrize("num_blocks", [0, 1, 2])
def test_with_enough_memory_every_block_is_computed_once(num_blocks, computed):
    scorer = make_scorer(num_blocks, memory_mib=1.0)
    run(scorer)
    assert computed == list(scorer.blocks())
    assert not scorer.memory  # released block by block


@pytest.mark.parametrize("num_blocks", [0, 2])
def test_as_many_blocks_are_kept_as_fit_into_the_memory(num_blocks, computed):
    bytes_of_block = (num_blocks + 1) * 4 * 4 * 4  # x_0 … x_N, labels, documents, float32
    scorer = make_scorer(num_blocks, memory_mib=1.5 * bytes_of_block / 2**20)
    scorer.compute_contexts()
    scorer.total_loss()
    assert list(scorer.memory) == [0]
    # The second block would not fit, the last one of 3 labels neither.
    passes = num_blocks + 1
    assert [computed.count(block) for block in scorer.blocks()] == [1, passes, passes]
    held = sum(stage.numel() * stage.element_size() for logits in scorer.memory.values() for stage in logits)
    assert held == bytes_of_block


@pytest.mark.parametrize("memory_mib", [0.0, 4 * 4 * 4 * 3 / 2**20, 1.0], ids=["none", "one block", "all"])
@pytest.mark.parametrize("block_size", [1, 3, 11])
def test_contexts_loss_and_gradients_do_not_depend_on_blocks_or_memory(block_size, memory_mib):
    whole, parts = make_scorer(2, 100, 1.0, torch.float64), make_scorer(2, block_size, memory_mib, torch.float64)
    for scorer in (whole, parts):
        scorer.compute_contexts()
        scorer.loss_scale = 0.7
        scorer.total = scorer.total_loss()
        scorer.compute_context_gradients()
    torch.testing.assert_close(parts.contexts, whole.contexts)
    torch.testing.assert_close(parts.total, whole.total)
    torch.testing.assert_close(parts.context_gradients, whole.context_gradients)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_weights_are_scored_and_summed_in_single_precision(dtype):
    scorer = make_scorer(1, dtype=dtype)
    scorer.compute_contexts()
    assert scorer.contexts[0].dtype == torch.float32
    assert all(logits.dtype == torch.float32 for logits in scorer.logits_per_block(0, 4, 1))
    assert scorer.total_loss().dtype == torch.float64


def test_given_logits_are_read_and_never_written():
    logits = torch.randn(3, 7)
    before = logits.clone()
    cornet = CorNet(7, 4, 2).requires_grad_(False)
    layers, positives = LabelLayers.of(GivenLogits(logits), cornet), torch.tensor([[1], [2], [6]])
    scorer = LabelScorer(layers, BlockSettings(block_size=2), BinaryCrossEntropy(), positives)
    run(scorer)
    assert torch.equal(logits, before)
