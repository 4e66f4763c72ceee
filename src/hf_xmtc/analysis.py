"""Pictures of what models do."""

from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from hf_xmtc.models.explanation import Explanation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["plot_explanation"]

LINE_HEIGHT = 0.3  # inches
FONT_SIZE = 11


def plot_explanation(explanation: Explanation, path: str | Path | None = None, width: float = 8.0) -> "Figure":
    """Draw the text of an explanation as a heat map: red words speak for the label, blue ones against it.

    Args:
        explanation: What ``pipeline(…).explain(text, label)`` gives.
        path: Where to save the picture, as PNG, SVG or PDF by its ending; None for not at all.
        width: Width in inches; the height follows from the text.

    Returns:
        The figure.

    Source: AttentionXML, figure 2.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, 1.0))
    renderer = FigureCanvasAgg(figure).get_renderer()

    def draw(x: float, line: int, text: str, **style) -> float:
        """Write at ``x`` inches from the left; where it ends."""
        drawn = figure.text(x, line, text, fontsize=FONT_SIZE, va="baseline", parse_math=False, **style)
        return x + drawn.get_window_extent(renderer).width / figure.dpi

    # Written on numbered lines first; when their number is known, the figure gets its height and the texts their places.
    margin = 0.15

    def draw_words(line: int, words: Iterable[tuple[str, dict]]) -> int:
        """Write words from the beginning of a line on; the last line. Words wider than the picture are broken."""
        x, words = margin, deque(words)
        while words:
            word, style = words.popleft()
            end = draw(x, line, word, **style)
            if end > width - margin and (x > margin or len(word) > 1):
                figure.texts[-1].remove()
                if x > margin:
                    x, line = margin, line + 1
                    words.appendleft((word, style))
                else:
                    half = len(word) // 2
                    words.extendleft([(word[half:], style), (word[:half], style)])
                continue
            x = end + 0.06
        return line

    heading = f"{explanation.name}  {explanation.score:.3f}  ({explanation.kind})"
    line = draw_words(0, ((word, {"weight": "bold"}) for word in heading.split()))
    line = draw_words(
        line + 1,
        (
            (word, {"bbox": {"facecolor": colour, "edgecolor": "none", "pad": 1.5}})
            for piece, _, colour in explanation.pieces()
            for word in piece.split()
        ),
    )
    height = (line + 1) * LINE_HEIGHT + margin
    figure.set_size_inches(width, height)
    for text in figure.texts:
        x, line = text.get_position()
        text.set_position((x / width, 1 - (line + 1) * LINE_HEIGHT / height))
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure
