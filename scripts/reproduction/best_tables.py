"""The best of each kind of model with the same recipes for all data sets, and what they are together."""

from dataclasses import replace
from typing import Any

from table_layout import Line
from table_rows import MINILM_PACKAGE, RECIPES, SVM, Row, Table

__all__ = ["BEST_TABLES", "NEIGHBORS", "NEIGHBORS_MINILM"]

DISMEC = Row("dismec", "DiSMEC, one-vs-all", Line("tab:gray", "solid"), seeded=False)
PARABEL = Row("parabel", "Parabel", Line("tab:brown", "dashed"), seeded=False)
BONSAI = Row("bonsai", "Bonsai", Line("tab:olive", "dashed"), seeded=False)
NEIGHBORS = Row("neighbors", "neighbours by TF-IDF", Line("tab:pink", "dashed"), seeded=False)
NEIGHBORS_MINILM = Row(
    "neighbors-minilm",
    "neighbours by MiniLM (pretrained, frozen)",
    Line("tab:red", "dashed"),
    seeded=False,
    backbone_package=MINILM_PACKAGE,
)
NEIGHBORS_TUNED = Row(
    "neighbors-minilm-tuned",
    "neighbours by MiniLM (pretrained, tuned contrastively)",
    Line("tab:red", "solid"),
    backbone_package=MINILM_PACKAGE,
)
BEST_ALONE = (
    DISMEC,
    PARABEL,
    BONSAI,
    NEIGHBORS,
    Row("bertxml", "BertXML, one layer of width 192", Line("tab:blue", "solid")),
    NEIGHBORS_MINILM,
    Row("bertxml-minilm", "BertXML on MiniLM (pretrained)", Line("tab:orange", "solid"), backbone_package=MINILM_PACKAGE),
)
_FROM_SCRATCH = ("dismec", "bonsai", "bertxml")
BEST = (
    SVM,
    *BEST_ALONE,
    Row(
        "consensus",
        "consensus of DiSMEC, Bonsai and BertXML",
        Line("tab:cyan", "dotted"),
        parts=_FROM_SCRATCH,
        method="consensus",
    ),
    Row("ensemble", "DiSMEC, Bonsai and BertXML, tuned", Line("black", "dotted"), parts=_FROM_SCRATCH),
    Row(
        "ensemble-neighbors",
        "DiSMEC, Bonsai, BertXML and neighbours by TF-IDF, tuned",
        Line("black", "dashed"),
        parts=(*_FROM_SCRATCH, "neighbors"),
    ),
    Row(
        "ensemble-minilm",
        "DiSMEC, Bonsai, BertXML and both neighbours, tuned",
        Line("black", "solid"),
        parts=(*_FROM_SCRATCH, "neighbors", "neighbors-minilm"),
    ),
)
_WITH_NEIGHBORS = tuple(
    Row(
        f"ensemble-{name}",
        f"DiSMEC, Bonsai and neighbours by {words}, tuned weights",
        Line("black", style),
        parts=("dismec", "bonsai", "neighbors", *parts),
        seeded=name == "tuned",
    )
    for name, words, style, parts in (
        ("words", "TF-IDF", "dotted", ()),
        ("frozen", "TF-IDF and by MiniLM, frozen", "dashed", ("neighbors-minilm",)),
        ("tuned", "TF-IDF and by MiniLM, tuned", "solid", ("neighbors-minilm-tuned",)),
    )
)
# With thousands of labels.
_MANY = ("dismec", "bonsai", "parabel", "neighbors", "neighbors-minilm")
BEST_OF_MANY = (
    *BEST_ALONE[:-1],
    Row(
        "consensus",
        "consensus of DiSMEC, Bonsai, Parabel and both neighbours",
        Line("tab:cyan", "dotted"),
        parts=_MANY,
        method="consensus",
        seeded=False,
    ),
    Row(
        "ensemble",
        "DiSMEC, Bonsai, Parabel and neighbours by TF-IDF, tuned",
        Line("black", "dotted"),
        parts=_MANY[:4],
        seeded=False,
    ),
    Row(
        "ensemble-minilm",
        "DiSMEC, Bonsai, Parabel and both neighbours, tuned",
        Line("black", "solid"),
        parts=_MANY,
        seeded=False,
    ),
)
# All labels of the label file are in the label space, also those without training documents.
_OF_UNSEEN = (
    *(replace(row, overrides={"label_space": "file"}) for row in (PARABEL, BONSAI, NEIGHBORS)),
    replace(NEIGHBORS_MINILM, overrides={"label_space": "file", "bf16": None}),
    *(
        Row(
            f"ensemble-{name}",
            f"Parabel, Bonsai and {words}, tuned weights",
            Line("black", style),
            parts=("parabel", "bonsai", *parts),
            seeded=False,
        )
        for name, words, style, parts in (
            ("words", "neighbours by TF-IDF", "dotted", ("neighbors",)),
            ("both", "both neighbours", "solid", ("neighbors", "neighbors-minilm")),
        )
    ),
)


