"""`hf-xmtc train`: from a data set to a trained, evaluated, publishable model folder."""

import logging
import os
import resource
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import torch
import transformers
from datasets import DatasetDict
from transformers import AutoTokenizer, PreTrainedTokenizerFast
from transformers.trainer_utils import PredictionOutput
from transformers.training_args import ParallelMode

from hf_xmtc.data import (
    LabelInfo,
    dataset_statistics,
    label_counts,
    label_info_of,
    load_xmtc_dataset,
    summarize_statistics,
    tokenize_dataset,
)
from hf_xmtc.hub import card_from_folder
from hf_xmtc.models.modeling_xmtc import XMTCPreTrainedModel
from hf_xmtc.tokenization import add_cls_tokens, load_word_vectors, read_vector_words, train_word_tokenizer
from hf_xmtc.training import XMTCTrainer, estimate_memory, initialize_label_bias, plot_training_curve

from .families import family_named
from .output_folder import OutputFolder, check_reopens
from .recipe import Recipe, parse_recipe

__all__ = ["main", "train"]

logger = logging.getLogger(__name__)

# Documents whose scores are compared after reopening the folder.
NUM_CHECKED = 5


def main(argv: list[str] | None = None) -> None:
    """Entry point of ``scripts/train.py`` and ``hf-xmtc train``."""
    recipe = parse_recipe(argv)
    _set_up_process(recipe)
    try:
        train(recipe)
    except (FileExistsError, FileNotFoundError, MemoryError, ValueError) as error:
        # What the user can mend is said in one paragraph; everything else keeps its traceback.
        if logger.isEnabledFor(logging.DEBUG):
            raise
        sys.exit(f"{type(error).__name__}: {error}")


def train(recipe: Recipe) -> Path:
    """Train, evaluate and write a model folder.

    Args:
        recipe: Model, data and training settings; ``recipe.training.output_dir`` is the folder.

    Returns:
        The folder: config.json, model.safetensors, tokenizer, labels.json, code, README.md (the card), metrics.json,
        predictions/test.parquet, training_curve.png.

    Raises:
        FileExistsError: If the folder holds a finished model or anything else that would be overwritten.
        MemoryError: If the run cannot fit into the free memory.
    """
    args = recipe.training
    folder = OutputFolder(args.output_dir)
    folder.refuse_if_taken()
    with args.main_process_first(desc="loading the data"):
        data = _load_data(recipe)
        info = label_info_of(data)
        tokenizer = _build_tokenizer(recipe, data)
        tokenized, truncated = tokenize_dataset(data, tokenizer, recipe.data.max_length_tokens)
    settings = {**recipe.to_dict(), "dataset_fingerprint": info.fingerprint}
    checkpoint = folder.claim(settings)
    _say(args, summarize_statistics(dataset_statistics(data)))
    for split, count in truncated.items():
        _say(
            args, f"{split}: {count:,} of {len(data[split]):,} documents are cut at {recipe.data.max_length_tokens} tokens."
        )

    estimate_from = _build_model(recipe, info, tokenizer, on_meta=True)
    estimate = estimate_memory(
        estimate_from,
        args.per_device_train_batch_size,
        recipe.data.max_length_tokens,
        averaging=args.averaging_start_epoch is not None,
        device=args.device,
    )
    _say(args, estimate.describe())
    estimate.refuse_if_too_large()

    transformers.set_seed(args.seed)
    model = _build_model(recipe, info, tokenizer)
    if recipe.model.label_bias_from_frequency:
        initialize_label_bias(model, label_counts(data["train"], info.num_labels), len(data["train"]))
    if args.should_save:
        folder.begin(settings)
    args.output_dir = str(folder.checkpoints)
    trainer = XMTCTrainer(
        model,
        args,
        train_dataset=tokenized["train"],
        eval_dataset=tokenized["validation"],
        processing_class=tokenizer,
    )
    if checkpoint is not None:
        _say(args, f"Resuming from {os.path.basename(checkpoint)}.")
    started = time.monotonic()
    trainer.train(resume_from_checkpoint=checkpoint)
    seconds = time.monotonic() - started
    metrics, predictions = _evaluate(trainer, tokenized)
    metrics["train"] = _training_figures(trainer, seconds, len(tokenized["train"]))
    if args.should_save:
        _write_folder(folder, trainer, metrics, predictions, info, recipe)
        _check_folder(folder, data, predictions, info)
        if not args.push_to_hub:
            shutil.rmtree(folder.checkpoints, ignore_errors=True)
    if args.parallel_mode == ParallelMode.DISTRIBUTED:
        torch.distributed.barrier()
    _say(args, _closing_words(folder, metrics))
    return folder.path


