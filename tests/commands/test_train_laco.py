"""LACO and SeqTag by the command line: from scratch, on a pretrained encoder, with sets and thresholds."""

import json
import shutil
from contextlib import contextmanager

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from transformers import AutoTokenizer, BertConfig, BertModel, PreTrainedTokenizerFast, pipeline

from hf_xmtc import XMTCTrainer, XMTCTrainingArguments
from hf_xmtc.commands.predict import PredictArguments, predict_file
from hf_xmtc.hub import check_model_folder
from hf_xmtc.retrieval import CandidateGenerator
from small_corpus import WORDS

SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
SCRATCH = {"num_cls_tokens": None, "cornet_context_size": None, "config_overrides": json.dumps({"backbone_config": SIZES})}


@pytest.fixture
def encoder(tmp_path, own_caches):
    """A BERT with its WordPiece tokenizer, which gives segment ids."""
    folder = tmp_path / "bert"
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused1]"]
    pieces = [*special, *"abcdefghijklmnopqrstuvwxyz", *(f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz")]
    backend = Tokenizer(WordPiece({piece: row for row, piece in enumerate(pieces)}, unk_token="[UNK]"))
    backend.pre_tokenizer = Whitespace()
    backend.post_processor = TemplateProcessing("[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    PreTrainedTokenizerFast(
        tokenizer_object=backend, **names, model_input_names=["input_ids", "token_type_ids", "attention_mask"]
    ).save_pretrained(folder)
    torch.manual_seed(0)
    BertModel(BertConfig(vocab_size=len(pieces), max_position_embeddings=40, **SIZES)).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("family", ["laco", "seqtag"])
def test_a_model_from_scratch_is_trained_and_opens_again(train, tmp_path, family):
    folder = tmp_path / "run"
    train(folder, model_family=family, set_metrics=True, measure_training_split=True, **SCRATCH)
    check_model_folder(folder).raise_for_problems()
    recipe, metrics = (json.loads((folder / name).read_text()) for name in ("recipe.json", "metrics.json"))
    assert recipe["cornet_num_blocks"] == 0
    assert {"nDCG@5", "micro_f1", "macro_f1", "hamming_loss", "subset_accuracy", "label_dependency_kl"} <= set(
        metrics["test"]
    )
    assert {"nDCG@5", "label_dependency_kl", "seconds"} <= set(metrics["train"]) and metrics["train"]["num_documents"] == 24
    assert metrics["test"]["num_cut_sets"] == 0 and 0 <= metrics["test"]["micro_f1"] <= 1
    tagger = pipeline("text-classification", model=str(folder), trust_remote_code=True)
    assert {answer["label"] for answer in tagger("cat", top_k=None)} == set(WORDS)
    assert all(answer["score"] > 0.2 for answer in tagger("cat", threshold=0.2))


@pytest.mark.parametrize("task", ["plcp", "clcp", "both"])
def test_an_auxiliary_task_is_learnt_on_the_first_layer_of_a_pretrained_encoder(train, unchecked, encoder, tmp_path, task):
    folder, overrides = tmp_path / "run", json.dumps({"auxiliary_task": task})
    settings = {"model_family": "laco", "num_cls_tokens": None, "cornet_context_size": None, "max_steps": 3}
    said = train(folder, backbone=encoder, backbone_num_layers=1, config_overrides=overrides, **settings)
    assert "Resuming" not in said
    config = json.loads((folder / "config.json").read_text())
    assert config["backbone_config"]["num_hidden_layers"] == 1 and config["auxiliary_task"] == task
    assert config["cls_token_id"] == 2 and config["sep_token_id"] == 3
    saved = load_file(folder / "model.safetensors")
    assert any(name.startswith("backbone.encoder.layer.0.") for name in saved)
    assert not any(name.startswith("backbone.encoder.layer.1.") for name in saved)
    assert ("pair_head.output.weight" in saved) == (task != "clcp")
    assert AutoTokenizer.from_pretrained(folder)("cat")["input_ids"][0] == 2


def test_label_tokens_start_from_the_words_of_their_names_or_at_random(train, unchecked, encoder, tmp_path):
    settings = {
        "model_family": "laco",
        "backbone": encoder,
        "num_cls_tokens": None,
        "cornet_context_size": None,
        "config_overrides": None,
    }
    still = {"learning_rate": 0.0, "weight_decay": 0.0, "max_steps": 1}
    rows = {}
    for start in (None, "text", "random"):
        folder = tmp_path / f"run-{start}"
        train(folder, label_embedding_start=start, **settings, **still)
        rows[start] = load_file(folder / "model.safetensors")["label_embedding.weight"]
    assert torch.equal(rows[None], rows["text"]) and not torch.equal(rows["text"], rows["random"])
    words = load_file(encoder / "model.safetensors")["embeddings.word_embeddings.weight"]
    labels = json.loads((tmp_path / "run-text" / "labels.json").read_text())
    pieces = AutoTokenizer.from_pretrained(encoder)(labels, add_special_tokens=False)["input_ids"]
    expected = torch.stack([words[torch.tensor(row)].mean(dim=0) for row in pieces])
    torch.testing.assert_close(rows["text"], expected)
    with pytest.raises(SystemExit, match="has 1 unused tokens, but there are 6 labels"):
        train(tmp_path / "unused", label_embedding_start="unused", **settings, **still)


@pytest.mark.parametrize("kind", ["global", "per_label"])
def test_thresholds_are_tuned_on_validation_and_used_by_the_pipeline(train, unchecked, tmp_path, kind):
    folder = tmp_path / "run"
    said = train(folder, tune_threshold=kind, set_metrics=True, num_train_epochs=4)
    assert "A label is in the predicted set above" in said and "micro_f1" in said
    config = json.loads((folder / "config.json").read_text())
    metrics = json.loads((folder / "metrics.json").read_text())
    tagger = pipeline("text-classification", model=str(folder), trust_remote_code=True)
    everything = tagger("cat song", top_k=None)
    if kind == "global":
        limit = config["decision_threshold"]
        assert limit != 0.5 and "label_thresholds" not in load_file(folder / "model.safetensors")
        expected = {answer["label"] for answer in everything if answer["score"] > limit}
        assert f"above {limit:.4g}, which gave the best micro F1" in (folder / "README.md").read_text()
    else:
        limits = load_file(folder / "model.safetensors")["label_thresholds"]
        names = json.loads((folder / "labels.json").read_text())
        expected = {answer["label"] for answer in everything if answer["score"] > limits[names.index(answer["label"])]}
    in_set = tagger("cat song", threshold="model")
    assert {answer["label"] for answer in in_set} == expected
    assert tagger("cat song", threshold="model", top_k=1) == in_set[:1]
    # Tuned on it, so no lower there than the usual 0.5 gives.
    metric = "micro_f1" if kind == "global" else "macro_f1"
    train(tmp_path / "plain", set_metrics=True, num_train_epochs=4)
    plain = json.loads((tmp_path / "plain" / "metrics.json").read_text())
    assert metrics["validation"][metric] >= plain["validation"][metric] and metrics["validation"][metric] > 0


def test_thresholds_cannot_be_tuned_without_a_validation_split(train, unchecked, tmp_path):
    settings = {"eval_strategy": "no", "load_best_model_at_end": False, "validation_fraction": 0.0}
    with pytest.raises(SystemExit, match="tune_threshold='global', but .* has no validation split to tune it on"):
        train(tmp_path / "run", dataset=one_split(tmp_path), tune_threshold="global", **settings)


def one_split(tmp_path):
    from small_corpus import make_documents, write_split

    folder = tmp_path / "data"
    folder.mkdir()
    write_split(folder, "train", make_documents(12, 0))
    return folder


def test_more_labels_than_positions_are_refused_before_training(train, unchecked, encoder, tmp_path):
    overrides = json.dumps({"label_positions": "sequential"})
    settings = {"model_family": "laco", "num_cls_tokens": None, "cornet_context_size": None, "max_length_tokens": 35}
    with pytest.raises(SystemExit, match=r"max_length_tokens=35, but the backbone .* takes 33 tokens"):
        train(tmp_path / "run", backbone=encoder, config_overrides=overrides, **settings)


def test_options_for_label_matrices_are_refused_for_a_family_without_any(train, unchecked, tmp_path):
    with pytest.raises(SystemExit, match="SeqTagForXMTC has no matrix with a row per label that it could train"):
        train(tmp_path / "run", model_family="seqtag", label_optimizer="rowwise", **SCRATCH)


def test_label_tokens_are_asked_for_only_where_labels_are_read(train, unchecked, tmp_path):
    with pytest.raises(
        SystemExit, match="label_embedding_start='text' with model_family='bertxml': it reads no labels. Leave it out"
    ):
        train(tmp_path / "run", label_embedding_start="text")


def test_a_model_of_candidates_is_trained_beside_its_generator_and_opens_again(train, tmp_path):
    folder = tmp_path / "run"
    overrides = json.dumps({"backbone_config": SIZES, "num_candidates": 2, "auxiliary_task": "clcp"})
    train(folder, **{**SCRATCH, "config_overrides": overrides}, model_family="laco")
    check_model_folder(folder).raise_for_problems()
    metrics = json.loads((folder / "metrics.json").read_text())["test"]
    assert 0.5 < metrics["candidate_recall"] < 1 and metrics["num_candidates"] == 2
    assert metrics["R@5"] == pytest.approx(metrics["candidate_recall"])  # of five labels that are kept two are candidates
    assert {"generator_nDCG@5", "generator_P@1"} <= set(metrics)
    generator = CandidateGenerator.from_pretrained(folder)
    ids, _ = generator.candidates(["cat song"], 2)
    names = json.loads((folder / "labels.json").read_text())
    chosen = [names[label] for label in ids[0]]
    tagger = pipeline("text-classification", model=str(folder), trust_remote_code=True)
    assert {answer["label"] for answer in tagger("cat song", candidates=chosen, top_k=None)} == set(chosen)
    with pytest.raises(ValueError, match="num_candidates=2.*and none were given"):
        tagger("cat song")
    with_votes, alone = (tagger("cat song", candidates=source, top_k=None) for source in (generator, chosen))
    assert {answer["label"] for answer in with_votes} == set(chosen) and with_votes != alone


@pytest.fixture(scope="module")
def mixed(tmp_path_factory, train):
    """A model of four candidates."""
    folder = tmp_path_factory.mktemp("mixed") / "run"
    overrides = json.dumps({"backbone_config": SIZES, "num_candidates": 4})
    settings = {**SCRATCH, "config_overrides": overrides, "model_family": "laco"}
    return folder, train(folder, **settings)


def test_a_model_that_has_learnt_nothing_ranks_as_its_generator(train, unchecked, tmp_path):
    overrides = json.dumps({"backbone_config": SIZES, "num_candidates": 4})
    settings = {**SCRATCH, "config_overrides": overrides, "model_family": "laco", "max_steps": 1, "learning_rate": 0.0}
    train(tmp_path / "run", **settings)
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    for split in ("validation", "test"):
        for name in ("P@1", "nDCG@3", "nDCG@5"):
            assert metrics[split][name] == pytest.approx(metrics[split][f"generator_{name}"], abs=1e-6)


def test_scores_with_votes_are_those_that_the_saved_model_gives(mixed, corpus_folder):
    folder, _ = mixed
    generator = CandidateGenerator.from_pretrained(folder)
    tagger = pipeline("text-classification", model=str(folder), trust_remote_code=True, candidates=generator)
    texts = pq.read_table(corpus_folder / "test.parquet")["text"].to_pylist()
    rows = pq.read_table(folder / "predictions" / "test.parquet").to_pylist()
    for row, answer in zip(rows, tagger(texts, top_k=4), strict=True):
        assert row["scores"] == pytest.approx([entry["score"] for entry in answer], abs=1e-6)


def test_each_split_is_predicted_once_after_training(train, unchecked, tmp_path, monkeypatch):
    predicted, predict = [], XMTCTrainer.predict

    def count(self, rows, **kwargs):
        predicted.append(kwargs["metric_key_prefix"])
        return predict(self, rows, **kwargs)

    monkeypatch.setattr(XMTCTrainer, "predict", count)
    overrides = json.dumps({"backbone_config": SIZES, "num_candidates": 4})
    tuned = {"tune_threshold": "global", "set_metrics": True}
    train(tmp_path / "run", model_family="laco", max_steps=1, **{**SCRATCH, "config_overrides": overrides}, **tuned)
    assert predicted == ["validation", "test"]


def test_predict_finds_its_candidates_as_the_pipeline_does(mixed, tmp_path):
    folder, _ = mixed
    texts = ["cat song", "", "a text of nothing known", "cat cat cat"]
    (tmp_path / "texts.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    settings = {"model": str(folder), "input": str(tmp_path / "texts.txt"), "top_k": 3, "device": "cpu"}
    predict_file(PredictArguments(**settings, output=str(tmp_path / "tags.jsonl")))
    rows = [json.loads(line) for line in (tmp_path / "tags.jsonl").read_text().splitlines()]
    generator = CandidateGenerator.from_pretrained(folder)
    tagger = pipeline("text-classification", model=str(folder), trust_remote_code=True, candidates=generator)
    for row, answer, in_batch in zip(rows, tagger(texts, top_k=3), tagger(texts, top_k=3, batch_size=2), strict=True):
        assert row["labels"] == [entry["label"] for entry in answer] == [entry["label"] for entry in in_batch]
        assert row["scores"] == pytest.approx([entry["score"] for entry in answer], abs=1e-5)
    assert len(tagger("cat", top_k=9)) == 4
    # What is beside the model decides the rows.
    path = folder / "candidates" / "candidates.json"
    path.write_text(path.read_text() + " ")
    with pytest.raises(FileExistsError):
        predict_file(PredictArguments(**settings, output=str(tmp_path / "tags.jsonl")))


def test_candidates_that_were_found_before_are_not_looked_for_again(mixed, train, unchecked, tmp_path, monkeypatch):
    folder, _ = mixed
    alone, with_main_first = [], XMTCTrainingArguments.main_process_first

    @contextmanager
    def main_process_first(self, local=True, desc="work"):
        with with_main_first(self, local, desc):
            alone.append(desc)
            yield
            alone.pop()

    def refuse(*args, **kwargs):
        raise AssertionError(f"looked for again while the others wait for {alone}")

    monkeypatch.setattr(XMTCTrainingArguments, "main_process_first", main_process_first)
    monkeypatch.setattr(CandidateGenerator, "candidates", refuse)
    settings = {**SCRATCH, "model_family": "laco", "max_steps": 1}
    overrides = {number: json.dumps({"backbone_config": SIZES, "num_candidates": number}) for number in (4, 3)}
    train(tmp_path / "run", **{**settings, "config_overrides": overrides[4]})
    before, after = (json.loads((run / "metrics.json").read_text())["train"] for run in (folder, tmp_path / "run"))
    assert after["candidate_recall"] == before["candidate_recall"]
    with pytest.raises(AssertionError, match="looked for again while the others wait for .'finding candidates'"):
        train(tmp_path / "other", **{**settings, "config_overrides": overrides[3]})


def test_candidates_that_do_not_fit_the_model_are_refused(mixed, tmp_path):
    folder, _ = mixed
    other = CandidateGenerator.fit(["cat", "song"], [[0], [1]], num_labels=2)
    tagger = pipeline("text-classification", model=str(folder), trust_remote_code=True)
    with pytest.raises(ValueError, match=r"finds 2 labels \(digest None\), but the model has 6"):
        tagger("cat", candidates=other)
    copied = tmp_path / "copied"
    shutil.copytree(folder, copied)
    other.save_pretrained(copied)
    (tmp_path / "texts.txt").write_text("cat\n", encoding="utf-8")
    settings = {"model": str(copied), "input": str(tmp_path / "texts.txt"), "output": str(tmp_path / "tags.jsonl")}
    with pytest.raises(ValueError, match="candidates.json has num_labels=2 but config.json beside it has 6"):
        predict_file(PredictArguments(**settings))
    with pytest.raises(TypeError, match="candidates holds lists, but it is one list of labels for all texts"):
        tagger("cat", candidates=[["cat"], ["song"]])
    shutil.rmtree(copied / "candidates")
    with pytest.raises(FileNotFoundError, match="Was the model trained with num_candidates"):
        predict_file(PredictArguments(**settings))


def test_a_pipeline_takes_labels_as_an_array_and_saves_its_generator(mixed, tmp_path):
    folder, _ = mixed
    generator = CandidateGenerator.from_pretrained(folder)
    tagger = pipeline("text-classification", model=str(folder), trust_remote_code=True, candidates=generator)
    names = json.loads((folder / "labels.json").read_text())[:3]
    assert tagger("cat", candidates=np.array(names)) == tagger("cat", candidates=names)
    tagger.save_pretrained(tmp_path)
    assert CandidateGenerator.from_pretrained(tmp_path).digest() == generator.digest()


def test_as_many_candidates_as_labels_and_encoders_that_are_not_there_are_refused(train, tmp_path):
    overrides = json.dumps({"backbone_config": SIZES, "num_candidates": 6})
    with pytest.raises(
        SystemExit, match="num_candidates=6, but the data have 6 labels, so every label would be a candidate"
    ):
        train(tmp_path / "run", model_family="laco", **{**SCRATCH, "config_overrides": overrides})
    with pytest.raises(
        SystemExit, match="backbone='/no/such/encoder' is no folder with a pretrained encoder and its tokenizer"
    ):
        train(tmp_path / "run", model_family="laco", backbone="/no/such/encoder", **{**SCRATCH, "config_overrides": None})


def test_a_model_of_candidates_explains_itself_by_its_own(mixed):
    folder, _ = mixed
    generator = CandidateGenerator.from_pretrained(folder)
    tagger = pipeline("text-classification", model=str(folder), trust_remote_code=True, candidates=generator)
    (best,) = tagger("cat song", top_k=1)
    explanation = tagger.explain("cat song")
    assert (explanation.label, explanation.score) == (best["label"], pytest.approx(best["score"], abs=1e-6))
    assert len(explanation.tokens) == 2 and any(token.weight for token in explanation.tokens)
    others = set(json.loads((folder / "labels.json").read_text())) - {
        entry["label"] for entry in tagger("cat song", top_k=9)
    }
    with pytest.raises(ValueError, match="is none of the 4 candidates of this text"):
        tagger.explain("cat song", min(others))
    assert tagger.explain("cat song", min(others), candidates=[min(others), best["label"]]).label == min(others)


def test_a_list_of_candidates_has_no_votes_for_the_models_own_threshold(mixed):
    folder, _ = mixed
    tagger = pipeline("text-classification", model=str(folder), trust_remote_code=True)
    names = json.loads((folder / "labels.json").read_text())
    with pytest.raises(ValueError, match="threshold='model', but .* a list of candidates has none"):
        tagger("cat song", candidates=names[:4], threshold="model")
    generator = CandidateGenerator.from_pretrained(folder)
    answers = tagger("cat song", candidates=generator, threshold="model")
    assert all(answer["score"] > 0.5 for answer in answers)


def test_a_generator_of_other_labels_is_refused_though_there_are_as_many(mixed):
    folder, _ = mixed
    generator = CandidateGenerator.from_pretrained(folder)
    assert generator.labels_digest == json.loads((folder / "config.json").read_text())["labels_digest"]
    generator.labels_digest = "other"
    tagger = pipeline("text-classification", model=str(folder), trust_remote_code=True)
    with pytest.raises(
        ValueError, match=r"finds 6 labels \(digest other\), but the model has 6 .* their ids mean other labels"
    ):
        tagger("cat", candidates=generator)


def test_training_says_how_many_labels_are_candidates(mixed):
    folder, said = mixed
    metrics = json.loads((folder / "metrics.json").read_text())
    assert f"(the candidates hold {100 * metrics['test']['candidate_recall']:.2f} % of the labels)" in said
    assert 0 < metrics["train"]["candidate_recall"] <= 1 and metrics["train"]["seconds"] > 0


@pytest.mark.parametrize("option", [{"label_optimizer": "sgd_in_backward"}, {"label_optimizer": "adam_in_backward"}])
def test_label_options_that_do_not_go_with_candidates_are_refused(train, tmp_path, option):
    overrides = json.dumps({"backbone_config": SIZES, "num_candidates": 4})
    with pytest.raises(SystemExit, match="with num_candidates=4: the gradients are those of the candidates' rows"):
        train(tmp_path / "run", model_family="laco", **{**SCRATCH, "config_overrides": overrides}, **option)
