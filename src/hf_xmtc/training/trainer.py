"""`XMTCTrainer`: transformers' Trainer with ranking metrics, weight averaging and bounded memory in evaluation."""

import contextlib
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from torch import Tensor, nn
from transformers import EarlyStoppingCallback, PreTrainedTokenizerBase, TrainerCallback
from transformers.trainer_utils import EvalPrediction, PredictionOutput

from hf_xmtc.data import XMTCDataCollator
from hf_xmtc.data.filter_labels import FILTER_LABELS
from hf_xmtc.models.filter_labels import drop_filtered
from hf_xmtc.models.modeling_xmtc import XMTCOutput, XMTCPreTrainedModel
from hf_xmtc.models.predicted_sets import check_scores

from .arguments import XMTCTrainingArguments
from .document_order import LengthBucketedSampler, ShuffledSampler, document_lengths
from .evaluation import Evaluation, of_one_width, tuned_thresholds
from .gradient_clipping import clip_sparse_and_dense
from .label_sharding import clip_sharded, spread_labels
from .label_trees import candidate_recall
from .optimizer_checks import check_optimizer, label_options
from .optimizer_options import build_optimizer, prepared_for_training
from .option_conflicts import check_engine_options
from .own_functions import check_functions, named_loss
from .resumable_trainer import ResumableTrainer
from .sharded_label_head import shard_of
from .trainer_inputs import check_full_batch, check_neighbors, every_document_in_order, set_up_model, tokenized

__all__ = ["XMTCTrainer"]


