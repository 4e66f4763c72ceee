"""`hf-xmtc predict`: interrupted runs, and standard input."""

import os
import shutil
import sys
from io import BufferedReader, BytesIO, RawIOBase
from pathlib import Path

import pytest
from predicted import TEXTS, rows_of, run

from hf_xmtc.commands import predict
from hf_xmtc.commands.file_lock import InUseError
from hf_xmtc.commands.predict import predict_texts
from hf_xmtc.commands.prediction_files import PredictionWriter


class _PowerFailure(Exception):
    pass


@pytest.fixture
def fail_at(monkeypatch):
    """Let the n-th chunk fail; without a number none does. Gives the list of chunk sizes that were predicted."""

    def install(number: int | None = None) -> list[int]:
        sizes: list[int] = []

        def predict_or_fail(model, tokenizer, texts, **options):
            if len(sizes) + 1 == number:
                raise _PowerFailure
            sizes.append(len(texts))
            return predict_texts(model, tokenizer, texts, **options)

        monkeypatch.setattr(predict, "predict_texts", predict_or_fail)
        return sizes

    return install


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_an_interrupted_run_goes_on_where_it_stopped(settings, tmp_path, fail_at, ending):
    output, whole = tmp_path / f"tags.{ending}", tmp_path / f"whole.{ending}"
    run(settings, output=str(whole), chunk_size=2)
    fail_at(2)
    with pytest.raises(_PowerFailure):
        run(settings, output=str(output), chunk_size=2)
    assert not output.exists()
    sizes = fail_at()
    summary = run(settings, output=str(output), chunk_size=2)
    assert sizes == [2, 2, 1]
    assert (summary.num_documents, summary.total.num_documents) == (5, 7)
    assert "2 documents had been done by an interrupted run" in summary.describe()
    assert rows_of(output) == rows_of(whole)
    assert {path.name for path in tmp_path.iterdir()} == {"texts.txt", output.name, whole.name}


def test_runs_over_labelled_files_and_folders_of_texts_go_on_too(settings, tmp_path, fail_at):
    run(settings, input_format="txt")
    (tmp_path / "labelled.txt").write_text("".join(f"__label__a {text}\n" for text in TEXTS), encoding="utf-8")
    (tmp_path / "folder").mkdir()
    for i, text in enumerate(TEXTS):
        (tmp_path / "folder" / f"{i}.txt").write_text(text, encoding="utf-8")
        (tmp_path / "folder" / f"{i}.key").write_text("a\n")
    for name in ("labelled.txt", "folder"):
        changes = {"input": str(tmp_path / name), "output": str(tmp_path / name.partition(".")[0] / "tags.jsonl")}
        fail_at(2)
        with pytest.raises(_PowerFailure):
            run(settings, **changes)
        assert fail_at() == []
        summary = run(settings, **changes)
        assert (summary.num_documents, summary.total.num_documents) == (3, 7)
        assert summary.unused == ("The labels of 7 documents are not used.",)
        assert summary.unused[0] in summary.describe()
        assert [row["labels"] for row in rows_of(changes["output"])] == [
            row["labels"] for row in rows_of(settings["output"])
        ]


def test_a_run_over_a_folder_whose_texts_have_changed_is_refused(settings, tmp_path, fail_at):
    (tmp_path / "folder").mkdir()
    for i in range(6):
        (tmp_path / "folder" / f"{i}.txt").write_text("sound")
    fail_at(2)
    with pytest.raises(_PowerFailure):
        run(settings, input=str(tmp_path / "folder"))
    (tmp_path / "folder" / "5.txt").write_text("music")
    os.utime(tmp_path / "folder" / "5.txt", ns=(1, 1))
    with pytest.raises(ValueError, match="the input file was '6 files, .*' and is '6 files, "):
        run(settings, input=str(tmp_path / "folder"))


def test_a_run_killed_while_it_finishes_only_has_to_finish(settings, tmp_path, fail_at, monkeypatch):
    output = str(tmp_path / "tags.parquet")
    with monkeypatch.context() as patch:
        patch.setattr("pyarrow.parquet.ParquetWriter", None)
        with pytest.raises(TypeError):
            run(settings, output=output)
    sizes = fail_at()
    run(settings, output=output)
    assert sizes == []
    assert [row["row"] for row in rows_of(output)] == list(range(7))


