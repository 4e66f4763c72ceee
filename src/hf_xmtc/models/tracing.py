"""`is_traced`: true while a graph is recorded that must be right for batches of other shapes and contents."""

import torch

__all__ = ["is_traced"]


def is_traced() -> bool:
    """True while `torch.jit.trace` or `torch.export` records a graph: then nothing may depend on the values in this batch."""
    # Releases of torch before 2.7 tell compiling alone.
    exporting = getattr(torch.compiler, "is_exporting", torch.compiler.is_compiling)
    return torch.jit.is_tracing() or exporting()
