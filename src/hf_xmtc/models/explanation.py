"""`Explanation`: which tokens of a text speak for a label, to read and to look at."""

from dataclasses import dataclass
from html import escape
from typing import NamedTuple

__all__ = ["Explanation", "TokenWeight", "colour_of"]

# Red for what speaks for a label, blue for what speaks against it; the paper's heat maps are red.
FOR, AGAINST = (220, 50, 32), (26, 97, 170)
WHITE = (1.0, 1.0, 1.0)
# Attention has full colour from this many even shares on.
EVEN = 3.0


class TokenWeight(NamedTuple):
    """A token, where it stands in the text, and its weight.

    Attributes:
        token: The token as the tokenizer spells it.
        start: Its first character in the text.
        end: The character after its last.
        weight: Its weight for the label.
    """

    token: str
    start: int
    end: int
    weight: float


@dataclass(frozen=True)
class Explanation:
    """The weight of every token of a text for one label. In a notebook it shows itself as a heat map.

    Attributes:
        text: The text.
        label: The label.
        name: Its display name.
        score: The model's score of the label for the text.
        kind: ``attention``: shares of the label's attention, which add up to 1. ``contribution``: what each token adds to the
            label's raw logit or takes from it. CorNet, where the model has it, comes after that and is in the score alone. ``margin``: the
            same for the sum of the margins on the label's path through a linear tree, in the mean over the trees. ``share``: what each
            token adds to the score.
        tokens: The tokens that the model has read, in the order of the text.
    """

    text: str
    label: str
    name: str
    score: float
    kind: str
    tokens: list[TokenWeight]

    def best_tokens(self, k: int = 10) -> list[TokenWeight]:
        """The k tokens of the largest weights, largest first; fewer where others have no weight, as unknown words have."""
        return sorted((token for token in self.tokens if token.weight), key=lambda token: -token.weight)[:k]

    def to_html(self) -> str:
        """The text as a heat map: the darker a word, the more it speaks for the label (red) or against it (blue).

        Source: AttentionXML, figure 2.
        """
        parts = []
        for piece, token, colour in self.pieces():
            if token is None:
                parts.append(escape(piece))
                continue
            red, green, blue = (round(255 * channel) for channel in colour)
            parts.append(
                f'<span style="background:rgb({red},{green},{blue})" title="{token.weight:+.4f}">{escape(piece)}</span>'
            )
        heading = f"<b>{escape(self.name)}</b> {self.score:.3f}"
        return (
            f'<div style="font-family:sans-serif;line-height:1.7;color:#000;background:#fff;padding:0.5em">{heading} '
            f'<small>({self.kind})</small><p style="white-space:pre-wrap;margin:0.4em 0">{"".join(parts)}</p></div>'
        )

    def _repr_html_(self) -> str:
        return self.to_html()

    def pieces(self) -> list[tuple[str, TokenWeight | None, tuple[float, float, float]]]:
        """The whole text in pieces, each with its token and colour; what lies between tokens has none and is white."""
        pieces, end = [], 0
        for token, colour in zip(self.tokens, self.colours(), strict=True):
            pieces.append((self.text[end : token.start], None, WHITE))
            pieces.append((self.text[max(token.start, end) : token.end], token, colour))
            end = max(end, token.end)
        return [*pieces, (self.text[end:], None, WHITE)]

    def colours(self) -> list[tuple[float, float, float]]:
        """A colour for each token, red, green and blue from 0 to 1; attention that is nearly even stays light."""
        largest = max((abs(token.weight) for token in self.tokens), default=0.0)
        if self.kind == "attention" and self.tokens:
            largest = max(largest, EVEN / len(self.tokens))
        return [colour_of(token.weight / largest if largest else 0.0) for token in self.tokens]


def colour_of(strength: float) -> tuple[float, float, float]:
    """White at 0, red towards 1, blue towards -1; each channel from 0 to 1."""
    target = FOR if strength > 0 else AGAINST
    share = 0.85 * min(1.0, abs(strength))  # dark text stays readable
    return tuple(1.0 + share * (channel / 255 - 1.0) for channel in target)
