"""Measurements of ``training_speed.py``: a sample of an epoch, inference, quality, and the memory of one step.

A model is trained in one of the ways of `WAYS`: as `XMTCTrainer` does it, or with the structure of the authors' code (`AuthorsTrainer`),
with their layers or ours. All measurements return plain numbers.
"""

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import transformers
from datasets import Dataset, DatasetDict
from transformers import PreTrainedTokenizerFast, PrinterCallback, TrainerCallback

from authors_structure import AuthorsTrainer, authors_settings
from hf_xmtc.commands.families import family_named
from hf_xmtc.data import label_info_of, load_xmtc_dataset, tokenize_dataset
from hf_xmtc.models.label_names import LabelNames
from hf_xmtc.tokenization import train_word_tokenizer
from hf_xmtc.training.arguments import XMTCTrainingArguments
from hf_xmtc.training.document_order import document_lengths
from hf_xmtc.training.trainer import XMTCTrainer

__all__ = [
    "AUTHORS",
    "OURS",
    "OUR_LAYERS",
    "WAYS",
    "Data",
    "Model",
    "epoch_batches",
    "load_data",
    "measure_quality",
    "measure_speed",
    "sample_batches",
    "ways_of",
]

OURS, AUTHORS, OUR_LAYERS = "ours", "authors", "our_layers"
# Titles of the ways, in the order of the tables.
WAYS = {AUTHORS: "authors' structure", OUR_LAYERS: "the same on our layers", OURS: "ours"}

# Steps before the measured ones of a sample: the first makes the optimizer's state.
WARM_UP_STEPS = 2
NUM_CLS_TOKENS = 5  # of BertXML
# Families whose authors have sparse gradients for the word embedding; ours has them everywhere.
SPARSE_AUTHORS = ("attentionxml", "meshprobenet", "xmlcnn", "xmlrnn")


@dataclass(frozen=True)
class Model:
    """A model to train.

    Attributes:
        family: Its name for ``--model_family``.
        max_length_tokens: Words after which a text is cut, and to which the authors' structure pads it.
        settings: Fields of the config, where the family's defaults are not wanted.
    """

    family: str
    max_length_tokens: int
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def num_cls_tokens(self) -> int:
        """CLS tokens before every text, in addition to its words."""
        return NUM_CLS_TOKENS if self.family == "bertxml" else 0


def ways_of(family: str) -> tuple[str, ...]:
    """The ways that differ for a family: BertXML's layers are the authors'."""
    return (AUTHORS, OURS) if family == "bertxml" else tuple(WAYS)


@dataclass(frozen=True)
class Data:
    """A data set, tokenized for a model.

    Attributes:
        name: Name of the data set.
        labels: Its labels.
        tokenizer: Trained on its training texts.
        splits: Token ids and label ids.
        max_length_tokens: The longest document there may be, CLS tokens included.
    """

    name: str
    labels: LabelNames
    tokenizer: PreTrainedTokenizerFast
    splits: DatasetDict
    max_length_tokens: int


def load_data(dataset: str, model: Model) -> Data:
    """Load a data set (a folder, ``demo`` or a Hub id) and tokenize it as ``scripts/train.py`` does by default."""
    loaded = load_xmtc_dataset(dataset)
    info = label_info_of(loaded)
    length = model.max_length_tokens + model.num_cls_tokens
    tokenizer = train_word_tokenizer(
        loaded["train"]["text"], min_document_frequency=2, max_length=length, num_cls_tokens=model.num_cls_tokens
    )
    splits, _ = tokenize_dataset(loaded, tokenizer, length)
    return Data(info.source, info.names, tokenizer, splits, length)


def measure_speed(
    way: str, model: Model, data: Data, batch_size: int, steps: int | None, inference_documents: int, seed: int
) -> dict[str, Any]:
    """Measure training steps and inference of a new model.

    Args:
        way: Key of `WAYS`.
        model: The model.
        data: Data for it.
        batch_size: Documents per step, in training and inference.
        steps: Steps to sample from an epoch; None for the whole epoch.
        inference_documents: Documents of the test split to tag.
        seed: Seed of the order of documents and of the sample.

    Returns:
        Milliseconds of each step, by the clock and of all cores; the documents in all of them and in an epoch, and seconds of inference with its documents.
    """
    rows, sampling, times = data.splits["train"], None, _StepTimes()
    if steps is not None:
        lengths = document_lengths(rows)
        chosen = sample_batches(epoch_batches(lengths, batch_size, seed), lengths, steps, seed)
        rows, sampling = rows.select(np.concatenate([*chosen[:WARM_UP_STEPS], *chosen])), "sequential"
    with tempfile.TemporaryDirectory() as folder:
        trainer = _make_trainer(way, model, data, rows, folder, batch_size, seed, sampling=sampling)
        trainer.add_callback(times)
        trainer.train()
        skipped = 0 if steps is None else min(WARM_UP_STEPS, len(chosen))
        measured = times.milliseconds[skipped:]
        return {
            "step_ms": measured[:, 0].tolist(),
            "step_cpu_ms": measured[:, 1].tolist(),
            "documents": len(rows) - skipped * batch_size,
            "epoch_documents": len(data.splits["train"]),
            **_measure_inference(trainer, data.splits["test"], inference_documents, seed),
        }


