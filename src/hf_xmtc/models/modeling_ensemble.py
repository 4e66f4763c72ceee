"""`EnsembleForXMTC`: several models of the same labels that answer as one."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoModelForSequenceClassification, AutoTokenizer
from transformers.data.data_collator import pad_without_fast_tokenizer_warning
from transformers.dynamic_module_utils import custom_object_save
from transformers.tokenization_utils_base import LARGE_INTEGER
from transformers.utils.hub import snapshot_download

from .combined_rankings import combine_rankings
from .configuration_ensemble import EnsembleConfig
from .document_tokens import split_special_tokens, tokenize_documents
from .modeling_xmtc import XMTCOutput, XMTCPreTrainedModel
from .predicted_sets import check_scores

__all__ = ["PARTS_FOLDER", "EnsembleForXMTC", "EnsembleOutput"]

PARTS_FOLDER = "parts"
_HUB_OPTIONS = ("cache_dir", "force_download", "local_files_only", "revision", "token")
_PART_OPTIONS = ("dtype", "torch_dtype", "attn_implementation", "device_map", "quantization_config")


@dataclass
class EnsembleOutput(XMTCOutput):
    """As `XMTCOutput`, with ``is_cut``: True for texts of which a part has read only the beginning, (B,)."""

    is_cut: Tensor | None = None


class EnsembleForXMTC(XMTCPreTrainedModel):
    """Models of the same labels (parts), each with its tokenizer, whose rankings are combined as `combine_rankings` says.

    It reads texts, not token ids, because each part has tokens of its own. A folder of it holds a whole model folder of each part in
    ``parts/``, and the first one's tokenizer, which nothing but the libraries asks for.

    Args:
        config: Settings.
        parts: The models, in the order of ``config.parts``.
        tokenizers: Their tokenizers.

    Raises:
        ValueError: If the parts' labels differ, or a part needs more than texts.
    """

    config_class = EnsembleConfig
    reads_texts = True

    def __init__(self, config: EnsembleConfig, parts: Sequence[nn.Module] = (), tokenizers: Sequence[Any] = ()):
        super().__init__(config)
        names = list(config.parts or {})
        if not names or not len(names) == len(parts) == len(tokenizers):
            raise ValueError(
                f"An ensemble of the parts {names} was given {len(parts)} models and {len(tokenizers)} tokenizers. Open it with from_pretrained, "
                "or make it with EnsembleForXMTC.from_parts."
            )
        for name, part in zip(names, parts, strict=True):
            _check_part(name, part, config)
        self.parts, self.tokenizers = nn.ModuleList(parts), list(tokenizers)
        self.register_buffer("label_thresholds", None)
        for tokenizer in self.tokenizers:
            split_special_tokens(tokenizer)
        self.eval()

    @classmethod
    def from_parts(
        cls,
        parts: dict[str, tuple[nn.Module, Any]],
        method: str = "consensus",
        weights: Sequence[float] | None = None,
        exponents: Sequence[float] | None = None,
        depth: int = 100,
    ) -> "EnsembleForXMTC":
        """Make an ensemble of models in memory.

        Args:
            parts: Model and tokenizer of each part, by a name that becomes its folder.
            method: As for `combine_rankings`.
            weights: Likewise.
            exponents: Likewise.
            depth: Best labels of each part that are combined.
        """
        settings: dict[str, dict] = {name: {"model_type": model.config.model_type} for name, (model, _) in parts.items()}
        for field, values in (("weight", weights), ("exponent", exponents)):
            for name, value in zip(parts, values or (), strict=values is not None):
                settings[name][field] = value
        first = next(iter(parts.values()))[0].config
        labels = {"label_names": first.label_names} if first.labels_digest else {"num_labels": first.num_labels}
        config = EnsembleConfig(parts=settings, method=method, depth=depth, **labels)
        return cls(config, [model for model, _ in parts.values()], [tokenizer for _, tokenizer in parts.values()])

    def forward(self, texts: str | Sequence[str], top_k: int | None = None, max_length: int | None = None) -> EnsembleOutput:
        """Rank the labels of some texts.

        Args:
            texts: B texts.
            top_k: Labels per text; None for all that a part has among its ``depth`` best.
            max_length: Tokens of a part after which a text is cut; each part's limit by default.

        Returns:
            ``top_labels`` and ``top_scores``, (B, K), padded with -100 and 0; and ``is_cut``.
        """
        texts = [texts] if isinstance(texts, str) else list(texts)
        if not texts:
            scores = torch.zeros(0, 0, device=self.device)
            return EnsembleOutput(top_scores=scores, top_labels=scores.long(), is_cut=torch.zeros(0, dtype=torch.bool))
        rankings, is_cut = [], torch.zeros(len(texts), dtype=torch.bool)
        for part, tokenizer in zip(self.parts, self.tokenizers, strict=True):
            documents = tokenize_documents(tokenizer, texts, self._limit(part, tokenizer, max_length))
            is_cut |= torch.tensor([document.is_cut for document in documents])
            batch = pad_without_fast_tokenizer_warning(
                tokenizer,
                {"input_ids": [document.ids for document in documents]},
                return_attention_mask=True,
                return_tensors="pt",
            )
            output = part(**batch.to(part.device), top_k=min(self.config.depth, self.config.num_labels))
            check_scores(output.top_scores, output.top_labels)
            rankings.append((output.top_labels.cpu().numpy(), output.top_scores.detach().float().cpu().numpy()))
        config = self.config
        k = top_k or len(rankings) * config.depth
        labels, scores = combine_rankings(rankings, k, config.method, config.weights, config.exponents, config.depth)
        found = (torch.from_numpy(array).to(self.device) for array in (scores, labels))
        return EnsembleOutput(**dict(zip(("top_scores", "top_labels"), found, strict=True)), is_cut=is_cut)

    @staticmethod
    def _limit(part: nn.Module, tokenizer: Any, max_length: int | None) -> int | None:
        limits = [max_length, part.max_input_tokens, tokenizer.model_max_length]
        # A tokenizer without a limit answers 1e30.
        return min((limit for limit in limits if limit is not None and limit <= LARGE_INTEGER), default=None)

    def check_tokenizer(self, tokenizer: Any) -> None:
        """Any: the parts have their own."""

    def resize_labels(self, labels: Any) -> None:
        raise ValueError(
            "An ensemble has no labels of its own to resize. Resize and train each part, and combine them anew."
        )

    # ---- checkpoints -----------------------------------------------------------------------------------------------------

    @classmethod
    def from_pretrained(
        cls,
        pretrained_model_name_or_path: str | os.PathLike,
        *args: Any,
        config: EnsembleConfig | None = None,
        output_loading_info: bool = False,
        **kwargs: Any,
    ):
        """Open an ensemble and its parts.

        Args:
            pretrained_model_name_or_path: Folder, or id on the Hub.
            args: Not used.
            config: Its settings; read from the folder by default.
            output_loading_info: Also return which tensors of the parts are missing.
            kwargs: ``revision``, ``token``, ``cache_dir``, ``local_files_only``, ``dtype``, ``device_map`` and ``attn_implementation``.

        Raises:
            ValueError: If a part has other labels than ``labels.json``.
            OSError: If a part is not there.
        """
        hub = {key: kwargs[key] for key in _HUB_OPTIONS if kwargs.get(key)}
        options = {key: kwargs[key] for key in _PART_OPTIONS if kwargs.get(key) is not None}
        if not isinstance(config, EnsembleConfig):
            config = EnsembleConfig.from_pretrained(pretrained_model_name_or_path, **hub)
        config.locate_labels(pretrained_model_name_or_path, **hub)
        # Where this file came with the ensemble, its code is trusted already, and so is that of the parts beside it; where it is the
        # package's, the parts are opened with the package's code.
        trusted = __name__.partition(".")[0] == "transformers_modules"
        root = _root_folder(pretrained_model_name_or_path, list(config.parts or {}), hub)
        parts, tokenizers, loading = [], [], {}
        for name in config.parts or {}:
            folder = os.path.join(root, PARTS_FOLDER, name)
            model, found = AutoModelForSequenceClassification.from_pretrained(
                folder, trust_remote_code=trusted, output_loading_info=True, **options
            )
            parts.append(model)
            tokenizers.append(AutoTokenizer.from_pretrained(folder, trust_remote_code=trusted))
            model.check_tokenizer(tokenizers[-1])
            for kind, entries in found.items():
                named = {f"{PARTS_FOLDER}.{name}.{entry}" if isinstance(entry, str) else entry for entry in entries}
                loading[kind] = loading.get(kind, set()) | named
        model = cls(config, parts, tokenizers)
        return (model, loading) if output_loading_info else model

    def save_pretrained(self, save_directory: str | os.PathLike, **kwargs: Any) -> None:
        """Write the parts with their tokenizers into ``parts/``, and config, ``labels.json`` and the code that opens them."""
        if kwargs.get("push_to_hub"):
            raise ValueError(
                "push_to_hub is not supported for an ensemble. Save it, and publish the folder with hf-xmtc push."
            )
        os.makedirs(save_directory, exist_ok=True)
        for name, part, tokenizer in zip(self.config.parts, self.parts, self.tokenizers, strict=True):
            folder = os.path.join(save_directory, PARTS_FOLDER, name)
            part.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
        self.name_classes()
        self.config.architectures = [type(self).__name__]
        custom_object_save(self, save_directory, config=self.config)
        self.config.save_pretrained(save_directory)
        self.tokenizers[0].save_pretrained(save_directory)


def _root_folder(name_or_path: str | os.PathLike, parts: Sequence[str], hub: dict[str, Any]) -> str | os.PathLike:
    """Folder on this machine that holds ``parts/``; from the Hub the folders of these parts are fetched, and nothing else."""
    if os.path.isdir(name_or_path):
        return name_or_path
    return snapshot_download(str(name_or_path), allow_patterns=[f"{PARTS_FOLDER}/{name}/*" for name in parts], **hub)


def _check_part(name: str, part: nn.Module, config: EnsembleConfig) -> None:
    if getattr(part, "reads_texts", False):
        raise ValueError(f"The part {name} is an ensemble itself. Give its parts instead.")
    if getattr(part.config, "num_candidates", 0):
        raise ValueError(
            f"The part {name} scores {part.config.num_candidates} candidates of each text, which hf_xmtc finds outside the model, so it cannot "
            "be in an ensemble's folder. Combine prediction files instead: hf-xmtc ensemble --predictions."
        )
    own, shared = (part.config.num_labels, part.config.labels_digest), (config.num_labels, config.labels_digest)
    if own != shared:
        raise ValueError(
            f"The part {name} has {own[0]} labels (digest {own[1]}), but the ensemble has {shared[0]} (digest {shared[1]}). All parts need "
            "the same labels in the same order: were they trained on the same data?"
        )


EnsembleConfig.register_for_auto_class()
EnsembleForXMTC.register_for_auto_class("AutoModelForSequenceClassification")
