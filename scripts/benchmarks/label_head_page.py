"""The page of ``label_head_speed.py``: its JSON content as Markdown."""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from label_head_cases import METHODS, TOP_K, TOP_K_BATCH
from label_head_comparison import WEIGHT_PASSES, number

__all__ = ["MET", "markdown", "table"]

NOTHING = "–"
MET = {True: "met", False: "**missed**", None: NOTHING}


def markdown(content: Mapping[str, Any]) -> str:
    """Write the page.

    Args:
        content: What the benchmark's JSON file holds.
    """
    groups = content["comparisons"]
    names = {int(count): name for count, name in content["data_sets"].items()}
    steps = [group for group in groups if group["kind"] == "step" and not group["cornet_num_blocks"]]
    targets = [(check["target"], check["measured"], MET[check["met"]]) for check in content["checks"]]
    parts = [f"# {content['title']}", _machine_note(content), "## Targets", table(["target", "measured", ""], targets)]
    if steps:
        parts += ["## Training step of the head, ms", STEP_NOTE, _step_table(steps, names, _time_cell), _loss_note(steps)]
        parts += ["## Memory beyond the weights, MiB", MEMORY_NOTE, _step_table(steps, names, _memory_cell)]
        parts += ["## Against what the machine can do", _bound_note(content), _bound_table(steps)]
    topk = [group for group in groups if group["kind"] == "topk"]
    if topk:
        parts += [f"## Top-{TOP_K}, ms", TOPK_NOTE, _topk_table(topk, names)]
    cornets = [group for group in groups if group["kind"] == "step" and group["cornet_num_blocks"]]
    if cornets:
        parts += ["## Head with CorNet", CORNET_NOTE, *map(_cornet_table, cornets), _loss_note(cornets)]
    parts += [part for group in groups if group["kind"] == "named" for part in _named_section(group)]
    return "\n\n".join(part for part in parts if part) + "\n"


STEP_NOTE = (
    "Forward, backward and update through autograd, the gradient of the features included; median over all steps. In brackets: how "
    "many times faster than usual Adam / than usual fused Adam. Usual: `nn.Linear`, `BCEWithLogitsLoss` on dense targets, which are "
    "scattered into one tensor that is never made anew, `torch.optim.Adam`. Ours: what `XMTCTrainer` does in a step. Gradient "
    "clipping is off in all. Five positives per document."
)
MEMORY_NOTE = (
    "Peak of the process's resident memory after the weights were there (on a GPU: of torch's allocator), optimizer state included; "
    "in brackets as a share of the weights."
)
TOPK_NOTE = (
    "Usual: `F.linear` and `torch.topk` on all logits. In brackets: how many times faster than usual. One read is the sum of all "
    "weights, in the same process. Rows differ where any id does; by how much its logit differs stands beside."
)
CORNET_NOTE = (
    "Usual: the plain CorNet module behind `nn.Linear`, the loss on dense targets. Memory in all includes the weights."
)


