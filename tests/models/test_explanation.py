import dataclasses

import pytest
import torch
from transformers import pipeline

from hf_xmtc import (
    AttentionXMLConfig,
    AttentionXMLForXMTC,
    LightAttentionConfig,
    LightAttentionForXMTC,
    MeSHProbeNetConfig,
    MeSHProbeNetForXMTC,
    XMTCPipeline,
    train_word_tokenizer,
)
from hf_xmtc.models.explanation import Explanation, TokenWeight, colour_of

TEXT = "Edit <plain> text, and play $music$ files."
LABELS = ["editing", "music", "role::program"]


def explanation(*weights: float) -> Explanation:
    places = [(0, 4), (6, 11), (13, 17)]
    tokens = [
        TokenWeight(TEXT[start:end].lower(), start, end, weight)
        for (start, end), weight in zip(places, weights, strict=False)
    ]
    return Explanation(TEXT, "editing", "Editing & more", 0.75, "contribution", tokens)


@pytest.fixture
def tagger(tmp_path, modules_cache) -> XMTCPipeline:
    """MeSHProbeNet with random weights, saved and opened again."""
    tokenizer = train_word_tokenizer([TEXT], num_cls_tokens=0, max_length=16, min_document_frequency=1)
    torch.manual_seed(0)
    sizes = {"embedding_size": 8, "hidden_size": 4, "num_hidden_layers": 1, "num_probes": 2, "cornet_num_blocks": 0}
    config = MeSHProbeNetConfig(vocab_size=len(tokenizer), label_names=LABELS, pad_token_id=tokenizer.pad_token_id, **sizes)
    MeSHProbeNetForXMTC(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    return pipeline("text-classification", model=str(tmp_path), trust_remote_code=True)


def test_tokens_of_the_largest_weight_come_first():
    assert [token.token for token in explanation(0.1, -2.0, 0.7).best_tokens(2)] == ["text", "edit"]
    assert [token.weight for token in explanation(0.0, -2.0, 0.7).best_tokens()] == [0.7, -2.0]  # an unknown word has none


def test_html_holds_the_whole_text_escaped_and_colours_by_weight():
    html = explanation(0.0, -1.0, 2.0).to_html()
    assert "Editing &amp; more" in html and "0.750" in html and "(contribution)" in html
    plain = html.partition("<p")[2].partition(">")[2].partition("</p>")[0]
    spans = plain.split("<span ")
    assert len(spans) == 4
    assert 'rgb(255,255,255)" title="+0.0000">Edit' in plain
    assert "&lt;" in plain and "<plain" not in plain and "$music$ files." in plain
    red, green, blue = (int(value) for value in spans[3].partition("rgb(")[2].partition(")")[0].split(","))
    assert red > green and red > blue  # for the label
    red, green, blue = (int(value) for value in spans[2].partition("rgb(")[2].partition(")")[0].split(","))
    assert blue > red  # against it


def test_colours_grow_with_strength_and_are_white_at_nothing():
    assert colour_of(0.0) == (1.0, 1.0, 1.0)
    assert colour_of(1.0)[1] < colour_of(0.5)[1] < 1.0 and colour_of(-1.0)[0] < colour_of(-0.5)[0] < 1.0
    assert explanation(0.0, 0.0, 0.0).colours() == [(1.0, 1.0, 1.0)] * 3


def test_attention_that_is_nearly_even_stays_light_and_a_clear_one_does_not():
    even, clear = (
        dataclasses.replace(explanation(*weights), kind="attention") for weights in ((0.34, 0.33, 0.33), (1.0, 0.0, 0.0))
    )
    assert even.colours()[0][1] > 0.7 > clear.colours()[0][1]


def test_the_pipeline_explains_a_label_by_the_words_of_the_text(tagger):
    found = tagger.explain(TEXT, "music")
    assert (found.label, found.name, found.kind, found.text) == ("music", "music", "contribution", TEXT)
    assert [TEXT[token.start : token.end].lower() for token in found.tokens] == [token.token for token in found.tokens]
    assert [token.token for token in found.tokens] == ["edit", "plain", "text", "and", "play", "music", "files"]
    answer = {entry["label"]: entry["score"] for entry in tagger(TEXT)}
    assert found.score == pytest.approx(answer["music"], abs=1e-6)
    total = sum(token.weight for token in found.tokens) + tagger.model.label_head.output.bias[1].item()
    assert total == pytest.approx(torch.logit(torch.tensor(answer["music"])).item(), abs=1e-4)
    assert "<span" in found._repr_html_()


def test_a_label_that_is_no_text_is_refused(tagger):
    with pytest.raises(TypeError, match="A label must be a string, got int: 3"):
        tagger.explain(TEXT, 3)


def test_without_a_label_the_best_one_is_explained(tagger):
    assert tagger.explain(TEXT).label == tagger(TEXT)[0]["label"]


def test_a_text_without_tokens_has_none_to_explain(tagger):
    found = tagger.explain("", "music")
    assert found.tokens == [] and found.to_html().endswith("</p></div>")


def test_an_unknown_label_is_refused_with_the_closest_ones(tagger):
    with pytest.raises(ValueError, match="no label 'role:program' among its 3. Close to it: role::program."):
        tagger.explain(TEXT, "role:program")


def test_families_without_weights_of_tokens_say_so(tiny_model_folder, modules_cache):
    bertxml = pipeline("text-classification", model=str(tiny_model_folder), trust_remote_code=True)
    with pytest.raises(
        ValueError,
        match="BertXMLForXMTC has no weight .*AttentionXMLForXMTC, .*LACOForXMTC with .* and DiSMECForXMTC have",
    ):
        bertxml.explain("play music")


@pytest.fixture(params=["attentionxml", "joint", "levelwise"])
def over_tree(request) -> XMTCPipeline:
    """Models over a label tree with random weights, of whose five clusters of four labels the best one is searched."""
    tokenizer = train_word_tokenizer([TEXT], num_cls_tokens=0, max_length=16, min_document_frequency=1)
    sizes = {"embedding_size": 8, "hidden_size": 4, "linear_sizes": [6], "tree_level_sizes": [5], "beam_width": 1}
    sizes |= {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id, "cornet_context_size": 4}
    sizes |= {"label_names": [f"label {i}" for i in range(20)], "cornet_num_blocks": request.getfixturevalue("num_blocks")}
    if request.param == "attentionxml":
        model = AttentionXMLForXMTC(AttentionXMLConfig(**sizes))
    else:
        model = LightAttentionForXMTC(LightAttentionConfig(variant=request.param, **sizes))
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
        for parameter in model.upper_levels[0].head.parameters():
            parameter.mul_(0.1)  # the best label of all is often below another cluster
    return XMTCPipeline(model=model, tokenizer=tokenizer)


@pytest.mark.parametrize("num_blocks", [0, 2], ids=["plain", "cornet"])
def test_over_a_label_tree_what_is_answered_is_explained(over_tree, num_blocks):
    for text in (TEXT, TEXT[:17], TEXT[5:], TEXT[24:]):
        answer = over_tree(text, top_k=None)
        assert len(answer) == 4
        best = over_tree.explain(text)
        assert (best.label, best.score) == (answer[0]["label"], pytest.approx(answer[0]["score"], rel=1e-5))
        last = over_tree.explain(text, answer[3]["label"])
        assert last.score == pytest.approx(answer[3]["score"], rel=1e-5)
        with torch.no_grad():
            scores = over_tree.model(**over_tree.tokenizer(text, return_tensors="pt")).logits.sigmoid()[0]
        for entry in answer:
            assert scores[over_tree.model.config.label_names.ids[entry["label"]]].item() == pytest.approx(
                entry["score"], rel=1e-4
            )
    other = next(f"label {i}" for i in range(20) if f"label {i}" not in {entry["label"] for entry in answer})
    with pytest.raises(
        ValueError, match=rf"'{other}' is none of the 4 candidates of this text. A larger model.config.beam_width"
    ):
        over_tree.explain(text, other)
