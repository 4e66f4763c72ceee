"""Linear trees, one-vs-all and label trees on the hub answer and explain as they do here, without the package and omikuji."""

import json
import shutil

import pytest

from hf_xmtc import XMTCPipeline, train_word_tokenizer
from models.families import FAMILIES, VOCAB_SIZE

WORDS = [f"word{number}" for number in range(VOCAB_SIZE - 2)]  # beside padding and unknown words
TEXTS = ["word3 word5 word5 nowhere", "word20, word31; word7"]

OPEN_AND_EXPLAIN = """
import json, sys
for package in ("hf_xmtc", "omikuji", "scipy", "sklearn"):
    sys.modules[package] = None
from transformers import pipeline
tagger = pipeline("text-classification", model=sys.argv[1], trust_remote_code=True, top_k=None)
texts = json.loads(sys.argv[2])
explanation = tagger.explain(texts[0])
weights = [[token.token, token.weight] for token in explanation.tokens]
print("ANSWER" + json.dumps([tagger(texts), explanation.label, weights]))
"""


@pytest.mark.parametrize("name", ["parabel", "bonsai", "dismec", "lightattention"])
def test_a_tree_answers_from_the_hub_as_here(name, hub, push, run_client, model_folder, tmp_path):
    labels = json.loads((model_folder / "labels.json").read_text())
    model = next(family for family in FAMILIES if family.name == name).build(label_names=labels)
    tokenizer = train_word_tokenizer([" ".join(WORDS)])
    folder = tmp_path / name
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    for file in ("README.md", "metrics.json", "recipe.json"):
        shutil.copy(model_folder / file, folder / file)
    push(folder, "me/tree")
    said = run_client(OPEN_AND_EXPLAIN, "me/tree", json.dumps(TEXTS)).stdout
    answers, label, weights = json.loads(said[said.index("ANSWER") + 6 :])

    tagger = XMTCPipeline(model=model, tokenizer=tokenizer, top_k=None)
    for answer, expected in zip(answers, tagger(TEXTS), strict=True):
        assert [entry["label"] for entry in answer] == [entry["label"] for entry in expected]
        assert [entry["score"] for entry in answer] == pytest.approx([entry["score"] for entry in expected], abs=1e-6)
    explanation = tagger.explain(TEXTS[0])
    assert label == explanation.label and [token for token, _ in weights] == [token.token for token in explanation.tokens]
    assert [weight for _, weight in weights] == pytest.approx([token.weight for token in explanation.tokens], abs=1e-6)
    assert any(weight for _, weight in weights)
