import json
import os
import random
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hf_xmtc.data import label_info_of, load_xmtc_dataset
from hf_xmtc.models.label_names import LabelNames

pytestmark = pytest.mark.filterwarnings("ignore:.* labels occur only in evaluation data")

ROWS = [("first", ["b", "a"]), ("second", ["c"]), ("third", [])]


def test_columns_and_types_are_fixed(write_folder, load):
    dataset = load(write_folder(train=ROWS, validation=ROWS[:1], test=ROWS[1:]))
    features = {"text": datasets.Value("string"), "labels": datasets.List(datasets.Value("int32"))}
    assert {split: rows.features for split, rows in dataset.items()} == dict.fromkeys(
        ("train", "validation", "test"), features
    )
    assert list(dataset) == ["train", "validation", "test"]
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


# Label order and label space


def test_ac14_label_order_is_the_same_in_every_process(write_folder, tmp_path):
    folder = write_folder(train=[(str(i), [f"é{i % 7}", f"B{i}", "a"]) for i in range(40)], test=[("x", ["ü", "ä"])])
    code = (
        "import sys, json, warnings; warnings.simplefilter('ignore')\n"
        "from hf_xmtc.data import load_xmtc_dataset, label_info_of\n"
        "dataset = load_xmtc_dataset(sys.argv[1], cache_dir=sys.argv[2]); info = label_info_of(dataset)\n"
        "rows = {split: part[:] for split, part in dataset.items()}\n"
        "print(json.dumps([info.names.labels, info.evaluation_only, info.fingerprint, rows]))\n"
    )
    outputs = []
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", code, str(folder), str(tmp_path / f"cache{seed}")]
        outputs.append(
            json.loads(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)
        )
    assert outputs[0] == outputs[1]
    assert outputs[0][0] == sorted(outputs[0][0])
    assert outputs[0][1][-2:] == ["ä", "ü"]


def test_ac14_the_order_of_a_given_label_file_is_kept(write_folder, load, tmp_path):
    folder = write_folder(train=ROWS)
    given = tmp_path / "order.json"
    given.write_text('["c", {"label": "never", "name": "Never"}, "a", {"label": "b", "name": "Bee", "parents": ["a"]}]')
    names = label_info_of(load(folder, label_file=given, validation_fraction=0)).names
    assert names.labels == ["c", "a", "b"]  # the file fixes the order, the training data the size
    assert [names.name_of(i) for i in range(3)] == ["c", "a", "Bee"]
    assert names.parents_of(2) == ["a"]


def test_the_label_file_of_the_folder_brings_names_and_descriptions(write_folder, load):
    label_file = {"label": ["c", "z", "a"], "name": ["Sea", None, None], "description": [None, "last", "first"]}
    folder = write_folder(train=ROWS, label_file=label_file)
    info = label_info_of(load(folder, validation_fraction=0))
    assert info.names.labels == ["c", "a", "b"]  # b is not in the file: it comes after
    assert info.names.name_of(0) == "Sea"
    assert info.descriptions == [None, "first", None]


def test_label_space_file_takes_the_whole_list(write_folder, load):
    folder = write_folder(train=ROWS, label_file={"label": ["c", "z", "a", "b"]})
    dataset = load(folder, label_space="file", validation_fraction=0)
    assert label_info_of(dataset).names.labels == ["c", "z", "a", "b"]
    assert dataset["train"]["labels"][:] == [[3, 2], [0], []]


def test_label_space_file_refuses_training_labels_it_does_not_list(write_folder, load):
    folder = write_folder(train=ROWS, label_file={"label": ["c", "a"]})
    with pytest.raises(ValueError, match="1 labels of the training split are not among the 2 .* 'b'"):
        load(folder, label_space="file")


def test_label_space_file_needs_a_file(write_folder, load):
    with pytest.raises(ValueError, match="label_space='file' needs a label file, but 'corpus' brings none"):
        load(write_folder(train=ROWS), label_space="file")


def test_ac15_labels_only_in_evaluation_data_get_ids_of_their_own_and_one_warning(write_folder, load):
    folder = write_folder(train=ROWS, validation=[("v", ["y", "a"])], test=[("t", ["a", "z"]), ("u", ["z"]), ("w", ["a"])])
    with pytest.warns(UserWarning, match="2 labels occur only in evaluation data.*1 in validation, 2 in test") as caught:
        dataset = load(folder)
    assert len(caught) == 1
    info = label_info_of(dataset)
    assert (info.num_labels, info.evaluation_only) == (3, ["y", "z"])
    assert dataset["validation"]["labels"][:] == [[3, 0]]
    assert dataset["test"]["labels"][:] == [[0, 4], [4], [0]]
    assert [info.label_of(i) for i in range(5)] == ["a", "b", "c", "y", "z"]


