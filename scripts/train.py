"""Train and evaluate a tagger: accelerate launch scripts/train.py (see --help, and README.md)."""

from hf_xmtc.commands.train import main

if __name__ == "__main__":
    main()
