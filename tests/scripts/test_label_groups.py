import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hf_xmtc.commands.stored_predictions import write_label_counts
from label_groups import group_table, labels_by_column, main


def model_folder(path, counts, best, gold=(["a", "new"], ["new", "other"], ["a"])):
    (path / "predictions").mkdir(parents=True)
    columns = {"labels": best, "scores": [[0.5] * len(row) for row in best], "gold": list(gold)}
    pq.write_table(pa.table({"row": range(len(gold)), **columns}), path / "predictions" / "test.parquet")
    write_label_counts(path, list(counts), list(counts.values()), 10)
    return path


def cells(table):
    """The cells behind nDCG@5 and R@5, by model."""
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")]
    return {row[0]: [float(cell) for cell in row[3:]] for row in rows if "---" not in row[0] and row[0] != "model"}


def test_recall_of_labels_that_training_never_saw(tmp_path):
    plain = model_folder(tmp_path / "plain", {"a": 9, "b": 1}, [["a", "b"], ["a", "b"], ["a", "b"]])
    named = model_folder(tmp_path / "named", {"a": 9, "b": 1, "new": 0}, [["a", "new"], ["b", "a"], ["b", "a"]])
    told = group_table([plain, named])
    assert "never seen: 3 of 5 labels of the test documents (60.00 %); 2 of 3 documents have one." in told
    assert cells(told) == {"plain": [0, 0, 0, 0], "named": [66.67, 50, 50, 50]}


def test_recall_of_labels_with_and_without_an_english_name(tmp_path, capsys):
    folder = model_folder(tmp_path / "plain", {"a": 9, "b": 1}, [["a", "b"], ["b", "new"], ["b"]])
    names = {"label": ["a", "b", "new", "other"], "name_en": ["A", "B", None, ""]}
    pq.write_table(pa.table(names), tmp_path / "labels.parquet")
    main([str(folder), "--labels", str(tmp_path / "labels.parquet"), "--column", "name_en"])
    told = capsys.readouterr().out
    assert "with name_en: 2 of 5 labels" in told and "without name_en: 3 of 5 labels" in told
    # "a" is found in one of two documents; "new" and "other" in 0 of 1 and 1 of 2
    assert cells(told) == {"plain": [100, 50, 50, 50, 0, 25, 25, 25]}
    with pytest.raises(ValueError, match="no column 'name_fr'; its columns are"):
        labels_by_column(tmp_path / "labels.parquet", "name_fr")


def test_documents_without_such_labels_are_refused(tmp_path):
    with pytest.raises(ValueError, match="test documents have no label of the group 'never seen'"):
        group_table([model_folder(tmp_path / "a", {"a": 1}, [["a"]], [["a"]])])
