"""How tests start two processes that join."""

import sys

__all__ = ["TORCHRUN"]

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
