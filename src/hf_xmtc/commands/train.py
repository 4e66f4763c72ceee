"""`hf-xmtc train`: from a data set to a trained, evaluated, publishable model folder."""

import contextlib
import logging
import sys
from pathlib import Path

import torch
import transformers
from datasets import DatasetDict
from transformers.trainer_utils import PredictionOutput
from transformers.training_args import ParallelMode

from hf_xmtc.data import (
    LabelInfo,
    dataset_statistics,
    label_counts,
    label_info_of,
    summarize_statistics,
    tokenize_dataset,
)
from hf_xmtc.disk import disk_error
from hf_xmtc.hub import push_folder
from hf_xmtc.training import XMTCTrainer
from hf_xmtc.training.checkpoint_files import checkpoints_in
from hf_xmtc.training.label_sharding import num_parameters

from .advice import advice_on
from .closing_words import closing_words, words_on_thresholds
from .data_loading import cache_folders, content_digest, load_data, refuse_useless_splits
from .document_limits import rows_in_data
from .json_files import write_json
from .model_building import build_model, build_tokenizer, follow_starting_model, initialize_labels, refuse_too_large
from .output_folder import DATA_DIGEST, OutputFolder
from .picture_and_card import write_picture_and_card
from .processes import UnjoinedProcessesError, leave_processes, peak_memory_mb, say, set_up_process
from .publishing import explain_failed_push, push_command
from .recipe import Recipe, parse_recipe
from .reopening import check_folder, score_some
from .trained_state import keep_trained, restore_trained

__all__ = ["main", "train"]

logger = logging.getLogger(__name__)

MENDABLE = (OSError, ImportError, MemoryError, ValueError, FloatingPointError, UnjoinedProcessesError)


def main(argv: list[str] | None = None) -> None:
    """Entry point of ``scripts/train.py`` and ``hf-xmtc train``."""
    recipe, folder = None, None
    try:
        recipe = parse_recipe(argv)
        folder = OutputFolder(recipe.training.output_dir)
        set_up_process(recipe.training)
        train(recipe)
        leave_processes()
    except Exception as error:
        # What the user can mend is said in one paragraph; everything else keeps its traceback.
        unfinished = folder is not None and not folder.is_finished
        told = disk_error(error, folder.path, *cache_folders()) if unfinished else None
        told = told or (error if isinstance(error, MENDABLE) else None)
        if told is None or (recipe is not None and recipe.training.log_level == "debug"):
            raise
        sys.exit(f"{type(told).__name__}: {told}")
    except KeyboardInterrupt:
        print(_words_on_interruption(recipe, folder), file=sys.stderr)
        sys.exit(130)


def _words_on_interruption(recipe: Recipe | None, folder: OutputFolder | None) -> str:
    if folder is not None and folder.is_finished:
        command = push_command(folder.path, recipe.training)
        return f"Interrupted, but the model is finished in {folder.path}. To publish it, without training again: {command}"
    last = folder and folder.last_checkpoint()
    where = f"to go on from {folder.checkpoints / last}" if last else "to start anew: there is no checkpoint yet"
    return f"Interrupted. Give the same command again {where}."


def train(recipe: Recipe, trainer_class: type[XMTCTrainer] | None = None) -> Path:
    """Train, evaluate and write a model folder.

    Args:
        recipe: Model, data and training settings; ``recipe.training.output_dir`` is the folder.
        trainer_class: A subclass of `XMTCTrainer` that takes its place.

    Returns:
        The folder: config.json, model.safetensors, tokenizer, labels.json, code, README.md (the card), metrics.json,
        predictions/test.parquet, training_curve.png, training_log.json.

    Raises:
        FileExistsError: If the folder holds a finished model or anything else that would be overwritten.
        InUseError: If another run is in the folder.
        ValueError: If a setting or the data cannot be used.
        MemoryError: If the run cannot fit into the free memory.
        FloatingPointError: If the loss or the weights are no longer finite.
    """
    follow_starting_model(recipe)
    recipe.check()
    folder = OutputFolder(recipe.training.output_dir)
    folder.refuse_if_taken()
    with folder.lock() if recipe.training.should_save else contextlib.nullcontext():
        return _train_into(folder, recipe, trainer_class or XMTCTrainer)


