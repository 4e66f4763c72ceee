"""Notes below a table of results: its data, settings and machine, and what is missing."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from hf_xmtc.commands.config_overrides import read_overrides
from table_layout import KL, SPLIT, RowResults

__all__ = ["notes_on"]

WEIGHTS = "weights_and_exponents"
RECALL, CANDIDATES = "candidate_recall", "num_candidates"
# What a model's teachers know of a document's labels, and the metrics of their votes.
TEACHER_RECALL, VOTES = "teacher_recall", "neighbors_"
SHOWN_OF_VOTES = ("P@1", "P@3", "P@5", "nDCG@3", "nDCG@5")
# What dense_peer.py has found out about its run.
GRADIENTS = "first_step_gradient_difference"
DOCUMENT_LIMITS = {
    "max_train_documents": "the training documents",
    "max_validation_documents": "the validation documents",
    "max_eval_documents": "the documents of each other split",
}


def notes_on(rows: Sequence[RowResults]) -> list[str]:
    """Data, settings and machine behind the numbers, and which runs are missing."""
    runs = [run for row in rows for run in row.runs]
    sizes = runs[0]["dataset"]
    libraries = sorted({name for run in runs for name in run["versions"]})
    documents = ", ".join(f"{split} {count:,}" for split, count in sizes["num_documents"].items())
    notes = [
        f"Data set {sizes['name']}: {sizes['num_labels']:,} labels; documents: {documents}.",
        f"Metrics are per cent on the {SPLIT} split, mean ± sample standard deviation over the runs (one seed each; a row that "
        "no seed changes has one run); labels that training never saw count as missed. Time is seconds of training, choice of "
        "settings not included, memory the most that the process held. The best value of a column is bold where it is ahead of every "
        "other: the 95 % t interval of the difference over shared seeds, at least three, leaves out 0. The metrics of a row that no seed changes "
        "count as exact.",
        *_notes_on_data(rows),
        *_notes_on_teachers(rows),
        *_notes_on_training(rows),
        "Threads: " + "; ".join(f"{row.title} {_distinct(row.runs, 'train', 'threads')}" for row in rows if row.runs) + ".",
        "Versions: " + ", ".join(f"{name} {_distinct(runs, 'versions', name)}" for name in libraries) + ".",
    ]
    resumed = [
        f"{row.title} ({count})" for row in rows if (count := sum("resumed_at_epoch" in run["train"] for run in row.runs))
    ]
    if resumed:
        notes.append(f"Left out of the time because they were interrupted and resumed: {', '.join(resumed)}.")
    for row in rows:
        if recalls := [run["metrics"][SPLIT][RECALL] for run in row.runs if RECALL in run["metrics"][SPLIT]]:
            most = row.runs[0]["metrics"][SPLIT].get(CANDIDATES)  # over a label tree their number is not fixed
            notes.append(
                f"{row.title}: the {'' if most is None else f'{most} '}candidates of a document hold {100 * statistics.fmean(recalls):.2f} % of its labels, which is the "
                "most that their model can find; labels that training never saw are among the rest." + _note_on_shares(row)
            )
    if differences := [run["train"][GRADIENTS] for run in runs if GRADIENTS in run["train"]]:
        notes.append(
            f"Gradients of the first batch by label blocks and the usual way are at most {max(differences):.1e} apart, without dropout "
            "and relative to the largest of each parameter (to a hundredth of the largest of all, where that is more)."
        )
    for row in rows:
        if len(row.runs) < row.num_wanted:
            missing = f"Missing: {row.num_wanted - len(row.runs)} of {row.num_wanted} runs of {row.title}"
            notes.append(f"{missing}; {row.skipped}." if row.skipped else f"{missing}.")
    return notes


def _notes_on_teachers(rows: Sequence[RowResults]) -> list[str]:
    """Votes and recall of the teachers, those of most rows first and without these rows' titles."""
    votes: dict[str, list[str]] = {}
    recalls: dict[str, list[str]] = {}
    for row in rows:
        splits = {
            split: [run["metrics"][split] for run in row.runs if TEACHER_RECALL in run["metrics"].get(split, {})]
            for split in ("validation", SPLIT)
        }
        means = {split: f"{_mean(runs, TEACHER_RECALL):.1f} % on {split}" for split, runs in splits.items() if runs}
        if SPLIT in means:
            shown = ", ".join(f"{name} {_mean(splits[SPLIT], VOTES + name):.2f}" for name in SHOWN_OF_VOTES)
            votes.setdefault(shown, []).append(row.title)
            recalls.setdefault(", ".join(means.values()), []).append(row.title)
    return [
        f"{what}: {_most_common_first(values)}."
        for what, values in (
            ("Votes of a teacher's texts alone, without any training", votes),
            ("Share of a document's labels that its teacher holds", recalls),
        )
        if values
    ]


