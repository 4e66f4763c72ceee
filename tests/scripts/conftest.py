"""The scripts are no package: their folder is put where Python looks for modules, as running one of them does."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
