"""Fixtures for the models: every variant of every family, and what the libraries log."""

import logging
import sys
from pathlib import Path

import pytest
from transformers import dynamic_module_utils
from transformers.utils import logging as transformers_logging

from hf_xmtc import XMTCPreTrainedModel
from models.families import FAMILIES, Family


@pytest.fixture(params=FAMILIES, ids=lambda family: family.name)
def family(request: pytest.FixtureRequest) -> Family:
    return request.param


@pytest.fixture(params=[0, 2], ids=["plain", "cornet"])
def model(request: pytest.FixtureRequest, family: Family) -> XMTCPreTrainedModel:
    """Each family without and with CorNet, dropout off, in evaluation mode."""
    return family.build(cornet_num_blocks=request.param)


@pytest.fixture
def warnings_logged(caplog: pytest.LogCaptureFixture):
    """Messages that this package and transformers (whose logger does not propagate) log as warnings."""
    logger = transformers_logging.get_logger("transformers")
    logger.addHandler(caplog.handler)
    yield lambda: [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    logger.removeHandler(caplog.handler)


@pytest.fixture
def modules_cache(tmp_path, monkeypatch):
    """Keep code that is loaded with a model out of the user's cache, and modules of other tests' models out of this one's way."""
    monkeypatch.setattr(dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if not Path(folder, "transformers_modules").is_dir()])
    for name in [name for name in sys.modules if name.partition(".")[0] == "transformers_modules"]:
        monkeypatch.delitem(sys.modules, name)