def table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table with numbers on the right of every column but the first."""
    lines = [heading, ["---", *["---:"] * (len(heading) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _machine_note(content: Mapping[str, Any]) -> str:
    machine, settings = content["machine"], content["settings"]
    note = (
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gib']:.0f} GiB of memory; {settings['threads']} threads, "
        f"float32, on {settings['device']}; torch {settings['torch']}."
    )
    probes = [entry for name, found in content["cases"].items() if name.startswith("machine/") for entry in found["rounds"]]
    if probes:
        square = [entry["gflops"]["square"] for entry in probes]
        read = [entry["gb_per_second"] for entry in probes]
        note += (
            f" Measured all along the run ({len(probes)} times): products of 1024 × 1024 matrices at {statistics.median(square):.0f} "
            f"GFLOP/s ({min(square):.0f} to {max(square):.0f}), reading of memory at {statistics.median(read):.1f} GB/s "
            f"({min(read):.1f} to {max(read):.1f})."
        )
    return (
        note
        + " Every case runs in a process of its own, usual and ours in turn, and in several rounds where a step is short."
    )


def _sizes(group: Mapping[str, Any], names: Mapping[int, str]) -> list[str]:
    name = names.get(group["num_labels"])
    label_count = f"{group['num_labels']:,}" + (f" ({name})" if name else "")
    return [label_count, str(group["width"])] + ([str(group["batch_size"])] if group["batch_size"] else [])


def _step_table(
    groups: Sequence[Mapping[str, Any]], names: Mapping[int, str], cell: Callable[[Mapping[str, Any]], str]
) -> str:
    heading = ["labels", "d", "B", "weights, MiB", *METHODS.values()]
    rows = [
        [*_sizes(group, names), number(group["weights_mib"]), *(_shown(group["methods"].get(m), cell) for m in METHODS)]
        for group in groups
    ]
    return table(heading, rows)


def _shown(entry: Mapping[str, Any] | None, cell: Callable[[Mapping[str, Any]], str]) -> str:
    """A cell, or why there is no number in it."""
    if not entry:
        return NOTHING
    if "does_not_fit" in entry:
        return f"does not fit (needs about {entry['does_not_fit']['needed_gib']:.0f} GiB)"
    return "failed" if "failed" in entry else cell(entry)


def _time_cell(entry: Mapping[str, Any]) -> str:
    ratios = [f"{entry[name]:.1f}" if name in entry else NOTHING for name in ("faster_than_usual", "faster_than_fused")]
    return f"{number(entry['ms'])} ({' / '.join(ratios)})"


def _memory_cell(entry: Mapping[str, Any]) -> str:
    extra = entry.get("extra_cuda_mib", entry["extra_mib"])
    return f"{extra:,.0f} ({100 * entry['extra_share']:.0f} %)"


def _loss_note(groups: Sequence[Mapping[str, Any]]) -> str:
    differences = [group["losses_differ_by"] for group in groups if "losses_differ_by" in group]
    if not differences:
        return ""
    return f"The losses of the first step, from the same weights and documents, differ by at most {max(differences):.0e} of their size."


def _bound_note(content: Mapping[str, Any]) -> str:
    passes = ", ".join(f"{METHODS[method]} {count}" for method, count in WEIGHT_PASSES.items())
    return (
        "The bound is the larger of two times. Products: 2 · B · d · L operations each, three of them where logits are kept (logits, "
        "gradient of the features, gradient or update of the weights), four where they are computed again; ours keeps the logits that "
        f"fit into {content['settings']['memory_mib']:.0f} MiB. Their rate is that of the product that gives the logits of one block "
        "of labels, `F.linear` or ours, whichever was faster, measured just before and after the steps. Traffic: passes over 4 · d · L "
        f"bytes ({passes}) at the bandwidth of reading memory. Elementwise functions, biases and targets count nothing. In a cell: the "
        "bound in ms, and how many times that the step took. Rates are GFLOP/s of `F.linear` / ours; then of the features' gradient and "
        "of the update, torch.mm / ours."
    )


def _bound_table(groups: Sequence[Mapping[str, Any]]) -> str:
    heading = ["labels", "d", "B", "GB/s", "1024³", "logits", "gradient", "update", *METHODS.values()]
    rows = []
    for group in groups:
        if "machine" not in group:
            continue
        rates = group["machine"]["gflops"]
        pairs = [f"{rates[name]:.0f} / {rates[f'{name}_ours']:.0f}" for name in ("linear", "transposed", "outer")]
        cells = [_shown(group["methods"].get(method), _bound_cell) for method in METHODS]
        rows.append(
            [*_sizes(group, {}), f"{group['machine']['gb_per_second']:.1f}", f"{rates['square']:.0f}", *pairs, *cells]
        )
    return table(heading, rows)


def _bound_cell(entry: Mapping[str, Any]) -> str:
    return f"{number(entry['bound_ms'])} ({entry['times_bound']:.2f} ×)" if "bound_ms" in entry else NOTHING


def _topk_table(groups: Sequence[Mapping[str, Any]], names: Mapping[int, str]) -> str:
    heading = ["labels", "d", "one read"]
    heading += [
        f"{documents}, {way}" for documents in ("1 document", f"{TOP_K_BATCH} documents") for way in ("usual", "ours")
    ]
    rows = []
    for group in groups:
        if "read_ms" not in group:
            rows.append([*_sizes(group, names), *[_shown(group, str)] * 5, NOTHING])
            continue
        cells = [number(group["read_ms"])]
        for documents in ("one", "batch"):
            plain, ours = group[f"plain_{documents}_ms"], group[f"ours_{documents}_ms"]
            cells += [number(plain), f"{number(ours)} ({plain / ours:.1f})"]
        rows.append([*_sizes(group, names), *cells, _differing(group)])
    return table([*heading, "rows that differ"], rows)


def _differing(group: Mapping[str, Any]) -> str:
    gap = f" ({group['largest_logit_gap']:.0e})" if group["rows_that_differ"] else ""
    return f"{group['rows_that_differ']} of {group['rows_compared']}{gap}"


def _cornet_table(group: Mapping[str, Any]) -> str:
    title = (
        f"{group['cornet_num_blocks']} blocks × {group['cornet_context_size']}, L = {group['num_labels']:,}, d = {group['width']}, "
        f"B = {group['batch_size']}; weights {number(group['weights_mib'])} MiB"
    )
    rows = [
        [
            METHODS[method],
            _shown(entry, _time_cell),
            _shown(entry, _memory_cell),
            _shown(entry, lambda entry: f"{entry['in_all_mib']:,.0f}"),
        ]
        for method, entry in group["methods"].items()
    ]
    return f"{title}:\n\n" + table(["", "ms", "beyond the weights, MiB", "in all, MiB"], rows)


def _named_section(group: Mapping[str, Any]) -> list[str]:
    heading = f"## A model with {group['num_labels']:,} named labels"
    if "open_ms" not in group:
        return [heading, _shown(group, str)]
    return [
        heading,
        f"config.json has {group['config_bytes']} bytes. Reading {group['weights_mib']:.0f} MiB of weights takes "
        f"{number(group['read_weights_ms'])} ms, `from_pretrained` {number(group['open_ms'])} ms, the first answer of our pipeline "
        f"{number(group['first_answer_ms'])} ms and that of the library's own {number(group['stock_first_answer_ms'])} ms; their best "
        f"{TOP_K} labels are {'the same' if group['stock_answers_alike'] else '**not the same**'}.",
    ]
