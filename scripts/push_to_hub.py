"""Publish a model folder: ``python scripts/push_to_hub.py --model outputs/demo-bertxml --repo_id user/name``."""

import sys

from hf_xmtc.hub import push_main

if __name__ == "__main__":
    sys.exit(push_main())
