"""Tables of controls: each asks whether a difference is what it seems to be. Their rows are changes of a few recipes."""

import itertools
from typing import Any

from table_layout import SET_METRICS, Line, TableLayout
from table_rows import FROZEN_PROBE, LINEAR_PEER, MINILM_PACKAGE, RECIPES, SVM, Row, Table

__all__ = ["CONTROL_TABLES"]

RANDOM = {"train_sampling_strategy": "random"}
WITHOUT_CORNET = {"cornet_num_blocks": 0, "cornet_context_size": None}


def _probe(**arguments: Any) -> Row:
    return Row(
        "frozen-probe",
        "MiniLM, frozen, with logistic regressions",
        Line("black", "dashed"),
        script=FROZEN_PROBE,
        seeded=False,
        backbone_package=MINILM_PACKAGE,
        overrides=arguments,
    )


# ---- LACO: name, title, line, fields of the config -------------------------------------------------------------------------

_ALONE = {"joint_embedding": False, "cross_attention": False}
LACO_ROWS = (
    ("bert", "BERT (w/o JE & CA)", Line("tab:gray", "dotted"), _ALONE),
    ("bert-mean", "BERT, mean of the states", Line("tab:brown", "dotted"), {**_ALONE, "classifier_token": "mean"}),
    ("without-je", "LACO w/o JE", Line("tab:green", "dotted"), {"joint_embedding": False}),
    ("laco", "LACO", Line("tab:blue", "solid"), {}),
    ("laco-plcp", "LACO + PLCP", Line("tab:orange", "solid"), {"auxiliary_task": "plcp", "plcp_weight": 2.0}),
    ("laco-clcp", "LACO + CLCP", Line("tab:red", "solid"), {"auxiliary_task": "clcp", "clcp_weight": 10.0}),
    (
        "laco-both",
        "LACO + PLCP + CLCP",
        Line("tab:purple", "solid"),
        {"auxiliary_task": "both", "plcp_weight": 2.0, "clcp_weight": 10.0},
    ),
)
# Rates of encoder and head of the rows that have their own; the other rows have LACO's. They are guesses until the table laco-demo-54-rates has run:
# put its choice here then, as a test asks.
LACO_RATES = {
    "bert": (0.0002, 0.005),
    "bert-mean": (0.0002, 0.005),
    "without-je": (0.0005, 0.0005),
    "laco": (0.0005, 0.0005),
}


def _rates_in_words() -> str:
    titles = {name: title for name, title, *_ in LACO_ROWS}
    return "; ".join(f"{titles[name]} {encoder:g} and {head:g}" for name, (encoder, head) in LACO_RATES.items())


LACO_PAIRS = (
    ("frozen-probe", "bert"),
    ("frozen-probe", "bert-mean"),
    ("svm", "laco"),
    ("bert", "bert-mean"),
    ("bert", "laco"),
    ("bert-mean", "laco"),
    ("without-je", "laco"),
    ("laco", "laco-plcp"),
    ("laco", "laco-clcp"),
    ("laco", "laco-both"),
)
LACO_REMARKS = (
    "Data: the 54 labels that are most frequent in training, and the documents that have one of them. Documents have 5.1 labels, 98 % of them two or "
    "more, and the rarest label has 96 training documents. Half of the texts have more than 94 word pieces, of which neural rows and the probe read 64; the SVM reads all words.",
    f"Rates of encoder and head: {_rates_in_words()}. LACO with an auxiliary task has LACO's. Six were tried for each on validation (laco-demo-54-rates.md).",
    "A fine-tuned row that is not ahead of the frozen probe is no baseline, and a difference to it says nothing.",
)


def _laco(name: str, title: str, line: Line, fields: dict[str, Any], rates: tuple[float, float], **settings: Any) -> Row:
    changes = {"learning_rate": rates[0], "label_learning_rate": rates[1], "config_overrides": fields, **settings}
    if not fields.get("joint_embedding", True):
        changes["label_embedding_start"] = None  # the encoder reads no labels
    return Row(name, title, line, recipe="laco", overrides=changes, backbone_package=MINILM_PACKAGE)


def _laco_table(name: str, title: str, rows: tuple[Row, ...], **settings: Any) -> Table:
    layout = TableLayout(SET_METRICS, "micro_f1")
    return Table(name, title, "demo", rows, RECIPES / "laco-demo-54", num_frequent_labels=54, layout=layout, **settings)


