"""From the measurements of ``training_speed.py`` to comparisons, targets and the page with the tables."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from label_head_comparison import number
from label_head_page import MET, table
from training_cases import AUTHORS, OUR_LAYERS, OURS, WAYS

__all__ = ["LEAST_RATIO", "LOST_NDCG", "checks", "compare", "markdown"]

# The targets: how many times faster an epoch has to be, and by how much nDCG@5 may be lower for quality to count as equal.
LEAST_RATIO = 2.0
LOST_NDCG = 0.005
TARGETS = {
    (family, way): words
    for family in ("xmlcnn", "attentionxml")
    for way, words in ((AUTHORS, "the authors' structure"), (OUR_LAYERS, "the authors' structure on our layers"))
}
KINDS = {"epoch": "whole epochs", "sample": "estimated from a sample"}


def compare(cases: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Put both ways of a case beside each other.

    Args:
        cases: Rounds, each with its seed, by name: ``sample/<family>/<words>/<way>``, ``epoch/…``, ``quality/<family>/<data set>/<epochs>/<way>`` or
            ``memory/<way>``.

    Returns:
        By the name without the way: numbers of each way, and ratios where both are there.
    """
    found: dict[str, dict[str, Any]] = {}
    of_kind = {"sample": _speed, "epoch": _speed, "quality": _quality, "memory": _memory}
    for name in sorted({name.rpartition("/")[0] for name in cases}):
        rounds = {way: cases.get(f"{name}/{way}", {}).get("rounds", []) for way in WAYS}
        kind = name.split("/")[0]
        group = {way: of_kind[kind](rounds[way]) for way in WAYS if rounds[way]}
        if OURS in group:
            others = [way for way in group if way != OURS]
            group["against"] = {way: _ratios(kind, group[way], group[OURS], rounds[way], rounds[OURS]) for way in others}
        if group:
            found[name] = group
    return found


