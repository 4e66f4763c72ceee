"""`TrainingRun`: a training run from data to model folder, in four phases."""

import copy
import functools
import logging
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers.trainer_utils import PredictionOutput
from transformers.training_args import ParallelMode

from hf_xmtc.data import dataset_statistics, label_counts, label_info_of, summarize_statistics, tokenize_dataset
from hf_xmtc.hub import push_folder
from hf_xmtc.training import XMTCTrainer, initialize_votes
from hf_xmtc.training.checkpoint_files import checkpoints_in
from hf_xmtc.training.contrastive import ContrastiveTrainer
from hf_xmtc.training.label_sharding import num_parameters

from .candidate_search import find_candidates
from .data_loading import check_splits, content_digest, load_data, rows_in_data, set_propensity_constants
from .export_check import check_folder, reference_scores
from .frequency_report import frequency_report
from .gradient_free_training import label_token_ids, train_without_gradients
from .json_files import write_json
from .model_building import build_model, build_tokenizer, check_size, initialize_labels, model_digest
from .output_folder import DATA_DIGEST, OutputFolder
from .processes import log_once, peak_memory_mb
from .push import explain_failed_push
from .recipe import Recipe
from .reporting import final_summary, setting_hints, threshold_summary, write_picture_and_card
from .stored_predictions import write_label_counts
from .teacher_building import give_teacher
from .trained_state import keep_trained, restore_trained

__all__ = ["TrainingRun"]

logger = logging.getLogger(__name__)

# Of a Trainer's metrics those that are no fractions or counts of the documents.
NO_METRICS = ("loss", "runtime", "samples_per_second", "steps_per_second", "model_preparation_time")


