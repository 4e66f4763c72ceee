"""Options of `hf-xmtc compare`. Nothing heavy is imported, so that help and refusals come at once."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["System", "check_options", "option_parser", "systems_named"]


@dataclass(frozen=True)
class System:
    """One side of a comparison: a model, or several of it with different seeds.

    Attributes:
        name: Its name in tables.
        runs: Model folders or prediction files, one per seed.
    """

    name: str
    runs: tuple[Path, ...]

    @classmethod
    def parse(cls, text: str) -> "System":
        """Read ``PATH`` or ``NAME=PATH,PATH,…``; what exists as it stands is a path."""
        name, equals, paths = text.partition("=")
        if equals and not Path(text).exists():
            return cls(name, tuple(Path(path) for path in paths.split(",") if path))
        path = Path(text).absolute()
        folder = path.parent.parent if path.parent.name == "predictions" else path
        return cls(folder.name if folder.is_dir() else folder.stem, (Path(text),))


def option_parser() -> argparse.ArgumentParser:
    """The parser of the command."""
    parser = argparse.ArgumentParser(
        prog="hf-xmtc compare",
        description="Compare models by their stored predictions: metrics with intervals, and which differences are significant.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "systems",
        nargs="+",
        metavar="[NAME=]RUN[,RUN…]",
        help="a model folder of hf-xmtc train, or a prediction file with the true labels (gold); NAME=RUN,RUN,… are the seeds of one system, "
        "for all systems in the same order",
    )
    parser.add_argument("--split", default="test", help="predictions to read in model folders (default: test)")
    parser.add_argument(
        "--metrics",
        nargs="+",
        metavar="METRIC",
        help="P@k, nDCG@k, R@k, RP@k or PSP@k (default: P@1 P@5 nDCG@5 R@5 PSP@5)",
    )
    parser.add_argument(
        "--output_dir", metavar="DIR", help="new or empty folder for the tables, as Markdown and JSON, and a picture"
    )
    return parser


def systems_named(texts: Sequence[str]) -> list[System]:
    """The systems of the command line.

    Raises:
        ValueError: If there are fewer than two, two have one name, or their numbers of runs do not go together.
    """
    systems = [System.parse(text) for text in texts]
    names = [system.name for system in systems]
    if len(systems) < 2:
        raise ValueError(f"{len(systems)} system was given, but a comparison needs two. The seeds of one are NAME=RUN,RUN,…")
    if without := [text for text, system in zip(texts, systems, strict=True) if not (system.name and system.runs)]:
        raise ValueError(f"{without[0]!r} has no name or no run. Write it as NAME=RUN,RUN,…")
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"Two systems are called {twice[0]}. Name them: NAME=PATH.")
    counts = {len(system.runs) for system in systems} - {1}
    if len(counts) > 1:
        raise ValueError(
            f"The systems have {', '.join(f'{len(system.runs)} ({system.name})' for system in systems)} runs, but seeds are compared in pairs. "
            "Give each system the same seeds in the same order, or a single run."
        )
    return systems


def check_options(argv: Sequence[str]) -> None:
    """Print the help where it is asked for, and refuse systems that cannot be compared.

    Raises:
        SystemExit: In both cases.
    """
    parser = option_parser()
    options = parser.parse_args(argv)
    try:
        systems_named(options.systems)
    except ValueError as error:
        parser.error(str(error))