def _measure_inference(trainer: XMTCTrainer, rows: Dataset, count: int, seed: int) -> dict[str, float]:
    chosen = np.random.default_rng(seed).permutation(len(rows))[:count]
    texts = rows.select(chosen).remove_columns("labels")  # without labels there are no loss and no metrics
    trainer.predict(texts.select(range(min(trainer.args.eval_batch_size, len(texts)))))
    start = time.perf_counter()
    trainer.predict(texts)
    return {"inference_seconds": time.perf_counter() - start, "inference_documents": len(texts)}


def measure_quality(way: str, model: Model, data: Data, batch_size: int, epochs: int, seed: int) -> dict[str, Any]:
    """Train a new model for some epochs and evaluate it on the validation split.

    Returns:
        Metrics as fractions, and seconds per epoch.
    """
    with tempfile.TemporaryDirectory() as folder:
        trainer = _make_trainer(way, model, data, data.splits["train"], folder, batch_size, seed, epochs)
        start = time.perf_counter()
        trainer.train()
        seconds = time.perf_counter() - start
        metrics = trainer.evaluate(data.splits["validation"])
    wanted = ("nDCG@5", "P@1", "P@5", "PSP@5")
    return {"seconds_per_epoch": seconds / epochs, **{name: metrics[f"eval_{name}"] for name in wanted}}


def _make_trainer(
    way: str,
    model: Model,
    data: Data,
    rows: Dataset,
    folder: str,
    batch_size: int,
    seed: int,
    epochs: int = 1,
    sampling: str | None = None,
) -> XMTCTrainer:
    """A trainer with a new model; all ways start from the same weights and have the same optimizer and settings."""
    transformers.set_seed(seed)
    config_class, model_class = family_named(model.family)
    structure = authors_settings(model.family, data.max_length_tokens) if way != OURS else {}
    config = config_class.for_tokenizer(
        data.tokenizer, label_names=data.labels, **{"cornet_num_blocks": 0, **structure, **model.settings}
    )
    args = XMTCTrainingArguments(
        output_dir=folder,
        per_device_train_batch_size=batch_size,
        per_device_eval_batch_size=batch_size,
        num_train_epochs=epochs,
        train_sampling_strategy=sampling or "random",
        sparse_embeddings=way == OURS or model.family in SPARSE_AUTHORS,
        eval_strategy="no",
        save_strategy="no",
        load_best_model_at_end=False,
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
        seed=seed,
    )
    given = {"train_dataset": rows, "processing_class": data.tokenizer}
    if way == OURS:
        trainer = XMTCTrainer(model_class(config), args, **given)
    else:
        given.update(max_length_tokens=data.max_length_tokens, our_layers=way == OUR_LAYERS)
        trainer = AuthorsTrainer(model_class(config), args, **given)
    trainer.remove_callback(PrinterCallback)
    return trainer


class _StepTimes(TrainerCallback):
    """Time from one step's end to the next one's, so that making the batches counts."""

    def on_train_begin(self, args, state, control, **kwargs):
        self.marks = [_clocks()]

    def on_step_end(self, args, state, control, **kwargs):
        self.marks.append(_clocks())

    @property
    def milliseconds(self) -> np.ndarray:
        """Of the clock and of all the process's cores, (steps, 2)."""
        return 1000 * np.diff(self.marks, axis=0)


def _clocks() -> tuple[float, float]:
    """Seconds of the clock, and of this process on all cores, which other processes lengthen less."""
    return time.perf_counter(), time.process_time()


# ---- a sample of an epoch --------------------------------------------------------------------------------------------------


def epoch_batches(lengths: np.ndarray, batch_size: int, seed: int) -> list[np.ndarray]:
    """Documents of every batch of an epoch, at random."""
    order = np.random.default_rng(seed).permutation(len(lengths))
    return [order[start : start + batch_size] for start in range(0, len(order), batch_size)]


def sample_batches(batches: Sequence[np.ndarray], lengths: np.ndarray, count: int, seed: int) -> list[np.ndarray]:
    """Batches that stand for an epoch: every so many in the order of their longest documents, from a random place on.

    A last, incomplete batch is left out. The result is in random order.

    Args:
        batches: Documents of each batch.
        lengths: Tokens of each document.
        count: Batches to choose; all where there are not so many.
        seed: Seed of the choice.
    """
    whole = [batch for batch in batches if len(batch) == len(batches[0])]
    by_length = sorted(whole, key=lambda batch: int(lengths[batch].max()))
    count = min(count, len(whole))
    random = np.random.default_rng(seed)
    places = ((random.random() + np.arange(count)) * len(whole) / count).astype(int)
    return [by_length[places[turn]] for turn in random.permutation(count)]