class TrainingRun:
    """One run: `prepare_data`, `prepare_model`, `fit`, `evaluate_and_save`, in this order.

    Attributes:
        recipe: Model, data and training settings; nothing here changes them.
        args: The training settings for the Trainer: checkpoints go into the folder, and the Trainer pushes nothing itself.
        data: The splits, with their label ids.
        info: Their labels.
        tokenizer: The model's tokenizer.
        tokenized: The splits as token ids, with candidates where the model scores candidates.
        generator: The generator of candidates; None for models that score all labels.
        trainer: The Trainer, with the model.
        metrics: Metrics by split, and under ``train`` what training cost.
    """

    def __init__(self, recipe: Recipe, folder: OutputFolder, trainer_class: type[XMTCTrainer]):
        self.recipe, self.folder, self.trainer_class = recipe, folder, trainer_class
        self.args = copy.copy(recipe.training)
        self.args.output_dir = str(folder.checkpoints)
        # The Trainer would push its checkpoints while it trains, as hub_strategy and hub_always_push say, which therefore have no
        # effect here; the finished folder is what others want.
        self.args.push_to_hub = False
        self.generator, self.metrics, self._candidate_metrics = None, {}, {}

    def prepare_data(self) -> None:
        """Load and tokenize the data, and find candidates for models that score candidates.

        Raises:
            ValueError: If the data cannot be used.
            MemoryError: If the model cannot be trained in the free memory.
        """
        recipe, args, limit = self.recipe, self.args, self.recipe.data.max_length_tokens
        with args.main_process_first(desc="loading the data"):
            self.data = load_data(recipe)
            self.info = label_info_of(self.data)
            constants = set_propensity_constants(recipe, args, self.info)
            self.tokenizer = build_tokenizer(recipe, self.data)
            self.tokenized, num_cut = tokenize_dataset(self.data, self.tokenizer, limit)
        statistics = dataset_statistics(self.data)
        log_once(args, "\n".join(filter(None, [summarize_statistics(statistics), constants])))
        for split, count in num_cut.items():
            log_once(args, f"{split}: {count:,} of {len(self.data[split]):,} documents are cut at {limit} tokens.")
        check_splits(statistics, args)
        check_size(recipe, self.info, self.tokenizer)
        for sentence in setting_hints(recipe, self.info.num_labels, self.data):
            log_once(args, sentence)
        if recipe.model.num_candidates:
            with args.main_process_first(desc="finding candidates"):
                self.tokenized, self.generator, self._candidate_metrics = find_candidates(
                    recipe, args, self.data, self.tokenized, self.info
                )

    def prepare_model(self) -> None:
        """Take the output folder, build the model and give its labels their start.

        Raises:
            FileExistsError: If the folder holds a run of other settings.
        """
        args = self.args
        settings = self.settings()
        # The other processes look only after the main one has written, or they could meet a half-written folder.
        with args.main_process_first(local=False, desc="taking the output folder"):
            self._resumes = self.folder.claim(settings)
            if args.should_save:
                self.folder.begin(settings)
        transformers.set_seed(args.seed)
        model = build_model(self.recipe, self.info, self.tokenizer)
        initialize_labels(self.recipe, model, self.tokenizer, self.data["train"], self.info)
        if self.generator is not None and self.recipe.model.start is None:
            initialize_votes(model, self.tokenized["train"])
        if getattr(model, "teacher", None) is not None:
            self.tokenized, self._candidate_metrics = give_teacher(model, self.tokenized, self.tokenizer, self.info, args)
        trainer_class = self.trainer_class
        if args.tune_encoder:
            texts = label_token_ids(self.info, self.tokenizer)
            trainer_class = functools.partial(ContrastiveTrainer, label_texts=texts)
        self.trainer = trainer_class(
            model,
            args,
            train_dataset=self.tokenized["train"],
            eval_dataset=self.tokenized.get("validation"),
            processing_class=self.tokenizer,
        )

    def settings(self) -> dict[str, Any]:
        """The recipe and the facts of the data, as recipe.json has them."""
        info = self.info
        return {
            **self.recipe.to_dict(),
            "dataset_name": info.source,
            "dataset_license": info.license,
            "dataset_repo_id": self.recipe.data.dataset_repo_id,
            "dataset_language": info.language,
            "validation_carved": info.validation_carved,
            "test_carved": info.test_carved,
            "dataset_fingerprint": info.fingerprint,
            DATA_DIGEST: content_digest(self.data, info),
            **({} if (digest := model_digest(self.recipe)) is None else {"model_digest": digest}),
            **({} if self.recipe.model.candidates_from is None else {"candidates_digest": self.generator.digest()}),
            "processes": self.args.world_size,
        }

    def fit(self) -> None:
        """Train, from the last whole checkpoint where there is one; nothing where training had ended before."""
        costs = restore_trained(self.trainer, self.folder.trained)
        if costs is None:
            costs = self._train()
            keep_trained(self.trainer, costs, self.folder.trained)
        else:
            log_once(self.args, "Training had ended before; what follows it is repeated.")
        self.metrics["train"] = costs

    def _train(self) -> dict[str, float]:
        if self.trainer.model.is_trained_by_gradient:
            seconds = self._train_upper_levels()
            self._train_by_gradient()
            costs = self._costs()
            return {**costs, "seconds": round(costs["seconds"] + seconds, 1)}
        if self.args.tune_encoder:
            self._train_by_gradient()
        costs = train_without_gradients(self.recipe, self.trainer, self.tokenizer, self.info)
        tuning = self._costs() if self.args.tune_encoder else {"seconds": 0.0}
        return {**costs, **tuning, "seconds": round(costs["seconds"] + tuning["seconds"], 1)}

    def _train_by_gradient(self) -> None:
        self.trainer.train(resume_from_checkpoint=self._resumes and any(checkpoints_in(self.args.output_dir)))

    def _train_upper_levels(self) -> float:
        """Train the levels of a label tree that the model takes over; returns the seconds, 0 where there are none."""
        if self.recipe.model.start is not None or not getattr(self.trainer.model, "first_trained_level", 0):
            return 0.0
        from .level_training import train_upper_levels  # not at the top: other models do without scipy

        return train_upper_levels(self.recipe, self.trainer, self.tokenized, self.folder.checkpoints, self.trainer_class)

    def _costs(self) -> dict[str, float]:
        """Costs of training, all parts of an interrupted run together."""
        trainer = self.trainer
        seconds, epochs = trainer.training_seconds, trainer.state.epoch or 0.0
        return {
            "seconds": round(seconds, 1),
            "documents_per_second": round(len(trainer.train_dataset) * epochs / seconds, 1),
            "peak_memory_mb": peak_memory_mb(self.args.device),
            "epochs": round(epochs, 3),
            "steps": trainer.state.global_step,
            "processes": self.args.world_size,
            "parameters": num_parameters(trainer.model),
        }

    def evaluate_and_save(self) -> None:
        """Predict and measure, write the folder, reopen it, and publish it where that was asked for."""
        predictions = self._evaluate()
        # In all processes, because each may hold a part of the labels.
        self.trainer.save_model(str(self.folder.path))
        reference = reference_scores(self.trainer, self.tokenized)
        if self.args.should_save:
            self._write_folder(predictions)
            check_folder(self.folder.path, reference, self.data, self.info, as_candidates=self.generator is not None)
            self.folder.finish(self.metrics)
            if self.recipe.training.push_to_hub:
                self._push()
        if self.args.parallel_mode == ParallelMode.DISTRIBUTED:
            torch.distributed.barrier()
        log_once(self.args, final_summary(self.folder.path, self.metrics))

    def _evaluate(self) -> dict[str, PredictionOutput]:
        """Predict every split once, tune what is tuned on validation, and measure."""
        args, trainer = self.args, self.trainer
        splits = [split for split in ("validation", "test") if split in self.tokenized]
        splits += ["train"] if args.measure_training_split else []
        outputs = {split: trainer.predict(self.tokenized[split], metric_key_prefix=split) for split in splits}
        if args.tune_threshold != "none":
            trainer.tune_thresholds(outputs["validation"])
            counts = label_counts(self.data["validation"], self.info.num_labels)
            log_once(args, threshold_summary(trainer.model, counts))
            outputs = {split: trainer.measure(output) for split, output in outputs.items()}
        costs, self.metrics = self.metrics["train"], {}
        for split in (*splits, "train"):
            measured = outputs[split].metrics if split in outputs else {}
            values = {name.removeprefix(f"{split}_"): value for name, value in measured.items()}
            values = {name: value for name, value in values.items() if name not in NO_METRICS}
            self.metrics[split] = {**(costs if split == "train" else {}), **values, **self._candidate_metrics.get(split, {})}
        return outputs

    def _write_folder(self, predictions: dict[str, PredictionOutput]) -> None:
        folder, info, history = self.folder, self.info, self.trainer.state.log_history
        if self.generator is not None:
            self.generator.save_pretrained(folder.path)
        counts = label_counts(self.data["train"], info.num_labels)
        write_label_counts(folder.path, info.names.labels, counts, len(self.data["train"]))
        splits = [split for split in ("validation", "test") if split in predictions]
        for split in splits:
            gold, rows = predictions[split].label_ids, rows_in_data(self.data[split])
            scores, labels = (array[:, : self.args.eval_top_k] for array in predictions[split].predictions[:2])
            folder.write_predictions(split, rows, labels, scores, gold, info.names, info.evaluation_only)
        if splits:  # of the last one
            weights = self.trainer.evaluation.propensity_for(gold)
            self.metrics["by_frequency"] = frequency_report(splits[-1], labels, scores, gold, counts, weights)
        write_json(folder.path / "training_log.json", history)
        title = f"{self.recipe.model.model_family} on {info.source}"
        write_picture_and_card(folder.path, history, title, self.metrics)

    def _push(self) -> None:
        args, path = self.recipe.training, self.folder.path
        with explain_failed_push(path, args):
            url = push_folder(
                path,
                args.hub_model_id or path.name,
                private=bool(args.hub_private_repo),
                token=args.hub_token,
                revision=args.hub_revision,
            )
        log_once(args, f"Pushed to {url}.")

    def run(self) -> Path:
        """All four phases; returns the model folder."""
        self.prepare_data()
        self.prepare_model()
        self.fit()
        self.evaluate_and_save()
        return self.folder.path