def test_a_cached_data_set_warns_again(write_folder, load):
    folder = write_folder(train=ROWS, test=[("t", ["z"])])
    for _ in range(2):
        with pytest.warns(UserWarning, match="1 labels occur only in evaluation data"):
            load(folder, validation_fraction=0)


# Integer labels


def test_integer_ids_are_named_by_the_label_file(write_folder, load):
    folder = write_folder(train=[("x", [2, 0]), ("y", [0])], label_file={"label": ["p", "q", "r"]})
    dataset = load(folder, validation_fraction=0)
    assert label_info_of(dataset).names.labels == ["p", "r"]  # q has no training document
    assert dataset["train"]["labels"][:] == [[1, 0], [0]]


def test_integer_ids_without_names_are_sorted_as_numbers(write_folder, load):
    dataset = load(write_folder(train=[(str(i), [i]) for i in range(12)], label_type=pa.int16()), validation_fraction=0)
    assert dataset["train"]["labels"][:] == [[i] for i in range(12)]
    assert label_info_of(dataset).names.labels[9:] == ["9", "10", "11"]


def test_class_labels_of_the_features_are_the_names(tmp_path, load):
    features = datasets.Features(text=datasets.Value("string"), labels=datasets.List(datasets.ClassLabel(names=["y", "x"])))
    rows = datasets.Dataset.from_dict({"text": ["t", "u"], "labels": [[1], [0, 1]]}, features=features)
    rows.to_parquet(tmp_path / "train.parquet")
    dataset = load(tmp_path, validation_fraction=0)
    assert label_info_of(dataset).names.labels == ["y", "x"]
    assert dataset["train"]["labels"][:] == [[1], [0, 1]]


@pytest.mark.parametrize(
    "row_type", [pa.list_(pa.int8()), pa.list_(pa.float32()), pa.list_(pa.bool_()), pa.list_(pa.int64(), 3)]
)
def test_multi_hot_rows_become_ids(tmp_path, load, row_type):
    for split, rows in {"train": [[1, 0, 1], [0, 0, 0]], "test": [[0, 1, 1]]}.items():
        labels = pa.array(rows).cast(row_type)
        pq.write_table(pa.table({"text": ["x"] * len(rows), "labels": labels}), tmp_path / f"{split}.parquet")
    dataset = load(tmp_path, label_format="multi_hot", validation_fraction=0)
    assert dataset["train"]["labels"][:] == [[0, 1], []]
    assert label_info_of(dataset).names.labels == ["0", "2"]  # column 1 has no training document
    assert dataset["test"]["labels"][:] == [[2, 1]]


def test_ac16_duplicate_names_are_refused(write_folder, load):
    with pytest.raises(ValueError, match="labels.parquet: The label 'a' occurs twice, as label ids 0 and 2"):
        load(write_folder(train=ROWS, label_file={"label": ["a", "b", "a"]}))


def test_ac16_more_ids_than_names_are_refused(write_folder, load):
    folder = write_folder(train=[("x", [0, 1]), ("y", [4])])
    with pytest.raises(ValueError, match=r"row 1 .* label id 4, but there are 2 label names \(ids 0 to 1\)"):
        load(folder, label_names=["p", "q"])


def test_ac16_ids_0_and_2_with_two_names_are_refused(write_folder, load):
    with pytest.raises(ValueError, match="label id 2, but there are 2 label names"):
        load(write_folder(train=[("x", [0, 2]), ("y", [2])]), label_names=["p", "q"])


def test_ac16_ids_0_and_2_without_names_are_refused(write_folder, load):
    with pytest.raises(ValueError, match="ids go up to 2 but id 1 never occurs"):
        load(write_folder(train=[("x", [0, 2]), ("y", [2])]))


def test_negative_ids_are_refused(write_folder, load):
    with pytest.raises(ValueError, match="row 1 .* negative label id -100. Was the column padded?"):
        load(write_folder(train=[("x", [0, 1]), ("y", [1, -100])]))


def test_multi_hot_rows_declared_as_ids_are_refused(write_folder, load):
    with pytest.raises(ValueError, match="all values are 0 or 1, but label_format='ids'"):
        load(write_folder(train=[("x", [1, 0, 1]), ("y", [0, 0, 1])]))


def test_ids_declared_as_multi_hot_are_refused(write_folder, load):
    folder = write_folder(train=[("x", [1, 0]), ("y", [1])])
    with pytest.raises(ValueError, match="multi-hot row 1 .* has 1 values, expected 2"):
        load(folder, label_format="multi_hot")
    with pytest.raises(ValueError, match="multi-hot row 1 .* holds the value 7"):
        load(write_folder(train=[("x", [1, 0]), ("y", [0, 7])]), label_format="multi_hot")


def test_ac18_stored_labels_do_not_grow_with_documents_times_labels(tmp_path, load):
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


