import warnings

import datasets
import pytest

from hf_xmtc import cli
from hf_xmtc.data import label_info_of

pytestmark = pytest.mark.filterwarnings("ignore:.* labels? occurs? only in evaluation data")

ROWS = [("first", ["b", "a"]), ("second", ["c"]), ("third", [])]


def test_shards_are_read_in_order_and_also_from_a_data_folder(write_folder, load):
    shards = {"train_00001_of_00002": ROWS[1:], "train_00000_of_00002": ROWS[:1]}
    folder = write_folder(name="outer")
    write_folder(name="outer/data", **shards)
    assert load(folder, validation_fraction=0)["train"]["text"][:] == ["first", "second", "third"]


def test_a_missing_shard_is_an_error(write_folder, load):
    with pytest.raises(ValueError, match="train split should have 2 files but 1 .* shard 1 is missing"):
        load(write_folder(train_00000_of_00002=ROWS))


def test_two_files_for_one_split_are_an_error(write_folder, load):
    with pytest.raises(ValueError, match="Several files claim to be the validation split: dev.parquet, val.parquet"):
        load(write_folder(train=ROWS, val=ROWS, dev=ROWS))


def test_a_folder_without_splits_says_what_it_holds(tmp_path, load):
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(FileNotFoundError, match=r"no train.parquet.*it holds: notes.txt\. Give 'demo'"):
        load(tmp_path)


def test_a_damaged_file_is_named(tmp_path, load):
    (tmp_path / "train.parquet").write_bytes(b"PAR1 and then nothing")
    with pytest.raises(ValueError, match="train.parquet is not readable parquet.*cut off"):
        load(tmp_path)


def test_a_folder_name_that_is_no_utf8_is_refused(write_folder, load, tmp_path):
    folder = write_folder(train=ROWS).rename(tmp_path / "caf\udce9")
    with pytest.raises(ValueError, match=r"The name of the folder or file '.*caf\\udce9' is not UTF-8 .* Rename it"):
        load(folder)


def test_an_unknown_name_lists_the_forms_that_are_accepted(tmp_path, load):
    with pytest.raises(FileNotFoundError, match="There is no folder or file .*Give 'demo' .* a folder .* Hugging Face Hub"):
        load(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="There is no folder or file './nowhere'"):
        load("./nowhere")


def test_a_misspelt_folder_is_not_looked_for_on_the_hub(load, monkeypatch):
    monkeypatch.setattr("datasets.load_dataset", lambda *_, **__: pytest.fail("asked the Hub for a name without its user"))
    with pytest.raises(FileNotFoundError, match="There is no folder or file 'mydta'.*'user/name'"):
        load("mydta")
    with pytest.raises(
        FileNotFoundError, match=r"There is no folder or file 'my/data.csv'; encoding='latin-1' .* not looked for on"
    ):
        load("my/data.csv", encoding="latin-1")


@pytest.mark.parametrize(
    ("name", "message"),
    [("a.csv", "a.csv is empty, without even"), ("a.tsv", "a.tsv is empty"), ("a.txt", "a.txt is empty, so its")],
)
def test_a_file_of_no_bytes_is_called_empty(tmp_path, load, name, message):
    (tmp_path / name).touch()
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        load(tmp_path / name)


def test_a_single_parquet_file_is_training_data(write_folder, load):
    data = load(write_folder(other=ROWS) / "other.parquet", validation_fraction=0)
    assert data["train"]["text"][:] == ["first", "second", "third"]


def test_settings_of_text_files_are_refused_for_parquet(write_folder, load):
    with pytest.raises(ValueError, match="one_based=True says how files of text are read, which parquet files are not"):
        load(write_folder(train=ROWS), one_based=True)
    with pytest.raises(ValueError, match=r"type list<.*string>, but label_separator='\|' .* splits strings"):
        load(write_folder(train=ROWS), label_separator="|")


def test_an_unreachable_hub_is_a_clear_error(load, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    with pytest.raises(ConnectionError, match="'nobody/nothing' is no folder here, and .* cannot be reached.*Give 'demo'"):
        load("nobody/nothing")


def test_hub_splits_are_encoded_like_local_ones(load, monkeypatch):
    """The download itself is replaced: what comes after must treat its result as it treats files."""
    class_labels = datasets.List(datasets.ClassLabel(names=["y", "x", "z"]))
    features = datasets.Features(text=datasets.Value("string"), labels=class_labels)
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


TABLE = "text,labels\na,x\nb,y\n"


@pytest.mark.parametrize("name", ["eval", "evaluation", "dev", "valid", "val", "Validation"])
def test_the_names_of_a_validation_split(tmp_path, load, name):
    for split in ("train", name):
        (tmp_path / f"{split}.csv").write_text(TABLE)
    assert {split: len(rows) for split, rows in load(tmp_path).items()} == {"train": 2, "validation": 2}


@pytest.mark.parametrize("other", ["eval.csv", "more.csv", "labels.csv", "train.xlsx", "names.ttl"])
def test_data_files_that_are_not_read_are_named(tmp_path, load, other):
    for name in ("train.csv", "dev.csv", other, "README.md"):
        (tmp_path / name).write_text(TABLE)
    with pytest.warns(UserWarning, match=f"not read: {other}. Files are read whose names say train"):
        load(tmp_path)


def test_a_vocabulary_that_is_the_label_file_is_read(tmp_path, load, recwarn):
    pytest.importorskip("rdflib")
    (tmp_path / "train.csv").write_text(TABLE)
    concept = "a <http://www.w3.org/2004/02/skos/core#Concept>; <http://www.w3.org/2004/02/skos/core#notation> 'x' ."
    (tmp_path / "names.ttl").write_text(f"<http://x/1> {concept}")
    load(tmp_path, label_file=tmp_path / "names.ttl")
    assert not [warning for warning in recwarn if "not read" in str(warning.message)]


@pytest.mark.parametrize(
    ("name", "remedy"),
    [("books.csv", r"Give the file itself, .*books.csv, or rename it: .*train.csv"), ("books.xlsx", "save it as csv")],
)
def test_a_folder_with_a_file_of_another_name_says_what_to_do(tmp_path, load, name, remedy):
    (tmp_path / name).write_text(TABLE)
    with pytest.raises(FileNotFoundError, match=remedy):
        load(tmp_path)
    with pytest.raises(SystemExit, match=remedy):
        cli.main(["convert", "--dataset", str(tmp_path), "--output_dir", str(tmp_path / "out")])
