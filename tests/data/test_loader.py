import json
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from forked_python import run_python
from hf_xmtc.data import label_info_of, load_xmtc_dataset
from hf_xmtc.models.label_names import LabelNames

pytestmark = pytest.mark.filterwarnings("ignore:.* labels? occurs? only in evaluation data")

ROWS = [("first", ["b", "a"]), ("second", ["c"]), ("third", [])]


def test_columns_and_types_are_fixed(write_folder, load):
    dataset = load(write_folder(train=ROWS, validation=ROWS[:1], test=ROWS[1:]))
    features = {"text": datasets.Value("string"), "labels": datasets.List(datasets.Value("int32"))}
    assert list(dataset) == ["train", "validation", "test"]
    assert all(rows.features == features for rows in dataset.values())
    assert dataset["train"][:] == {"text": ["first", "second", "third"], "labels": [[1, 0], [2], []]}


def test_documents_without_labels_are_kept_and_counted(write_folder, load):
    info = label_info_of(load(write_folder(train=ROWS, test=ROWS), validation_fraction=0))
    assert info.num_documents == {"train": 3, "test": 3}
    assert info.num_without_labels == {"train": 1, "test": 1}


def test_repeated_labels_are_kept_once_at_their_first_place(write_folder, load):
    dataset = load(write_folder(train=[("x", ["c", "a", "c", "b", "a"]), ("y", ["a"])]), validation_fraction=0)
    assert dataset["train"]["labels"][:] == [[2, 0, 1], [0]]


def test_missing_texts_and_label_lists_become_empty(write_folder, load):
    dataset = load(write_folder(train=[(None, ["a"]), ("x", None)]), validation_fraction=0)
    assert dataset["train"][:] == {"text": ["", "x"], "labels": [[0], []]}


def test_an_all_empty_label_column_of_another_split_is_accepted(write_folder, load):
    dataset = load(write_folder(train=ROWS, test=[("x", []), ("y", [])]), validation_fraction=0)
    assert dataset["test"]["labels"][:] == [[], []]


@pytest.mark.parametrize("dictionary", [False, True])
def test_encoding_equals_a_plain_loop(tmp_path, load, dictionary):
    generator = random.Random(0)
    names = [f"label {i}" for i in range(50)]
    rows = [[generator.choice(names) for _ in range(generator.randrange(6))] for _ in range(500)]
    labels = pa.array(rows, type=pa.large_list(pa.large_string()))
    if dictionary:
        labels = pa.LargeListArray.from_arrays(labels.offsets, labels.values.dictionary_encode())
    pq.write_table(pa.table({"text": [str(i) for i in range(500)], "labels": labels}), tmp_path / "train.parquet")
    dataset = load(tmp_path, validation_fraction=0)
    ids = {name: i for i, name in enumerate(sorted({name for row in rows for name in row}))}
    assert dataset["train"]["labels"][:] == [[ids[name] for name in dict.fromkeys(row)] for row in rows]


def test_other_columns_can_hold_text_and_labels(tmp_path, load):
    pq.write_table(pa.table({"title": ["x"], "subjects": [["a"]], "text": [1]}), tmp_path / "train.parquet")
    dataset = load(tmp_path, text_column="title", label_column="subjects", validation_fraction=0)
    assert dataset["train"][:] == {"text": ["x"], "labels": [[0]]}


def test_stored_labels_do_not_grow_with_documents_times_labels(tmp_path, load):  # AC-18
    generator = np.random.default_rng(0)
    names = [f"label{i}" for i in range(100_000)]
    rows = [[names[i] for i in generator.choice(100_000, 5, replace=False)] for _ in range(2_000)]
    pq.write_table(pa.table({"text": [""] * 2_000, "labels": rows}), tmp_path / "train.parquet")
    (tmp_path / "labels.json").write_text(json.dumps(names))
    dataset = load(tmp_path, label_space="file", validation_fraction=0)
    assert label_info_of(dataset).num_labels == 100_000
    stored = sum(path.stat().st_size for path in Path(dataset["train"].cache_files[0]["filename"]).parent.iterdir())
    assert dataset["train"].data.column("labels").nbytes < 100_000
    assert stored < 2_000_000  # label names included; a dense float copy would take 800 MB


def test_validation_is_carved_by_a_hash_of_the_text(write_folder, load):
    rows = [(f"text {i % 500}", [str(i % 3)]) for i in range(1_000)]
    dataset = load(write_folder(train=rows, test=ROWS[1:2]))
    held_out = set(dataset["validation"]["text"])
    assert list(dataset) == ["train", "validation", "test"]
    assert label_info_of(dataset).validation_carved
    assert 60 <= len(dataset["validation"]) <= 140
    assert len(dataset["train"]) + len(dataset["validation"]) == 1_000
    assert not held_out & set(dataset["train"]["text"])  # equal texts land on one side
    # A document's side does not depend on the other documents.
    smaller = load(write_folder(name="smaller", train=rows[:250]))
    assert set(smaller["validation"]["text"]) == held_out & {text for text, _ in rows[:250]}


def test_labels_only_in_the_carved_documents_are_evaluation_only(write_folder, load):
    dataset = load(write_folder(train=[(f"text {i}", [f"label {i}"]) for i in range(100)]))
    info = label_info_of(dataset)
    assert info.num_labels == len(dataset["train"])
    assert len(info.evaluation_only) == len(dataset["validation"]) > 0
    assert min(ids[0] for ids in dataset["validation"]["labels"]) == info.num_labels


def test_a_tiny_data_set_still_gets_a_validation_document(write_folder, load):
    assert load(write_folder(train=ROWS)).num_rows == {"train": 2, "validation": 1}


def test_an_existing_validation_split_is_used(write_folder, load):
    dataset = load(write_folder(train=ROWS, dev=ROWS[:1]))
    assert dataset.num_rows == {"train": 3, "validation": 1}
    assert not label_info_of(dataset).validation_carved


def test_the_cache_is_used_and_rebuilt_when_the_source_changes(write_folder, load):
    folder = write_folder(train=ROWS)
    first = load(folder)["train"].cache_files
    assert load(folder)["train"].cache_files == first
    write_folder(train=[*ROWS, ("fourth", ["d"])])
    assert load(folder).num_rows == {"train": 3, "validation": 1}
    assert load(folder, text_column="text", validation_fraction=0).num_rows == {"train": 4}


def test_loads_at_once_all_get_whole_data(write_folder, load, tmp_path):
    folder = write_folder(train=[(f"text {i}", [str(i % 7)]) for i in range(2_000)])
    with ThreadPoolExecutor(4) as pool:
        loaded = list(pool.map(lambda _: load(folder), range(8)))
    assert {tuple(dataset.num_rows.values()) for dataset in loaded} == {tuple(loaded[0].num_rows.values())}
    assert len(list((tmp_path / "cache" / "hf_xmtc").iterdir())) == 1  # no half-built folder is left


def test_a_failed_load_leaves_nothing_behind(write_folder, load, tmp_path):
    with pytest.raises(ValueError, match="negative label id"):
        load(write_folder(train=[("x", [-1])]))
    assert list((tmp_path / "cache" / "hf_xmtc").iterdir()) == []


def test_texts_without_labels_can_be_loaded_for_prediction(tmp_path, load):
    pq.write_table(pa.table({"text": ["x", "y"]}), tmp_path / "test.parquet")
    dataset = load(tmp_path, for_training=False, label_names=["p", "q"], label_space="file")
    assert dataset["test"].column_names == ["text"]
    assert label_info_of(dataset).names == LabelNames(["p", "q"])


def test_a_test_split_alone_is_numbered_by_the_models_names(write_folder, load):
    folder = write_folder(test=[("x", ["c", "new", "a"])])
    with pytest.raises(ValueError, match=r"training split of 'corpus' does not exist \(there are \['test'\]\)"):
        load(folder)
    with pytest.raises(ValueError, match="corpus has labels but no training split to number them by"):
        load(folder, for_training=False)
    with pytest.warns(UserWarning, match="'new'"):
        dataset = load(folder, for_training=False, label_names=["a", "b", "c"], label_space="file")
    assert dataset["test"]["labels"][:] == [[2, 3, 0]]


@pytest.mark.parametrize(
    "splits, message",
    [
        ({"train": [], "test": []}, r"'corpus' is empty: {'train': 0, 'test': 0} rows"),
        ({"train": [], "test": ROWS}, "training split of 'corpus' is empty"),
        ({"train": [("x", []), ("y", [])]}, "no document of the training split has a label"),
        ({"train": [("x", "a|b")]}, "the labels 'a|b' hold '|'.*label_separator='|'"),
        ({"train": [("x", 0), ("y", 1)]}, "the label columns labels hold nothing but 0, 1.*label_format='multi_hot'"),
        ({"train": [("x", 0.5)]}, "unsupported type double"),
        ({"train": [("x", [[1]])]}, "unsupported type list"),
        ({"train": [("x", [0.5])]}, "holds double values but label_format='ids'"),
        ({"train": [("x", ["a", None])]}, "row 0 .* holds a missing label"),
        ({"train": ROWS, "test": [("x", [1])]}, "splits hold different kinds of labels"),
    ],
)
def test_bad_data_is_refused(write_folder, load, splits, message):
    with pytest.raises(ValueError, match=message):
        load(write_folder(**splits))


