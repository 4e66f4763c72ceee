"""The scripts are no package: their folders are put where Python looks for modules, as running one of them does."""

import sys
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
sys.path[:0] = [str(SCRIPTS / folder) for folder in ("", "benchmarks", "reliability", "reproduction")]
