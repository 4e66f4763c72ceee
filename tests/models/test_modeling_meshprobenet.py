import pytest
import torch

from hf_xmtc import MeSHProbeNetConfig, MeSHProbeNetForXMTC
from models.families import LONG, SHORT, make_batch
from models.golden import assert_close, assert_gradients_close, load_golden, stored_parameters

RENAMED = [
    (r"^embedding\.", "words.embedding."),
    (r"^bilstm\.init_state$", "bilstm.initial_state"),
    (r"^bilstm\.(?!initial_state)", "bilstm.lstm."),
    (r"^probe\.", "probes.probe."),
    (r"^pooler\.", "label_head.bottleneck."),
]

TINY = {"vocab_size": 40, "embedding_size": 12, "hidden_size": 8, "num_hidden_layers": 2, "num_probes": 3}
TINY |= {"cornet_num_blocks": 0, "num_labels": 5}


def authors_model(golden: dict, settings: dict, **changes) -> MeSHProbeNetForXMTC:
    """The authors' network with the stored weights, CorNet included where ``cornet_num_blocks`` asks for it."""
    sizes = {
        "vocab_size": settings["vocab_size"],
        "embedding_size": settings["emb_size"],
        "hidden_size": settings["hidden_size"],
        "num_hidden_layers": settings["n_layers"],
        "num_probes": settings["n_probes"],
        "bottleneck_size": settings.get("bottleneck_dim"),
        "num_labels": settings["labels_num"],
        "cornet_num_blocks": 0,
        "cornet_context_size": settings["cornet_context_size"],
    }
    model = MeSHProbeNetForXMTC(MeSHProbeNetConfig(**{**sizes, **changes})).eval()
    stored = stored_parameters(golden, RENAMED)
    model.load_state_dict({name: stored[name] for name in model.state_dict()})
    return model


@torch.no_grad()
@pytest.mark.parametrize("name", ["meshprobenet", "meshprobenet_bottleneck"])
def test_logits_equal_the_authors(name):
    golden, settings = load_golden(name)
    for num_blocks, logits in ((0, "logits"), (settings["cornet_blocks"], "logits_cornet")):
        model = authors_model(golden, settings, cornet_num_blocks=num_blocks)
        assert_close(model(golden["input_ids"]).logits, golden[logits], 1e-5, logits)
    features, _, _ = model.encode(golden["input_ids"])
    if name == "meshprobenet":
        assert_close(features, golden["mid.context"], 1e-5, "contexts")
        plain = authors_model(golden, settings)
        assert_close(plain(golden["input_ids_longer"]).logits, golden["logits_longer"], 1e-5, "longer")
    else:
        assert_close(model.label_head.features(features), golden["bottleneck_out"], 1e-5, "bottleneck")


@torch.no_grad()
def test_hidden_states_equal_the_authors():
    golden, settings = load_golden("meshprobenet")
    _, states, _ = authors_model(golden, settings).encode(golden["input_ids"], output_hidden_states=True)
    expected = golden["mid.bilstm_out"]  # as long as the longest document
    assert_close(states[-1][:, : expected.shape[1]], expected, 1e-5, "states")


@pytest.mark.parametrize(("num_blocks", "loss", "prefix"), [(0, "loss", "grad."), (2, "loss_cornet", "grad_cornet.")])
def test_loss_and_all_gradients_equal_the_authors(num_blocks, loss, prefix):
    golden, settings = load_golden("meshprobenet")
    model = authors_model(golden, settings, cornet_num_blocks=num_blocks)
    output = model(golden["input_ids"], labels=golden["targets"])
    assert_close(output.loss, golden[loss], 1e-5, loss)
    output.loss.backward()
    assert_gradients_close(model, stored_parameters(golden, RENAMED, prefix))