def _train_into(folder: OutputFolder, recipe: Recipe, trainer_class: type[XMTCTrainer]) -> Path:
    args = recipe.training
    with args.main_process_first(desc="loading the data"):
        data = load_data(recipe)
        info = label_info_of(data)
        tokenizer = build_tokenizer(recipe, data)
        tokenized, truncated = tokenize_dataset(data, tokenizer, recipe.data.max_length_tokens)
    statistics = dataset_statistics(data)
    say(args, summarize_statistics(statistics))
    for split, count in truncated.items():
        limit = recipe.data.max_length_tokens
        say(args, f"{split}: {count:,} of {len(data[split]):,} documents are cut at {limit} tokens.")
    refuse_useless_splits(statistics, args)
    refuse_too_large(recipe, info, tokenizer)
    for sentence in advice_on(recipe, info.num_labels, data):
        say(args, sentence)
    generator, of_parts = None, {}
    if recipe.model.num_candidates:
        # Not at the top: other models do without scikit-learn.
        from .candidate_columns import add_candidates, mix_with_generator

        if recipe.model.num_candidates >= info.num_labels:
            raise ValueError(
                f"num_candidates={recipe.model.num_candidates}, but the data have {info.num_labels} labels, so every label would be a candidate. "
                "Leave it out: the model then reads them all. (A trained model keeps its own: give it data with more labels.)"
            )
        unseen = info.num_labels if args.ignore_unseen_labels else None
        with args.main_process_first(desc="finding candidates"):
            tokenized, generator, of_parts = add_candidates(data, tokenized, info, recipe.model.num_candidates, unseen)

    settings = {
        **recipe.to_dict(),
        "dataset_name": info.source,
        "dataset_license": info.license,
        "dataset_repo_id": recipe.data.dataset_repo_id,
        "dataset_language": info.language,
        "validation_carved": info.validation_carved,
        "dataset_fingerprint": info.fingerprint,
        DATA_DIGEST: content_digest(data, info),
        "processes": args.world_size,
    }
    # The other processes look only after the main one has written, or they could meet a half-written folder.
    with args.main_process_first(local=False, desc="taking the output folder"):
        resumes = folder.claim(settings)
        if args.should_save:
            folder.begin(settings)
    transformers.set_seed(args.seed)
    model = build_model(recipe, info, tokenizer)
    initialize_labels(recipe, model, tokenizer, data["train"], info)
    args.output_dir = str(folder.checkpoints)
    # The Trainer would push its checkpoints while it trains, as hub_strategy and hub_always_push say, which therefore have no
    # effect here; the finished folder is what others want.
    push_to_hub, args.push_to_hub = args.push_to_hub, False
    trainer = trainer_class(
        model,
        args,
        train_dataset=tokenized["train"],
        eval_dataset=tokenized.get("validation"),
        processing_class=tokenizer,
    )
    figures = restore_trained(trainer, folder.trained)
    if figures is None:
        figures = _train_and_measure(trainer, resumes)
        keep_trained(trainer, figures, folder.trained)
    else:
        say(args, "Training had ended before; what follows it is repeated.")
    if args.tune_generator_share:
        told, of_model = mix_with_generator(trainer, tokenized)
        of_parts = {split: {**values, **of_model.get(split, {})} for split, values in of_parts.items()}
        figures["generator_share"] = model.config.generator_share
        say(args, told)
    if args.tune_threshold != "none":
        trainer.tune_thresholds(tokenized["validation"])
        say(args, words_on_thresholds(model, label_counts(data["validation"], info.num_labels)))
    metrics, predictions = _evaluate(trainer, tokenized, ("validation", "test"))
    if args.measure_training_split:
        figures |= _evaluate(trainer, tokenized, ("train",))[0]["train"]
    metrics["train"] = figures
    metrics = {split: {**values, **of_parts.get(split, {})} for split, values in metrics.items()}
    # In all processes, because each may hold a part of the labels.
    trainer.save_model(str(folder.path))
    checked = score_some(trainer, tokenized)
    if args.should_save:
        if generator is not None:
            generator.save_pretrained(folder.path)
        _write_folder(folder, trainer, metrics, predictions, data, info, recipe)
        check_folder(folder.path, checked, data, info, as_candidates=generator is not None)
        folder.finish(metrics)
        if push_to_hub:
            with explain_failed_push(folder.path, args):
                url = push_folder(
                    folder.path,
                    args.hub_model_id or folder.path.name,
                    private=bool(args.hub_private_repo),
                    token=args.hub_token,
                    revision=args.hub_revision,
                )
            say(args, f"Pushed to {url}.")
    if args.parallel_mode == ParallelMode.DISTRIBUTED:
        torch.distributed.barrier()
    say(args, closing_words(folder.path, metrics))
    return folder.path


def _evaluate(
    trainer: XMTCTrainer, tokenized: DatasetDict, splits: tuple[str, ...]
) -> tuple[dict[str, dict], dict[str, PredictionOutput]]:
    metrics, predictions = {}, {}
    for split in splits:
        if split in tokenized:
            output = trainer.predict(tokenized[split], metric_key_prefix=split)
            # Values of the file are fractions and counts.
            left_out = ("loss", "runtime", "samples_per_second", "steps_per_second", "model_preparation_time")
            prefix = f"{split}_"
            named = {key.removeprefix(prefix): value for key, value in output.metrics.items()}
            metrics[split] = {key: value for key, value in named.items() if key not in left_out}
            predictions[split] = output
    return metrics, predictions


def _train_and_measure(trainer: XMTCTrainer, resumes: bool) -> dict[str, float]:
    """Train, from the last whole checkpoint where there is one, and return what it cost, all runs together."""
    trainer.train(resume_from_checkpoint=resumes and any(checkpoints_in(trainer.args.output_dir)))
    seconds, epochs = trainer.training_seconds, trainer.state.epoch or 0.0
    return {
        "seconds": round(seconds, 1),
        "documents_per_second": round(len(trainer.train_dataset) * epochs / seconds, 1),
        "peak_memory_mb": peak_memory_mb(trainer.args.device),
        "epochs": round(epochs, 3),
        "steps": trainer.state.global_step,
        "processes": trainer.args.world_size,
        "parameters": num_parameters(trainer.model),
    }


def _write_folder(
    folder: OutputFolder,
    trainer: XMTCTrainer,
    metrics: dict,
    predictions: dict,
    data: DatasetDict,
    info: LabelInfo,
    recipe: Recipe,
) -> None:
    for split, output in predictions.items():
        top_scores, top_labels = (array[:, : trainer.args.eval_top_k] for array in output.predictions[:2])
        rows = rows_in_data(data[split])
        folder.write_predictions(split, rows, top_labels, top_scores, output.label_ids, info.names, info.evaluation_only)
    write_json(folder.path / "training_log.json", trainer.state.log_history)
    title = f"{recipe.model.model_family} on {info.source}"
    write_picture_and_card(folder.path, trainer.state.log_history, title, metrics)


if __name__ == "__main__":
    main()
