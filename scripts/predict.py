"""Tag a file of texts: ``python scripts/predict.py --model outputs/demo-bertxml --input texts.txt --output tags.jsonl``."""

from hf_xmtc.commands.predict import main

if __name__ == "__main__":
    main()