class XMTCTrainer(ResumableTrainer):
    """Trains, evaluates and predicts with any hf_xmtc model.

    Evaluation keeps the `eval_top_k` best labels of each document and nothing of size documents × labels; the metrics are
    P, nDCG and PSP at 1, 3 and 5 and R at 5, propensities counted on the training labels. Checkpoints hold
    everything a resumed run needs to equal an uninterrupted one, weight averaging and adaptive clipping included.

    A ``compute_loss_func`` replaces the whole loss of the model. It gets the outputs with logits of all labels, (B, L), and the label ids
    of each document, (B, P), padded with -100, and returns a mean over the documents, because accumulated batches and processes are
    averaged; ``num_items_in_batch`` is therefore None. For example::

        from hf_xmtc import multi_hot_targets
        def compute_loss_func(outputs, labels, num_items_in_batch=None):
            loss = torch.nn.BCEWithLogitsLoss(pos_weight=pos_weight)
            return loss(outputs.logits, multi_hot_targets(labels, outputs.logits.shape[1]))

    A ``compute_metrics`` gets as ``predictions`` the scores and the label ids of the best labels, each (N, K), best first, and with
    ``set_metrics`` or ``tune_threshold`` a third array that says which are in the predicted set; ``label_ids`` are the documents' own,
    (N, P), padded with -100. K and the order of documents are those of evaluation, not of the data.

    Args:
        model: An hf_xmtc model; None with ``model_init``, which makes one for each training.
        args: Training arguments.
        train_dataset: A split from `load_xmtc_dataset`, as it is or after `tokenize_dataset`; None to evaluate only.
        eval_dataset: The same for evaluation; labels that training never saw have ids ≥ num_labels.
        processing_class: The tokenizer; may be left out where a ``data_collator`` is given.
        label_counts: Documents per label in training; counted on ``train_dataset`` by default. Needed for PSP.
        num_train_documents: Documents behind ``label_counts``.
        kwargs: Further arguments of `transformers.Trainer`.

    Raises:
        ValueError: If the training data have no labels or fill no batch, there are no documents, a stream is not tokenized, the
            tokenizer is missing or not the model's, or a function does not fit how evaluation works here.
        TypeError: If ``args`` are not `XMTCTrainingArguments`.
    """

    def __init__(
        self,
        model: XMTCPreTrainedModel | None = None,
        args: XMTCTrainingArguments | None = None,
        train_dataset: Dataset | None = None,
        eval_dataset: Dataset | None = None,
        processing_class: PreTrainedTokenizerBase | None = None,
        label_counts: np.ndarray | None = None,
        num_train_documents: int | None = None,
        **kwargs: Any,
    ):
        columns = getattr(train_dataset, "column_names", None)
        if columns is not None and "labels" not in columns:
            raise ValueError(
                f"The training data have the columns {columns} and no 'labels', so there is nothing to learn. "
                "Load them with load_xmtc_dataset, which puts label ids there."
            )
        if not isinstance(args, XMTCTrainingArguments):
            raise TypeError(
                f"args is a {type(args).__name__}, but XMTCTrainer needs XMTCTrainingArguments, which take all arguments of "
                "transformers.TrainingArguments."
            )
        pads_itself = kwargs.get("data_collator") is None
        if processing_class is None and pads_itself:
            raise ValueError("XMTCTrainer needs the model's tokenizer to pad batches: give it as processing_class=….")
        check_functions(args, kwargs)
        if model is not None:
            if processing_class is not None:
                model.check_tokenizer(processing_class)  # before texts are tokenized
            spread_labels(model, args)
        super().__init__(
            model=model,
            args=args,
            train_dataset=train_dataset,
            eval_dataset=eval_dataset,
            processing_class=processing_class,
            compute_metrics=kwargs.pop("compute_metrics", self._metrics),
            **kwargs,
        )
        self.num_labels = num_labels = self.model.config.num_labels
        if pads_itself:
            # Labels unseen in training are kept for the metrics and taken out before the model sees them.
            self.data_collator = XMTCDataCollator(processing_class, num_labels, keep_unseen=True)
        if self.compute_loss_func is not None:
            self.compute_loss_func = named_loss(self.compute_loss_func, num_labels)
        self.train_dataset, self.eval_dataset = tokenized(self, train_dataset), tokenized(self, eval_dataset)
        check_full_batch(args, self.train_dataset)
        check_neighbors(self.model, self.train_dataset)
        # What `create_optimizer` has built, and with which options.
        self.built_optimizer, self.built_with = None, None
        self.label_updates = None
        self.evaluation = (
            Evaluation.of_training_data(args, num_labels, self.train_dataset)
            if label_counts is None
            else Evaluation(args, num_labels, label_counts, num_train_documents)
        )
        set_up_model(self)
        self.train_sampler: ShuffledSampler | None = None
        self._start_anew()
        self.add_callback(_EpochStart(self))
        if args.early_stopping_patience is not None:
            self.add_callback(EarlyStoppingCallback(early_stopping_patience=args.early_stopping_patience))

    # Or the Trainer would take a loss of one's own for one that is divided by the labels of all accumulated batches.
    loss_is_scaled_for_ga = False

    def _set_signature_columns_if_needed(self) -> None:
        super()._set_signature_columns_if_needed()
        if FILTER_LABELS not in self._signature_columns:
            self._signature_columns.append(FILTER_LABELS)  # no argument of the model, but of evaluation

    # ---- data and batches ------------------------------------------------------------------------------------------------

    def _get_dataloader(self, *args: Any, is_training: bool = False, **kwargs: Any):
        with contextlib.nullcontext() if is_training else every_document_in_order(self.args):
            return super()._get_dataloader(*args, is_training=is_training, **kwargs)

    def _get_train_sampler(self, train_dataset: Dataset | None = None):
        dataset = self.train_dataset if train_dataset is None else train_dataset
        by_length = self.args.train_sampling_strategy == "group_by_length"
        if not isinstance(dataset, Dataset) or not (by_length or self.args.train_sampling_strategy == "random"):
            return super()._get_train_sampler(train_dataset)
        seed = self.args.data_seed if self.args.data_seed is not None else self.args.seed
        if by_length:
            batch_size = self.args.train_batch_size * self.args.gradient_accumulation_steps * self.args.world_size
            self.train_sampler = LengthBucketedSampler(document_lengths(dataset), batch_size, seed)
        else:
            self.train_sampler = ShuffledSampler(len(dataset), seed)
        return self.train_sampler

    def _get_eval_sampler(self, eval_dataset: Dataset):
        # The Trainer would group evaluation data by length in a random order and leave predictions in it.
        return self._longest_first(eval_dataset).tolist() if isinstance(eval_dataset, Dataset) else None

    def _longest_first(self, dataset: Dataset) -> np.ndarray:
        """Order of evaluation: little padding, and memory shows in the first batch whether it suffices."""
        return np.argsort(-document_lengths(dataset), kind="stable")

    def evaluate(self, eval_dataset: Any = None, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Metrics on ``eval_dataset``, by default on that of the constructor; as `transformers.Trainer.evaluate`."""
        return super().evaluate(tokenized(self, eval_dataset), *args, **kwargs)

    def predict(self, test_dataset: Dataset, *args: Any, **kwargs: Any) -> PredictionOutput:
        """Predict in data order: ``predictions`` are scores and label ids of the best labels, each (N, K), best first.

        K is ``eval_top_k`` (where fewer labels are scored the rest is filled up with 0 and -100), or with ``set_metrics`` or
        ``tune_threshold`` at least ``set_top_k``; then a third array says which are in the predicted set.
        """
        test_dataset = tokenized(self, test_dataset)
        output = super().predict(test_dataset, *args, **kwargs)
        if not isinstance(test_dataset, Dataset) or output.predictions is None:
            return output
        place = np.argsort(self._longest_first(test_dataset))
        label_ids = output.label_ids if output.label_ids is None else output.label_ids[place]
        return output._replace(predictions=tuple(array[place] for array in output.predictions), label_ids=label_ids)

    def _metrics(self, prediction: EvalPrediction) -> dict[str, float]:
        num_candidates = getattr(self.model.config, "num_candidates", 0)
        found = self.evaluation.metrics(prediction, self.model.lowest_threshold(), num_candidates)
        return {**found, **candidate_recall(self, training=False)}

    def measure(self, output: PredictionOutput) -> PredictionOutput:
        """A prediction whose scores or whose model's thresholds have changed, with the sets and metrics of today (without prefix)."""
        arrays = output.predictions[:2]
        if self.args.measures_sets:
            scores, label_ids = map(torch.from_numpy, arrays)
            arrays = (*arrays, self.model.in_predicted_set(XMTCOutput(top_scores=scores, top_labels=label_ids)).numpy())
        metrics = self.compute_metrics(EvalPrediction(predictions=arrays, label_ids=output.label_ids))
        # Counted while the model scored the documents.
        recalls = [value for name, value in output.metrics.items() if name.endswith("candidate_recall")]
        return output._replace(
            predictions=arrays, metrics={**({"candidate_recall": recalls[0]} if recalls else {}), **metrics}
        )

    def tune_thresholds(self, output: PredictionOutput) -> None:
        """Give the model the thresholds that suit the prediction of a validation split best, as ``tune_threshold`` says."""
        scores, top_labels = output.predictions[:2]
        self.model.set_thresholds(
            tuned_thresholds(self.args.tune_threshold, scores, top_labels, output.label_ids, self.num_labels)
        )

    # ---- loss and evaluation ---------------------------------------------------------------------------------------------

    def compute_loss(self, model: nn.Module, inputs: dict, return_outputs: bool = False, num_items_in_batch: Any = None):
        if "labels" not in inputs:
            raise ValueError(
                f"The batch holds {sorted(inputs)} and no 'labels', so there is no loss. Was the label column removed from "
                "the data set? Prediction without labels works with trainer.predict."
            )
        inputs = {**inputs, "labels": self._known_labels(inputs["labels"])}
        inputs.pop(FILTER_LABELS, None)
        if not return_outputs and self.compute_loss_func is None and self.label_smoother is None:
            inputs["top_k"] = 0  # the loss alone, block by block: nobody reads the logits
        # Without the number of labels in the step, for all losses here are means over documents, which are averaged.
        return super().compute_loss(model, inputs, return_outputs=return_outputs)

    def _known_labels(self, labels: Tensor) -> Tensor:
        return labels if labels.is_floating_point() else labels.masked_fill(labels >= self.num_labels, -100)

    def prediction_step(
        self, model: nn.Module, inputs: dict, prediction_loss_only: bool, ignore_keys: list[str] | None = None
    ):
        """Score a batch and keep the best labels: (loss, (scores, label ids[, which are in the set]), positives)."""
        inputs = self._prepare_inputs(inputs)
        labels, filters = inputs.pop("labels", None), inputs.pop(FILTER_LABELS, None)
        width = self.evaluation.kept_labels
        known = self._known_labels(labels) if labels is not None else None
        with torch.no_grad(), self.compute_loss_context_manager():
            # A loss of one's own reads the logits of all labels, which come without top_k.
            is_own = known is not None and self.compute_loss_func is not None
            output = model(
                **inputs, labels=None if is_own else known, top_k=width if filters is None else width + filters.shape[1]
            )
            loss = self.compute_loss(model, {**inputs, "labels": known}) if is_own else output.loss
        loss = loss.detach() if loss is not None else None
        if prediction_loss_only:
            return loss, None, None
        check_scores(output.top_scores, output.top_labels)
        if filters is not None:
            output.top_scores, output.top_labels = drop_filtered(output.top_scores, output.top_labels, filters, width)
        ranking = (output.top_scores.float(), output.top_labels)
        if self.args.measures_sets:
            ranking = (*ranking, self.model.in_predicted_set(output))
        return loss, of_one_width(ranking, min(width, self.num_labels)), labels

    # ---- weight averaging ------------------------------------------------------------------------------------------------

    def _evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        if self.averaging is None:
            return super()._evaluate(*args, **kwargs)
        self.averaging.update()
        with self.averaging.averaged_weights():
            return super()._evaluate(*args, **kwargs)

    def train(self, *args: Any, **kwargs: Any):
        with contextlib.ExitStack() as self._training:
            self._training.callback(setattr, self, "is_in_train", False)  # whatever ends it
            result = super().train(*args, **kwargs)
        if self.averaging is not None and not (self.args.load_best_model_at_end and self.state.best_model_checkpoint):
            self.averaging.finish()
        return result

    def _hp_search_setup(self, trial: Any) -> None:
        # The place where model and arguments of this training are there; `model_init` and a search make them anew.
        super()._hp_search_setup(trial)
        if self.model_init is not None:
            set_up_model(self)
        self._start_anew()
        check_optimizer(self)
        check_engine_options(self)
        self._training.enter_context(prepared_for_training(self.model, self.args))

    def call_model_init(self, trial: Any = None) -> XMTCPreTrainedModel:
        model = super().call_model_init(trial)
        spread_labels(model, self.args)
        return model

    # ---- clipping and gradient norm --------------------------------------------------------------------------------------

    def _clip_grad_norm(self, model: nn.Module):
        if self.adaptive_clipping is None:
            return self._clip_to(model, self.args.max_grad_norm)
        return self.adaptive_clipping.clip(lambda norm: self._clip_to(model, norm))

    def _get_grad_norm(self, model: nn.Module, grad_norm: Any = None):
        return super()._get_grad_norm(model, self._clip_to(model, float("inf")) if grad_norm is None else grad_norm)

    def _clip_to(self, model: nn.Module, norm: float):
        if shard_of(self.model) is not None:
            return clip_sharded(self.model, norm)
        if not self.args.sparse_embeddings:
            return self.accelerator.clip_grad_norm_(model.parameters(), norm)
        self.accelerator.unscale_gradients()
        return clip_sparse_and_dense(model.parameters(), norm)

    # ---- optimizer -------------------------------------------------------------------------------------------------------

    def create_optimizer(self, model: nn.Module | None = None) -> torch.optim.Optimizer:
        if self.optimizer is None:
            optimizer_class, settings = self.optimizer_cls_and_kwargs or self.get_optimizer_cls_and_kwargs(
                self.args, self.model
            )
            self.optimizer, self.label_updates = build_optimizer(self.model, self.args, optimizer_class, settings)
            self.built_optimizer, self.built_with = self.optimizer, label_options(self.args)
        if self.is_in_train:
            self.model.update_labels_in_backward(self.label_updates)
        return self.optimizer


class _EpochStart(TrainerCallback):
    """Prepare each epoch: order of documents, random numbers, start of weight averaging."""

    def __init__(self, trainer: XMTCTrainer):
        self.trainer = trainer

    def on_train_begin(self, args, state, control, **kwargs):
        check_optimizer(self.trainer)  # now that all are made
        self.trainer.continue_progress()

    def on_epoch_begin(self, args, state, control, **kwargs):
        epoch = int(state.epoch or 0)
        if isinstance(self.trainer.data_collator, XMTCDataCollator):
            self.trainer.data_collator.epoch.fill_(epoch)
        if self.trainer.train_sampler is not None:
            self.trainer.train_sampler.set_epoch(epoch)
        if self.trainer.averaging is not None:
            self.trainer.averaging.begin_epoch(epoch)
