"""Train and evaluate a tagger: accelerate launch scripts/train.py (see --help, and README.md)."""

import sys

from hf_xmtc_command import main

if __name__ == "__main__":
    main(["train", *sys.argv[1:]])
