import sys

import pytest

from hf_xmtc.training import plot_training_curve

PNG = b"\x89PNG\r\n"


@pytest.mark.parametrize(
    "history",
    [
        [
            {"step": 1, "loss": 0.7},
            {"step": 2, "loss": 0.5, "grad_norm": 1.0},
            {"step": 2, "eval_loss": 0.6, "eval_P@1": 0.5, "eval_nDCG@5": 0.6},
            {"step": 2, "train_runtime": 1.0},
        ],
        [],  # stopped before anything was logged
    ],
)
def test_a_picture_is_written_whatever_was_logged(tmp_path, history):
    plot_training_curve(history, tmp_path / "curve.png", "bertxml on demo")
    assert (tmp_path / "curve.png").read_bytes().startswith(PNG)


def test_the_users_plotting_state_is_left_alone(tmp_path):
    before = "matplotlib.pyplot" in sys.modules
    plot_training_curve([{"step": 1, "loss": 0.7}], tmp_path / "curve.png", "title")
    assert ("matplotlib.pyplot" in sys.modules) == before
