
import pytest
import torch

from hf_xmtc import BertXMLConfig, BertXMLForXMTC
from models.golden import assert_close, gradient_of, load_golden, our_name

TEXTS = ["edit a plain text file", "play music and sound files", "a library of sound filters"]


def authors_model(golden: dict, settings: dict, **changes) -> BertXMLForXMTC:
    """The authors' network with the stored weights, CorNet included where ``cornet_num_blocks`` asks for it."""
    config = BertXMLConfig.reproduction(
        vocab_size=settings["vocab_size"] + settings["n_probes"],
        num_cls_tokens=settings["n_probes"],
        hidden_size=settings["hidden_size"],
        num_hidden_layers=settings["n_layers"] + 1,  # theirs leave out the last layer, which is a module of its own
        num_attention_heads=settings["n_aheads"],
        intermediate_size=settings["intermediate_size"],
        max_position_embeddings=settings["src_max_len"] + settings["n_probes"],
        num_labels=settings["labels_num"],
        bottleneck_size=settings.get("bottleneck_dim"),
        cornet_context_size=settings["cornet_context_size"],
        **{"cornet_num_blocks": 0, **changes},
    )
    model = BertXMLForXMTC(config).eval()
    stored = {our_name(key): value for key, value in golden.items()}
    model.load_state_dict({name: stored[name] for name in model.state_dict()})
    return model


def with_cls_tokens(model: BertXMLForXMTC, words: torch.Tensor) -> torch.Tensor:
    cls_tokens = torch.tensor(model.config.cls_token_ids).expand(len(words), -1)
    return torch.cat([cls_tokens, words], dim=1)


@pytest.mark.parametrize("name", ["bertxml", "bertxml_bottleneck"])
@pytest.mark.parametrize("attn_implementation", ["sdpa", "eager"])
def test_logits_equal_the_authors(name, attn_implementation):
    golden, settings = load_golden(name)
    for num_blocks, logits in ((0, "logits"), (settings["cornet_blocks"], "logits_cornet")):
        model = authors_model(golden, settings, cornet_num_blocks=num_blocks)
        model.set_attn_implementation(attn_implementation)
        output = model(with_cls_tokens(model, golden["input_ids"]))
        assert_close(output.logits, golden[logits], 3e-5, logits)


def test_inner_states_other_padding_and_gelu_equal_the_authors():
    golden, settings = load_golden("bertxml")
    model = authors_model(golden, settings)
    assert model.config.cls_token_ids == golden["cls_token_ids"].flatten().tolist()
    ids = with_cls_tokens(model, golden["input_ids"])
    states = model(ids, output_hidden_states=True).hidden_states
    shown = ids != 0  # states at padding are never read, and the authors' are not masked alike
    for state, name in zip(states, ("embedding_out", "encoder_layer0_out", "encoder_layer1_out"), strict=False):
        assert_close(state[shown], golden[f"mid.{name}"][shown], 3e-5, name)
    assert_close(states[-1].flatten(1), golden["mid.final_layer_out_flat_preact"], 3e-5, "final layer")
    assert_close(model(with_cls_tokens(model, golden["input_ids_longer"])).logits, golden["logits_longer"], 3e-5, "longer")

    gelu = authors_model(golden, settings, hidden_act="gelu")
    assert_close(gelu(ids).logits, golden["logits_gelu"], 3e-5, "gelu")


def test_bottleneck_states_equal_the_authors():
    golden, settings = load_golden("bertxml_bottleneck")
    model = authors_model(golden, settings)
    features, _, _ = model.encode(with_cls_tokens(model, golden["input_ids"]))
    assert_close(features, golden["bottleneck_out"], 3e-5, "bottleneck")


@pytest.mark.parametrize(("num_blocks", "loss", "prefix"), [(0, "loss", "grad."), (2, "loss_cornet", "grad_cornet.")])
def test_loss_and_all_gradients_equal_the_authors(num_blocks, loss, prefix):
    golden, settings = load_golden("bertxml")
    model = authors_model(golden, settings, cornet_num_blocks=num_blocks)
    output = model(with_cls_tokens(model, golden["input_ids"]), labels=golden["targets"])
    assert_close(output.loss, golden[loss], 3e-5, loss)
    output.loss.backward()
    gradients = gradient_of(golden, prefix)
    assert gradients.keys() == dict(model.named_parameters()).keys()
    for name, gradient in gradients.items():
        assert_close(model.get_parameter(name).grad, gradient, 3e-5, name)
