import matplotlib.image
import pytest

from hf_xmtc.analysis import plot_explanation, plot_label_frequency
from hf_xmtc.models.explanation import Explanation, TokenWeight

TEXT = "a $fast$ window manager for the X Window System " * 4


def explain() -> Explanation:
    tokens, start = [], 0
    for position, word in enumerate(TEXT.split()):
        start = TEXT.index(word, start)
        tokens.append(TokenWeight(word.lower(), start, start + len(word), 1.0 if word == "manager" else -0.01 * position))
        start += len(word)
    return Explanation(TEXT, "interface::x11", "interface: x11", 0.9, "contribution", tokens)


def test_a_picture_shows_every_word_within_its_width_and_the_strongest_in_red(tmp_path):
    figure = plot_explanation(explain(), tmp_path / "heat.png", width=4.0)
    heading, words = figure.texts[:4], figure.texts[4:]
    assert " ".join(text.get_text() for text in heading) == "interface: x11 0.900 (contribution)"
    assert len({text.get_position()[1] for text in heading}) == 1  # one line
    assert [text.get_text() for text in words] == TEXT.split()
    extents = [text.get_window_extent() for text in words]
    width, height = figure.get_size_inches() * figure.dpi
    assert all(box.x0 >= 0 and box.x1 <= width and box.y0 >= 0 and box.y1 <= height for box in extents)
    assert len({round(box.y0) for box in extents}) > 2  # several lines
    red, green, blue, _ = words[3].get_bbox_patch().get_facecolor()
    assert red > 0.8 and green < 0.5 and blue < 0.5
    assert matplotlib.image.imread(tmp_path / "heat.png").shape[1] == 600


def test_a_long_heading_and_a_word_wider_than_the_picture_are_broken():
    name, word = "a label with a very long name " * 5, "x" * 300
    figure = plot_explanation(Explanation(word, "x", name, 0.1, "attention", [TokenWeight(word, 0, 300, 1.0)]), width=4.0)
    assert "".join(text.get_text() for text in figure.texts).count("x") == 300
    width, height = figure.get_size_inches() * figure.dpi
    extents = [text.get_window_extent() for text in figure.texts]
    assert all(box.x0 >= 0 and box.x1 <= width and box.y0 >= 0 and box.y1 <= height for box in extents)


@pytest.mark.parametrize("text", ["", "   "])
def test_a_text_without_words_is_a_heading(text):
    assert len(plot_explanation(Explanation(text, "x", "x", 0.1, "attention", [])).texts) == 3


def test_frequent_and_rare_labels_are_drawn_with_the_metrics_they_have(tmp_path):
    group = {"least_count": 5, "largest_count": 9, "num_labels": 1200, "share": 0.3, "AUC": None, "AUPR": 0.5}
    report = {"split": "test", "groups": [group], "tail": {"num_labels": 3, "num_documents": 2, "P@1": 0.25}}
    figure = plot_label_frequency(report, tmp_path / "frequency.png", title="$a")
    areas, metrics = figure.axes
    assert [bar.get_height() for bar in areas.patches] == [50.0] and [bar.get_height() for bar in metrics.patches] == [25.0]
    assert areas.get_xticklabels()[0].get_text() == "5 to 9\n1,200 labels"
    assert (tmp_path / "frequency.png").stat().st_size > 1_000