def test_a_missing_column_is_named_with_those_that_exist(tmp_path, load):
    pq.write_table(pa.table({"body": ["x"], "tags": [["a"]]}), tmp_path / "train.parquet")
    with pytest.raises(ValueError, match=r"no column 'text'; its columns are \['body', 'tags'\]"):
        load(tmp_path)
    with pytest.raises(ValueError, match=r"no column 'labels'; its columns are \['body', 'tags'\].*label_column"):
        load(tmp_path, text_column="body")
    with pytest.raises(ValueError, match="column 'tags' of train has the type list.*texts must be strings"):
        load(tmp_path, text_column="tags")


def test_contradictory_settings_are_refused(write_folder, load):
    folder = write_folder(train=ROWS)
    for settings, message in [
        ({"label_space": "all"}, "label_space is 'all' but must be one of"),
        ({"label_format": "dense"}, "label_format is 'dense'"),
        ({"validation_fraction": 10}, "validation_fraction is 10"),
        ({"label_file": "x.json", "label_names": ["a"]}, "Give one"),
        ({"label_format": "multi_hot"}, "holds strings but label_format='multi_hot'"),
    ]:
        with pytest.raises(ValueError, match=message):
            load(folder, **settings)
    with pytest.raises(FileNotFoundError, match="There is no label file"):
        load(folder, label_file="nowhere.json")


def test_without_datasets_only_what_needs_it_fails_and_names_the_extra():
    code = (
        "import sys; sys.modules['datasets'] = None; import hf_xmtc, hf_xmtc.data.collator as c; c.XMTCDataCollator; "
        "hf_xmtc.data.load_xmtc_dataset"
    )
    assert run_python(code).stderr.strip().splitlines()[-1] == (
        "ImportError: `load_xmtc_dataset` needs `datasets`: pip install 'hf_xmtc[train]'"
    )


def test_the_function_is_the_exported_one():
    import hf_xmtc.data

    assert hf_xmtc.data.load_xmtc_dataset is load_xmtc_dataset
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = hf_xmtc.data.nothing


@pytest.mark.parametrize("empty", ["", " ", "\u00a0\t"])
def test_the_empty_label_is_left_out_and_counted(write_folder, load, empty):  # AC-52
    folder = write_folder(train=[("a", ["baking", empty]), ("b", [empty]), ("c", ["soup"])])
    with pytest.warns(UserWarning, match="corpus: 2 documents have an empty label, which is left out. .*separator"):
        data = load(folder, validation_fraction=0)
    assert label_info_of(data).names.labels == ["baking", "soup"]
    assert data["train"]["labels"][:] == [[0], [], [1]]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_shard_without_any_label_does_not_fix_the_type(tmp_path, load, order):  # AC-53
    tables = [
        pa.table({"text": ["a", "b"], "labels": pa.array([[], []], pa.list_(pa.null())), "more": pa.nulls(2)}),
        pa.table({"text": ["c"], "labels": [["x"]], "more": ["m"]}),
    ]
    (tmp_path / "corpus").mkdir()
    for place, which in enumerate(order):
        pq.write_table(tables[which], tmp_path / "corpus" / f"train-{place:05d}-of-00002.parquet")
    rows = load(tmp_path / "corpus", validation_fraction=0)["train"].to_list()
    assert sorted((row["text"], row["labels"]) for row in rows) == [("a", []), ("b", []), ("c", [0])]


def test_an_unlabelled_test_file_comes_with_advice_for_the_command_line(tmp_path, load, write_folder):  # AC-57
    folder = write_folder(train=[("a", ["x"]), ("b", ["y"])])
    pq.write_table(pa.table({"text": ["c"]}), folder / "test.parquet")
    with pytest.raises(ValueError, match="test split has no column 'labels'.*--label_column.*hf-xmtc predict"):
        load(folder)


@pytest.mark.parametrize(
    ("ending", "cells"),
    [
        ("csv", ["text,labels\na,x\n", "text\nc\n"]),
        ("tsv", ["text\tlabels\na\tx\n", "text\nc\n"]),
        ("jsonl", ['{"text": "a", "labels": "x"}\n', '{"text": "c"}\n']),
    ],
)
def test_unlabelled_test_files_of_text_come_with_that_advice_too(tmp_path, load, ending, cells):  # AC-57
    for split, content in zip(("train", "test"), cells, strict=True):
        (tmp_path / f"{split}.{ending}").write_text(content)
    with pytest.raises(ValueError, match=f"test.{ending} has no column 'labels'; .*--label_column.*hf-xmtc predict"):
        load(tmp_path)