def _set_up_process(recipe: Recipe) -> None:
    args = recipe.training
    logging.basicConfig(format="%(message)s", level=logging.INFO if args.should_log else logging.WARNING)
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    if processes > 1 and args.parallel_mode != ParallelMode.DISTRIBUTED:
        sys.exit(
            f"{processes} processes were started but did not join (parallel mode {args.parallel_mode.value}), so each would train "
            "alone and overwrite the others. On CPUs start them with: torchrun --nproc_per_node N scripts/train.py --use_cpu True"
        )
    if args.device.type == "cpu":
        # `accelerate launch` gives every process one thread, which leaves most of the machine idle.
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        torch.set_num_threads(max(1, cores // int(os.environ.get("LOCAL_WORLD_SIZE", processes))))
    if not args.should_log:
        datasets.disable_progress_bars()
    _say(args, f"{args.world_size} process(es), {torch.get_num_threads()} thread(s) each, on {args.device.type}.")


def _say(args: Any, text: str) -> None:
    if args.should_log:
        logger.info(text)


def _load_data(recipe: Recipe) -> DatasetDict:
    chosen = recipe.data
    data = load_xmtc_dataset(
        chosen.dataset,
        label_space=chosen.label_space,
        label_file=chosen.label_file,
        label_format=chosen.label_format,
        validation_fraction=chosen.validation_fraction,
        text_column=chosen.text_column,
        label_column=chosen.label_column,
        revision=chosen.dataset_revision,
    )
    limits = {
        "train": chosen.max_train_documents,
        "validation": chosen.max_eval_documents,
        "test": chosen.max_eval_documents,
    }
    for split, limit in limits.items():
        if limit is not None and split in data:
            data[split] = data[split].select(range(min(limit, len(data[split]))))
    return data


def _build_tokenizer(recipe: Recipe, data: DatasetDict) -> PreTrainedTokenizerFast:
    """The backbone's tokenizer, or one of words of the training texts; both with the CLS tokens in front."""
    max_length = recipe.data.max_length_tokens
    if recipe.model.backbone:
        tokenizer = AutoTokenizer.from_pretrained(recipe.model.backbone, revision=recipe.model.backbone_revision)
        return add_cls_tokens(tokenizer, recipe.model.num_cls_tokens, max_length=max_length)
    vectors = recipe.data.word_vectors
    return train_word_tokenizer(
        data["train"]["text"],
        vocab_size=recipe.data.vocab_size,
        min_document_frequency=recipe.data.min_document_frequency,
        max_length=max_length,
        num_cls_tokens=recipe.model.num_cls_tokens,
        frequent_first=read_vector_words(vectors) if vectors else None,
    )


def _build_model(
    recipe: Recipe, info: LabelInfo, tokenizer: PreTrainedTokenizerFast, on_meta: bool = False
) -> XMTCPreTrainedModel:
    """The model with its label names; on the meta device it takes no memory."""
    config_class, model_class = family_named(recipe.model.model_family)
    settings = {"label_names": info.names, **recipe.model.config_settings()}
    if recipe.model.backbone:
        return _model_on_backbone(model_class, recipe, settings, tokenizer, on_meta)
    config = config_class(
        vocab_size=len(tokenizer),
        max_position_embeddings=recipe.data.max_length_tokens,
        pad_token_id=tokenizer.pad_token_id,
        **settings,
    )
    if on_meta:
        with torch.device("meta"):
            return model_class(config)
    model = model_class(config)
    if recipe.data.word_vectors:
        vectors, found = load_word_vectors(recipe.data.word_vectors, tokenizer)
        if vectors.shape[1] != config.hidden_size:
            raise ValueError(
                f"The word vectors have {vectors.shape[1]} dimensions but hidden_size={config.hidden_size}. "
                f"Add --config_overrides hidden_size={vectors.shape[1]}."
            )
        _say(recipe.training, f"{found:,} of {len(tokenizer):,} words start from a pretrained vector.")
        with torch.no_grad():
            model.get_input_embeddings().weight.copy_(torch.from_numpy(vectors))
    return model


def _model_on_backbone(model_class, recipe: Recipe, settings: dict, tokenizer, on_meta: bool) -> XMTCPreTrainedModel:
    name, revision = recipe.model.backbone, recipe.model.backbone_revision
    if not on_meta:
        return model_class.from_backbone(name, tokenizer=tokenizer, revision=revision, seed=recipe.training.seed, **settings)
    backbone_config = transformers.AutoConfig.from_pretrained(name, revision=revision)
    backbone_config.vocab_size = len(tokenizer)
    with torch.device("meta"):
        return model_class(model_class.config_class(backbone_config=backbone_config, **settings))


def _evaluate(trainer: XMTCTrainer, tokenized: DatasetDict) -> tuple[dict[str, dict], dict[str, PredictionOutput]]:
    metrics, predictions = {}, {}
    for split in ("validation", "test"):
        if split in tokenized:
            output = trainer.predict(tokenized[split], metric_key_prefix=split)
            speed = ("runtime", "samples_per_second", "steps_per_second", "model_preparation_time")
            prefix = f"{split}_"
            named = {key.removeprefix(prefix): value for key, value in output.metrics.items()}
            metrics[split] = {key: value for key, value in named.items() if key not in speed}
            predictions[split] = output
    return metrics, predictions


def _training_figures(trainer: XMTCTrainer, seconds: float, num_documents: int) -> dict[str, float]:
    state = trainer.state
    seen = num_documents * (state.epoch or 0)
    if trainer.args.device.type == "cuda":
        peak = torch.cuda.max_memory_allocated() / 2**20
    else:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
    return {
        "seconds": round(seconds, 1),
        "documents_per_second": round(seen / seconds, 1),
        "peak_memory_mb": round(peak),
        "epochs": round(state.epoch or 0, 3),
        "steps": state.global_step,
        "processes": trainer.args.world_size,
        "parameters": sum(parameter.numel() for parameter in trainer.model.parameters()),
    }


def _write_folder(
    folder: OutputFolder, trainer: XMTCTrainer, metrics: dict, predictions: dict, info: LabelInfo, recipe: Recipe
) -> None:
    trainer.save_model(str(folder.path))
    for split, output in predictions.items():
        top_scores, top_labels = output.predictions
        folder.write_predictions(split, top_labels, top_scores, output.label_ids, info.names, info.evaluation_only)
    title = f"{recipe.model.model_family} on {info.source}"
    plot_training_curve(trainer.state.log_history, folder.path / "training_curve.png", title)
    folder.finish(metrics)
    card = card_from_folder(folder.path, dataset_name=info.source, dataset_license=info.license)
    (folder.path / "README.md").write_text(str(card), encoding="utf-8")


def _check_folder(folder: OutputFolder, data: DatasetDict, predictions: dict, info: LabelInfo) -> None:
    split = "test" if "test" in predictions else "validation"
    top_scores, top_labels = (values[:NUM_CHECKED] for values in predictions[split].predictions)
    labels = [[info.names[label_id] for label_id in row] for row in np.asarray(top_labels)]
    difference = check_reopens(folder.path, data[split]["text"][:NUM_CHECKED], labels, top_scores.tolist())
    logger.info(
        f"Reopened {folder.path} in a fresh process without hf_xmtc: the scores of {len(labels)} documents agree "
        f"(largest difference {difference:.1e})."
    )


def _closing_words(folder: OutputFolder, metrics: dict) -> str:
    split = "test" if "test" in metrics else "validation"
    shown = [name for name in ("P@1", "P@3", "P@5", "nDCG@5", "R@5", "PSP@5") if name in metrics[split]]
    values = "   ".join(f"{name} {100 * metrics[split][name]:.2f}" for name in shown)
    return (
        f"{split}: {values}   ({metrics['train']['seconds']:.0f} s of training)\n"
        f"Model, card, metrics and predictions are in {folder.path}. Next:\n"
        f"  hf-xmtc predict --model {folder.path} --input texts.txt --output tags.jsonl\n"
        f"  hf-xmtc push --model {folder.path} --repo_id you/your-tagger"
    )