def _speed(rounds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Times of an epoch: its documents at the speed of all measured steps."""
    steps = [milliseconds for entry in rounds for milliseconds in entry["step_ms"]]
    epochs = [_epoch_seconds(entry) for entry in rounds]
    spread = statistics.stdev(steps) / statistics.fmean(steps) / len(steps) ** 0.5 if len(steps) > 1 else None
    seconds = statistics.fmean(epochs)
    return {
        "steps": len(steps),
        "rounds": len(rounds),
        "median_step_ms": statistics.median(steps),
        "epoch_seconds": seconds,
        "epoch_standard_error": None if spread is None else spread * seconds,
        "epoch_seconds_of_rounds": epochs,
        "epoch_cpu_seconds": statistics.fmean(_epoch_seconds(entry, "step_cpu_ms") for entry in rounds),
        "documents_per_second": rounds[0]["epoch_documents"] / seconds,
        "inference_seconds_per_1000": statistics.median(_inference_seconds(entry) for entry in rounds),
    }


def _epoch_seconds(entry: Mapping[str, Any], times: str = "step_ms") -> float:
    return sum(entry[times]) / 1000 * entry["epoch_documents"] / entry["documents"]


def _inference_seconds(entry: Mapping[str, Any]) -> float:
    return 1000 * entry["inference_seconds"] / entry["inference_documents"]


def _quality(rounds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    values = [entry["nDCG@5"] for entry in rounds]
    return {
        "nDCG@5": statistics.fmean(values),
        "nDCG@5_of_seeds": values,
        "P@1": statistics.fmean(entry["P@1"] for entry in rounds),
        "seconds_per_epoch": statistics.fmean(entry["seconds_per_epoch"] for entry in rounds),
    }


def _memory(rounds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "growth_mib": max(entry["growth_mib"] for entry in rounds),
        "weights_mib": rounds[0]["weights_mib"],
        "step_seconds": statistics.median(ms for entry in rounds for ms in entry["step_ms"]) / 1000,
        "first_loss": rounds[0]["first_loss"],
    }


def _ratios(
    kind: str,
    theirs: Mapping[str, Any],
    ours: Mapping[str, Any],
    their_rounds: Sequence[Mapping[str, Any]],
    our_rounds: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    if kind == "quality":
        return {"difference": ours["nDCG@5"] - theirs["nDCG@5"]}
    if kind == "memory":
        return {
            "times_less_memory": theirs["growth_mib"] / max(ours["growth_mib"], 1e-9),
            "losses_differ_by": abs(ours["first_loss"] - theirs["first_loss"]) / abs(theirs["first_loss"]),
        }
    pairs = [(one, other) for one in their_rounds for other in our_rounds if one["seed"] == other["seed"]]
    return {
        "times_faster": theirs["epoch_seconds"] / ours["epoch_seconds"],
        "times_faster_in_rounds": [_epoch_seconds(one) / _epoch_seconds(other) for one, other in pairs],
        "times_less_cpu": theirs["epoch_cpu_seconds"] / max(ours["epoch_cpu_seconds"], 1e-9),
        "inference_times_faster": theirs["inference_seconds_per_1000"] / ours["inference_seconds_per_1000"],
    }


def checks(comparisons: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The targets and whether they are met; None where it was not measured. Whole epochs count before samples."""
    found = []
    for family, way in TARGETS:
        kind = next((kind for kind in KINDS if _of(comparisons, kind, family, way)), "sample")
        ratios = {name: entry["times_faster"] for name, entry in _of(comparisons, kind, family, way).items()}
        found.append(
            {
                "target": f"{family}: an epoch at least {LEAST_RATIO:g} times faster than {TARGETS[family, way]}",
                "measured": _listed({name: f"{number(ratio)} ×" for name, ratio in ratios.items()}),
                "met": min(ratios.values()) >= LEAST_RATIO if ratios else None,
            }
        )
    for family in dict.fromkeys(family for family, _ in TARGETS):
        losses = {name: entry["difference"] for name, entry in _of(comparisons, "quality", family, AUTHORS).items()}
        found.append(
            {
                "target": f"{family}: equal quality, nDCG@5 on validation at most {100 * LOST_NDCG:g} points lower",
                "measured": _listed({name: f"{100 * loss:+.2f} points" for name, loss in losses.items()}),
                "met": min(losses.values()) >= -LOST_NDCG if losses else None,
            }
        )
    return found


def _of(comparisons: Mapping[str, Mapping[str, Any]], kind: str, family: str, way: str) -> dict[str, Mapping[str, Any]]:
    """Ours against a way, of all that was measured of a model."""
    groups = {name: group for name, group in comparisons.items() if name.startswith(f"{kind}/{family}/")}
    return {name: group["against"][way] for name, group in groups.items() if way in group.get("against", {})}


def _listed(values: Mapping[str, str]) -> str:
    return ", ".join(f"{value} ({name})" for name, value in values.items()) or "not measured"


# ---- the page --------------------------------------------------------------------------------------------------------------

SPEED_NOTE = (
    "Ours: what `XMTCTrainer` does by default, with sparse embedding gradients: random batches, encoded in chunks of similar "
    "lengths, targets as label ids, loss and best labels block by block. Authors' structure: documents padded to the maximum length (models "
    "with an LSTM cut a batch to its longest document), random batches, targets as a (B, L) matrix, logits and best labels of all labels "
    "at once. Their layers are two-dimensional convolutions, LSTMs over packed documents and attention of all labels at once; the same on "
    "our layers is all the rest of it. Sizes, initial weights, batch size, optimizer and clipping are the same in all, and word embeddings "
    "have sparse gradients but in the authors' BertXML. The ways take turns in every round. A step is timed from the end of the one "
    "before, so making the batches counts; on all cores is the processor time of an epoch, which other processes "
    "disturb less. In brackets: how many times faster ours is than the way in that row."
)
SAMPLE_NOTE = (
    "An estimated epoch is that of its documents at the speed of the sampled steps, which lie evenly in the order of the epoch's batches "
    "by length; a step's time follows its length, so ± (one standard error, as if the steps were drawn at random) is rather too large."
)
QUALITY_NOTE = (
    "The same epochs from the same initial weights; mean over seeds, on the validation split, in per cent. XML-CNN pools a document's own "
    "length in ours and all padded columns in the authors' structure."
)
MEMORY_NOTE = (
    "How much a new process grows by training steps once the weights are there: activations, gradients and optimizer state. The dense way "
    "holds (B, L, T) attention weights and (B, L, 2H) contexts for autograd."
)


def markdown(content: Mapping[str, Any]) -> str:
    """Write the page.

    Args:
        content: What the benchmark's JSON file holds.
    """
    groups = content["comparisons"]
    targets = [(check["target"], check["measured"], MET[check["met"]]) for check in content["checks"]]
    parts = [f"# {content['title']}", _machine_note(content), "## Targets", table(["target", "measured", ""], targets)]
    speed = {name: group for name, group in groups.items() if name.split("/")[0] in KINDS}
    if speed:
        parts += ["## Training and inference time", SPEED_NOTE, _speed_table(speed), SAMPLE_NOTE]
    quality = {name: group for name, group in groups.items() if name.startswith("quality/")}
    if quality:
        parts += ["## Quality", QUALITY_NOTE, _quality_table(quality)]
    if "memory" in groups:
        parts += [
            "## Memory of one step of AttentionXML",
            _memory_sizes(content),
            MEMORY_NOTE,
            _memory_table(groups["memory"]),
        ]
    return "\n\n".join(parts) + "\n"


def _machine_note(content: Mapping[str, Any]) -> str:
    machine, settings = content["machine"], content["settings"]
    return (
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gib']:.0f} GiB of memory; {settings['threads']} threads, "
        f"float32; torch {settings['torch']}, transformers {settings['transformers']}; batches of {settings['batch_size']} documents."
    )


def _speed_table(groups: Mapping[str, Mapping[str, Any]]) -> str:
    heading = [
        "model",
        "words",
        "data",
        "",
        "median step, ms",
        "epoch, s",
        "of rounds",
        "on all cores, s",
        "documents/s",
        "inference, s per 1,000",
    ]
    rows = []
    for name, group in groups.items():
        kind, family, words = name.split("/")
        for way in filter(group.get, WAYS):
            entry, against = group[way], group.get("against", {}).get(way)
            epoch, inference = number(entry["epoch_seconds"]), f"{entry['inference_seconds_per_1000']:.2f}"
            of_rounds = _range(entry["epoch_seconds_of_rounds"])
            if kind == "sample" and entry["epoch_standard_error"] is not None:
                epoch += f" ± {number(entry['epoch_standard_error'])}"
            on_cores = number(entry["epoch_cpu_seconds"])
            if against:
                on_cores += f" ({against['times_less_cpu']:.1f} ×)"
                epoch += f" (**{against['times_faster']:.1f} ×**)"
                of_rounds += f" ({_range(against['times_faster_in_rounds'])} ×)"
                inference += f" ({against['inference_times_faster']:.1f} ×)"
            figures = [epoch, of_rounds, on_cores, number(entry["documents_per_second"]), inference]
            data = f"{KINDS[kind]}, {entry['steps']} steps"
            rows.append([family, words, data, WAYS[way], number(entry["median_step_ms"]), *figures])
    return table(heading, rows)


def _range(values: Sequence[float]) -> str:
    least, most = number(min(values)), number(max(values))
    return least if least == most else f"{least} to {most}"


def _quality_table(groups: Mapping[str, Mapping[str, Any]]) -> str:
    heading = ["model", "data set", "epochs", "seeds", "", "nDCG@5", "of seeds", "P@1", "s per epoch"]
    rows = []
    for name, group in groups.items():
        _, family, data_set, epochs = name.split("/")
        for way in filter(group.get, WAYS):
            entry = group[way]
            shown = f"{100 * entry['nDCG@5']:.2f}"
            if way == OURS and AUTHORS in group:
                shown += f" ({100 * group['against'][AUTHORS]['difference']:+.2f})"
            of_seeds = ", ".join(f"{100 * value:.2f}" for value in entry["nDCG@5_of_seeds"])
            figures = [shown, of_seeds, f"{100 * entry['P@1']:.2f}", number(entry["seconds_per_epoch"])]
            rows.append([family, data_set, epochs, str(len(entry["nDCG@5_of_seeds"])), WAYS[way], *figures])
    return table(heading, rows)


def _memory_sizes(content: Mapping[str, Any]) -> str:
    sizes = content["memory"]
    fields = ", ".join(f"{field} {value}" for field, value in sizes["settings"].items())
    return (
        f"{sizes['documents']} documents of {sizes['tokens']} words, {sizes['num_labels']:,} labels"
        + (f"; {fields}" if fields else "")
        + "."
    )


def _memory_table(group: Mapping[str, Any]) -> str:
    titles = {AUTHORS: "dense (B, L, T)", OURS: "label blocks"}
    against = group.get("against", {}).get(AUTHORS)
    rows = []
    for way in filter(group.get, titles):
        growth = f"{group[way]['growth_mib']:,.0f}"
        if way == OURS and against:
            growth += f" ({against['times_less_memory']:.1f} × less)"
        rows.append([titles[way], growth, f"{group[way]['weights_mib']:,.0f}", number(group[way]["step_seconds"])])
    text = table(["", "growth, MiB", "weights, MiB", "step, s"], rows)
    if not against:
        return text
    return (
        f"{text}\n\nThe losses of the first step, from the same weights, documents and dropout, differ by "
        f"{against['losses_differ_by']:.0e} of their size."
    )
