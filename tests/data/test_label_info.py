import datasets
import pytest

from hf_xmtc.data import label_info_of

ROWS = [(f"text {i}", [f"label {i % 3}"]) for i in range(20)]


def _with_length(row):
    return {"length": len(row["text"])}


def test_label_info_travels_with_everything_made_from_the_data(write_folder, load):
    dataset = load(write_folder(train=ROWS))
    train = dataset["train"]
    info = label_info_of(dataset)
    made = [
        train,
        train.select([3, 1]),
        train.shuffle(seed=0),
        train.map(_with_length).filter(lambda row: row["length"] > 0),
        train.train_test_split(test_size=0.5, seed=0)["test"],
        dataset.map(_with_length),
    ]
    assert all(label_info_of(rows) == info for rows in made)


def test_label_info_names_the_source_without_a_path(write_folder, load, tmp_path):
    info = label_info_of(load(write_folder(name="my corpus", train=ROWS)))
    assert info.source == "my corpus"
    assert str(tmp_path) not in repr(info)


def test_the_licence_of_the_card_is_read(write_folder, load):
    folder = write_folder(train=ROWS)
    (folder / "README.md").write_text("---\nlicense: cc-by-4.0\n---\n# Corpus\n")
    assert label_info_of(load(folder)).license == "cc-by-4.0"


def test_data_from_elsewhere_has_no_label_info():
    with pytest.raises(ValueError, match="carries no label information.*before such a step, and keep the result"):
        label_info_of(datasets.Dataset.from_dict({"text": ["x"], "labels": [[0]]}))


def test_splits_of_two_loads_are_refused(write_folder, load):
    one = load(write_folder(name="one", train=ROWS))
    two = load(write_folder(name="two", train=ROWS[1:]))
    mixed = datasets.DatasetDict(train=one["train"], test=two["train"])
    with pytest.raises(ValueError, match="2 different loads: one .*, two "):
        label_info_of(mixed)
