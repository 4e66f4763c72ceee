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


@pytest.mark.parametrize("title", ["pay$_{$", "a\n$\\frac$ \x00 \u202e \udce9", "x" * 10_000, ""])
def test_a_title_is_shown_letter_by_letter(tmp_path, title):  # AC-74
    figure = plot_training_curve([{"step": 1, "loss": 0.7}], tmp_path / "curve.png", title)
    assert (tmp_path / "curve.png").read_bytes().startswith(PNG)
    assert len(figure.get_suptitle()) <= 100 and ("pay$_{$" in title) == ("pay$_{$" in figure.get_suptitle())


def test_undefined_values_are_left_out_of_the_picture(tmp_path):  # AC-68
    history = [
        {"step": step, "loss": loss, "eval_P@1": value, "eval_loss": value}
        for step, loss, value in ((1, 0.7, None), (2, float("nan"), float("inf")), (3, 0.5, 0.25))
    ]
    losses, metrics = plot_training_curve(history, tmp_path / "curve.png").axes
    assert [list(line.get_ydata()) for line in losses.lines] == [[0.7, 0.5], [0.25]]
    assert [list(line.get_ydata()) for line in metrics.lines] == [[25.0]]


def test_the_users_plotting_state_is_left_alone(tmp_path):
    before = "matplotlib.pyplot" in sys.modules
    plot_training_curve([{"step": 1, "loss": 0.7}], tmp_path / "curve.png", "title")
    assert ("matplotlib.pyplot" in sys.modules) == before
