"""Plan of ``label_head_speed.py``: label counts, widths and batch sizes, and which cases take turns."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from label_head_cases import Case, Effort

__all__ = ["FULL", "QUICK", "Group", "Plan", "groups_of"]

# In turns of usual and ours.
ORDER = ("usual", "sgd", "fused", "rowwise", "stored", "adam")


@dataclass(frozen=True)
class Plan:
    """The measurements of a run.

    Attributes:
        data_sets: Label counts, ascending, and the data sets that have so many.
        widths: Widths d.
        batch_sizes: Documents B.
        cornets: Label count, CorNet blocks, context size and methods; with the first width and batch size.
        named_labels: Label count of the model with names.
        seconds: Seconds per process are multiplied by this.
    """

    data_sets: dict[int, str]
    widths: tuple[int, ...]
    batch_sizes: tuple[int, ...]
    cornets: tuple[tuple[int, int, int, tuple[str, ...]], ...]
    named_labels: int
    seconds: float = 1.0


FULL = Plan(
    data_sets={
        3_956: "EUR-Lex-4K",
        13_330: "AmazonCat-13K",
        131_073: "LF-Amazon-131K",
        501_008: "Wiki-500K",
        1_305_265: "LF-AmazonTitles-1.3M",
    },
    widths=(512, 768),
    batch_sizes=(32, 256),
    cornets=(
        (131_073, 2, 1000, ("usual", "fused", "sgd", "rowwise", "adam")),
        (1_305_265, 2, 100, ("sgd", "rowwise")),
    ),
    named_labels=500_000,
)
QUICK = Plan(
    data_sets={150: "small", 300: "middle", 1_000: "large"},
    widths=(8, 16),
    batch_sizes=(3, 6),
    cornets=((300, 2, 10, ("usual", "fused", "sgd", "rowwise", "adam")), (1_000, 2, 4, ("sgd", "rowwise"))),
    named_labels=1_000,
    seconds=0.0,
)


@dataclass(frozen=True)
class Group:
    """Cases that are compared, and so take turns.

    Attributes:
        cases: The cases.
        effort: How long each process measures.
        rounds: Processes per case.
        machine: Measures the machine before and after the others, at the same sizes.
    """

    cases: tuple[Case, ...]
    effort: Effort
    rounds: int
    machine: Case | None = None


def groups_of(plan: Plan, repeats: int | None = None) -> list[Group]:
    """The groups of a plan, small ones first; ``repeats`` processes per case, by default as many as a case's size affords."""
    groups = []
    for num_labels in plan.data_sets:
        for batch_size in plan.batch_sizes:
            for width in plan.widths:
                groups.append(_step_group(plan, Case("step", num_labels, width, batch_size), ORDER, repeats))
    for num_labels, blocks, context_size, methods in plan.cornets:
        sizes = Case("step", num_labels, plan.widths[0], plan.batch_sizes[0], "", blocks, context_size)
        groups.append(_step_group(plan, sizes, [method for method in ORDER if method in methods], repeats))
    for num_labels in plan.data_sets:
        for width in plan.widths:
            effort = Effort(2.0 * plan.seconds, least=3)
            groups.append(Group((Case("topk", num_labels, width),), effort, repeats or 2))
    groups.append(Group((Case("named", plan.named_labels),), Effort(0.0), repeats or 1))
    return groups


def _step_group(plan: Plan, sizes: Case, methods: Sequence[str], repeats: int | None) -> Group:
    # Short steps are compared to a few per cent, so they need many rounds; the longest take half a minute each.
    if sizes.num_labels < 10_000:
        rounds, seconds = 5, 1.0
    elif sizes.num_labels < 200_000:
        rounds, seconds = 3, 1.0
    elif sizes.num_labels * sizes.batch_size < 2e8:
        rounds, seconds = 2, 2.0
    else:
        rounds, seconds = 1, 12.0
    return Group(
        tuple(dataclasses.replace(sizes, method=method) for method in methods),
        Effort(seconds * plan.seconds),
        repeats or rounds,
        dataclasses.replace(sizes, kind="machine"),
    )
