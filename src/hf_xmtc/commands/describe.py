"""`hf-xmtc describe`: the table of a data set, its picture and its card."""

import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hf_xmtc.analysis import plot_label_counts
from hf_xmtc.data import dataset_statistics, label_counts, label_info_of, load_xmtc_dataset, summarize_statistics
from hf_xmtc.hub.dataset_card import dataset_card, dataset_table

from .data_options import loader_arguments
from .describe_options import option_parser
from .json_files import write_json
from .output_checks import check_card_folder

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of ``hf-xmtc describe``.

    Args:
        argv: Arguments without the program's name; those of the process by default.

    Returns:
        Exit status: 0 when the data are described, 1 when they or the folder are refused.
    """
    options = option_parser().parse_args(argv)
    logging.basicConfig(format="%(message)s", level=logging.INFO)  # the format of the files
    try:
        data = load_xmtc_dataset(options.dataset, named=options.named, for_training=False, **loader_arguments(options))
        statistics = dataset_statistics(data)
        print(f"{summarize_statistics(statistics)}\n\n{dataset_table(statistics)}")
        if options.output_dir is not None:
            info = label_info_of(data)
            split = next((split for split, rows in data.items() if "labels" in rows.column_names), None)
            counts = label_counts(data[split], info.num_labels) if split else np.zeros(0)
            _write(Path(options.output_dir), statistics, counts, info)
            print(f"Written to {options.output_dir}.")
    except (ValueError, OSError) as error:
        print(f"The data are not described. {error}", file=sys.stderr)
        return 1
    return 0


def _write(folder: Path, statistics: dict[str, Any], counts: Any, info: Any) -> None:
    """Write the three files.

    Raises:
        FileExistsError: If there is a card, which somebody may have written.
    """
    check_card_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "statistics.json", statistics)
    plot_label_counts(counts, folder / "label_frequency.png", title=info.source)
    (folder / "README.md").write_text(dataset_card(statistics, info.license, info.language), encoding="utf-8")
