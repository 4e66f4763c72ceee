from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hf_xmtc.commands.data_loading import load_data, set_propensity_constants
from hf_xmtc.commands.recipe_parsing import parse_recipe
from hf_xmtc.data import label_info_of


def test_options_of_splits_reach_the_loader(tmp_path):
    rows = {
        "text": [f"text {i}" for i in range(61)],
        "labels": [*[["a", "A"]] * 60, []],
        "book": [i // 5 for i in range(61)],
    }
    pq.write_table(pa.table(rows), tmp_path / "train.parquet")
    options = ["--test_fraction", "0.2", "--split_by", "group", "--group_column", "book", "--normalize_labels", "True"]
    data = load_data(parse_recipe(["--dataset", str(tmp_path), *options, "--drop_unlabeled"]))
    assert list(data) == ["train", "validation", "test"] and len(data["test"]) % 5 == 0
    assert sum(data.num_rows.values()) == 60
    assert label_info_of(data).names.labels == ["A"]


@pytest.mark.parametrize(
    ("options", "named", "constants"),
    [
        ([], "amazon-670k", (0.6, 2.6)),
        ([], None, (0.55, 1.5)),
        (["--propensity_a", "0.55"], "amazon-670k", (0.55, 1.5)),
    ],
)
def test_a_benchmark_brings_its_propensity_constants_unless_some_are_given(options, named, constants):  # AC-66
    recipe = parse_recipe(["--dataset", "demo", *options])
    args = SimpleNamespace(propensity_a=0.55, propensity_b=1.5)
    said = set_propensity_constants(recipe, args, SimpleNamespace(named=named))
    assert (
        (args.propensity_a, args.propensity_b) == constants == (recipe.training.propensity_a, recipe.training.propensity_b)
    )
    assert (said is not None) == (constants == (0.6, 2.6))
