import csv
import errno
import json
import sys
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hf_xmtc.commands.prediction_files import PredictionRow, PredictionWriter
from strict_parser import parse_strictly

SETTINGS = {"--model": "tiny", "--top_k": 2}
ROWS = [PredictionRow(0, "a", [3, 1], ["drei", "eins"], [0.75, 0.5]), PredictionRow(1, "b", [], [], [])]


def rows_of(path) -> list[dict]:
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pylist()
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("ending", ["parquet", "jsonl"])
def test_rows_are_written_as_they_are_and_nothing_else_is_left(tmp_path, ending):
    output = tmp_path / "new" / f"tags.{ending}"
    with PredictionWriter(output, SETTINGS, has_ids=True) as writer:
        writer.write(ROWS[:1])
        assert not output.exists()
        writer.write(ROWS[1:])
        writer.finish()
    assert rows_of(output) == [
        {"row": 0, "id": "a", "label_ids": [3, 1], "labels": ["drei", "eins"], "scores": [0.75, 0.5]},
        {"row": 1, "id": "b", "label_ids": [], "labels": [], "scores": []},
    ]
    assert [path.name for path in output.parent.iterdir()] == [output.name]


@pytest.mark.parametrize("ending", ["parquet", "jsonl"])
def test_without_ids_there_is_no_id_column(tmp_path, ending):
    output = tmp_path / f"tags.{ending}"
    with PredictionWriter(output, SETTINGS) as writer:
        writer.write(ROWS)
        writer.finish()
    assert [list(row) for row in rows_of(output)] == [["row", "label_ids", "labels", "scores"]] * 2


def test_lines_are_json_whatever_the_ids_are(tmp_path):  # AC-68
    ids = [float("nan"), np.float32("inf"), np.int64(3), date(2020, 1, 1)]
    with PredictionWriter(tmp_path / "tags.jsonl", SETTINGS, has_ids=True) as writer:
        writer.write([PredictionRow(row, value, [0], ["a"], [0.5]) for row, value in enumerate(ids)])
        writer.finish()
    lines = (tmp_path / "tags.jsonl").read_text().splitlines()
    assert [parse_strictly(line)["id"] for line in lines] == [None, None, 3, "2020-01-01"]


def test_an_empty_parquet_file_has_its_columns(tmp_path):
    with PredictionWriter(tmp_path / "tags.parquet", SETTINGS) as writer:
        writer.finish()
    table = pq.read_table(tmp_path / "tags.parquet")
    assert table.num_rows == 0
    assert table.schema.field("label_ids").type == pa.list_(pa.int32())
    assert table.schema.field("scores").type == pa.list_(pa.float32())


@pytest.mark.parametrize("ending", ["parquet", "jsonl"])
def test_an_interrupted_file_goes_on_behind_its_last_complete_chunk(tmp_path, ending):
    output = tmp_path / f"tags.{ending}"
    with pytest.raises(RuntimeError), PredictionWriter(output, SETTINGS, has_ids=True) as writer:
        writer.write(ROWS[:1], num_without_text=1, num_truncated=1)
        raise RuntimeError("power failure")
    with open(writer.partial, "ab") as file:
        file.write(b"half a chunk" * 1000)
    with PredictionWriter(output, SETTINGS, has_ids=True) as writer:
        progress = writer.progress
        assert (progress.num_documents, progress.num_without_text, progress.num_truncated) == (1, 1, 1)
        writer.write(ROWS[1:])
        writer.finish()
    assert [row["id"] for row in rows_of(output)] == ["a", "b"]


def interrupt(output) -> PredictionWriter:
    """Leave an unfinished output of one row."""
    with PredictionWriter(output, SETTINGS) as writer:
        writer.write(ROWS[:1])
    return writer


def test_an_unfinished_file_of_other_settings_is_refused_naming_the_difference(tmp_path):
    output = tmp_path / "tags.jsonl"
    interrupt(output)
    with pytest.raises(ValueError, match=r"another run, 1 documents long: --top_k was 2 and is 10\. .*--overwrite"):
        PredictionWriter(output, {**SETTINGS, "--top_k": 10})
    with PredictionWriter(output, SETTINGS) as writer:
        assert writer.progress.num_documents == 1  # the refusal lost nothing
    with PredictionWriter(output, {**SETTINGS, "--top_k": 10}, overwrite=True) as writer:
        assert writer.progress.num_documents == 0