@torch.no_grad()
def test_contexts_are_the_states_weighed_by_the_probes_attention():
    model = MeSHProbeNetForXMTC(MeSHProbeNetConfig(**TINY)).eval()
    batch = make_batch(model, [SHORT, LONG], left=True)
    features, (_, states), (weights,) = model.encode(**batch, output_attentions=True, output_hidden_states=True)
    assert weights.shape == (2, 1, 3, len(LONG))
    torch.testing.assert_close((weights[:, 0] @ states).flatten(1), features)
    words = batch["attention_mask"].bool()
    assert (weights[0, :, :, ~words[0]] == 0).all() and (weights[0, :, :, words[0]] > 0).all()


@torch.no_grad()
def test_order_and_every_word_matter():
    model = MeSHProbeNetForXMTC(MeSHProbeNetConfig(**TINY)).eval()
    logits = model(torch.tensor([[7, 8, 9]])).logits
    for other in ([[20, 8, 9]], [[7, 20, 9]], [[7, 8, 20]], [[8, 7, 9]]):
        assert not torch.allclose(model(torch.tensor(other)).logits, logits, atol=1e-6), other


def test_large_has_the_sizes_of_table_5_and_a_bottleneck_those_of_wiki_500k():
    large = MeSHProbeNetConfig.large(num_labels=7)
    assert (large.hidden_size, large.num_probes, large.num_hidden_layers, large.cornet_num_blocks) == (400, 10, 3, 0)
    small = MeSHProbeNetForXMTC(MeSHProbeNetConfig(**TINY, bottleneck_size=4))
    assert small.label_head.bottleneck.weight.shape == (4, 3 * 16) and small.label_head.output.weight.shape == (5, 4)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_probes": 0}, "num_probes=0, but a size is at least 1"),
        ({"num_hidden_layers": 0}, "num_hidden_layers=0, but a size is at least 1"),
        ({"bottleneck_size": 0}, "bottleneck_size=0, but a size is at least 1"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        MeSHProbeNetConfig(**{**TINY, **settings})


def test_every_setting_comes_back_from_a_file(tmp_path):
    for settings in ({}, {"bottleneck_size": 6, "embedding_dropout": 0.0, "hidden_dropout_prob": 0.1}):
        written = MeSHProbeNetConfig(**TINY, **settings)
        written.save_pretrained(tmp_path)
        read = MeSHProbeNetConfig.from_pretrained(tmp_path)
        fields = {*MeSHProbeNetConfig.file_defaults(), *TINY}
        assert {field: getattr(read, field) for field in fields} == {field: getattr(written, field) for field in fields}


@pytest.mark.parametrize("bottleneck_size", [None, 5])
def test_what_tokens_add_to_a_logit_sums_up_to_its_linear_part(bottleneck_size):
    torch.manual_seed(0)
    sizes = {"embedding_size": 8, "hidden_size": 4, "num_hidden_layers": 1, "num_probes": 3, "cornet_num_blocks": 2}
    config = MeSHProbeNetConfig(vocab_size=20, num_labels=7, pad_token_id=0, bottleneck_size=bottleneck_size, **sizes)
    model = MeSHProbeNetForXMTC(config).eval()
    input_ids = torch.tensor([[3, 4, 5, 6, 0, 0], [0, 0, 7, 8, 9, 3]])
    label_ids = torch.tensor([[1, 6], [2, 2]])
    found = model.token_weights(input_ids, None, label_ids)
    assert found.shape == (2, 2, 6) and not found.masked_select((input_ids == 0)[:, None]).any()

    contexts = model.encode(input_ids)[0].detach().requires_grad_()
    logits = model.label_head.output(model.label_head.features(contexts))
    for document in range(2):
        for slot in range(2):
            logit = logits[document, label_ids[document, slot]]
            (gradient,) = torch.autograd.grad(logit, contexts, retain_graph=True)
            linear_part = (gradient[document] * contexts[document]).sum()
            torch.testing.assert_close(found[document, slot].sum(), linear_part)
            if bottleneck_size is None:
                torch.testing.assert_close(
                    found[document, slot].sum(), logit - model.label_head.output.bias[label_ids[document, slot]]
                )
    with torch.no_grad():
        torch.testing.assert_close(model.token_weights(input_ids[:1, :4], None, label_ids[:1]), found[:1, :, :4])