def _rate_table() -> Table:
    rows, choices = [], {}
    for name, title, line, fields in (row for row in LACO_ROWS if row[0] in LACO_RATES):
        tried = [
            _laco(f"{name}-{encoder:g}-{head:g}", title, line, fields, (encoder, head), num_train_epochs=3)
            for encoder in (0.0001, 0.0002, 0.0005)
            for head in (encoder, 0.005)
        ]
        rows += tried
        choices[name] = tuple(row.name for row in tried)
    return _laco_table("laco-demo-54-rates", "Learning rates of LACO and its baselines", tuple(rows), choices=choices)


# ---- CorNet: how biases start, schedule, CorNet ----------------------------------------------------------------------------

SCHEDULES = {
    "linear": ("rate falls to 0", {"averaging_start_epoch": None}),
    "constant": ("constant rate, averaged", {"lr_scheduler_type": "constant", "warmup_steps": 0}),
}
STARTS = {"odds": ("log-odds", True), "small": ("small biases", False)}
WIDTHS = {"none": ("no CorNet", "tab:gray", WITHOUT_CORNET)} | {
    f"cornet{width}": (f"CorNet 2 × {width}", color, {"cornet_num_blocks": 2, "cornet_context_size": width})
    for width, color in ((128, "tab:orange"), (1000, "tab:blue"))
}
STYLES = {
    ("odds", "linear"): "solid",
    ("odds", "constant"): "dashed",
    ("small", "linear"): "dashdot",
    ("small", "constant"): "dotted",
}


def _starts(recipe: str, title: str) -> tuple[Row, ...]:
    return tuple(
        Row(
            f"{recipe}-{start}-{schedule}-{width}",
            f"{title}, {of_start}, {of_schedule}, {of_width}",
            Line(color, STYLES[start, schedule]),
            script="reproduction/early_checks.py",
            recipe=recipe,
            overrides={**RANDOM, "label_bias_from_frequency": from_frequency, **changes, **cornet},
        )
        for start, (of_start, from_frequency) in STARTS.items()
        for schedule, (of_schedule, changes) in SCHEDULES.items()
        for width, (of_width, color, cornet) in WIDTHS.items()
    )


def _start_pairs(recipe: str) -> tuple[tuple[str, str], ...]:
    """Pairs for what CorNet adds with each start and schedule, for what the start adds without it, and for which of the two adds more."""
    names = {key: f"{recipe}-{'-'.join(key)}" for key in itertools.product(STARTS, SCHEDULES, WIDTHS)}
    with_cornet = [width for width in WIDTHS if width != "none"]
    return (
        *(
            (names[start, schedule, "none"], names[start, schedule, width])
            for start in STARTS
            for schedule in SCHEDULES
            for width in with_cornet
        ),
        *((names["small", schedule, width], names["odds", schedule, "none"]) for schedule in SCHEDULES for width in WIDTHS),
    )


def _start_table(dataset: str, recipe: str, title: str) -> Table:
    heading = f"How biases start, the schedule and CorNet: {title} on {dataset}"
    return Table(
        f"cornet-start-{recipe}-{dataset}",
        heading,
        dataset,
        _starts(recipe, title),
        RECIPES / dataset,
        layout=TableLayout(log_steps=True),
        pairs=_start_pairs(recipe),
        remarks=(
            "Validation is checked every 25 steps in the first two epochs and then once an epoch; batches are random.",
        ),
    )


# ---- CorNet: controls of what it adds --------------------------------------------------------------------------------------


def _change(name: str, title: str, color: str, style: str, recipe: str, **changes: Any) -> Row:
    return Row(name, title, Line(color, style), recipe=recipe, overrides={**RANDOM, **changes})