def test_an_unfinished_file_without_rows_is_nobodys(tmp_path):
    with PredictionWriter(tmp_path / "tags.parquet", SETTINGS):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_cannot_resume_starts_over(tmp_path):
    interrupt(tmp_path / "tags.jsonl")
    with PredictionWriter(tmp_path / "tags.jsonl", SETTINGS, resumable=False) as writer:
        assert writer.progress.num_documents == 0
        writer.write(ROWS)
        writer.finish()
    assert len(rows_of(tmp_path / "tags.jsonl")) == 2


def test_a_finished_file_is_refused_and_survives_until_it_is_replaced(tmp_path):
    output = tmp_path / "tags.jsonl"
    output.write_text("finished\n")
    with pytest.raises(FileExistsError, match=r"tags\.jsonl exists already.*--overwrite"):
        PredictionWriter(output, SETTINGS)
    with PredictionWriter(output, SETTINGS, overwrite=True) as writer:
        writer.write(ROWS)
        assert output.read_text() == "finished\n"
        writer.finish()
    assert len(rows_of(output)) == 2


def test_a_damaged_unfinished_file_is_refused(tmp_path):
    writer = interrupt(tmp_path / "tags.jsonl")
    size = writer.partial.stat().st_size
    with open(writer.partial, "r+b") as file:
        file.truncate(size - 1)
    with pytest.raises(ValueError, match=rf"has {size - 1} bytes but tags\.jsonl\.partial\.json says {size} were written"):
        PredictionWriter(tmp_path / "tags.jsonl", SETTINGS)
    (tmp_path / "tags.jsonl.partial.json").write_text("{")
    with pytest.raises(ValueError, match="state of an unfinished run, cannot be read"):
        PredictionWriter(tmp_path / "tags.jsonl", SETTINGS)


def test_ids_keep_the_type_of_a_parquet_input_and_are_text_otherwise(tmp_path):
    row = PredictionRow(0, date(2020, 1, 31), [], [], [])
    for name, id_type in (("typed", pa.date32()), ("text", None)):
        with PredictionWriter(tmp_path / f"{name}.parquet", SETTINGS, has_ids=True, id_type=id_type) as writer:
            writer.write([row, PredictionRow(1, None, [], [], [])])
            writer.finish()
    assert [entry["id"] for entry in rows_of(tmp_path / "typed.parquet")] == [date(2020, 1, 31), None]
    assert [entry["id"] for entry in rows_of(tmp_path / "text.parquet")] == ["2020-01-31", None]


def test_json_lines_hold_any_id(tmp_path):
    with PredictionWriter(tmp_path / "tags.jsonl", SETTINGS, has_ids=True) as writer:
        writer.write([PredictionRow(i, id_, [], [], []) for i, id_ in enumerate([7, "ü", date(2020, 1, 31), "\ud800"])])
        writer.finish()
    assert [row["id"] for row in rows_of(tmp_path / "tags.jsonl")] == [7, "ü", "2020-01-31", "\ud800"]


def test_many_small_chunks_become_large_row_groups(tmp_path, monkeypatch):
    monkeypatch.setattr("hf_xmtc.commands.prediction_files._ROW_GROUP_ROWS", 4)
    with PredictionWriter(tmp_path / "tags.parquet", SETTINGS) as writer:
        for _ in range(5):
            writer.write(ROWS)
        writer.finish()
    file = pq.ParquetFile(tmp_path / "tags.parquet")
    assert [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)] == [4, 4, 2]


def test_unknown_endings_and_a_missing_extra_are_refused(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"ends in '\.docx'; give a name ending in \.parquet, \.jsonl or \.csv"):
        PredictionWriter(tmp_path / "tags.docx", SETTINGS)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"Writing parquet files needs `pyarrow`: pip install 'hf_xmtc\[train\]'"):
        PredictionWriter(tmp_path / "tags.parquet", SETTINGS)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ending", ["parquet", "jsonl"])