# Splits and files


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


def test_shards_are_read_in_order_and_also_from_a_data_folder(write_folder, load):
    shards = {"train_00001_of_00002": ROWS[1:], "train_00000_of_00002": ROWS[:1]}
    folder = write_folder(name=["outer", "data"][0])
    write_folder(name="outer/data", **shards)
    assert load(folder, validation_fraction=0)["train"]["text"][:] == ["first", "second", "third"]


def test_a_missing_shard_is_an_error(write_folder, load):
    with pytest.raises(ValueError, match="train split should have 2 files but 1 .* shard 1 is missing"):
        load(write_folder(train_00000_of_00002=ROWS))


def test_two_files_for_one_split_are_an_error(write_folder, load):
    with pytest.raises(ValueError, match="Several files claim to be the validation split: dev.parquet, val.parquet"):
        load(write_folder(train=ROWS, val=ROWS, dev=ROWS))


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


# Without training data


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


# Bad input


@pytest.mark.parametrize(
    "splits, message",
    [
        ({"train": [], "test": []}, r"'corpus' is empty: {'train': 0, 'test': 0} rows"),
        ({"train": [], "test": ROWS}, "training split of 'corpus' is empty"),
        ({"train": [("x", []), ("y", [])]}, "no document of the training split has a label"),
        ({"train": [("x", "one label")]}, "unsupported type string.* split the strings at their separator"),
        ({"train": [("x", 3)]}, "unsupported type int64.* put each id into a list of one"),
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


def test_a_folder_without_splits_says_what_it_holds(tmp_path, load):
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(FileNotFoundError, match=r"no train.parquet.*it holds: notes.txt\. Give 'demo'"):
        load(tmp_path)


def test_a_damaged_file_is_named(tmp_path, load):
    (tmp_path / "train.parquet").write_bytes(b"PAR1 and then nothing")
    with pytest.raises(ValueError, match="train.parquet is not readable parquet.*cut off"):
        load(tmp_path)


def test_an_unknown_name_lists_the_forms_that_are_accepted(tmp_path, load):
    with pytest.raises(FileNotFoundError, match="There is no folder .*Give 'demo' .* a folder .* Hugging Face Hub"):
        load(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="There is no folder './nowhere'"):
        load("./nowhere")


def test_a_file_is_not_a_data_set(write_folder, load):
    with pytest.raises(ValueError, match="is a file; give the folder"):
        load(write_folder(train=ROWS) / "train.parquet")


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


# The Hub


def test_an_unreachable_hub_is_a_clear_error(load, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    with pytest.raises(ConnectionError, match="'nobody/nothing' is no folder here, and .* cannot be reached.*Give 'demo'"):
        load("nobody/nothing")


def test_hub_splits_are_encoded_like_local_ones(load, monkeypatch):
    """The download itself is replaced: what comes after must treat its result as it treats files."""
    features = datasets.Features(
        text=datasets.Value("string"), labels=datasets.List(datasets.ClassLabel(names=["y", "x", "z"]))
    )
    parts = {"train": [[1], [0]], "dev": [[2]], "unlabelled": [[0]]}
    downloaded = datasets.DatasetDict(
        {
            split: datasets.Dataset.from_dict({"text": ["t"] * len(labels), "labels": labels}, features=features)
            for split, labels in parts.items()
        }
    )
    asked = []
    monkeypatch.setattr("datasets.load_dataset", lambda *args, **kwargs: asked.append((args, kwargs)) or downloaded)
    monkeypatch.setattr("hf_xmtc.data.sources._hub_file", lambda name, filename, revision: None)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dataset = load("user/corpus", revision="v1", config_name="small")
    assert (asked[0][0], asked[0][1]["revision"]) == (("user/corpus", "small"), "v1")
    assert dataset["train"]["labels"][:] == [[1], [0]]
    assert dataset["validation"]["labels"][:] == [[2]]
    info = label_info_of(dataset)
    assert (info.names.labels, info.evaluation_only, info.source) == (["y", "x"], ["z"], "user/corpus")
    assert any("splits ['unlabelled'] are left out" in str(warning.message) for warning in caught)


def test_without_datasets_only_what_needs_it_fails_and_names_the_extra():
    code = (
        "import sys; sys.modules['datasets'] = None\nimport hf_xmtc, hf_xmtc.data.collator\nhf_xmtc.data.load_xmtc_dataset"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert result.stderr.strip().splitlines()[-1] == (
        "ImportError: `load_xmtc_dataset` needs `datasets`: pip install 'hf_xmtc[train]'"
    )


def test_the_function_is_the_exported_one():
    import hf_xmtc.data

    assert hf_xmtc.data.load_xmtc_dataset is load_xmtc_dataset
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = hf_xmtc.data.nothing
