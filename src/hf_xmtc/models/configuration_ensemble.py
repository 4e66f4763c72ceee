"""`EnsembleConfig`: which models an ensemble has, and how it combines what they answer."""

import re
from typing import TYPE_CHECKING

from .combined_rankings import METHODS
from .configuration_xmtc import XMTCConfig

# Never imported, but read by transformers, which tells model folders apart by the code that their config reaches.
if TYPE_CHECKING:
    from .modeling_ensemble import EnsembleForXMTC  # noqa: F401

__all__ = ["EnsembleConfig"]

_FOLDER = re.compile(r"[A-Za-z0-9_][\w.-]*", flags=re.ASCII)


class EnsembleConfig(XMTCConfig):
    """Settings of `EnsembleForXMTC`.

    Args:
        parts: Name of each part, which is its folder in ``parts/``, and its ``model_type``, and for the method ``weighted`` its
            ``weight`` and ``exponent``.
        method: One of `METHODS`; see `combine_rankings`.
        depth: Best labels of each part that are combined; others count as 0 there.
    """

    model_type = "ensemble"
    left_out_of_files = ("cornet_num_blocks", "cornet_context_size")

    cornet_num_blocks: int = 0
    cornet_context_size: int = 1000
    parts: dict | None = None
    method: str = "consensus"
    depth: int = 100

    def check(self) -> None:
        super().check()
        if self.method not in METHODS:
            raise ValueError(f"method={self.method!r} is none of {', '.join(METHODS)}.")
        if self.depth < 1:
            raise ValueError(f"depth={self.depth}, but at least 1 label of each part is combined.")
        for name, part in (self.parts or {}).items():
            # A name that leads elsewhere, or a pattern, would open, fetch or overwrite what is no part of the model.
            if not _FOLDER.fullmatch(name) or not isinstance(part, dict):
                raise ValueError(
                    f"parts has {name!r}: {str(part):.80}, but a part is named as a folder (letters, digits, '.', '-' and '_') and has an "
                    "object of settings. Was config.json changed by hand? Copy it again from where the model came."
                )

    @property
    def weights(self) -> list[float] | None:
        """Weight of each part; None for methods without weights."""
        return self._of_parts("weight")

    @property
    def exponents(self) -> list[float] | None:
        """Exponent of each part; None for methods without."""
        return self._of_parts("exponent")

    def _of_parts(self, field: str) -> list[float] | None:
        if self.method != "weighted":
            return None
        return [part.get(field, 1.0) for part in (self.parts or {}).values()]