def _mean(metrics: Sequence[Mapping[str, float]], name: str) -> float:
    return 100 * statistics.fmean(of_run[name] for of_run in metrics)


def _most_common_first(titles: Mapping[str, Sequence[str]]) -> str:
    (first, _), *others = sorted(titles.items(), key=lambda item: -len(item[1]))
    return "; ".join([first, *(f"{value} ({', '.join(names)})" for value, names in others)])


def _notes_on_training(rows: Sequence[RowResults]) -> list[str]:
    notes = []
    if with_rates := _with_setting(rows, "learning_rate"):
        notes.append(f"Learning rate: {_by_value(with_rates, 'learning_rate')}.")
    titles = {row.name: row.title for row in rows}
    for row in rows:
        if of_parts := [run[WEIGHTS] for run in row.runs if WEIGHTS in run]:
            means = {
                part: [statistics.fmean(values) for values in zip(*(weights[part] for weights in of_parts), strict=True)]
                for part in of_parts[0]
            }
            shown = ", ".join(f"{titles[part]} {weight:.2f} ({exponent:.1f})" for part, (weight, exponent) in means.items())
            notes.append(f"Weights (exponents) of {row.title}, mean over the runs: {shown}.")
    return notes


def _notes_on_data(rows: Sequence[RowResults]) -> list[str]:
    runs, notes = [run for row in rows for run in row.runs], []
    for setting, documents in DOCUMENT_LIMITS.items():
        if limited := _with_setting(rows, setting):
            sampled = all("document_sample" in run["recipe"] for run in runs if run["recipe"].get(setting))
            first, how = ("", ", a sample by a hash of the texts,") if sampled else ("the first ", "")
            users = "" if len(limited) == len(rows) else f" by {', '.join(row.title for row in limited)}"
            notes.append(f"Of {documents} {first}{_by_value(limited, setting)}{how} are used{users}.")
    if any("micro_f1" in run["metrics"][SPLIT] for run in runs):
        gold = runs[0]["dataset"].get("num_distinct_sets")
        limits = {_limit(run["recipe"]) for run in runs}
        notes.append(
            f"Sets hold the labels with {', or '.join(sorted(limits))} (SeqTag: the best sequence); groups are quarters of the labels by frequency in training, "
            "group 4 the rarest." + (f" The true labels form {gold:,} distinct sets." if gold is not None else "")
        )
        notes.append(
            "KL is LACO's equation 8, lower is nearer to the true dependency of labels. A pair of labels that occurs together in the test "
            "split and is never predicted together counts in it with the probability 1e-6; such clipped pairs make most of a large value, "
            "so that it falls with every pair that is predicted at all."
            + ("" if any(KL in run["train"] for run in runs) else " It was not measured on the training documents.")
        )
        notes.append(
            "Labels stand in the order of the data set's label file, or sorted where it has none; SeqTag depends on it, and LACO where its "
            "labels have positions or its filters span several of them."
        )
        with_limit = _with_setting(rows, "max_length_tokens")
        notes.append(f"Tokens of a text, labels not counted: at most {_by_value(with_limit, 'max_length_tokens')}.")
    if any(run["recipe"].get("validation_carved") for run in runs):
        notes.append(
            "The data set has no validation split: a tenth of its training documents, chosen by a hash of the text, is one."
        )
    if any("-corpus" in metric for run in runs for metric in run["metrics"][SPLIT]):
        notes.append('PSnDCG is that of the authors of CorNet and AttentionXML (`variant="corpus"` of `psndcg_at_k`).')
    return notes


def _limit(recipe: Mapping[str, Any]) -> str:
    """The rule that puts a label into a predicted set."""
    if recipe.get("tune_threshold", "none") != "none":
        return "a score above a threshold that was tuned on validation"
    return f"a score above {read_overrides(recipe.get('config_overrides')).get('decision_threshold', 0.5)}"


def _note_on_shares(row: RowResults) -> str:
    shares = _distinct(row.runs, "train", "retrieval_weight")
    return f" Votes count in the scores by a share of {shares}, chosen on validation." if shares else ""


def _with_setting(rows: Sequence[RowResults], setting: str) -> list[RowResults]:
    return [row for row in rows if any(run["recipe"].get(setting) for run in row.runs)]


def _by_value(rows: Sequence[RowResults], setting: str) -> str:
    """A setting of the recipes, and where it differs the rows that have each value."""
    titles: dict[str, list[str]] = {}
    for row in rows:
        for value in sorted({str(run["recipe"].get(setting)) for run in row.runs}):
            titles.setdefault(value, []).append(row.title)
    if len(titles) == 1:
        return next(iter(titles))
    return "; ".join(f"{value} ({', '.join(names)})" for value, names in titles.items())


def _distinct(runs: Sequence[Mapping[str, Any]], part: str, key: str) -> str:
    return " and ".join(sorted({str(run[part][key]) for run in runs if key in run[part]}))
