import pyarrow as pa
import pyarrow.parquet as pq
import pytest

LABELS = [["x"], ["y"]]


@pytest.fixture
def load_shards(tmp_path, load):
    """Load the columns of two files of the training split."""

    def load_two(*shards, **settings):
        for number, columns in enumerate(shards):
            pq.write_table(pa.table(columns), tmp_path / f"train-0000{number}-of-00002.parquet")
        return load(tmp_path, validation_fraction=0, **settings)["train"]

    return load_two


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize(
    ("columns", "missing"),
    [({"body": ["c", "d"], "labels": LABELS}, "text"), ({"text": ["c", "d"], "tags": LABELS}, "labels")],
)
def test_a_shard_without_a_column_is_refused(load_shards, order, columns, missing):
    shards = [{"text": ["a", "b"], "labels": LABELS}, columns][::order]
    own = ", ".join(map(repr, columns))
    with pytest.raises(
        ValueError, match=f"of-00002.parquet has no column '{missing}', which .* its columns are {own}. Give"
    ):
        load_shards(*shards)


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("label", ["007", "3", "x"])
def test_labels_of_two_kinds_are_refused(load_shards, order, label):
    shards = [{"text": ["a"], "labels": [[7]]}, {"text": ["b"], "labels": [[label]]}][::order]
    kinds = ["integers", "strings"][::order]
    message = (
        f"'labels': lists of {kinds[0]} in .*00000-of-00002.parquet, but lists of {kinds[1]} in .*00001-of.*codes as strings"
    )
    with pytest.raises(ValueError, match=message):
        load_shards(*shards)


def test_widths_and_columns_that_are_not_read_may_differ(load_shards):
    first = {"text": ["a"], "labels": pa.array([["x"]], pa.large_list(pa.large_string())), "id": [1]}
    second = {"id": ["2"], "labels": [["y"]], "text": ["b"], "more": [1]}
    assert load_shards(first, second)[:] == {"text": ["a", "b"], "labels": [[0], [1]]}


def test_a_column_that_one_shard_adds_to_a_pattern_is_refused(load_shards):
    first, second = {"text": ["a"], "topic_1": ["x"]}, {"text": ["b"], "topic_1": ["x"], "topic_2": ["y"]}
    with pytest.raises(ValueError, match="00000-of-00002.parquet has no column 'topic_2'"):
        load_shards(first, second, label_column="topic_*")


@pytest.mark.parametrize("columns", ["body, labels", "text, tags"])
def test_a_shard_of_json_lines_without_a_key_is_refused(tmp_path, load, columns):
    text, labels = columns.split(", ")
    (tmp_path / "train-00000-of-00002.jsonl").write_text('{"text": "a", "labels": ["x"]}\n')
    (tmp_path / "train-00001-of-00002.jsonl").write_text(f'{{"{text}": "b", "{labels}": ["x"]}}\n')
    missing = "text" if text == "body" else "labels"
    with pytest.raises(
        ValueError, match=f"00001-of-00002.jsonl has no column '{missing}'; its columns are '{text}', '{labels}'"
    ):
        load(tmp_path, validation_fraction=0)


def test_objects_without_a_key_are_documents_where_another_of_the_file_has_it(tmp_path, load):
    (tmp_path / "train-00000-of-00002.jsonl").write_text('{"text": "a", "labels": ["x"]}\n')
    (tmp_path / "train-00001-of-00002.jsonl").write_text('{"text": "b"}\n{"labels": ["x"]}\n')
    assert load(tmp_path, validation_fraction=0)["train"][:] == {"text": ["a", "b", ""], "labels": [[0], [], [0]]}