@pytest.mark.parametrize(
    "changes", [{}, {"overwrite": True}, {"resumable": False}, {"settings": {**SETTINGS, "--top_k": 3}}]
)
def test_a_run_killed_when_the_output_has_its_name_leaves_nothing_to_do(tmp_path, monkeypatch, ending, changes):  # AC-73
    output = tmp_path / f"tags.{ending}"
    with monkeypatch.context() as patch:
        patch.setattr(PredictionWriter, "_remove_leftovers", lambda self: (_ for _ in ()).throw(RuntimeError("killed")))
        with pytest.raises(RuntimeError), PredictionWriter(output, SETTINGS) as writer:
            writer.write(ROWS)
            writer.finish()
    assert len(list(tmp_path.iterdir())) > 1 and len(rows_of(output)) == 2
    settings = {"settings": SETTINGS, **changes}
    if "overwrite" in changes:  # it is replaced as asked
        with PredictionWriter(output, **settings) as again:
            assert not again.is_complete
            again.write(ROWS[:1])
            again.finish()
    elif changes:
        with pytest.raises(FileExistsError, match="a run into it has finished"):
            PredictionWriter(output, **settings)
    else:
        with PredictionWriter(output, **settings) as again:
            assert again.is_complete and again.progress.num_documents == 2
            again.finish()
    assert [path.name for path in tmp_path.iterdir()] == [output.name]
    assert len(rows_of(output)) == (1 if "overwrite" in changes else 2)


def test_an_unfinished_run_over_a_finished_output_is_not_taken_for_complete(tmp_path):  # AC-73
    output = tmp_path / "tags.jsonl"
    output.write_text("finished\n")
    with pytest.raises(RuntimeError), PredictionWriter(output, SETTINGS, overwrite=True) as writer:
        writer.write(ROWS[:1])
        raise RuntimeError("killed")
    with pytest.raises(FileExistsError, match="--overwrite"):
        PredictionWriter(output, SETTINGS)
    with PredictionWriter(output, SETTINGS, overwrite=True) as again:
        assert again.progress.num_documents == 1 and not again.is_complete


@pytest.mark.parametrize("ending", ["parquet", "jsonl"])
@pytest.mark.parametrize("left", ["", ".json", ".json.tmp", ".parquet", ".lock"])
def test_what_a_killed_run_has_left_never_blocks(tmp_path, ending, left):  # AC-73
    output = tmp_path / f"tags.{ending}"
    Path(f"{output}.partial{left}").write_text('{"half', encoding="utf-8")
    with PredictionWriter(output, SETTINGS) as writer:
        writer.write(ROWS)
        writer.finish()
    assert len(rows_of(output)) == 2


@pytest.mark.parametrize(
    ("ending", "place", "file"),
    [
        ("jsonl", "os.fsync", ".partial"),
        ("parquet", "os.fsync", ".partial"),
        ("jsonl", "hf_xmtc.commands.prediction_files.write_json", ".partial.json"),
        ("parquet", "pyarrow.parquet.ParquetWriter", ".partial.parquet"),
    ],
)
def test_a_full_disk_is_said_with_the_file(tmp_path, monkeypatch, ending, place, file):
    def refuse(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    output = tmp_path / f"tags.{ending}"
    message = (
        rf"^The disk is full: .*tags\.{ending}{file} could not be written \(.*\)\. Make room and give the same command again"
    )
    with pytest.raises(OSError, match=message), PredictionWriter(output, SETTINGS) as writer:
        monkeypatch.setattr(place, refuse)
        writer.write(ROWS)
        writer.finish()
    monkeypatch.undo()
    with PredictionWriter(output, SETTINGS) as again:
        again.write(ROWS[again.progress.num_documents :])
        again.finish()
    assert len(rows_of(output)) == 2


def test_ids_that_are_not_valid_unicode_go_into_parquet(tmp_path):  # AC-64
    with PredictionWriter(tmp_path / "tags.parquet", SETTINGS, has_ids=True) as writer:
        writer.write([PredictionRow(0, "a\ud800", [], [], [])])
        writer.finish()
    assert rows_of(tmp_path / "tags.parquet")[0]["id"] == "a\ufffd"


def test_a_csv_holds_lists_as_json_and_goes_on_after_an_interruption(tmp_path):
    path = tmp_path / "predictions.csv"
    with PredictionWriter(path, {"--top_k": 2}, has_ids=True) as writer:
        writer.write([PredictionRow(0, "x", [1, 0], ["a, b", 'say "c"'], [0.5, 0.25])])
    with PredictionWriter(path, {"--top_k": 2}, has_ids=True) as writer:
        writer.write([PredictionRow(1, None, [], [], [])])
        writer.finish()
    with open(path, newline="", encoding="utf-8") as file:
        first, second = csv.DictReader(file)
    assert (first["row"], first["id"], json.loads(first["labels"])) == ("0", "x", ["a, b", 'say "c"'])
    assert (second["label_ids"], second["scores"]) == ("[]", "[]")
