"""A model finds candidates: its best labels, by the ids that another model has for them."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from forked_python import run_python
from hf_xmtc import LabelNames, NeighborsConfig, NeighborsForXMTC, XMTCPipeline, train_word_tokenizer
from hf_xmtc.retrieval import ModelCandidates, open_generator
from small_ensemble import OTHER_TEXTS, save_small_cnn, small_ensemble
from small_laco import save_generator, save_small_laco

LABELS = ["audio", "editing", "library", "program", "text"]
TEXTS = ["play music", "", "a library of sound", "show me a file of text in a picture"]


@pytest.fixture(scope="module")
def cnn(tmp_path_factory) -> Path:
    return save_small_cnn(tmp_path_factory.mktemp("models") / "cnn", LABELS)


def opened(folder: Path):
    return AutoModelForSequenceClassification.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)


def ranking(folder: Path) -> list[list[tuple[str, float]]]:
    """All labels of the model in a folder, best first, of each text."""
    model, tokenizer = opened(folder)
    answers = XMTCPipeline(model=model, tokenizer=tokenizer, device="cpu")(TEXTS, top_k=None)
    return [[(entry["label"], entry["score"]) for entry in row] for row in answers]


@pytest.mark.parametrize("names", [LABELS, LABELS[::-1], ["new", "text", "audio", "library"]])
def test_candidates_are_the_best_labels_by_the_ids_of_the_model_that_reads_them(cnn, names):
    generator = ModelCandidates(*opened(cnn), LabelNames(names))
    ids, votes = generator.candidates(TEXTS, 3)
    assert ids.shape == votes.shape == (4, 3) and ids.dtype == np.int64 and votes.dtype == np.float32
    for row, scores, everything in zip(ids.tolist(), votes, ranking(cnn), strict=True):
        expected = [(label, score) for label, score in everything if label in names][:3]
        assert [names[label_id] for label_id in row] == [label for label, _ in expected]
        assert scores == pytest.approx([score for _, score in expected], abs=1e-6)
    assert (generator.num_labels, generator.labels_digest) == (len(names), LabelNames(names).digest())


def test_labels_of_one_model_alone_are_no_candidates_and_are_counted(cnn):
    assert ModelCandidates(*opened(cnn), LabelNames(LABELS[::-1])).describe_labels() is None
    generator = ModelCandidates(*opened(cnn), LabelNames(["new", "text", "audio"]))
    assert generator.describe_labels() == (
        "The generating model has 5 labels, of which 2 are among the 3 of the data. The other 1 labels of the data are never candidates."
    )
    assert np.sort(generator.candidates(TEXTS, 3)[0]).tolist() == [[1, 2]] * 4


def test_blocks_of_texts_are_put_together(cnn, monkeypatch):
    generator = ModelCandidates(*opened(cnn), LabelNames(LABELS))
    whole = generator.candidates(TEXTS, 2)
    monkeypatch.setattr("hf_xmtc.retrieval.model_candidates.BLOCK_NUMBERS", 3 * 4)
    for array, expected in zip(generator.candidates(TEXTS, 2), whole, strict=True):
        np.testing.assert_allclose(array, expected, rtol=1e-5)
    assert generator.candidates([], 2)[0].shape == (0, 2)


def test_a_model_that_ranks_fewer_labels_is_filled_up_without_votes(cnn):
    model = small_ensemble({"one": cnn, "two": cnn}, depth=2)
    generator = ModelCandidates(model, model.tokenizers[0], LabelNames(LABELS[::-1]))
    ids, votes = generator.candidates(TEXTS, 4)
    assert np.array_equal(ids[:, :2], ModelCandidates(*opened(cnn), LabelNames(LABELS[::-1])).candidates(TEXTS, 2)[0])
    assert (votes[:, :2] > 0).all() and not votes[:, 2:].any()
    assert all(len(set(row)) == 4 and min(row) >= 0 for row in ids.tolist())
    assert all(row[2:] == sorted(set(range(5)) - set(row[:2]))[:2] for row in ids.tolist())


def test_the_digest_is_that_of_weights_tokenizer_and_label_ids(cnn, tmp_path):
    digest = ModelCandidates(*opened(cnn), LabelNames(LABELS)).digest()
    copied = shutil.copytree(cnn, tmp_path / "copied")
    used = ModelCandidates(*opened(copied), LabelNames(LABELS))
    used.candidates(TEXTS, 2)
    assert used.digest() == digest
    assert ModelCandidates(*opened(cnn), LabelNames(LABELS[::-1])).digest() != digest
    shorter = ModelCandidates(*opened(save_small_cnn(tmp_path / "shorter", LABELS, max_length=8)), LabelNames(LABELS))
    changed = ModelCandidates(*opened(cnn), LabelNames(LABELS))
    next(changed.model.parameters()).data[0, 0] += 1
    assert len({digest, shorter.digest(), changed.digest()}) == 3


def test_a_saved_generator_is_opened_whichever_kind_it_is(cnn, tmp_path):
    generators = {"model": ModelCandidates(*opened(cnn), LabelNames(LABELS[::-1]))}
    for kind in ("model", "index"):
        save_small_laco(tmp_path / kind, OTHER_TEXTS, LABELS[::-1], num_candidates=3)
    generators["model"].save_pretrained(tmp_path / "model")
    generators["index"] = save_generator(tmp_path / "index", OTHER_TEXTS, [[0], [1], [2], [3]], len(LABELS))
    for kind, generator in generators.items():
        again = open_generator(tmp_path / kind)
        assert type(again) is type(generator) and again.digest() == generator.digest()
        for array, expected in zip(again.candidates(TEXTS, 3), generator.candidates(TEXTS, 3), strict=True):
            np.testing.assert_array_equal(array, expected)
    generators["index"].save_pretrained(tmp_path / "model")
    with pytest.raises(ValueError, match="holds a model .config.json. and an index of training texts"):
        open_generator(tmp_path / "model")
    shutil.rmtree(tmp_path / "model" / "candidates")
    with pytest.raises(FileNotFoundError, match="Was the model trained with num_candidates"):
        open_generator(tmp_path / "model")


def test_damage_to_the_generating_model_is_refused_in_a_sentence(cnn, tmp_path):
    save_small_laco(tmp_path, OTHER_TEXTS, LABELS, num_candidates=3)
    ModelCandidates(*opened(cnn), LabelNames(LABELS)).save_pretrained(tmp_path)
    (tmp_path / "candidates" / "model.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match=r"The model folder .*candidates is not complete: model.safetensors missing"):
        open_generator(tmp_path)


def test_models_that_cannot_find_candidates_are_refused(cnn, tmp_path):
    with pytest.raises(
        ValueError, match="has 5 labels, such as 'audio', and none is among the 1 labels .* such as 'other'. Was it trained"
    ):
        ModelCandidates(*opened(cnn), LabelNames(["other"]))
    save_small_laco(tmp_path, OTHER_TEXTS, LABELS, num_candidates=3)
    with pytest.raises(ValueError, match="A LACOForXMTC with num_candidates=3 reads candidates itself"):
        ModelCandidates(*opened(tmp_path), LabelNames(LABELS))
    generator = ModelCandidates(*opened(cnn), LabelNames(LABELS))
    with pytest.raises(TypeError, match="is one text"):
        generator.candidates("play music", 2)
    with pytest.raises(ValueError, match="k=0"):
        generator.candidates(TEXTS, 0)


def test_a_bare_install_finds_candidates_by_a_model_and_names_what_an_index_needs(cnn, tmp_path):
    save_small_laco(tmp_path / "model", OTHER_TEXTS, LABELS, num_candidates=3)
    save_small_laco(tmp_path / "index", OTHER_TEXTS, LABELS, num_candidates=3)
    ModelCandidates(*opened(cnn), LabelNames(LABELS)).save_pretrained(tmp_path / "model")
    save_generator(tmp_path / "index", OTHER_TEXTS, [[0], [1], [2], [3]], len(LABELS))
    blocked = ["accelerate", "datasets", "evaluate", "pandas", "pyarrow", "scipy", "sklearn"]
    done = run_python(
        f"import json, sys\nsys.modules.update(dict.fromkeys({blocked}))\n"
        "from hf_xmtc.retrieval import open_generator\n"
        f"ids, _ = open_generator({str(tmp_path / 'model')!r}).candidates({TEXTS}, 3)\n"
        "print(json.dumps(ids.tolist()))\n"
        f"try:\n    open_generator({str(tmp_path / 'index')!r})\nexcept ImportError as error:\n    print(error)\n"
    )
    ids, refusal = done.stdout.splitlines()[-2:]
    assert json.loads(ids) == open_generator(tmp_path / "model").candidates(TEXTS, 3)[0].tolist()
    assert "pip install 'hf_xmtc[retrieval]'" in refusal


def save_neighbors(folder: Path, texts: list[str], label_ids: list[list[int]]) -> Path:
    tokenizer = train_word_tokenizer(texts, max_length=16, min_document_frequency=1)
    config = NeighborsConfig(vocab_size=len(tokenizer), label_names=LABELS, pad_token_id=tokenizer.pad_token_id)
    model = NeighborsForXMTC(config)
    model.store(tokenizer(texts)["input_ids"], label_ids, tokenizer(LABELS)["input_ids"])
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_training_texts_do_not_vote_for_their_own_candidates(tmp_path):
    texts, label_ids = ["play music", "play a library", "music of sound", "text in a file"], [[0], [2], [1], [4]]
    folder = save_neighbors(tmp_path / "neighbors", texts, label_ids)
    both = small_ensemble({"one": folder, "two": folder}, method="mean_score")
    for model, tokenizer in (opened(folder), (both, both.tokenizers[0])):
        generator = ModelCandidates(model, tokenizer, LabelNames(LABELS))
        assert not generator.has_learnt_by_heart
        assert generator.candidates(texts, 5)[0][:, 0].tolist() == [0, 2, 1, 4]
        ids, votes = generator.candidates(texts, 5, training_rows=range(4))
        # "play music" is as near to "play a library" as to "music of sound", and nothing is near to the last text.
        votes_of_first = dict(zip(ids[0].tolist(), votes[0].tolist(), strict=True))
        assert votes_of_first[0] < 0.01 < min(votes_of_first[1], votes_of_first[2])
        assert dict(zip(ids[3].tolist(), votes[3].tolist(), strict=True))[4] < 0.2  # by its name alone
        assert generator.candidates(texts, 5)[0][:, 0].tolist() == [0, 2, 1, 4]