XMLCNN = (
    _change("xmlcnn", "XML-CNN", "tab:green", "dotted", "xmlcnn"),
    *(
        _change(
            f"xmlcnn-{blocks}",
            f"… {blocks} CorNet block{'s'[: blocks > 1]}",
            "tab:green",
            "solid",
            "cornet-xmlcnn",
            cornet_num_blocks=blocks,
        )
        for blocks in (1, 2, 3, 4)
    ),
)
FAST = (
    _change("xmlcnn-fast", "XML-CNN, rate 0.004", "tab:cyan", "dotted", "xmlcnn", learning_rate=0.004),
    _change("xmlcnn-2-fast", "… 2 CorNet blocks, rate 0.004", "tab:cyan", "solid", "cornet-xmlcnn", learning_rate=0.004),
    _change(
        "xmlcnn-2-cornet-fast",
        "… 2 CorNet blocks, rate 0.001, CorNet 0.005",
        "tab:cyan",
        "dashed",
        "cornet-xmlcnn",
        cornet_learning_rate=0.005,
    ),
)
# 512 + 628 units: each costs 3,072 features, 572 labels and a bias, and two blocks of CorNet have 2.29 million parameters.
WIDE_XMLCNN = _change(
    "xmlcnn-wide",
    "XML-CNN as large as with 2 blocks",
    "tab:olive",
    "solid",
    "xmlcnn",
    config_overrides={"bottleneck_size": 1140},
)
ATTENTION = (
    _change("attentionxml", "AttentionXML", "tab:red", "dotted", "attentionxml"),
    _change(
        "attentionxml-bias",
        "… with a bias per label",
        "tab:pink",
        "dotted",
        "attentionxml",
        config_overrides={"label_bias": True},
    ),
    _change(
        "attentionxml-context-1",
        "… 1 CorNet block of context 1",
        "tab:red",
        "dashed",
        "attentionxml",
        cornet_num_blocks=1,
        cornet_context_size=1,
    ),
    _change("cornet-attentionxml", "CorNetAttentionXML", "tab:red", "solid", "cornet-attentionxml"),
    _change("xmlrnn", "XML-RNN", "tab:brown", "dotted", "xmlrnn"),
)


def _pretrained(**settings: Any) -> tuple[Row, ...]:
    return tuple(
        Row(
            name,
            title,
            Line("tab:orange", style),
            recipe="cornet-bertxml-minilm",
            overrides={**RANDOM, **cornet, **settings},
            backbone_package=MINILM_PACKAGE,
        )
        for name, title, style, cornet in (
            ("bertxml-minilm", "BertXML on MiniLM (pretrained)", "dotted", WITHOUT_CORNET),
            ("cornet-bertxml-minilm", "CorNetBertXML on MiniLM (pretrained)", "solid", {}),
        )
    )


CONTROL_PAIRS = (
    ("frozen-probe", "bertxml-minilm"),
    ("bertxml-minilm", "cornet-bertxml-minilm"),
    ("xmlcnn", "xmlcnn-2"),
    ("xmlcnn", "xmlcnn-wide"),
    ("xmlcnn-wide", "xmlcnn-2"),
    *(("xmlcnn-2", f"xmlcnn-{blocks}") for blocks in (1, 3, 4)),
    ("xmlcnn", "xmlcnn-fast"),
    ("xmlcnn-fast", "xmlcnn-2-fast"),
    ("xmlcnn-2", "xmlcnn-2-cornet-fast"),
    ("attentionxml", "attentionxml-bias"),
    ("attentionxml", "attentionxml-context-1"),
    ("attentionxml-context-1", "cornet-attentionxml"),
    ("attentionxml-bias", "cornet-attentionxml"),
    ("xmlcnn", "xmlrnn"),
    ("xmlrnn", "attentionxml"),
    ("xmlrnn", "attentionxml-bias"),
)


def _controls(dataset: str, *rows: Row) -> Table:
    title = f"Controls of what CorNet and attention add: {dataset}"
    return Table(f"cornet-controls-{dataset}", title, dataset, (SVM, *rows), RECIPES / dataset, pairs=CONTROL_PAIRS)


CONTROL_TABLES = {
    table.name: table
    for table in (
        _laco_table(
            "laco-demo-54",
            "LACO on the demo data's 54 most frequent labels",
            (
                Row("svm", SVM.title, SVM.line, script=LINEAR_PEER, seeded=False, overrides={"set_metrics": True}),
                _probe(backbone_num_layers=3, max_length_tokens=64, set_metrics=True),
                *(_laco(*row, LACO_RATES.get(row[0], LACO_RATES["laco"])) for row in LACO_ROWS),
            ),
            pairs=LACO_PAIRS,
            remarks=LACO_REMARKS,
        ),
        _rate_table(),
        _start_table("demo", "xmlcnn", "XML-CNN"),
        _start_table("cooking-stackexchange", "xmlcnn", "XML-CNN"),
        _start_table("cooking-stackexchange", "meshprobenet", "MeSHProbeNet"),
        _controls("demo", _probe(), *_pretrained(), *XMLCNN, WIDE_XMLCNN, *FAST, *ATTENTION),
        _controls("cooking-stackexchange", XMLCNN[0], *ATTENTION),
        _controls("debtags", _probe(), *_pretrained()),
    )
}
