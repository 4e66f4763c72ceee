"""Publish a model folder: ``python scripts/push_to_hub.py --model outputs/demo-bertxml --repo_id user/name``."""

import sys

from hf_xmtc_command import main

if __name__ == "__main__":
    sys.exit(main(["push", *sys.argv[1:]]))
