import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hf_xmtc.commands.stored_predictions import write_label_counts
from unseen_labels import unseen_table


def model_folder(path, counts, best, gold=(["a", "new"], ["new", "other"], ["a"])):
    (path / "predictions").mkdir(parents=True)
    columns = {"labels": best, "scores": [[0.5] * len(row) for row in best], "gold": list(gold)}
    pq.write_table(pa.table({"row": range(len(gold)), **columns}), path / "predictions" / "test.parquet")
    write_label_counts(path, list(counts), list(counts.values()), 10)
    return path


def test_recall_of_labels_that_training_never_saw(tmp_path):
    plain = model_folder(tmp_path / "plain", {"a": 9, "b": 1}, [["a", "b"], ["a", "b"], ["a", "b"]])
    named = model_folder(tmp_path / "named", {"a": 9, "b": 1, "new": 0}, [["a", "new"], ["b", "a"], ["b", "a"]])
    told = unseen_table([plain, named])
    assert (
        "3 of 5 labels of the test documents (60.00 %) are labels that training never saw; 2 of 3 documents have one."
        in told
    )
    rows = {line.split(" | ")[0].strip("| "): line.rstrip(" |").split(" | ")[3:] for line in told.splitlines()[4:]}
    assert rows == {"plain": ["0.00", "0.00", "0.00", "0.00"], "named": ["66.67", "50.00", "50.00", "50.00"]}


def test_documents_without_such_labels_are_refused(tmp_path):
    with pytest.raises(ValueError, match="Training saw every label of the test documents"):
        unseen_table([model_folder(tmp_path / "a", {"a": 1}, [["a"]], [["a"]])])
