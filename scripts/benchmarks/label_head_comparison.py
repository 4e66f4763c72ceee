"""From the measurements of ``label_head_speed.py`` to comparisons, and to targets that are met or missed."""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from label_head_cases import METHODS, OURS, TOP_K, TOP_K_BATCH, Case

__all__ = ["Check", "bound_ms", "checks", "compare", "needed_products", "number"]

MIB = 2**20
# How often a step has to read or write a matrix of the size of the weights. Forward and backward read the weights, an update reads
# and writes them while they are in the cache; Adam reads and writes two moments, and where gradients are stored these are
# written, read again, and the weights read once more.
WEIGHT_PASSES = {"sgd": 3, "rowwise": 3, "adam": 7, "stored": 10, "usual": 10, "fused": 10}
IN_BACKWARD = ("sgd", "rowwise", "adam")
LIGHT = ("sgd", "rowwise")


@dataclass(frozen=True)
class Check:
    """One target: what was wanted, what was measured, and whether that is enough (None: it was not measured)."""

    target: str
    measured: str
    met: bool | None


# ---- comparisons -----------------------------------------------------------------------------------------------------------


def needed_products(case: Case, memory_mib: float) -> float:
    """Products of a block of weights with the batch in a step: logits, gradient of the features, and gradient or update.

    Without the (B, L) logits in memory they are computed twice; those that fit into ``memory_mib`` are not.
    """
    if case.method not in OURS:
        return 3.0
    return 4.0 - min(1.0, memory_mib * MIB / (4 * case.batch_size * case.num_labels))


def bound_ms(case: Case, gflops: float, gb_per_second: float, memory_mib: float) -> float:
    """Milliseconds that a step of the head takes at least: its products at ``gflops``, or its traffic at ``gb_per_second``."""
    weights = case.num_labels * case.width
    products = needed_products(case, memory_mib) * 2 * weights * case.batch_size / gflops / 1e6
    return max(products, WEIGHT_PASSES[case.method] * 4 * weights / gb_per_second / 1e6)


def compare(results: Mapping[str, Any], cases: Sequence[Case], memory_mib: float) -> list[dict[str, Any]]:
    """Bring the rounds of all cases together.

    Args:
        results: What the benchmark has stored of each case, by name: ``rounds``, and ``does_not_fit`` or ``failed`` where it has
            none.
        cases: The cases of the plan.
        memory_mib: Logits that our steps keep.

    Returns:
        A dict per group of cases of the same kind and size, in the order of the plan: for steps with ``methods``, else with
        the medians of what was measured.
    """
    groups: dict[tuple, dict[str, Any]] = {}
    for case in cases:
        found = results.get(case.name, {})
        if case.kind == "machine":
            continue
        key = (case.kind, case.num_labels, case.width, case.batch_size, case.cornet_num_blocks, case.cornet_context_size)
        group = groups.setdefault(key, _sizes(case))
        if case.kind == "step":
            group["methods"][case.method] = _step_summary(found)
        else:
            group.update(_medians(found))
    for group in groups.values():
        if group["kind"] == "step":
            _add_ratios(group)
            _add_bounds(group, results, memory_mib)
    return list(groups.values())


def _sizes(case: Case) -> dict[str, Any]:
    sizes: dict[str, Any] = {name: value for name, value in asdict(case).items() if name != "method"}
    if case.kind == "step":
        sizes |= {"weights_mib": case.weight_bytes / MIB, "methods": {}}
    return sizes


def _absence(found: Mapping[str, Any]) -> dict[str, Any]:
    return {name: found[name] for name in ("does_not_fit", "failed") if name in found}


def _step_summary(found: Mapping[str, Any]) -> dict[str, Any]:
    rounds = found.get("rounds", [])
    if not rounds:
        return _absence(found)
    times = [value for entry in rounds for value in entry["ms"]]
    summary = {"ms": statistics.median(times), "steps": len(times), "first_loss": rounds[0]["first_loss"]}
    for name in ("extra_mib", "process_mib", "extra_cuda_mib"):
        if name in rounds[0]:
            summary[name] = max(entry[name] for entry in rounds)
    return summary


