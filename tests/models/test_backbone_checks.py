"""Pretrained encoders: how long a text each can read, and which are refused because padding or order would change an answer."""

import pytest
import torch
from transformers import CONFIG_MAPPING, MODEL_FOR_MASKED_LM_MAPPING, AutoConfig, AutoModel

from hf_xmtc import BertXMLConfig, BertXMLForXMTC, LACOConfig, LACOForXMTC
from hf_xmtc.models import backbone_checks
from hf_xmtc.models.backbone_checks import Positions, positions_of, try_backbone
from hf_xmtc.models.backbones import load_backbone

ROWS = 34
# A tiny encoder, by all the names that the types have for its sizes.
SIZES = {
    "vocab_size": 40,
    "max_position_embeddings": ROWS,
    "pad_token_id": 1,
    **dict.fromkeys(("num_hidden_layers", "n_layers"), 1),
    **dict.fromkeys(("num_attention_heads", "num_key_value_heads", "n_heads"), 2),
    **dict.fromkeys(
        ("hidden_size", "emb_dim", "dim", "embedding_size", "input_embedding_size", "output_embedding_size"), 16
    ),
    **dict.fromkeys(("entity_emb_size", "true_hidden_size", "intra_bottleneck_size", "head_dim"), 16),
    **dict.fromkeys(("intermediate_size", "hidden_dim"), 24),
    **dict.fromkeys(("attention_head_size", "attention_window"), 8),
    **dict.fromkeys(("q_groups", "k_groups", "v_groups", "intermediate_groups", "output_groups"), 2),
    "entity_vocab_size": 5,
    "default_language": "en_XX",
    "initializer_range": 0.3,
}
# With a decoder, an image beside the text or no width of its own: refused by type before all this.
NOT_OF_ONE_TEXT = {"bart", "mbart", "mvp", "modernvbert", "ultravbert", "perceiver"}
TYPES = sorted(set(MODEL_FOR_MASKED_LM_MAPPING._model_mapping) - NOT_OF_ONE_TEXT)


def tiny(model_type: str, **settings):
    known = CONFIG_MAPPING[model_type]().to_dict().keys()
    sizes = {key: value for key, value in SIZES.items() if key in known or key == "vocab_size"}
    if model_type == "big_bird":
        sizes["attention_type"] = "original_full"
    return CONFIG_MAPPING[model_type](**{**sizes, **settings})


def longest_read(backbone, at_most: int = ROWS) -> int:
    """Longest text that an encoder reads without an error, up to ``at_most``."""
    for length in range(ROWS - 3, at_most + 1):
        try:
            backbone(input_ids=(torch.arange(length) % 30 + 6)[None], attention_mask=torch.ones(1, length, dtype=torch.long))
        except (IndexError, RuntimeError):
            return length - 1
    return at_most


@pytest.mark.parametrize("model_type", TYPES)
def test_the_longest_input_of_every_type_is_known_or_the_type_is_refused(model_type):  # AC-39
    try:
        config = tiny(model_type)
    except ValueError:
        pytest.skip("its config refuses these sizes")
    try:
        settings = {"num_cls_tokens": 2, "num_labels": 3, "cornet_num_blocks": 0}
        model = BertXMLForXMTC(BertXMLConfig(backbone_config=config, **settings)).eval()
    except ValueError as refusal:
        assert repr(model_type) in str(refusal)
        return
    limit = model.max_input_tokens
    assert limit == longest_read(model.backbone)
    ids = (torch.arange(limit + 1) % 30 + 6)[None]
    assert torch.isfinite(model(ids[:, :-1], labels=torch.tensor([[1]])).loss)
    with pytest.raises(ValueError, match=f"{limit + 1} tokens but the model takes {limit}"):
        model(ids)


def test_positions_of_longformer_start_behind_the_padding_id():
    assert positions_of(tiny("longformer")) == Positions(first=2, count=32)


def test_positions_that_start_late_without_a_padding_row_are_counted():
    assert positions_of(tiny("nystromformer")) == Positions(first=2, count=34)


def test_checks_draw_no_random_number_and_leave_dropout_on():
    backbone = AutoModel.from_config(tiny("bert")).train()
    before = torch.get_rng_state()
    positions_of(tiny("bert", num_hidden_layers=3))
    try_backbone(backbone)
    assert torch.equal(torch.get_rng_state(), before) and backbone.training


@pytest.mark.parametrize(("rows", "vocab_size"), [(2, 40), (3, 40), (5, 40), (34, 2), (34, 3)])
def test_the_smallest_encoders_are_tried_or_left_alone(rows, vocab_size):
    try_backbone(AutoModel.from_config(tiny("bert", max_position_embeddings=rows, vocab_size=vocab_size)))


@pytest.mark.parametrize("family", [BertXMLForXMTC, LACOForXMTC])
def test_an_encoder_that_reads_padding_is_refused_on_loading(tmp_path, family):  # AC-40
    AutoModel.from_config(tiny("fnet")).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"Padding behind a text moves its states in a 'fnet' model by \d.*Choose a BERT"):
        load_backbone(str(tmp_path))
    # And where one is trained from scratch.
    config = {BertXMLForXMTC: BertXMLConfig, LACOForXMTC: LACOConfig}[family]
    more = {"num_cls_tokens": 2} if family is BertXMLForXMTC else {"joint_embedding": False, "cross_attention": False}
    with pytest.raises(ValueError, match="'fnet' model by"):
        family(config(backbone_config=tiny("fnet"), num_labels=3, **more))


def test_a_checkpoint_of_ours_is_not_tried_again(tmp_path, monkeypatch):  # AC-40
    model = BertXMLForXMTC(BertXMLConfig(backbone_config=tiny("bert"), num_cls_tokens=2, num_labels=3))
    model.save_pretrained(tmp_path)
    monkeypatch.setattr(backbone_checks, "_states_of", lambda *_: pytest.fail("tried"))
    assert BertXMLForXMTC.from_pretrained(tmp_path).max_input_tokens == ROWS


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        (tiny("xlm", causal=True), "'xlm' model with these settings a word does not see the one behind it"),
        (tiny("bert", is_decoder=True), "'bert', which is no bidirectional encoder"),
        (AutoConfig.for_model("t5"), "'t5', which is no bidirectional encoder"),
        (AutoConfig.for_model("gpt2"), "'gpt2', which is no bidirectional encoder"),
        (tiny("xmod", default_language=None), "'xmod' model cannot read token ids and their mask alone"),
        (CONFIG_MAPPING["reformer"](), "'reformer', whose positions"),
        (CONFIG_MAPPING["big_bird"](), "attention_type='original_full'"),
    ],
)
def test_what_reads_no_text_alone_and_whole_is_refused_with_its_name(config, complaint):  # AC-40
    with pytest.raises(ValueError, match=complaint):
        BertXMLForXMTC(BertXMLConfig(backbone_config=config, num_cls_tokens=2, num_labels=3))
