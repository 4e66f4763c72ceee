"""Which texts the pipeline takes, and that each answer is its own: in threads, with odd characters, with broken weights."""

from concurrent.futures import ThreadPoolExecutor

import datasets
import numpy as np
import pandas as pd
import pytest
import torch
from transformers import AutoTokenizer, pipeline

from hf_xmtc import AttentionXMLConfig, AttentionXMLForXMTC, BertXMLForXMTC, XMTCPipeline, train_word_tokenizer

TEXTS = ["edit a plain text file", "play music", "a library of sound filters and sound files"]


@pytest.fixture
def tagger(tiny_model_folder) -> XMTCPipeline:
    return XMTCPipeline(
        model=BertXMLForXMTC.from_pretrained(tiny_model_folder), tokenizer=AutoTokenizer.from_pretrained(tiny_model_folder)
    )


@pytest.mark.parametrize(
    "holder",
    [
        tuple,
        np.array,
        pd.Series,
        lambda texts: pd.Series(texts, index=[7, 7, 1]),
        lambda texts: datasets.Dataset.from_dict({"text": texts})["text"],
        lambda texts: (text for text in texts),
        lambda texts: map(str, texts),
        lambda texts: dict.fromkeys(texts).keys(),
    ],
    ids=["tuple", "numpy", "Series", "Series with an index", "column", "generator", "iterator", "keys"],
)
def test_texts_come_as_whatever_holds_them(tagger, holder):  # AC-37
    expected = tagger(TEXTS)
    assert list(tagger(holder(TEXTS))) == expected
    assert list(tagger(holder(TEXTS), batch_size=2, top_k=2)) == tagger(TEXTS, batch_size=2, top_k=2)


@pytest.mark.parametrize(
    "table",
    [pd.DataFrame({"text": TEXTS}), datasets.Dataset.from_dict({"text": TEXTS}), {"text": TEXTS}, b"text", np.zeros(3)],
)
def test_what_holds_no_texts_is_refused(tagger, table):  # AC-37
    with pytest.raises(TypeError, match="A text must be a string, got "):
        tagger(table)


def test_a_model_in_memory_answers_through_our_pipeline(tagger, tiny_model_folder, modules_cache):  # AC-46
    saved = pipeline("text-classification", model=str(tiny_model_folder), trust_remote_code=True)
    both = {"model": tagger.model, "tokenizer": tagger.tokenizer}
    in_memory = pipeline("text-classification", **both, pipeline_class=XMTCPipeline)
    assert in_memory(TEXTS) == tagger(TEXTS) == saved(TEXTS)


def test_threads_with_other_settings_get_the_answers_of_one_thread(tagger):  # AC-78
    settings = [
        {"max_length": 4, "top_k": 1},
        {"max_length": 5, "top_k": None},
        {"max_length": 7, "threshold": 0.4},
        {"max_length": None, "threshold": "model", "top_k": 2},
    ]
    expected = [[tagger(text, **chosen) for text in TEXTS] for chosen in settings]
    differing = sum(expected[1][i][0]["score"] != expected[2][i][0]["score"] for i in range(3))
    assert differing  # or lengths would not matter

    def ask(i):
        return all([tagger(text, **settings[i]) for text in TEXTS] == expected[i] for _ in range(60))

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(ask, range(4)))


def test_special_tokens_in_a_text_are_text(tagger):  # AC-62
    written = "edit [CLS_1] file [CLS_2][PAD] text [UNK]"
    as_words = "edit cls_1 file cls_2 pad text unk"
    assert tagger(written) == tagger(as_words)
    assert tagger.tokenizer(written)["input_ids"] == tagger.tokenizer(as_words)["input_ids"]  # and so saved with it


def test_a_lone_surrogate_is_replaced_and_said_and_disturbs_no_other_text(tagger, warnings_logged):  # AC-64
    answers = tagger([TEXTS[0], "play \ud800 music", TEXTS[2]])
    assert answers == tagger([TEXTS[0], "play \ufffd music", TEXTS[2]])
    assert sum("not valid Unicode" in message for message in warnings_logged()) == 1


def test_an_explanation_shows_what_was_read():  # AC-64
    tokenizer = train_word_tokenizer(TEXTS, max_length=16)
    settings = {"hidden_size": 4, "linear_sizes": [], "embedding_size": 4}
    config = AttentionXMLConfig.for_tokenizer(tokenizer, num_labels=3, **settings)
    tagger = XMTCPipeline(model=AttentionXMLForXMTC(config), tokenizer=tokenizer)
    found = tagger.explain("play \ud83d\ude00 music \ud800 [PAD] text")
    assert found.text == "play \U0001f600 music \ufffd [PAD] text"
    assert [found.text[token.start : token.end] for token in found.tokens] == ["play", "music", "PAD", "text"]
    assert "\ufffd" in found.to_html()
    assert [token.token for token in tagger.explain(" ".join(TEXTS) * 3, max_length=2).tokens] == ["edit", "a"]


@pytest.mark.parametrize("settings", [{}, {"top_k": None}, {"threshold": 0.5}, {"threshold": "model", "top_k": 2}])
@pytest.mark.parametrize("where", ["everywhere", "one label"])
def test_scores_that_are_no_numbers_are_refused(tagger, settings, where):  # AC-75
    with torch.no_grad():
        weights = dict(tagger.model.named_parameters())
        place = weights["label_head.output.weight"] if where == "one label" else next(iter(weights.values()))
        place[-1 if where == "one label" else slice(None)] = float("nan")
    with pytest.raises(ValueError, match="The model gives the score nan .*Did its training diverge"):
        tagger(TEXTS, **settings)