def _medians(found: Mapping[str, Any]) -> dict[str, Any]:
    rounds = found.get("rounds", [])
    if not rounds:
        return _absence(found)
    summary = {}
    for name, value in rounds[0].items():
        if isinstance(value, list):
            summary[name] = statistics.median(item for entry in rounds for item in entry[name])
        elif isinstance(value, bool):
            summary[name] = all(entry[name] for entry in rounds)
        else:
            summary[name] = max(entry[name] for entry in rounds)
    return summary


def _add_ratios(group: dict[str, Any]) -> None:
    measured = {method: entry for method, entry in group["methods"].items() if "ms" in entry}
    for entry in measured.values():
        extra = entry.get("extra_cuda_mib", entry["extra_mib"])
        entry["extra_share"] = extra / group["weights_mib"]
        entry["in_all_mib"] = group["weights_mib"] + extra
        for other in ("usual", "fused"):
            if other in measured:
                entry[f"faster_than_{other}"] = measured[other]["ms"] / entry["ms"]
    losses = [entry["first_loss"] for entry in measured.values()]
    if losses:
        group["losses_differ_by"] = (max(losses) - min(losses)) / max(abs(max(losses)), 1e-30)


def _add_bounds(group: dict[str, Any], results: Mapping[str, Any], memory_mib: float) -> None:
    """Bounds by what the machine did just before and after the group, the faster of two ways of each product."""
    probe = Case("machine", group["num_labels"], group["width"], group["batch_size"], "", *_cornet(group))
    rounds = results.get(probe.name, {}).get("rounds", [])
    if not rounds:
        return
    mean = {name: statistics.fmean(entry["gflops"][name] for entry in rounds) for name in rounds[0]["gflops"]}
    group["machine"] = {"gflops": mean, "gb_per_second": statistics.fmean(entry["gb_per_second"] for entry in rounds)}
    group["machine"]["block_labels"] = rounds[0]["block_labels"]
    if group["cornet_num_blocks"]:
        return
    rate, bandwidth = max(mean["linear"], mean["linear_ours"]), group["machine"]["gb_per_second"]
    for method, entry in group["methods"].items():
        if "ms" in entry:
            case = Case("step", group["num_labels"], group["width"], group["batch_size"], method)
            entry["products"] = needed_products(case, memory_mib)
            entry["bound_ms"] = bound_ms(case, rate, bandwidth, memory_mib)
            entry["times_bound"] = entry["ms"] / entry["bound_ms"]
            entry["times_bound_without_recomputing"] = entry["ms"] / bound_ms(case, rate, bandwidth, float("inf"))


def _cornet(group: Mapping[str, Any]) -> tuple[int, int]:
    return group["cornet_num_blocks"], group["cornet_context_size"]


# ---- targets ---------------------------------------------------------------------------------------------------------------


def checks(groups: Sequence[Mapping[str, Any]]) -> list[Check]:
    """Hold the comparisons against the targets, which are set for the largest and the smallest label set of the plan."""
    steps = [group for group in groups if group["kind"] == "step" and not group["cornet_num_blocks"]]
    cornets = [group for group in groups if group["kind"] == "step" and group["cornet_num_blocks"]]
    topk = [group for group in groups if group["kind"] == "topk"]
    named = [group for group in groups if group["kind"] == "named"]
    return [
        *(_step_checks(steps) if steps else []),
        *(_topk_checks(topk) if topk else []),
        *(_cornet_checks(cornets) if cornets else []),
        *(_named_checks(named) if named else []),
    ]


