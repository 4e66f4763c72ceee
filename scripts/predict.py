"""Tag a file of texts: ``python scripts/predict.py --model outputs/demo-bertxml --input texts.txt --output tags.jsonl``."""

import sys

from hf_xmtc_command import main

if __name__ == "__main__":
    main(["predict", *sys.argv[1:]])
