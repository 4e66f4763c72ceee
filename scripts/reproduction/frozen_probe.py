"""The probe of a pretrained encoder: logistic regressions on its frozen states, which fine-tuning should beat.

``python scripts/reproduction/frozen_probe.py --backbone FOLDER --output_dir outputs/probe`` writes ``metrics.json`` and ``recipe.json`` in the
form of ``scripts/train.py``. Pooling and C are chosen from `GRID` on the validation split. A fine-tuned model below its own probe is
broken, and so is every difference to it.
"""

import functools
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from transformers import AutoModel, AutoTokenizer

from linear_peer import LinearPeer, argument_parser, write_run

__all__ = ["GRID", "FrozenProbe", "FrozenStates", "Settings", "main"]

MODEL_FAMILY = "frozen_probe"
POOLINGS = ("mean", "cls")


class Settings(NamedTuple):
    """Settings that are chosen on the validation split.

    Attributes:
        pooling: ``mean`` of a text's states, or ``cls``, the state of its first token.
        C: The inverse of the regression's penalty.
    """

    pooling: str
    C: float


# Of standardized states.
GRID = [Settings(pooling, C) for pooling in POOLINGS for C in (0.01, 0.1, 1.0)]


class FrozenStates:
    """Both poolings of texts by a frozen encoder; each text is read once.

    Args:
        backbone: Folder or Hub id of the encoder.
        num_layers: Layers that are kept; None for all.
        max_length: Tokens after which a text is cut.
    """

    def __init__(self, backbone: str, num_layers: int | None, max_length: int):
        layers = {} if num_layers is None else {"num_hidden_layers": num_layers}
        self.encoder = AutoModel.from_pretrained(backbone, **layers).eval()
        self.tokenizer, self.max_length = AutoTokenizer.from_pretrained(backbone), max_length
        self.known: dict[str, np.ndarray] = {}

    def of(self, texts: list[str], pooling: str) -> np.ndarray:
        """Pooled states, (N, H)."""
        new = sorted({text for text in texts if text not in self.known}, key=len)
        for start in range(0, len(new), 64):
            batch = new[start : start + 64]
            self.known |= zip(batch, self._read(batch), strict=True)
        return np.stack([self.known[text][POOLINGS.index(pooling)] for text in texts])

    @torch.no_grad()
    def _read(self, texts: list[str]) -> np.ndarray:
        words = self.tokenizer(texts, padding=True, truncation=True, max_length=self.max_length, return_tensors="pt")
        states = self.encoder(**words).last_hidden_state  # (B, T, H)
        read = words["attention_mask"][:, :, None]
        return torch.stack([(states * read).sum(1) / read.sum(1), states[:, 0]], dim=1).numpy()  # (B, 2, H)


class FrozenProbe(LinearPeer):
    """One logistic regression per label on standardized states; labels are ranked by log-odds.

    Args:
        settings: Pooling and C.
        num_labels: Labels L.
        states: The states of all texts.
    """

    def __init__(self, settings: Settings, num_labels: int, states: FrozenStates):
        self.settings, self.num_labels, self.states, self.block_documents = settings, num_labels, states, 512

    def learn_features(self, texts: list[str]) -> np.ndarray:
        states = self.states.of(texts, self.settings.pooling)
        self.mean, self.deviation = states.mean(axis=0), states.std(axis=0) + 1e-6
        return self.features_of(texts)

    def features_of(self, texts: list[str]) -> np.ndarray:
        return (self.states.of(texts, self.settings.pooling) - self.mean) / self.deviation

    def classifier(self) -> Any:
        return LogisticRegression(C=self.settings.C, max_iter=200)


def main(argv: list[str] | None = None) -> None:
    """Entry point of ``scripts/reproduction/frozen_probe.py``."""
    parser = argument_parser(__doc__)
    parser.add_argument("--backbone", required=True, help="Pretrained encoder: folder or Hub id.")
    parser.add_argument("--backbone_num_layers", type=int, help="Keep only its first layers.")
    parser.add_argument("--max_length_tokens", type=int, default=128, help="Tokens after which a text is cut.")
    arguments = parser.parse_args(argv)
    settings = {name: getattr(arguments, name) for name in ("backbone_num_layers", "max_length_tokens")}
    states = FrozenStates(arguments.backbone, *settings.values())
    settings["backbone"] = Path(arguments.backbone).name
    write_run(arguments, MODEL_FAMILY, GRID, functools.partial(FrozenProbe, states=states), settings)


if __name__ == "__main__":
    main()
