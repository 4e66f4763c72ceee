"""Predictions into a parquet, JSON lines or csv file, chunk by chunk, so that an interrupted run can go on."""

import csv
import io
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from hf_xmtc.disk import name_file, replace_file
from hf_xmtc.file_checks import read_json_object
from hf_xmtc.models.document_tokens import replace_surrogates
from hf_xmtc.models.label_names import LabelNames
from hf_xmtc.strict_json import json_text

from .document_files import import_pyarrow
from .json_files import write_json
from .predict_options import check_output_name

__all__ = ["PredictionRow", "PredictionWriter", "Progress", "prediction_rows"]


_ROW_GROUP_ROWS = 65_536


@dataclass
class PredictionRow:
    """The labels of one document: a line of the output.

    Attributes:
        row: Number of the document in the input, from 0.
        id: Id of the document, if the input has ids.
        label_ids: Label ids, best first.
        labels: Their labels.
        scores: Their scores, after the sigmoid.
        names: Their names for readers, if they are written.
    """

    row: int
    id: Any
    label_ids: list[int]
    labels: list[str]
    scores: list[float]
    names: list[str] | None = None


def prediction_rows(
    ids: list[Any] | None,
    start: int,
    top_labels: np.ndarray,
    top_scores: np.ndarray,
    names: LabelNames,
    min_score: float,
    with_names: bool,
) -> list[PredictionRow]:
    """Rows of the output for documents that were predicted together.

    Args:
        ids: The documents' ids, N, or None.
        start: Number of the first document in the input.
        top_labels: Label ids (N, K) best first, negative where there is none.
        top_scores: Their scores, (N, K).
        names: Names of the model's labels.
        min_score: Labels with a lower score are left out.
        with_names: Add the names for readers.
    """
    rows = []
    for i in range(len(top_labels)):
        is_best = (top_scores[i] >= min_score) & (top_labels[i] >= 0)
        label_ids = top_labels[i, is_best].tolist()
        labels = [names[label_id] for label_id in label_ids]
        for_readers = [names.name_of(label_id) for label_id in label_ids] if with_names else None
        document_id = ids[i] if ids is not None else None
        rows.append(PredictionRow(start + i, document_id, label_ids, labels, top_scores[i, is_best].tolist(), for_readers))
    return rows


@dataclass
class Progress:
    """Counts of the rows written so far, all runs together.

    Attributes:
        num_documents: Documents written.
        num_bytes: Bytes of the unfinished file that hold them.
        num_without_text: Documents whose text was empty or missing.
        num_truncated: Documents that were cut at the model's limit.
        num_without_labels: Documents that no label was good enough for.
        num_not_unicode: Documents whose text held lone surrogates.
    """

    num_documents: int = 0
    num_bytes: int = 0
    num_without_text: int = 0
    num_truncated: int = 0
    num_without_labels: int = 0
    num_not_unicode: int = 0


