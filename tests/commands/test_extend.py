"""`hf-xmtc extend`: from a model folder and new data to a new model folder."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from transformers import AutoTokenizer, pipeline

from hf_xmtc import TReaderXMLForXMTC, cli
from hf_xmtc.commands.extend_options import option_parser, output_folder
from hf_xmtc.commands.stored_predictions import read_label_counts
from hf_xmtc.hub.verify import check_model_folder
from small_corpus import WORDS, make_documents, write_corpus, write_split
from small_ensemble import small_ensemble

BY_GRADIENT = ("per_device_train_batch_size", "num_train_epochs", "learning_rate", "cornet_context_size", "num_cls_tokens")
SETTINGS = dict.fromkeys((*BY_GRADIENT, "max_length_tokens"))


@pytest.fixture(scope="module")
def folder(train, tmp_path_factory):
    """24 documents with six labels, found by their names too."""
    path = tmp_path_factory.mktemp("models") / "tags"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hf_xmtc.commands.export_check.check_reopens", lambda *args, **settings: 0.0)
        train(
            path,
            model_family="neighbors",
            **{**SETTINGS, "config_overrides": "label_text_weight=0.2,similarity_power=8,num_neighbors=5"},
        )
    return path


def extend(*arguments) -> None:
    assert cli.main(["extend", *map(str, arguments)]) == 0


def test_documents_and_labels_are_added_in_a_new_folder(folder, tmp_path, capsys, monkeypatch):
    old, data, before = make_documents(24, 0), tmp_path / "new", sorted(folder.rglob("*"))
    write_split(data, "train", [*old[:4], (old[4][0], ["x9"]), ("song hammer coast", ["x9"])])
    pq.write_table(pa.table({"label": ["x9"], "name": ["Drill music"], "description": ["choir"]}), data / "labels.parquet")
    extend("--model", folder, "--dataset", data, "--output_dir", tmp_path / "more")
    said = capsys.readouterr().out
    assert "1 document is new, 1 that was there has further labels; 4 were there already. 1 label is new: 'x9'." in said
    assert "now has 25 documents and 7 labels" in said and f"hf-xmtc predict --model {tmp_path / 'more'}" in said
    assert sorted(folder.rglob("*")) == before and not list(tmp_path.glob(".*"))

    check_model_folder(tmp_path / "more").raise_for_problems()
    counts, num_documents = read_label_counts(tmp_path / "more")
    assert counts[6] == 2 and num_documents == 25
    card = (tmp_path / "more" / "README.md").read_text()
    assert "1 document and 1 label of new were added" in card and "This model has not been evaluated." in card
    recipe = json.loads((tmp_path / "more" / "recipe.json").read_text())
    addition = {"source": "new", "labels": 1, "documents": 1, "relabelled_documents": 1}
    assert recipe["extended_with"] == [addition] and recipe["model_family"] == "neighbors"
    tagger = pipeline("text-classification", model=str(tmp_path / "more"), trust_remote_code=True)
    best = tagger("song hammer coast")[0]
    assert best["label"] == "x9" and best["name"] == "Drill music"

    monkeypatch.setattr("hf_xmtc.commands.extend.check_reopens", lambda *args, **settings: 0.0)
    extend("--model", tmp_path / "more", "--dataset", data)
    said = capsys.readouterr().out
    assert (
        "0 documents are new; 6 were there already. 0 labels are new." in said
        and "not in the model's vocabulary" not in said
    )
    assert len(json.loads((tmp_path / "more-extended" / "recipe.json").read_text())["extended_with"]) == 2

    (tmp_path / "more.csv").write_text("text,labels\nsong hammer valley,x9|x10\nunlabelled,\n", encoding="utf-8")
    separated = ("--dataset", tmp_path / "more.csv", "--label_separator", "|", "--output_dir", tmp_path / "csv")
    extend("--model", tmp_path / "more", *separated, "--drop_unlabeled")
    assert "1 document is new. 1 label is new: 'x10'." in capsys.readouterr().out


def test_labels_are_added_by_their_names_alone(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("hf_xmtc.commands.extend.check_reopens", lambda *args, **settings: 0.0)
    (tmp_path / "labels.json").write_text(json.dumps(["tool", {"label": "x1", "name": "green bread"}]))
    extend("--model", folder, "--label_file", tmp_path / "labels.json", "--output_dir", tmp_path / "more")
    assert (
        "0 documents are new. 1 label is new: 'x1'. The model now has 24 documents and 7 labels" in capsys.readouterr().out
    )
    tagger = pipeline("text-classification", model=str(tmp_path / "more"), trust_remote_code=True, top_k=None)
    scores = {answer["label"]: answer["score"] for answer in tagger("green bread")}
    assert scores["x1"] > 0.15 and len(scores) == len(WORDS) + 1
    with pytest.raises(SystemExit, match="more exists. Choose another --output_dir"):
        extend("--model", folder, "--label_file", tmp_path / "labels.json", "--output_dir", tmp_path / "more")


def test_the_model_is_measured_before_and_after(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("hf_xmtc.commands.extend.check_reopens", lambda *args, **settings: 0.0)
    data = tmp_path / "new"
    write_split(data, "train", [("song hammer coast", ["x9"]), ("cat saw", ["x9", "tool"])])
    write_split(data, "test", [("hammer coast", ["x9"]), ("song hammer", ["x8"]), *make_documents(6, 5), ("cat", [])])
    extend("--model", folder, "--dataset", data, "--output_dir", tmp_path / "more")
    said = capsys.readouterr().out
    assert "On 9 test documents before and after: nDCG@5 " in said and "; R@5 of new labels 0.00, then 100.00." in said
    extension = json.loads((tmp_path / "more" / "metrics.json").read_text())["extension"]
    before, after = (extension["evaluation"][time] for time in ("before", "after"))
    assert extension["labels"] == 1 and before["R@5_of_new_labels"] == 0 and after["R@5_of_new_labels"] == 1
    assert 0 < before["nDCG@5"] < after["nDCG@5"] < 1  # x8 is not in training, so nothing finds it
    assert "9 test documents before and after" in (tmp_path / "more" / "README.md").read_text()


def test_teacher_knowledge_grows_and_its_new_labels_have_no_scores_yet(train, tmp_path, capsys, unchecked):
    overrides = "embedding_size=8,bottleneck_size=8,num_attention_heads=2,num_neighbors=3"
    settings = {**dict.fromkeys(("cornet_context_size", "num_cls_tokens")), "config_overrides": overrides}
    train(tmp_path / "tags", model_family="treaderxml", **settings)
    data = tmp_path / "new"
    write_split(data, "train", [make_documents(24, 0)[0], ("song hammer coast", ["x9"])])
    write_split(data, "validation", [("hammer coast", ["x9"])])
    extend("--model", tmp_path / "tags", "--dataset", data)  # opened without the package at the end
    said = capsys.readouterr().out
    assert "1 document is new; 1 was there already. 1 label is new: 'x9'. They have no scores until" in said
    assert "On 1 validation document before and after" in said and "new labels 0.00, then 0.00" in said
    check_model_folder(tmp_path / "tags-extended").raise_for_problems()
    model = TReaderXMLForXMTC.from_pretrained(tmp_path / "tags-extended")
    tokens = AutoTokenizer.from_pretrained(tmp_path / "tags-extended")("hammer coast", return_tensors="pt")["input_ids"]
    assert model.config.num_documents == 25 and 6 in model.teacher_of(tokens).node_ids[0].tolist()
    assert read_label_counts(tmp_path / "tags-extended")[0][6] == 1


def test_what_the_model_cannot_know_or_find_is_said(folder, tmp_path, capsys, unchecked):
    data = tmp_path / "new"
    rows = [("qoph zayin", ["lamed"]), ("song qoph", ["Food", "Tool"]), ("song drum cat river", ["music ", "red bread"])]
    write_split(data, "train", [*rows, ("zayin", ["lamed"])])
    extend("--model", folder, "--dataset", data, "--output_dir", tmp_path / "more")
    said, logged = capsys.readouterr()
    assert "2 documents are new; 2 without any known word are left out. 5 labels are new: " in said
    assert (
        "44.4 % of the words of the documents and 66.7 % of the words of the new labels' names are not in the model's"
        in said
    )
    assert "or with a --backbone, whose word pieces know every word" in said
    assert "3 new labels differ from one of the model's only by case" in said and "'Food' beside 'food'" in said
    assert "1 new label still cannot be found, such as 'lamed': the model knows no word of their texts." in said
    assert read_label_counts(tmp_path / "more")[1] == 26

    labels = tmp_path / "labels.json"
    labels.write_text(json.dumps([f"n{number}" for number in range(7)]))
    extend("--model", folder, "--label_file", labels, "--output_dir", tmp_path / "named")
    assert "7 labels are new: 'n0', 'n1', 'n2', 'n3', 'n4' and 2 more." in capsys.readouterr().out
    with pytest.raises(SystemExit, match="There is no label file '.*missing.json'. Give a labels.parquet or labels.json"):
        extend("--model", folder, "--label_file", tmp_path / "missing.json", "--output_dir", tmp_path / "none")


@pytest.mark.parametrize(
    ("model", "expected"),
    [("tags", "tags-extended"), ("tags-extended", "tags-extended-2"), ("you/tags-extended-9", "tags-extended-10")],
)
def test_the_new_folder_is_named_after_the_model(model, expected):
    assert str(output_folder(option_parser().parse_args(["--model", model]))) == expected


def test_an_interruption_leaves_no_folder(folder, tmp_path, monkeypatch):
    def fail(*arguments, **settings):
        raise OSError("the disk is full")

    monkeypatch.setattr("hf_xmtc.commands.extend.check_reopens", fail)
    write_corpus(tmp_path / "new")
    with pytest.raises(SystemExit, match="the disk is full"):
        extend("--model", folder, "--dataset", tmp_path / "new", "--output_dir", tmp_path / "more")
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_families_that_cannot_grow_are_refused(tiny_model_folder, tmp_path):
    with pytest.raises(
        SystemExit,
        match="family bertxml, which takes no documents or labels without training, as neighbors and treaderxml do. Train",
    ):
        extend("--model", tiny_model_folder, "--dataset", "demo", "--output_dir", tmp_path / "more")
    small_ensemble({"a": tiny_model_folder, "b": tiny_model_folder}).save_pretrained(tmp_path / "both")
    with pytest.raises(
        SystemExit,
        match="family ensemble, which takes no .*Extend its parts .* and combine them anew by hf-xmtc ensemble --method consensus",
    ):
        extend("--model", tmp_path / "both", "--dataset", "demo", "--output_dir", tmp_path / "more")
    assert not (tmp_path / "more").exists()


def test_extended_parts_are_combined_without_predictions(folder, tmp_path, capsys, caplog, monkeypatch, unchecked):
    for module in ("extend", "ensemble"):
        monkeypatch.setattr(f"hf_xmtc.commands.{module}.check_reopens", lambda *args, **settings: 0.0)
    write_split(tmp_path / "new", "train", [("song hammer coast", ["x9"])])
    write_split(tmp_path / "more", "train", [("song hammer coast", ["tool"])])
    parts = [tmp_path / "a", tmp_path / "b", tmp_path / "c"]
    for part, data in zip(parts, ("new", "new", "more"), strict=True):
        extend("--model", folder, "--dataset", tmp_path / data, "--output_dir", part)

    def combine(first, second, method, name) -> str:
        cli.main(["ensemble", str(first), str(second), "--method", method, "--output_dir", str(tmp_path / name)])
        return capsys.readouterr().out

    with pytest.raises(
        SystemExit, match="to tune on. hf-xmtc extend leaves predictions .* out of .*a, .*b. Choose --method consensus"
    ):
        combine(parts[0], parts[1], "tuned", "tuned")
    assert "Not measured: the parts have no predictions of the same documents.\nThe ensemble" in combine(
        parts[0], parts[1], "consensus", "both"
    )
    check_model_folder(tmp_path / "both").raise_for_problems()
    assert "This model has not been evaluated." in (tmp_path / "both" / "README.md").read_text()
    tagger = pipeline("text-classification", model=str(tmp_path / "both"), trust_remote_code=True)
    assert tagger("song hammer coast")[0]["label"] == "x9"
    # One part as it was trained, one extended by documents alone.
    with pytest.raises(SystemExit, match="validation.parquet is missing, but other parts .* hf-xmtc extend leaves"):
        combine(folder, parts[2], "tuned", "tuned")
    assert "Not measured" in combine(folder, parts[2], "mean_score", "mixed")
    assert (
        "test.parquet is missing, but other parts have predictions of test, so the ensemble is not measured" in caplog.text
    )


def test_nothing_to_add_is_refused(capsys):
    with pytest.raises(SystemExit):
        cli.main(["extend", "--model", "x"])
    assert "give --dataset with documents, --label_file with labels, or both" in capsys.readouterr().err
