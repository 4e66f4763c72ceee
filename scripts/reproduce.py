"""Train what is missing of a table of results, and write it: python scripts/reproduce.py --table demo (see --help)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "reproduction"))  # its parts

from run_tables import main

if __name__ == "__main__":
    main()
