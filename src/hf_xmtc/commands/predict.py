"""`hf-xmtc predict`: a file of texts in, a file of ranked labels out, of any size and resumable."""

import hashlib
import logging
import os
import sys
import time
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from hf_xmtc.inference.model_opening import (
    GENERATOR_FOLDER,
    MODEL_FILES,
    WEIGHTS_FILES,
    check_readable,
    choose_device,
    choose_max_length,
    open_model,
)
from hf_xmtc.inference.text_prediction import predict_texts
from hf_xmtc.models.label_names import LABELS_FILE
from hf_xmtc.models.modeling_ensemble import PARTS_FOLDER
from hf_xmtc.retrieval import generator_for

from .document_files import STANDARD_INPUT, DocumentFile
from .file_lock import exclusive
from .filter_ids import FilterIds
from .output_checks import check_other_file
from .predict_options import PredictArguments, option_parser
from .prediction_files import PredictionWriter, Progress, prediction_rows
from .processes import usable_cores

__all__ = ["PredictArguments", "PredictSummary", "main", "predict_file", "predict_texts"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class PredictSummary:
    """Counts and times of a run of `predict_file`.

    Attributes:
        total: Everything in the output, earlier runs included.
        num_documents: Documents tagged by this run.
        seconds: Time it took, without opening the model.
        max_length: Tokens after which a text was cut; None where the model has no limit.
        was_complete: True if the output was complete already: a run with the same settings was killed while it removed its state.
        unused: Sentences on columns and labels of the input that were not used.
    """

    total: Progress
    num_documents: int
    seconds: float
    max_length: int | None
    was_complete: bool = False
    unused: tuple[str, ...] = ()

    def describe(self) -> str:
        """The run in a few lines; the last has documents, seconds and documents per second."""
        total, complete = self.total, "The output is complete: the last run was stopped when it had written all"
        if self.was_complete:
            return f"{complete} {total.num_documents:,} documents"
        counts = (
            (total.num_without_text, "have no text (empty or null); their labels are those of an empty text."),
            (total.num_not_unicode, "are not valid Unicode (lone surrogates, each of which was read as U+FFFD)."),
            (total.num_truncated, f"were cut at {self.max_length} tokens."),
            (total.num_without_labels, "got no label: none is likely enough."),
        )
        lines = [] if total.num_documents else ["The input is empty, and so is the output."]
        lines += [f"{count:,} of {total.num_documents:,} documents {outcome}" for count, outcome in counts if count]
        lines += self.unused
        if total.num_documents > self.num_documents:
            lines.append(f"{total.num_documents - self.num_documents:,} documents had been done by an interrupted run.")
        speed = self.num_documents / self.seconds if self.seconds else 0.0
        lines.append(f"{self.num_documents:,} documents in {self.seconds:.1f} s, {speed:,.1f} documents per second")
        return "\n".join(lines)


def main(argv: list[str] | None = None) -> None:
    """Entry point of ``scripts/predict.py`` and ``hf-xmtc predict``.

    Args:
        argv: Arguments without the program's name; those of the process by default.
    """
    namespace = option_parser().parse_args(argv)
    logging.basicConfig(format="%(message)s")
    logging.getLogger("hf_xmtc").setLevel(logging.INFO)  # how the input is read; other packages stay at warnings
    try:
        settings = PredictArguments(**vars(namespace))
        if choose_device(settings.device).type == "cpu":
            # A launcher such as `accelerate launch` gives a process one thread, which leaves most of the machine idle.
            torch.set_num_threads(settings.num_threads or usable_cores())
        summary = predict_file(settings, show_progress=True)
    except (ImportError, OSError, ValueError) as error:
        # What the user can mend is said in one paragraph; everything else keeps its traceback.
        raise SystemExit(f"{type(error).__name__}: {error}") from error
    except KeyboardInterrupt:
        start_over = "start over" if settings.input == STANDARD_INPUT else "go on where this run stopped"
        print(f"Interrupted. Repeat the command to {start_over}.", file=sys.stderr)
        raise SystemExit(130) from None
    print(f"{summary.describe()}: {settings.output}")


def predict_file(settings: PredictArguments, *, show_progress: bool = False) -> PredictSummary:
    """Tag every document of a file.

    The input is read, tagged and written in chunks, so memory does not grow with it. The output is complete once it has
    its name; until then a run with the same settings goes on where an interrupted one stopped (see `PredictionWriter`).
    What comes from standard input cannot be recognised again, so such a run starts over.

    Args:
        settings: Model, files and how to predict.
        show_progress: Show a progress bar on a terminal.

    Returns:
        Counts and times. Rows of the output: ``row`` (from 0, in input order), ``id`` (with an id column), ``label_ids``,
        ``labels``, ``scores``, ``names`` (if asked for).

    Raises:
        FileNotFoundError: If there is no such input or model folder.
        FileExistsError: If the output is finished.
        InUseError: If another run is writing it.
        ValueError: If a setting, the input or the model folder is not usable, an unfinished output has other settings, or the
            model's scores are not finite.
        ImportError: If a parquet file is asked for and ``pyarrow`` is missing.
    """
    _check_one_process()
    documents = DocumentFile(
        settings.input, settings.input_format, settings.text_column, settings.id_column, settings.encoding
    )
    for note in documents.notes:
        logger.info(note)
    device = choose_device(settings.device)
    check_readable(settings.model)
    check_other_file(settings.output, settings.input)
    # Two runs would mix their rows.
    with exclusive(Path(f"{settings.output}.partial.lock"), f"The output {settings.output}"):
        return _predict_file(settings, documents, device, show_progress)


def _predict_file(
    settings: PredictArguments, documents: DocumentFile, device: torch.device, show_progress: bool
) -> PredictSummary:
    writer = PredictionWriter(
        settings.output,
        _deciding_settings(settings, documents),
        has_ids=settings.id_column is not None,
        has_names=settings.with_names,
        id_type=documents.id_type,
        overwrite=settings.overwrite,
        resumable=not documents.from_standard_input,
    )
    with writer:
        if writer.is_complete:
            return PredictSummary(writer.progress, 0, 0.0, None, was_complete=True)
        done = writer.progress.num_documents
        chunks = documents.chunks(settings.chunk_size, skip=done)
        first = next(chunks, None)  # a wrong column is found before the model is opened
        model, tokenizer = open_model(settings.model, settings.revision, settings.trust_remote_code)
        model.to(device)
        generator = generator_for(model, settings.model, settings.revision)
        names = model.config.label_names
        max_length = choose_max_length(model, tokenizer, settings.max_length)
        filters_of = FilterIds(Path(settings.input).parent, names)
        started = time.monotonic()
        with tqdm(
            initial=done, total=documents.num_documents, unit=" documents", disable=None if show_progress else True
        ) as progress_bar:
            for chunk in chain([] if first is None else [first], chunks):
                top_labels, top_scores, num_truncated = predict_texts(
                    model,
                    tokenizer,
                    chunk.texts,
                    candidates=generator and generator.candidates(chunk.texts, model.config.num_candidates),
                    filters=filters_of(chunk.filters),
                    top_k=settings.top_k,
                    threshold=settings.threshold,
                    batch_size=settings.batch_size,
                    max_length=max_length,
                )
                start = writer.progress.num_documents
                rows = prediction_rows(
                    chunk.ids, start, top_labels, top_scores, names, settings.min_score, settings.with_names
                )
                writer.write(rows, chunk.num_without_text, num_truncated, chunk.num_not_unicode)
                progress_bar.update(len(rows))
        writer.finish()
    total = writer.progress
    seconds = time.monotonic() - started
    return PredictSummary(total, total.num_documents - done, seconds, max_length, unused=tuple(documents.unused()))


def _check_one_process() -> None:
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    if processes > 1:
        raise ValueError(
            f"{processes} processes were started, and each would write the same file. Start predict with plain python: one "
            "process uses all cores of a CPU, or one GPU. For several GPUs split the input into one file for each."
        )


def _deciding_settings(settings: PredictArguments, documents: DocumentFile) -> dict[str, Any]:
    """Everything that decides the rows of the output; a run may only go on where all of it is the same."""
    names = "model revision trust_remote_code input encoding text_column id_column top_k min_score threshold max_length with_names"
    deciding = {f"--{name}": getattr(settings, name) for name in names.split()}
    deciding["--input_format"] = documents.format
    if not documents.from_standard_input:
        deciding["--input"] = str(Path(settings.input).resolve())
        deciding["the input file"] = _input_identity(documents)
    folder = Path(settings.model)
    if folder.is_dir():
        deciding["--model"] = str(folder.resolve())
        files = [folder / name for name in (*MODEL_FILES, *WEIGHTS_FILES, LABELS_FILE)]
        for path in (*files, *sorted(folder.glob(f"{GENERATOR_FOLDER}/**/*")), *sorted(folder.glob(f"{PARTS_FOLDER}/*/*"))):
            if path.is_file():
                deciding[f"the model's {path.relative_to(folder).as_posix()}"] = _file_identity(path)
    return deciding


def _input_identity(documents: DocumentFile) -> str:
    """That of the file, or of all files of a folder; the folder itself changes with every output beside them."""
    if documents.format != "annif-folder":
        return _file_identity(Path(documents.path))
    lines = "".join(f"{path.name} {_file_identity(path)}\n" for path in documents.files)
    return f"{len(documents.files)} files, {hashlib.blake2b(lines.encode('utf-8', 'surrogateescape'), digest_size=16).hexdigest()}"


def _file_identity(path: Path) -> str:
    status = path.stat()
    changed = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(status.st_mtime))
    return f"{status.st_size} bytes of {changed}.{status.st_mtime_ns % 10**9:09d} UTC"
