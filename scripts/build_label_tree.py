"""Build a label tree: ``python scripts/build_label_tree.py --dataset demo --output_dir outputs/demo-tree``."""

import sys

from hf_xmtc_command import main

if __name__ == "__main__":
    sys.exit(main(["tree", *sys.argv[1:]]))
