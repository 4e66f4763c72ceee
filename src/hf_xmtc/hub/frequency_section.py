"""The section of a card on frequent and rare labels."""

from collections.abc import Mapping

from hf_xmtc.metrics import SHORT_REPORT

__all__ = ["frequency_section"]


def frequency_section(report: Mapping) -> str:
    """Tables of the metrics by frequency, as Markdown.

    Args:
        report: What metrics.json holds under ``by_frequency``.
    """
    blocks = []
    kinds = {name: report[name] for name in ("head", "torso", "tail") if name in report}
    if kinds:
        shown = [metric for metric in SHORT_REPORT if any(metric in values for values in kinds.values())]
        lines = [
            f"On the {report['split']} split, in percent, each group as if there were no other labels. Head labels have more than 100 "
            "training documents, tail labels at most 5.",
            "",
            f"| labels | number | documents | {' | '.join(shown)} |",
            f"| --- | ---: | ---: |{' ---: |' * len(shown)}",
        ]
        for name, values in kinds.items():
            cells = " | ".join(f"{100 * values[metric]:.2f}" if metric in values else "–" for metric in shown)
            lines.append(f"| {name} | {values['num_labels']:,} | {values['num_documents']:,} | {cells} |")
        blocks.append("\n".join(lines))
    if report.get("groups"):
        lines = [
            "Mean area under each label's ROC and precision-recall curve, in percent, of labels in groups that occur about equally often "
            "together; labels with fewer than 5 documents there are left out:",
            "",
            "| documents of a label | labels | share | AUC | AUPR |",
            "| --- | ---: | ---: | ---: | ---: |",
        ]
        for row in report["groups"]:
            areas = " | ".join("–" if row[name] is None else f"{100 * row[name]:.2f}" for name in ("AUC", "AUPR"))
            counts = f"{row['least_count']:,} to {row['largest_count']:,}"
            lines.append(f"| {counts} | {row['num_labels']:,} | {100 * row['share']:.1f} | {areas} |")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)
