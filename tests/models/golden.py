"""Stored inputs, weights, outputs and gradients of the CorNet authors' code, in the names of this package.

The files in ``tests/golden`` hold what the authors' public code (XunGuangxu/CorNet, commit ecc09960) computed in float32 on
the CPU from small random weights. Their error measure is |a - b| / (1 + |b|).
"""

import json
import re
from pathlib import Path

import torch
from safetensors.torch import load_file

__all__ = [
    "ATTENTIONXML_NAMES",
    "assert_close",
    "assert_gradients_close",
    "gradient_of",
    "load_golden",
    "our_name",
    "stored_parameters",
]

GOLDEN = Path(__file__).resolve().parents[1] / "golden"

_RENAMED = [
    (r"^(token|position)_embedding\.", r"encoder.\1_embedding."),
    (r"^encoder\.(\d+)\.", r"encoder.layers.\1."),
    (r"^final\.", r"encoder.layers.2."),
    (r"\.attn\.", ".attention."),
    (r"\.ffn\.", "."),
    (r"^classifier\.", "label_head.output."),
    (r"^cornet\.(\d+)\.", r"cornet.blocks.\1."),
]

# The names of AttentionXML's parameters, for `stored_parameters`.
ATTENTIONXML_NAMES = [
    (r"^embedding\.", "words.embedding."),
    (r"^bilstm\.init_state$", "bilstm.initial_state"),
    (r"^bilstm\.(weight|bias)", r"bilstm.lstm.\1"),
    (r"^label_attention\.", "label_head.attention."),
    (r"^mlp\.", "label_head.linears."),
    (r"^mlp_output\.", "label_head.output."),
]


def load_golden(name: str) -> tuple[dict[str, torch.Tensor], dict]:
    """Tensors and settings of one golden file."""
    settings = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
    return load_file(GOLDEN / f"{name}.safetensors"), settings["config"]


def our_name(name: str, renamed: list[tuple[str, str]] = _RENAMED) -> str:
    """Name in a `BertXMLForXMTC`, or by the patterns of another family, of a parameter of the golden file."""
    for pattern, replacement in renamed:
        name = re.sub(pattern, replacement, name)
    return name


def stored_parameters(golden: dict, renamed: list[tuple[str, str]], prefix: str = "") -> dict[str, torch.Tensor]:
    """What the file stores of each parameter (with a prefix: its gradient), by our name in a family's model."""
    found = {key.removeprefix(prefix): value for key, value in golden.items() if key.startswith(prefix)}
    return {our_name(key, [*_RENAMED[-2:], *renamed]): value for key, value in found.items()}


def gradient_of(golden: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    """Stored gradients by our parameter name."""
    return {our_name(key.removeprefix(prefix)): value for key, value in golden.items() if key.startswith(prefix)}


def assert_close(ours: torch.Tensor, theirs: torch.Tensor, tolerance: float, what: str = "") -> None:
    error = ((ours - theirs).abs() / (1 + theirs.abs())).max().item()
    assert ours.shape == theirs.shape and error <= tolerance, f"{what}: error {error:.1e} above {tolerance:.0e}"


def assert_gradients_close(model: torch.nn.Module, gradients: dict[str, torch.Tensor]) -> None:
    """Compare the gradients of all parameters with the stored ones, by name."""
    assert gradients.keys() == dict(model.named_parameters()).keys()
    for name, gradient in gradients.items():
        assert_close(model.get_parameter(name).grad, gradient, 3e-5, name)
