"""`XMTCPreTrainedModel`: the contract of every model family, and `XMTCOutput`, the output of all of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.utils import ModelOutput, logging

from .aligned_tokens import AlignedWords
from .configuration_xmtc import XMTCConfig
from .cornet import CorNet, CorNetBlock
from .label_block_loss import LabelMatrix, RowUpdate
from .label_head import BaseLabelHead, LabelHead
from .label_names import LabelNames
from .length_chunks import read_at_once, read_in_chunks
from .linear_layers import copy_rows
from .pipeline_xmtc import XMTCPipeline
from .predicted_sets import PredictedSets
from .tracing import is_traced
from .weight_shapes import check_label_count

__all__ = ["XMTCOutput", "XMTCPreTrainedModel"]

logger = logging.get_logger(__name__)

# Parameters that weight decay leaves alone, by the last part of their name or the kind of their module.
NO_DECAY_MODULES = (nn.LayerNorm, nn.Embedding)


@dataclass
class XMTCOutput(ModelOutput):
    """The output of `forward`; fields that were not computed are None and dropped.

    Attributes:
        loss: Scalar, where labels were given.
        logits: Scores before the sigmoid, (B, L), unless ``top_k`` was given.
        top_scores: Scores after the sigmoid of the best labels, best first, (B, K), where ``top_k`` was given.
        top_labels: Their label ids, (B, K).
        label_sets: True at the labels of the predicted set, (B, L), of models that predict it otherwise than by thresholds.
        hidden_states: Hidden states of the encoder's layers, each (B, T, H), on request.
        attentions: Attention weights of the encoder's layers, on request.
    """

    loss: Tensor | None = None
    logits: Tensor | None = None
    top_scores: Tensor | None = None
    top_labels: Tensor | None = None
    label_sets: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None


class XMTCPreTrainedModel(PredictedSets, PreTrainedModel):
    """Base of all families: a family encodes documents, this class scores the labels.

    A family builds its encoder in ``__init__``, calls `build_label_scorer` (or `use_label_head` with a head of its own) and
    `post_init`, and ends its ``forward`` in `compute_output`.
    """

    config_class = XMTCConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    # Without this the Trainer believes that forward scales the loss itself under gradient accumulation and DDP.
    accepts_loss_kwargs = False
    _supports_sdpa = True
    # Tuned between scores that are close to each other, which half precision would not tell apart.
    _keep_in_fp32_modules_strict = {"label_thresholds"}

    # True where forward takes texts instead of token ids.
    reads_texts = False
    # False for families that `hf-xmtc train` trains otherwise than by the gradient of the loss.
    is_trained_by_gradient = True

    # Submodules that are no part of the encoder.
    head_names: tuple[str, ...] = ("label_head", "cornet")

    @property
    def base_model(self) -> nn.Module:
        """The encoder: what stands before the label head. Its parameters are the model's own, so that

            model.base_model.requires_grad_(False)

        trains only the heads. An encoder of several modules is a `ModuleDict` of them under their names in the model. `get_encoder`
        gives the same.
        """
        parts = {name: part for name, part in self.named_children() if name not in self.head_names}
        parts = {name: part for name, part in parts.items() if any(True for _ in part.parameters())}
        return next(iter(parts.values())) if len(parts) == 1 else nn.ModuleDict(parts)

    def get_encoder(self, modality: str | None = None) -> nn.Module:
        """`base_model`; there is one for texts only."""
        return self.base_model

    def build_label_scorer(self, in_features: int, bottleneck_size: int | None = None, **settings: Any) -> None:
        """Add a linear label head, with further settings of `LabelHead`, and CorNet where the config asks for it."""
        settings = {"bottleneck_size": bottleneck_size, **self.label_settings(), **settings}
        self.use_label_head(LabelHead(in_features, **settings))

    def label_settings(self) -> dict[str, Any]:
        """Settings of the config for every kind of label head."""
        config = self.config
        return {
            "num_labels": config.num_labels,
            "block_size": config.label_block_size,
            "memory_mib": config.label_memory_mib,
            "loss": config.label_loss,
            "loss_settings": config.label_loss_settings,
        }

    def use_label_head(self, head: BaseLabelHead) -> None:
        """Add a label head, and CorNet where the config asks for it."""
        config, self.label_head = self.config, head
        thresholds = torch.full((config.num_labels,), config.decision_threshold) if config.has_label_thresholds else None
        self.register_buffer("label_thresholds", thresholds)
        self.cornet = (
            CorNet(config.num_labels, config.cornet_context_size, config.cornet_num_blocks, config.cornet_activation)
            if config.cornet_num_blocks
            else None
        )

    # What a chunk of `read_in_chunks` costs; None for what suits the device, infinity for one chunk.
    chunk_tokens: float | None = None

    def read_batch(
        self,
        words: AlignedWords,
        read: Callable[..., tuple],
        *of_documents: Tensor | None,
        embed: Callable[[Tensor, Tensor], Tensor] | None = None,
    ) -> tuple:
        """Encode a batch: in training in chunks of similar lengths, else at once; as `read_in_chunks`."""
        # A graph of one batch would have its borders, and a compiled one would be made again for others.
        if not self.training or is_traced() or torch.compiler.is_compiling():
            return read_at_once(words, read, *of_documents, embed=embed)
        return read_in_chunks(words, read, *of_documents, embed=embed, chunk_tokens=self.chunk_tokens)

    def requested_outputs(self, attentions: bool | None, hidden_states: bool | None) -> tuple[bool, bool]:
        """True for each of attention weights and hidden states that ``forward`` returns: by its arguments, else by the config."""
        config = self.config
        return (
            bool(config.output_attentions if attentions is None else attentions),
            bool(config.output_hidden_states if hidden_states is None else hidden_states),
        )

    def compute_output(self, features: Any, labels: Tensor | None, top_k: int | None, **extra: Any) -> XMTCOutput:
        """Turn document features into an `XMTCOutput`.

        Args:
            features: The input of the label head; of a linear one (B, H).
            labels: Padded label ids (B, P) or a float multi-hot matrix (B, L).
            top_k: None returns the logits of all labels, k > 0 instead the best k labels without ever holding (B, L), and 0 only
                the loss.
            extra: Further output fields.
        """
        head, reduction = self.label_head, self.config.loss_reduction
        loss = logits = top_scores = top_labels = None
        if top_k is None:
            logits, loss = head.logits_and_loss(features, labels, reduction, self.cornet)
        elif labels is not None and (top_k == 0 or torch.is_grad_enabled()):
            loss = head.loss(features, labels, reduction, self.cornet)
            if top_k:
                top_scores, top_labels = head.topk(features, top_k, self.cornet)
        else:
            top_scores, top_labels, loss = head.topk_and_loss(features, top_k, labels, reduction, self.cornet)
        return XMTCOutput(loss=loss, logits=logits, top_scores=top_scores, top_labels=top_labels, **extra)

    def label_matrices(self) -> dict[str, LabelMatrix]:
        """The matrices with one row per label: that of the label head, and two of every CorNet block."""
        matrices = {f"label_head.{name}": matrix for name, matrix in self.label_head.matrices().items()}
        for index, block in enumerate(self.cornet.blocks if self.cornet is not None else ()):
            context, labels = block.to_context.weight, block.to_labels
            matrices[f"cornet.blocks.{index}.to_context"] = LabelMatrix(context.t(), None, [context])
            matrices[f"cornet.blocks.{index}.to_labels"] = LabelMatrix(
                labels.weight, labels.bias, [labels.weight, labels.bias]
            )
        return matrices

    def update_labels_in_backward(self, updates: dict[str, RowUpdate] | None) -> None:
        """Let the backward pass of the loss update label matrices block by block, instead of giving them gradients.

        Args:
            updates: What takes the gradients, by the names of `label_matrices`; None for ordinary gradients again.

        Raises:
            ValueError: If there is no matrix of such a name.
        """
        unknown = set(updates or ()) - set(self.label_matrices())
        if unknown:
            raise ValueError(f"{sorted(unknown)} are no label matrices of this model: {sorted(self.label_matrices())}.")
        self.label_head.updates = updates

    # What `token_weights` gives: "attention", "contribution", "margin" or "share" (see `explanation.Explanation`); None where there is nothing.
    token_weight_kind: str | None = None

    def token_weights(self, input_ids: Tensor, attention_mask: Tensor | None, label_ids: Tensor) -> Tensor:
        """Weights of the tokens for chosen labels, of the kind in ``token_weight_kind``.

        Args:
            input_ids: (B, T).
            attention_mask: (B, T), or None.
            label_ids: Labels of each document, (B, S), padded with -100.

        Returns:
            (B, S, T), 0 at padding of the tokens and of the labels.

        Raises:
            ValueError: If the family has no such weights, or a label id is outside 0 … L-1.
        """
        raise ValueError(
            f"{type(self).__name__} has no weight of its own for each token of a label. AttentionXMLForXMTC, "
            "LightAttentionForXMTC, MeSHProbeNetForXMTC, LACOForXMTC with cross_attention=True, NeighborsForXMTC without backbone, "
            "ParabelForXMTC, BonsaiForXMTC and DiSMECForXMTC have."
        )

    def check_tokenizer(self, tokenizer: Any) -> None:
        """Refuse a tokenizer whose ids this model cannot read; families add their own demands."""
        rows = self.get_input_embeddings().num_embeddings
        if len(tokenizer) > rows:
            raise ValueError(
                f"The tokenizer has {len(tokenizer)} tokens but the model has embeddings for {rows}. Use the tokenizer saved "
                "beside the model."
            )

    @property
    def max_input_tokens(self) -> int | None:
        """Longest input the model takes, special tokens included; None where there is no limit."""
        return self.config.max_input_tokens

    def parameter_groups(self, learning_rate: float, weight_decay: float = 0.0) -> list[dict]:
        """Parameters for an optimizer: weight decay on matrices, none on biases, norms and embedding tables.

        Returns:
            Two groups with ``params``, ``lr`` and ``weight_decay``; every trainable parameter is in exactly one of them.
        """
        excluded = {
            id(parameter)
            for module in self.modules()
            if isinstance(module, NO_DECAY_MODULES) or "LayerNorm" in type(module).__name__
            for parameter in module.parameters(recurse=False)
        }
        decayed, plain = [], []
        for parameter in self.parameters():
            if parameter.requires_grad:
                (plain if parameter.dim() < 2 or id(parameter) in excluded else decayed).append(parameter)
        return [
            {"params": decayed, "lr": learning_rate, "weight_decay": weight_decay},
            {"params": plain, "lr": learning_rate, "weight_decay": 0.0},
        ]

    def resize_labels(self, labels: LabelNames | list[str] | int) -> None:
        """Change the label space of a trained model.

        With names, a label that the model knew keeps everything learnt about it, wherever it moves, and its display name and
        parents; with a count, the first labels stay. New labels have the weights of a new model and are silent: their bias is
        so low that they are not predicted before they are trained, and CorNet leaves them out, so what the model says of known
        labels stays the same.

        Two kinds of models can promise less. An encoder that reads the labels (LACO's, SeqTag's) reads the new ones too, which
        changes the states of all. Where all labels share one bias (SeqTag, AttentionXML without one per label) a new label is
        not silent: it scores as its random vector has it.

        Args:
            labels: The new labels in id order, or their number.
        """
        known, named = self.config.label_names, self.config.labels_digest is not None or not isinstance(labels, int)
        if isinstance(labels, int):
            count = labels
            old_ids = [label_id if label_id < len(known) else -1 for label_id in range(count)]
            labels = [known[old] if old >= 0 else f"LABEL_{new}" for new, old in enumerate(old_ids)]
        else:
            labels = LabelNames.of(labels) if hasattr(labels, "name_of") else labels
            count = len(labels)
            old_ids = [known.ids.get(label, -1) for label in getattr(labels, "labels", labels)]
        if not isinstance(labels, LabelNames):
            labels = LabelNames(
                labels,
                names=[known.name_of(old) if old >= 0 else None for old in old_ids],
                parents=[known.parents_of(old) if old >= 0 else [] for old in old_ids],
            )
        if count < 1:
            raise ValueError(f"{count} labels were given, but a model needs at least one.")
        self.config.check_num_labels(count)
        old_ids = torch.tensor(old_ids)
        self.label_head.resize_labels(old_ids)
        if self.cornet is not None:
            self.cornet.resize_labels(old_ids)
        if not self.label_head.silence(old_ids < 0) and self.cornet is not None:
            self.cornet.silence(old_ids < 0)
        if self.label_thresholds is not None:
            old = self.label_thresholds
            self.label_thresholds = old.new_full((count,), self.config.decision_threshold)
            copy_rows(self.label_thresholds, old, old_ids)
        self.resize_family_labels(old_ids)
        self.config.forget_label_names()
        self.config.num_labels = count
        if named:
            self.config.label_names = labels

    def resize_family_labels(self, old_ids: Tensor) -> None:
        """Change what else a family holds for each label; ``old_ids`` has the old id of every new label, -1 for a new one."""

    def forget_family_labels(self) -> None:
        """Forget what else a family knows of labels that others have replaced."""

    def _initialize_weights(self, module: nn.Module, *is_custom_code: bool) -> None:
        # Of custom code the library leaves out modules whose own parameters are all loaded, and so those that have none, such as a
        # label head or a CorNet block: their layers would start by the family's rule for its encoder. It does so because custom
        # code may overwrite what was loaded. This code does not: it starts weights by the functions of transformers.initialization.
        super()._initialize_weights(module)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, (BaseLabelHead, CorNetBlock)):
            module.reset_parameters()
        elif module is self and self.label_thresholds is not None:
            init.constant_(self.label_thresholds, self.config.decision_threshold)
        else:
            super()._init_weights(module)

    # ---- checkpoints -----------------------------------------------------------------------------------------------------

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path, *args, ignore_mismatched_sizes: bool = False, **kwargs):
        """Open a checkpoint of this family; arguments as in `transformers.PreTrainedModel.from_pretrained`.

        Raises:
            ValueError: If ``num_labels`` differs from the checkpoint's and ``ignore_mismatched_sizes=True`` was not given,
                or the weights are damaged.
        """
        hub_options = ("revision", "cache_dir", "token", "local_files_only", "subfolder")
        hub_kwargs = {key: kwargs[key] for key in hub_options if kwargs.get(key)}
        stored, _ = XMTCConfig.get_config_dict(pretrained_model_name_or_path, **hub_kwargs)
        config = kwargs.get("config")
        # Known by its name: the config's class may have come with another folder.
        same_family = config is not None and getattr(config, "model_type", None) == stored.get("model_type")
        num_labels = kwargs.get("num_labels") or (config.num_labels if same_family else None)
        replaced = num_labels is not None and "num_labels" in stored and num_labels != stored["num_labels"]
        if replaced and not ignore_mismatched_sizes:
            raise ValueError(
                f"The checkpoint has {stored['num_labels']} labels but num_labels={num_labels} was asked for. Leave num_labels out, "
                "open it and call model.resize_labels(…) to keep what it learnt about the labels both have, or pass "
                "ignore_mismatched_sizes=True to start the label-sized weights anew."
            )
        if type(stored.get("num_labels")) is int and not ignore_mismatched_sizes:
            check_label_count(pretrained_model_name_or_path, stored["num_labels"], **hub_kwargs)
        try:
            loaded = super().from_pretrained(
                pretrained_model_name_or_path, *args, ignore_mismatched_sizes=ignore_mismatched_sizes, **kwargs
            )
        except Exception as error:
            # The class of safetensors, which these files do not import; its message names neither the model nor a remedy.
            if type(error).__name__ == "SafetensorError":
                raise ValueError(
                    f"The weights of {pretrained_model_name_or_path} are damaged ({error}). Was a download or a copy interrupted? "
                    "Fetch them again."
                ) from error
            if isinstance(error, RuntimeError) and "ignore_mismatched_sizes" in str(error):
                raise ValueError(
                    f"The weights of {pretrained_model_name_or_path} have other shapes than its config.json says (listed above). Do the "
                    "two come from different models? Copy both from the same folder."
                ) from error
            raise
        model = loaded[0] if isinstance(loaded, tuple) else loaded
        if replaced:
            model.forget_family_labels()
            if not model.config.names_given:
                model.config.forget_label_names()
            logger.warning(
                f"The checkpoint's {stored['num_labels']} labels were replaced by {num_labels} new ones: the weights of the label "
                "head (and CorNet) are new and need training."
            )
        else:
            model.config.locate_labels(pretrained_model_name_or_path, **hub_kwargs)
        return loaded

    def save_pretrained(self, save_directory, *args, **kwargs) -> None:
        """Write weights, config, ``labels.json`` and the code that opens them, the pipeline included."""
        if kwargs.get("state_dict") is None:
            self.label_head.check_complete()
        self.name_classes()
        super().save_pretrained(save_directory, *args, **kwargs)

    def name_classes(self) -> None:
        """Name the classes that open a checkpoint of this model in its config."""
        # transformers registers one auto class per model; both are named here, so that either opens the checkpoint.
        own_class = f"{type(self).__module__.rsplit('.', 1)[-1]}.{type(self).__name__}"
        auto_map = getattr(self.config, "auto_map", None) or {}
        self.config.auto_map = {**auto_map, "AutoModel": own_class, "AutoModelForSequenceClassification": own_class}
        self.config.custom_pipelines = {
            "text-classification": {
                "impl": f"pipeline_xmtc.{XMTCPipeline.__name__}",
                "pt": ["AutoModelForSequenceClassification"],
                "type": "text",
            }
        }
