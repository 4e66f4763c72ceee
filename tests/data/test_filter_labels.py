"""Labels that the makers of a data set leave out of a document: AC-13."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from hf_xmtc import cli
from hf_xmtc.data import dataset_statistics, label_counts, label_info_of, summarize_statistics, tokenize_dataset
from hf_xmtc.data.filter_labels import drop_filtered_ids
from hf_xmtc.metrics import ranking_report
from hf_xmtc.models.filter_labels import drop_filtered, padded_filters
from small_formats import write_files

# Gold labels of the test documents: 1, and 0 with 2, which is the document itself.
_XMC = {
    "trn.json": "".join(f'{{"title": "t{i}", "content": "", "target_ind": [{i}, {(i + 1) % 3}]}}\n' for i in range(3)),
    "tst.json": '{"title": "a", "content": "", "target_ind": [1]}\n{"title": "b", "content": "", "target_ind": [0, 2]}\n',
    "lbl.json": '{"title": "x"}\n{"title": "y"}\n{"title": "z"}\n',
}
_FILTERS = {"filter_labels_test.txt": "0 2\n1 2\n", "filter_labels_train.txt": "0 0\n"}
_RANKING = [[2, 1, 0], [0, 1, 2]]


@pytest.mark.parametrize(
    ("filters", "precision"),
    [(_FILTERS, 1.0), (dict.fromkeys(_FILTERS, ""), 0.5), ({}, 0.5)],
    ids=["pairs", "empty", "none"],
)
def test_pairs_to_leave_out_are_neither_predictions_nor_gold(tmp_path, load, filters, precision):
    test = load(write_files(tmp_path / "corpus", {**_XMC, **filters}), validation_fraction=0)["test"]
    ranking = drop_filtered_ids(torch.tensor(_RANKING).numpy(), test)
    assert ranking_report(ranking, test["labels"][:], ks=(1,))["P@1"] == precision
    assert test["labels"][:] == ([[1], [0]] if precision == 1.0 else [[1], [0, 2]])
    assert ranking.tolist() == ([[1, 0, -100], [0, 1, -100]] if precision == 1.0 else _RANKING)


def test_training_statistics_do_not_count_them(tmp_path, load):
    data = load(write_files(tmp_path / "corpus", {**_XMC, **_FILTERS}), validation_fraction=0)
    assert data["train"]["labels"][:] == [[1], [1, 2], [2, 0]]
    assert data["train"]["filter_labels"][:] == [[0], [], []]
    assert label_counts(data["train"], 3).tolist() == [1, 2, 2]
    assert label_info_of(data).num_filtered == {"train": 1, "test": 1}
    said = summarize_statistics(dataset_statistics(data))
    assert "train: 3 documents" in said and "1 labels left out by filter_labels" in said


def test_they_go_along_with_conversion_tokenization_and_a_split(tmp_path, load, tokenizer):
    folder = write_files(tmp_path / "corpus", {**_XMC, **_FILTERS})
    cli.main(["convert", "--dataset", str(folder), "--output_dir", str(tmp_path / "parquet")])
    first, second = (load(path, validation_fraction=0) for path in (folder, tmp_path / "parquet"))
    for split in ("train", "test"):
        assert first[split].to_list() == second[split].to_list()
    assert tokenize_dataset(second["test"], tokenizer, 8)[0]["filter_labels"][:] == [[2], [2]]
    carved = load(folder, validation_fraction=0.5, label_space="file")
    rows = [row for split in ("train", "validation") for row in carved[split].to_list()]
    assert sorted(rows, key=lambda row: row["text"]) == first["train"].to_list()


def _json_lines(*filters, first="x"):
    labels = '["x", "y"]' if first == "x" else "[0, 1]"
    return "".join(f'{{"text": "t{i}", "labels": {labels}{entry}}}\n' for i, entry in enumerate(filters))


_OF_NAMES, _OF_IDS = (', "filter_labels": ["x"]', ""), (', "filter_labels": []', ', "filter_labels": [1]')


@pytest.mark.parametrize(
    ("lines", "options", "labels"),
    [
        (_json_lines(*_OF_NAMES), {}, [["y"], ["x", "y"]]),
        (_json_lines("", ', "filter_labels": null', *_OF_NAMES), {}, [["x", "y"], ["x", "y"], ["y"], ["x", "y"]]),
        (_json_lines(*_OF_IDS), {}, [["x", "y"], ["x"]]),
        (_json_lines(*_OF_IDS, first=0), {}, [["x", "y"], ["x"]]),
        (
            _json_lines(*_OF_IDS, first=0).replace("[1]", "[2]").replace("0, 1", "1, 2"),
            {"one_based": True},
            [["x", "y"], ["x"]],
        ),
        (
            _json_lines(*_OF_IDS).replace("labels", "tags").replace("filter_tags", "filter_labels"),
            {"label_column": "t*"},
            [["x", "y"], ["x"]],
        ),
    ],
)
def test_json_lines_may_have_them(tmp_path, load, lines, options, labels):
    folder = write_files(tmp_path / "corpus", {"train.jsonl": lines, "labels.json": '["x", "y"]'})
    given = [str(word) for name, value in options.items() for word in (f"--{name}", value)]
    cli.main(["convert", "--dataset", str(folder), "--output_dir", str(tmp_path / "parquet"), *given])
    for data in load(folder, validation_fraction=0, **options), load(tmp_path / "parquet", validation_fraction=0):
        info = label_info_of(data)
        assert [[info.label_of(i) for i in row] for row in data["train"]["labels"][:]] == labels
        left_out = [[label for label in "xy" if label not in row] for row in labels]
        assert [[info.label_of(i) for i in row] for row in data["train"]["filter_labels"][:]] == left_out


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            _json_lines(*_OF_IDS, ', "filter_labels": [2]', first=0),
            "a.jsonl, line 3, filter_labels holds the label id 2, but the 2 labels",
        ),
        (
            _json_lines(*_OF_NAMES, ', "filter_labels": [2]'),
            "a.jsonl, line 3, filter_labels holds the label 2, but .* type str",
        ),
        (_json_lines(', "filter_labels": {}'), "a.jsonl, line 1, filter_labels: the labels are {}, but must be a list"),
        (
            _json_lines(*[""] * 1_000, _OF_NAMES[0]),
            "line 1001 has the key 'filter_labels', but none of the first 1,000 lines",
        ),
    ],
)
def test_json_lines_whose_pairs_are_none(tmp_path, load, lines, message):
    folder = write_files(tmp_path / "corpus", {"a.jsonl": lines, "labels.json": '["x", "y"]'})
    with pytest.raises(ValueError, match=message):
        load(folder / "a.jsonl", validation_fraction=0)
    with pytest.raises(SystemExit, match=message):
        cli.main(["convert", "--dataset", str(folder / "a.jsonl"), "--output_dir", str(tmp_path / "parquet")])


def test_numbers_of_labels_need_a_label_file(tmp_path, load):
    folder = write_files(tmp_path / "corpus", {"train.jsonl": _json_lines(*_OF_IDS)})
    with pytest.raises(ValueError, match="'filter_labels' of train holds numbers, but labels are strings.*--label_file"):
        load(folder, validation_fraction=0)
    with pytest.raises(
        SystemExit, match="are strings, others label ids, and no label file names the ids. Give --label_file"
    ):
        cli.main(["convert", "--dataset", str(folder), "--output_dir", str(tmp_path / "parquet")])


def test_a_label_that_is_only_left_out_is_no_label(tmp_path, load):
    table = pa.table({"text": ["a", "b"], "labels": [["x"], ["y"]], "filter_labels": [["z", "x"], None]})
    (tmp_path / "corpus").mkdir()
    pq.write_table(table, tmp_path / "corpus" / "train.parquet")
    data = load(tmp_path / "corpus", validation_fraction=0)
    assert label_info_of(data).names.labels == ["y"]
    assert data["train"].remove_columns("text").to_list() == [
        {"labels": [], "filter_labels": []},
        {"labels": [0], "filter_labels": []},
    ]


def test_labels_behind_those_left_out_move_up():
    scores = torch.tensor([[0.9, 0.8, 0.7, 0.6], [0.5, 0.4, 0.3, 0.0]])
    labels = torch.tensor([[3, 1, 2, 0], [1, 0, 2, -100]])
    scores, labels = drop_filtered(scores, labels, padded_filters([[3, 2], [7]]), width=3)
    assert labels.tolist() == [[1, 0, -100], [1, 0, 2]]
    assert torch.equal(scores, torch.tensor([[0.8, 0.6, 0.0], [0.5, 0.4, 0.3]]))
