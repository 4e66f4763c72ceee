"""Run under torchrun by the fixture `two_processes`: everything that the tests of this folder want of two joined processes.

One program, because starting two processes takes longer than most of what they do. Its argument is the folder of the results.
"""

import sys
from pathlib import Path

import torch

from hf_xmtc.commands.processes import leave_processes
from training import label_shards, sharded_training, train_joined

if __name__ == "__main__":
    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    sharded_training.main(folder / "sharded")  # joins the processes
    label_shards.main(folder / "shards")
    train_joined.main(folder / "joined", batch_size=2)
    leave_processes()