class PredictionWriter:
    """Write predictions in order; the output appears under its name only when it is complete.

    Until then rows are appended to ``OUTPUT.partial`` (for parquet, which cannot be appended to, as an Arrow stream), and
    ``OUTPUT.partial.json`` says after each chunk how far it is and with which settings. A writer with the same settings
    goes on from there; whatever an interruption left behind the last complete chunk is cut off. Two writers of one output are kept apart
    by `hf_xmtc.commands.file_lock`, not here.

    Args:
        output: The file; its ending says parquet, jsonl or csv.
        settings: Everything that decides what the rows are; JSON values, named as the user knows them.
        has_ids: True if rows have ids.
        has_names: True if they have the labels' names.
        id_type: Arrow type of the ids in a parquet file; None writes them as strings.
        overwrite: Replace a finished output, and drop an unfinished one of other settings.
        resumable: Go on from an unfinished output of the same settings; False starts it over.

    Attributes:
        progress: Counts so far.
        is_complete: True if a run with the same settings was killed when the output had its name already; nothing is left to write.

    Raises:
        FileExistsError: If the output is finished.
        ValueError: If the ending is unknown, or there is an unfinished output of other settings, or a damaged one.
        ImportError: If parquet is asked for and ``pyarrow`` is missing.
    """

    def __init__(
        self,
        output: str | Path,
        settings: dict[str, Any],
        *,
        has_ids: bool = False,
        has_names: bool = False,
        id_type: Any = None,
        overwrite: bool = False,
        resumable: bool = True,
    ):
        self.output = Path(output)
        self.format = self.output.suffix.lower().lstrip(".")
        self.settings, self.has_ids = settings, has_ids
        self._left_out = {name for name, there in (("id", has_ids), ("names", has_names)) if not there}
        check_output_name(output)
        self._schema = self._build_schema(id_type) if self.format == "parquet" else None
        self._ids_as_text = self.format == "parquet" and id_type is None
        self.partial = self.output.with_name(self.output.name + ".partial")
        self._state_file = self.output.with_name(self.output.name + ".partial.json")
        # What gets the output's name in the end.
        self._result = self.partial if self._schema is None else self.output.with_name(self.output.name + ".partial.parquet")
        self.progress, self.is_complete = self._read_progress(overwrite, resumable)
        self._file = None
        if self.is_complete:
            return
        if self.output.exists() and not overwrite:
            raise FileExistsError(
                f"{output} exists already: a run into it has finished. Name another --output, or replace it by --overwrite."
            )
        self.output.parent.mkdir(parents=True, exist_ok=True)
        self._write_state()
        self._file = open(self.partial, "r+b" if self.partial.exists() else "w+b")  # noqa: SIM115, closed in __exit__
        self._file.truncate(self.progress.num_bytes)
        self._file.seek(self.progress.num_bytes)
        if self._schema is not None and not self.progress.num_bytes:
            self._append(self._schema.serialize())
        elif self.format == "csv" and not self.progress.num_bytes:
            self._append(_csv_lines([self._columns]))

    def __enter__(self) -> "PredictionWriter":
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if self._file is not None:
            try:
                self._file.close()
            except OSError:  # it tries once more to write what a full disk has refused
                if error is None:
                    raise
        if self._state_file.exists() and not self.progress.num_documents:
            self._remove_leftovers()  # nothing in them is worth going on from

    def write(
        self, rows: Sequence[PredictionRow], num_without_text: int = 0, num_truncated: int = 0, num_not_unicode: int = 0
    ) -> None:
        """Append a chunk of rows; once this returns, no interruption loses them."""
        self.progress.num_documents += len(rows)
        self.progress.num_without_text += num_without_text
        self.progress.num_truncated += num_truncated
        self.progress.num_not_unicode += num_not_unicode
        self.progress.num_without_labels += sum(not row.label_ids for row in rows)
        if self.format == "csv":
            self._append(_csv_lines([self._as_cells(row) for row in rows]))
        else:
            self._append(self._as_json_lines(rows) if self._schema is None else self._as_record_batch(rows).serialize())

    def finish(self) -> None:
        """Give the complete output its name."""
        if self.is_complete:
            return
        self._file.close()
        if self._schema is not None:
            with name_file(self._result):
                self._stream_to_parquet(self._result)
        # From here on the output is complete as soon as the result has its name.
        self._write_state(finished=True)
        with name_file(self._result):
            replace_file(self._result, self.output)
        self._remove_leftovers()

    def _remove_leftovers(self) -> None:
        # The state last: as long as it is there, what the others are is known.
        for path in (self.partial, self._result, self._state_file):
            path.unlink(missing_ok=True)

    # ---- going on --------------------------------------------------------------------------------------------------------

    def _read_progress(self, overwrite: bool, resumable: bool) -> tuple[Progress, bool]:
        """Progress of an earlier run, and True if its output is complete."""
        if not self._state_file.exists():
            return Progress(), False
        try:
            state = read_json_object(self._state_file)
            progress, earlier = Progress(**state["progress"]), state["settings"]
        except (ValueError, KeyError, TypeError) as error:
            if overwrite or self.output.exists() or not self.partial.exists():
                return Progress(), False
            raise ValueError(
                f"{self._state_file}, the state of an unfinished run, cannot be read ({error!r}). Delete it to start over."
            ) from error
        different = [
            f"{name} was {earlier.get(name)!r} and is {self.settings.get(name)!r}"
            for name in {**earlier, **self.settings}
            if earlier.get(name) != self.settings.get(name)
        ]
        if state.get("finished") and self.output.exists() and not self._result.exists():
            self._remove_leftovers()
            is_complete = resumable and not (different or overwrite)
            return (progress, True) if is_complete else (Progress(), False)
        if self.output.exists() and not overwrite:  # refused next
            return Progress(), False
        if not self.partial.exists() or not progress.num_documents or (different and overwrite):
            return Progress(), False
        if different:
            raise ValueError(
                f"{self.partial} is the unfinished output of another run, {progress.num_documents} documents long: "
                f"{'; '.join(different)}. Repeat that run to finish it, name another --output, or drop it with --overwrite."
            )
        if not resumable:
            return Progress(), False
        size = self.partial.stat().st_size
        if size < progress.num_bytes:
            raise ValueError(
                f"{self.partial} has {size:,} bytes but {self._state_file.name} says {progress.num_bytes:,} were written. "
                "Was it copied while a run was writing? Delete both files to start over."
            )
        return progress, False

    def _append(self, content: Any) -> None:
        # First the rows, then the word that they are there: in this order no interruption can count a row that is lost.
        with name_file(self.partial):
            self._file.write(content)
            self._file.flush()
            os.fsync(self._file.fileno())
        self.progress.num_bytes = self._file.tell()
        self._write_state()

    def _write_state(self, finished: bool = False) -> None:
        with name_file(self._state_file):
            state = {"progress": asdict(self.progress), "settings": self.settings}
            write_json(self._state_file, {**state, "finished": True} if finished else state)

    # ---- formats ---------------------------------------------------------------------------------------------------------

    def _as_json_lines(self, rows: Sequence[PredictionRow]) -> bytes:
        lines = []
        for row in rows:
            values = asdict(row)
            values = {name: value for name, value in values.items() if name not in self._left_out}
            # Dates and decimals of a parquet file's ids become text, which JSON has no types for.
            lines.append(json_text(values, default=str) + "\n")
        return "".join(lines).encode("utf-8", "backslashreplace")

    @property
    def _columns(self) -> list[str]:
        return [entry.name for entry in fields(PredictionRow) if entry.name not in self._left_out]

    def _as_cells(self, row: PredictionRow) -> list[Any]:
        """Lists as JSON, so that labels with commas can be told apart."""
        values = [getattr(row, name) for name in self._columns]
        return [json_text(value) if isinstance(value, list) else value for value in values]

    def _build_schema(self, id_type: Any) -> Any:
        pa = import_pyarrow("Writing parquet files")
        columns = [
            ("row", pa.int64()),
            ("id", id_type or pa.string()),
            ("label_ids", pa.list_(pa.int32())),
            ("labels", pa.list_(pa.string())),
            ("scores", pa.list_(pa.float32())),
            ("names", pa.list_(pa.string())),
        ]
        return pa.schema([column for column in columns if column[0] not in self._left_out])

    def _as_record_batch(self, rows: Sequence[PredictionRow]) -> Any:
        pa = import_pyarrow("Writing parquet files")
        columns = {name: [getattr(row, name) for row in rows] for name in self._schema.names}
        if self._ids_as_text and self.has_ids:
            columns["id"] = [value if value is None else replace_surrogates(str(value)) for value in columns["id"]]
        return pa.record_batch([pa.array(columns[field.name], field.type) for field in self._schema], schema=self._schema)

    def _stream_to_parquet(self, target: Path) -> None:
        pa = import_pyarrow("Writing parquet files")
        import pyarrow.parquet as pq

        with pa.ipc.open_stream(self.partial) as stream, pq.ParquetWriter(target, self._schema) as writer:
            waiting: list[Any] = []
            for batch in stream:
                waiting.append(batch)
                if sum(part.num_rows for part in waiting) >= _ROW_GROUP_ROWS:
                    writer.write_table(pa.Table.from_batches(waiting))
                    waiting = []
            writer.write_table(pa.Table.from_batches(waiting, schema=self._schema))


def _csv_lines(rows: Sequence[Sequence[Any]]) -> bytes:
    lines = io.StringIO(newline="")
    csv.writer(lines, lineterminator="\n").writerows(rows)
    return lines.getvalue().encode("utf-8", "backslashreplace")