def test_two_runs_into_one_output_are_not_mixed(settings, fail_at, monkeypatch):  # AC-73
    fail_at()
    alone = predict.predict_texts

    def start_another(*arguments, **options):
        with monkeypatch.context() as patch:
            patch.setattr(predict, "predict_texts", alone)
            with pytest.raises(InUseError, match=r"The output .*tags\.jsonl is being written by another run \(process"):
                run(settings, top_k=1)
        return alone(*arguments, **options)

    monkeypatch.setattr(predict, "predict_texts", start_another)
    run(settings)
    assert [(row["row"], len(row["labels"])) for row in rows_of(settings["output"])] == [(i, 3) for i in range(7)]
    assert [path.name for path in Path(settings["output"]).parent.glob("tags*")] == ["tags.jsonl"]


def test_a_run_killed_at_its_very_end_is_said_to_be_complete(settings, monkeypatch):  # AC-73
    with monkeypatch.context() as patch:
        patch.setattr(PredictionWriter, "_remove_leftovers", lambda self: (_ for _ in ()).throw(_PowerFailure))
        with pytest.raises(_PowerFailure):
            run(settings)
    before = Path(settings["output"]).read_bytes()
    assert run(settings).describe() == "The output is complete: the last run was stopped when it had written all 7 documents"
    assert Path(settings["output"]).read_bytes() == before
    assert [path.name for path in Path(settings["output"]).parent.glob("tags*")] == ["tags.jsonl"]


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({"top_k": 2}, "--top_k was 3 and is 2"),
        ({"min_score": 0.5}, "--min_score was 0.0 and is 0.5"),
        ({"with_names": True}, "--with_names was False and is True"),
    ],
)
def test_an_unfinished_run_with_other_settings_is_refused(settings, fail_at, change, difference):
    fail_at(2)
    with pytest.raises(_PowerFailure):
        run(settings)
    fail_at()
    with pytest.raises(ValueError, match=difference):
        run(settings, **change)
    assert run(settings, batch_size=1, chunk_size=2).num_documents == 3  # speed settings decide nothing


def test_an_unfinished_run_over_another_input_or_model_is_refused(settings, tmp_path, texts, fail_at):
    settings["model"] = shutil.copytree(settings["model"], tmp_path / "model")
    fail_at(2)
    with pytest.raises(_PowerFailure):
        run(settings)
    fail_at()
    content = texts.read_text(encoding="utf-8")
    times = texts.stat()
    texts.write_text(content + "one more\n", encoding="utf-8")
    with pytest.raises(ValueError, match="the input file was '.* bytes of .*' and is '"):
        run(settings)
    texts.write_text(content, encoding="utf-8")
    os.utime(texts, ns=(times.st_atime_ns, times.st_mtime_ns))
    os.utime(tmp_path / "model" / "model.safetensors", ns=(1, 1))
    with pytest.raises(ValueError, match="the model's model.safetensors was"):
        run(settings)


def test_standard_input_is_tagged_but_starts_over(settings, monkeypatch, texts, fail_at):
    monkeypatch.setattr(sys, "stdin", type("Stdin", (), {"buffer": BytesIO(texts.read_bytes())})())
    fail_at(2)
    with pytest.raises(_PowerFailure):
        run(settings, input="-", input_format="txt")
    monkeypatch.setattr(sys, "stdin", type("Stdin", (), {"buffer": BytesIO(texts.read_bytes())})())
    assert fail_at() == []
    assert run(settings, input="-", input_format="txt").num_documents == 7
    assert [row["row"] for row in rows_of(settings["output"])] == list(range(7))


def test_rows_are_on_disk_before_the_next_documents_are_read(settings, monkeypatch):
    """Memory stays constant: a chunk is written before the input is read further."""
    partial = Path(settings["output"] + ".partial")
    written_when_read = []

    class Lines(RawIOBase):
        lines = iter([b"sound\n"] * 6)

        def readable(self):
            return True

        def readinto(self, buffer):
            written_when_read.append(partial.read_bytes().count(b"\n"))
            line = next(self.lines, b"")
            buffer[: len(line)] = line
            return len(line)

    monkeypatch.setattr(sys, "stdin", type("Stdin", (), {"buffer": BufferedReader(Lines())})())
    run(settings, input="-", input_format="txt", chunk_size=2)
    # Two lines a chunk and one look at the end of the input.
    assert written_when_read == [0, 0, 2, 2, 4, 4, 6]
