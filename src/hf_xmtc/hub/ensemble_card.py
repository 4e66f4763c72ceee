"""The sections of an ensemble's card on its parts."""

from collections.abc import Mapping

from hf_xmtc.metrics import SHORT_REPORT

from .markdown import code, escaped

__all__ = ["introduction", "parts_section"]

METHODS = {
    "tuned": "Σ wᵢ · pᵢ^eᵢ, with weights and exponents that were best on the validation split",
    "consensus": "1 - Π (1 - pᵢ), AttentionXML's equation 9",
    "mean_score": "the mean of their scores",
    "mean_rank": "the mean of their ranks",
}


def introduction(num_labels: int, dataset_name: str, recipe: Mapping) -> str:
    """The first paragraph."""
    parts = recipe.get("parts") or {}
    families = ", ".join(code(part.get("model_type", "?")) for part in parts.values())
    method = METHODS.get(recipe.get("method"), "a combination of their scores")
    return (
        f"Tags a text with the right few of **{num_labels:,} labels**. An ensemble of {len(parts)} models ({families}) trained on "
        f"{escaped(dataset_name)}, made with `hf_xmtc`; a label's score is {method}. A text can have any number of labels."
    )


def parts_section(metrics: Mapping, recipe: Mapping) -> str:
    """Tables of the parts and methods and of what the parts have in common.

    Args:
        metrics: What metrics.json holds: ``comparison`` and ``overlap``.
        recipe: What recipe.json holds.
    """
    blocks = []
    for split, rows in metrics.get("comparison", {}).items():
        shown = [name for name in SHORT_REPORT if any(name in values for values in rows.values())]
        lines = [f"On the {split} split, in percent:", "", f"| | {' | '.join(shown)} |", f"| --- |{' ---: |' * len(shown)}"]
        for name, values in rows.items():
            cells = " | ".join(f"{100 * values[metric]:.2f}" if metric in values else "–" for metric in shown)
            lines.append(f"| {escaped(name)} | {cells} |")
        blocks.append("\n".join(lines))
    parts = recipe.get("parts") or {}
    weighted = {name: part for name, part in parts.items() if "weight" in part}
    if weighted:
        lines = ["| part | weight | exponent |", "| --- | ---: | ---: |"]
        lines += [
            f"| {escaped(name)} | {part['weight']:.3f} | {part.get('exponent', 1):g} |" for name, part in weighted.items()
        ]
        blocks.append("\n".join(lines))
    return "\n\n".join([*blocks, *_overlap(metrics.get("overlap") or {})])


def _overlap(overlap: Mapping) -> list[str]:
    pairs = overlap.get("pairs") or {}
    if not pairs:
        return []
    ks = range(1, 1 + max(map(len, pairs.values())))
    where = f" on the {overlap['split']} split" if overlap.get("split") else ""
    lines = [f"Share of the first k labels that two parts have in common{where}, in percent:", ""]
    lines += [f"| | {' | '.join(f'top {k}' for k in ks)} |", f"| --- |{' ---: |' * len(ks)}"]
    lines += [
        f"| {escaped(pair)} | {' | '.join(f'{100 * share:.0f}' for share in shares)} |" for pair, shares in pairs.items()
    ]
    blocks = ["\n".join(lines)]
    if found := overlap.get("right_labels"):
        only = ", ".join(f"{count:,} only by {escaped(name)}" for name, count in found["only"].items())
        blocks.append(
            f"Of {found['positives']:,} right labels {found['all']:,} are among the first {len(ks)} of all parts, {only}, and "
            f"{found['none']:,} of none."
        )
    return blocks
