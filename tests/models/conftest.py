"""Fixtures for the models: every variant of every family, and what the libraries log."""

import logging

import pytest
from transformers.utils import logging as transformers_logging

from hf_xmtc import XMTCPreTrainedModel
from models.families import FAMILIES, VARIANTS, Family


@pytest.fixture(params=FAMILIES, ids=lambda family: family.name)
def family(request: pytest.FixtureRequest) -> Family:
    return request.param


@pytest.fixture(params=VARIANTS.values(), ids=VARIANTS)
def model(request: pytest.FixtureRequest) -> XMTCPreTrainedModel:
    """Each family without and with CorNet, dropout off, in evaluation mode."""
    family, num_blocks = request.param
    return family.build(cornet_num_blocks=num_blocks)


@pytest.fixture
def warnings_logged(caplog: pytest.LogCaptureFixture):
    """Messages that this package and transformers (whose logger does not propagate) log as warnings."""
    logger = transformers_logging.get_logger("transformers")
    logger.addHandler(caplog.handler)
    yield lambda: [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    logger.removeHandler(caplog.handler)