def _step_checks(steps: Sequence[Mapping[str, Any]]) -> list[Check]:
    counts, widths, batches = (sorted({group[name] for group in steps}) for name in ("num_labels", "width", "batch_size"))
    largest, smallest = counts[-1], counts[0]
    few, many = batches[0], batches[-1]
    narrow = [
        group for group in steps if (group["num_labels"], group["width"], group["batch_size"]) == (largest, widths[0], few)
    ]
    wide = [
        group for group in steps if (group["num_labels"], group["width"], group["batch_size"]) == (largest, widths[-1], few)
    ]
    long = [group for group in steps if group["batch_size"] == many and group["num_labels"] >= counts[len(counts) // 2]]
    small = [group for group in steps if group["num_labels"] == smallest]
    at = f"L = {largest:,}, d = {widths[0]}, B = {few}"
    found = []
    for methods, title, usual, fused in ((LIGHT, "SGD and row-wise", 4.8, 2.3), (("adam",), "Adam", 3.6, 1.6)):
        for other, factor, name in (("usual", usual, "usual Adam"), ("fused", fused, "fused Adam")):
            values = _of_methods(narrow, methods, f"faster_than_{other}")
            found.append(
                _at_least(f"{at}: {title} in backward at least {factor} × faster than {name}", values, factor, " ×")
            )
    found += [
        _at_most(f"{at}: SGD and row-wise at most 5 % of memory beyond the weights", _per_cent(narrow, LIGHT), 5.0, " %"),
        _at_most(
            f"{at}: Adam at most 2.1 × the weights beyond them", _of_methods(narrow, ("adam",), "extra_share"), 2.1, " ×"
        ),
        _at_most(
            f"L = {largest:,}, d = {widths[-1]}, B = {few}: SGD and row-wise within 5 GiB, weights included",
            [(where, value / 1024) for where, value in _of_methods(wide, LIGHT, "in_all_mib")],
            5.0,
            " GiB",
        ),
    ]
    for methods, title, factor in ((LIGHT, "SGD and row-wise", 1.5), (("adam",), "Adam", 1.8)):
        strict = _of_methods(long, methods, "times_bound_without_recomputing")
        beside = f"; if logits were computed once only: {max(value for _, value in strict):.2f} ×" if strict else ""
        found.append(
            _at_most(
                f"B = {many}, L from {counts[len(counts) // 2]:,}: {title} within {factor} × the bound",
                _of_methods(long, methods, "times_bound"),
                factor,
                " ×",
                beside,
            )
        )
    slower = [(where, 1 / value) for where, value in _of_methods(small, OURS, "faster_than_fused")]
    found.append(_at_most(f"L = {smallest:,}: nothing takes more than 1.05 × as long as fused Adam", slower, 1.05, " ×"))
    return found


def _topk_checks(groups: Sequence[Mapping[str, Any]]) -> list[Check]:
    largest = max(group["num_labels"] for group in groups)
    measured = [group for group in groups if group["num_labels"] == largest and "read_ms" in group]

    def ratios(over: str, under: str) -> list[tuple[str, float]]:
        return [(f"d = {group['width']}", group[f"{over}_ms"] / group[f"{under}_ms"]) for group in measured]

    differing = [(f"d = {group['width']}", group["rows_that_differ"]) for group in measured]
    gap = max((group["largest_logit_gap"] for group in measured), default=0.0)
    beside = f"; the logits of their ids are at most {gap:.0e} apart" if gap else ""
    at = f"Top-{TOP_K}, L = {largest:,}"
    return [
        _at_most(f"{at}: label ids as torch.topk gives them", differing, 0.0, " documents differ", beside),
        _at_most(f"{at}: one document at most 1.8 × one read of the weights", ratios("ours_one", "read"), 1.8, " ×"),
        _at_least(f"{at}: one document at least 1.6 × faster than usual", ratios("plain_one", "ours_one"), 1.6, " ×"),
        _at_least(
            f"{at}: {TOP_K_BATCH} documents at least 1.9 × faster than usual", ratios("plain_batch", "ours_batch"), 1.9, " ×"
        ),
    ]


def _cornet_checks(groups: Sequence[Mapping[str, Any]]) -> list[Check]:
    found = []
    for group in groups:
        at = f"CorNet {group['cornet_num_blocks']} × {group['cornet_context_size']}, L = {group['num_labels']:,}"
        methods = group["methods"]
        if "usual" not in methods:
            memory = [(where, value / 1024) for where, value in _of_methods([group], LIGHT, "in_all_mib")]
            found.append(_at_most(f"{at}: SGD and row-wise within 6 GiB, weights included", memory, 6.0, " GiB"))
            continue
        usual = methods["usual"].get("in_all_mib")
        for chosen, title, share in ((LIGHT, "SGD and row-wise", 0.25), (("adam",), "Adam", 0.7)):
            shares = [(where, value / usual) for where, value in _of_methods([group], chosen, "in_all_mib")] if usual else []
            found.append(
                _at_most(f"{at}: {title} with at most {share} of the usual memory, weights included", shares, share, "")
            )
        speeds = _of_methods([group], IN_BACKWARD, "faster_than_fused")
        found.append(_at_least(f"{at}: all three in backward no slower than usual with fused Adam", speeds, 1.0, " ×"))
    return found


def _named_checks(groups: Sequence[Mapping[str, Any]]) -> list[Check]:
    measured = [(f"L = {group['num_labels']:,}", group) for group in groups if "open_ms" in group]
    at = " and ".join(f"{group['num_labels']:,}" for group in groups) + " named labels"
    opening = [(where, group["open_ms"] - group["read_weights_ms"]) for where, group in measured]
    answers = [(where, group["first_answer_ms"]) for where, group in measured]
    unlike = [(where, float(not group["stock_answers_alike"])) for where, group in measured]
    return [
        _at_most(
            f"{at}: config.json below 1 kB", [(where, group["config_bytes"]) for where, group in measured], 999, " bytes"
        ),
        _at_most(f"{at}: from_pretrained under 1 s beyond reading the weights", opening, 1000, " ms"),
        _at_most(f"{at}: first answer of our pipeline under 1 s", answers, 1000, " ms"),
        _at_most(f"{at}: the library's own pipeline gives the same labels", unlike, 0.0, " answers differ"),
    ]


def _of_methods(groups: Iterable[Mapping[str, Any]], methods: Iterable[str], value: str) -> list[tuple[str, float]]:
    return [
        (f"{METHODS[method]}, L = {group['num_labels']:,}, d = {group['width']}, B = {group['batch_size']}", entry[value])
        for method in methods
        for group in groups
        if value in (entry := group["methods"].get(method, {}))
    ]


def _per_cent(groups: Iterable[Mapping[str, Any]], methods: Iterable[str]) -> list[tuple[str, float]]:
    return [(where, 100 * value) for where, value in _of_methods(groups, methods, "extra_share")]


def _at_most(target: str, values: list[tuple[str, float]], limit: float, unit: str, beside: str = "") -> Check:
    return _check(target, sorted(values, key=lambda pair: -pair[1]), lambda value: value <= limit, unit, beside)


def _at_least(target: str, values: list[tuple[str, float]], limit: float, unit: str) -> Check:
    return _check(target, sorted(values, key=lambda pair: pair[1]), lambda value: value >= limit, unit)


def _check(
    target: str, values: list[tuple[str, float]], is_enough: Callable[[float], bool], unit: str, beside: str = ""
) -> Check:
    """``values`` with the worst first."""
    if not values:
        return Check(target, "not measured", None)
    where, worst = values[0]
    shown = f"{number(worst)}{unit}" + (f" ({where})" if where and len(values) > 1 else "")
    if len(values) > 1:
        shown = f"worst {shown}, best {number(values[-1][1])}{unit}"
    return Check(target, shown + beside, all(is_enough(value) for _, value in values))


def number(value: float) -> str:
    """A number as the page shows it: three figures or more, whole numbers as such."""
    if value == int(value) and abs(value) < 1000:
        return str(int(value))
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
