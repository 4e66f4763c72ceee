"""Fixtures for the models: every variant of every family, and what the libraries log."""

import logging

import pytest
from transformers.utils import logging as transformers_logging

from hf_xmtc import XMTCPreTrainedModel
from models.families import FAMILIES, Family


@pytest.fixture(params=FAMILIES, ids=lambda family: family.name)
def family(request: pytest.FixtureRequest) -> Family:
    return request.param


@pytest.fixture(params=[0, 2], ids=["plain", "cornet"])
def model(request: pytest.FixtureRequest, family: Family) -> XMTCPreTrainedModel:
    """Each family without and with CorNet, dropout off, in evaluation mode."""
    if family.has_own_loss and request.param:
        pytest.skip("it has no place for CorNet")
    return family.build(cornet_num_blocks=request.param)


@pytest.fixture
def warnings_logged(caplog: pytest.LogCaptureFixture):
    """Messages that this package and transformers (whose logger does not propagate) log as warnings."""
    logger = transformers_logging.get_logger("transformers")
    logger.addHandler(caplog.handler)
    yield lambda: [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    logger.removeHandler(caplog.handler)
