"""Tables of controls: each asks whether a difference is what it seems to be. Their rows are changes of a few recipes."""

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
    ("laco-both", "LACO + PLCP + CLCP", Line("tab:purple", "solid"), {"auxiliary_task": "both"}),
)
# Encoder and head of each row; both are to be what the table of rates finds best on validation.
LACO_RATES = {
    "bert": (0.0002, 0.005),
    "bert-mean": (0.0002, 0.005),
    "without-je": (0.0005, 0.0005),
    **dict.fromkeys(("laco", "laco-plcp", "laco-clcp", "laco-both"), (0.0005, 0.0005)),
}


def _laco(name: str, title: str, line: Line, fields: dict[str, Any], rates: tuple[float, float], **settings: Any) -> Row:
    changes = {"learning_rate": rates[0], "label_learning_rate": rates[1], "config_overrides": fields, **settings}
    if not fields.get("joint_embedding", True):
        changes["label_embedding_start"] = None  # the encoder reads no labels
    return Row(name, title, line, recipe="laco", overrides=changes, backbone_package=MINILM_PACKAGE)


def _laco_table(name: str, title: str, rows: tuple[Row, ...]) -> Table:
    layout = TableLayout(SET_METRICS, "micro_f1")
    return Table(name, title, "demo", rows, RECIPES / "laco-demo-54", num_frequent_labels=54, layout=layout)


def _laco_rates() -> tuple[Row, ...]:
    rows = []
    for name, title, line, fields in (LACO_ROWS[0], LACO_ROWS[1], LACO_ROWS[3]):
        for encoder in (0.0001, 0.0002, 0.0005):
            for head in (encoder, 0.005):
                rates = f"encoder {encoder:g}, head {head:g}"
                row = f"{name}-{encoder:g}-{head:g}"
                rows.append(_laco(row, f"{title}, {rates}", line, fields, (encoder, head), num_train_epochs=3))
    return tuple(rows)


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


def _start_table(dataset: str, recipe: str, title: str) -> Table:
    heading = f"How biases start, the schedule and CorNet: {title} on {dataset}"
    return Table(
        f"cornet-start-{recipe}-{dataset}",
        heading,
        dataset,
        _starts(recipe, title),
        RECIPES / dataset,
        layout=TableLayout(log_steps=True),
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
        "… 1 CorNet block of context 1 (a bias per label)",
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


def _controls(dataset: str, *rows: Row) -> Table:
    title = f"Controls of what CorNet and attention add: {dataset}"
    return Table(f"cornet-controls-{dataset}", title, dataset, (SVM, *rows), RECIPES / dataset)


CONTROL_TABLES = {
    table.name: table
    for table in (
        _laco_table(
            "laco-demo-54",
            "LACO on the demo data's 54 most frequent labels",
            (
                Row("svm", SVM.title, SVM.line, script=LINEAR_PEER, seeded=False, overrides={"set_metrics": True}),
                _probe(backbone_num_layers=3, max_length_tokens=64, set_metrics=True),
                *(_laco(*row, LACO_RATES[row[0]]) for row in LACO_ROWS),
            ),
        ),
        _laco_table("laco-demo-54-rates", "Learning rates of LACO and its baseline, on validation", _laco_rates()),
        _start_table("demo", "xmlcnn", "XML-CNN"),
        _start_table("cooking-stackexchange", "xmlcnn", "XML-CNN"),
        _start_table("cooking-stackexchange", "meshprobenet", "MeSHProbeNet"),
        _controls("demo", _probe(), *_pretrained(), *XMLCNN, WIDE_XMLCNN, *ATTENTION),
        _controls("cooking-stackexchange", XMLCNN[0], *ATTENTION),
        _controls("debtags", _probe(), *_pretrained()),
    )
}
