import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hf_xmtc.data import label_info_of

pytestmark = pytest.mark.filterwarnings("ignore:.* labels? occurs? only in evaluation data")

ROWS = [("first", ["b", "a"]), ("second", ["c"]), ("third", [])]


def test_integer_ids_are_named_by_the_label_file(write_folder, load):
    folder = write_folder(train=[("x", [2, 0]), ("y", [0])], label_file={"label": ["p", "q", "r"]})
    dataset = load(folder, validation_fraction=0)
    assert label_info_of(dataset).names.labels == ["p", "r"]  # q has no training document
    assert dataset["train"]["labels"][:] == [[1, 0], [0]]


def test_ids_keep_the_meaning_of_the_own_label_file_under_the_names_of_a_model(write_folder, load, tmp_path):
    folder = write_folder(label_file={"label": ["a", "b", "c"]}, test=[("x", [1]), ("y", [2, 0])])
    settings = {"for_training": False, "label_space": "file"}
    data = load(folder, label_names=["c", "a", "b"], **settings)
    assert data["test"]["labels"][:] == [[2], [0, 1]]
    (tmp_path / "labels.json").write_text('["c", "a"]')  # of a model that has never seen b
    with pytest.warns(UserWarning, match="'b'"):
        data = load(folder, label_file=tmp_path / "labels.json", **settings)
    assert data["test"]["labels"][:] == [[2], [0, 1]]
    data = load(folder, label_names=["A", "B", "C"], **settings)  # other names for the same ids
    assert data["test"]["labels"][:] == [[1], [2, 0]] and label_info_of(data).names[1] == "B"


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


def test_duplicate_names_are_refused(write_folder, load):  # AC-16
    with pytest.raises(ValueError, match="labels.parquet: The label 'a' occurs twice, as label ids 0 and 2"):
        load(write_folder(train=ROWS, label_file={"label": ["a", "b", "a"]}))


def test_more_ids_than_names_are_refused(write_folder, load):  # AC-16
    folder = write_folder(train=[("x", [0, 1]), ("y", [4])])
    with pytest.raises(ValueError, match=r"row 1 .* label id 4, but there are 2 label names \(ids 0 to 1\)"):
        load(folder, label_names=["p", "q"])


def test_ids_0_and_2_with_two_names_are_refused(write_folder, load):  # AC-16
    with pytest.raises(ValueError, match="label id 2, but there are 2 label names"):
        load(write_folder(train=[("x", [0, 2]), ("y", [2])]), label_names=["p", "q"])


def test_ids_0_and_2_without_names_are_refused(write_folder, load):  # AC-16
    with pytest.raises(ValueError, match="ids go up to 2 but id 1 never occurs"):
        load(write_folder(train=[("x", [0, 2]), ("y", [2])]))


def test_ids_that_may_count_from_1_are_refused_with_the_option(write_folder, load):  # AC-09
    with pytest.raises(ValueError, match="id 0 never occurs.*Do they count from 1.*--one_based"):
        load(write_folder(train=[("x", [1]), ("y", [2])]))


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