def _best_on(dataset: str, title: str, rows: tuple[Row, ...] = BEST, name: str | None = None, **settings: Any) -> Table:
    heading = f"The best of each kind, and ensembles: {title}"
    return Table(name or f"best-{dataset}", heading, dataset, rows, RECIPES / "best", **settings)


BEST_TABLES = {
    **{
        f"best-{name}": _best_on(name, title)
        for name, title in (
            ("demo", "demo data set"),
            ("cooking-stackexchange", "Cooking Stack Exchange"),
            ("reuters-21578", "Reuters-21578"),
            ("debtags", "Debtags"),
        )
    },
    "best-llms4subjects-en": _best_on(
        "llms4subjects-en",
        "LLMs4Subjects (22,625 labels)",
        BEST_OF_MANY,
        label_names="name_en",
        remarks=(
            "Labels without an English name, 44 % of them, have a German one. 64 % of the labels of validation documents and 32 % of those of "
            "test documents have English names. Neighbours read names and were set on validation: from there to the test split they lose 3.5 to "
            "3.8 points of nDCG@5, Bonsai 1.1 and Parabel 1.5.",
            "2.3 % of the test texts are also training texts, but for case and punctuation. Without them nDCG@5 is 42.9 (Bonsai), 42.3 (neighbours by "
            "TF-IDF), 45.8 (neighbours by MiniLM) and 49.5 (both neighbours, tuned), counted once from the stored predictions.",
            "The linear SVM was not run: its weights are dense. DiSMEC is the same classifier with small weights left out. BertXML on MiniLM was "
            "not run either: three epochs would take about two hours of a thread.",
        ),
    ),
    "neighbors-demo": Table(
        name="neighbors-demo",
        title="Neighbours on the demo data: words, a frozen encoder, a tuned one, and what each adds to linear models",
        dataset="demo",
        recipes=RECIPES / "best",
        rows=(DISMEC, BONSAI, NEIGHBORS, NEIGHBORS_MINILM, NEIGHBORS_TUNED, *_WITH_NEIGHBORS),
        pairs=(
            ("neighbors-minilm", "neighbors-minilm-tuned"),
            ("ensemble-words", "ensemble-frozen"),
            ("ensemble-frozen", "ensemble-tuned"),
        ),
    ),
    "unseen-llms4subjects-en": _best_on(
        "llms4subjects-en",
        "labels that training never saw, on LLMs4Subjects (22,625 labels in training)",
        _OF_UNSEEN,
        name="unseen-llms4subjects-en",
        label_names="name_en",
        remarks=(
            "All labels of the data set's label file are in the label space. 9.9 % of the labels of test documents were never seen in training. How many of "
            "them are found: python scripts/reproduction/label_groups.py on the model folders.",
        ),
    ),
}
