import json
import os
import subprocess
import sys

import pytest

from forked_python import run_python
from hf_xmtc.data import label_info_of

pytestmark = pytest.mark.filterwarnings("ignore:.* labels? occurs? only in evaluation data")

ROWS = [("first", ["b", "a"]), ("second", ["c"]), ("third", [])]


def test_label_order_is_the_same_in_every_process(write_folder, tmp_path):  # AC-14
    folder = write_folder(train=[(str(i), [f"é{i % 7}", f"B{i}", "a"]) for i in range(40)], test=[("x", ["ü", "ä"])])
    code = (
        "import sys, json, warnings; warnings.simplefilter('ignore')\n"
        "from hf_xmtc.data import load_xmtc_dataset, label_info_of\n"
        "dataset = load_xmtc_dataset(sys.argv[1], cache_dir=sys.argv[2]); info = label_info_of(dataset)\n"
        "rows = {split: part[:] for split, part in dataset.items()}\n"
        "print(json.dumps([info.names.labels, info.evaluation_only, info.fingerprint, rows]))\n"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", code, str(folder), str(tmp_path / "first")]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    # And with the seed that Python has drawn for the server.
    first, second = json.loads(done.stdout), json.loads(run_python(code, folder, tmp_path / "second").stdout)
    assert first == second
    assert first[0] == sorted(first[0])
    assert first[1][-2:] == ["ä", "ü"]


def test_the_order_of_a_given_label_file_is_kept(write_folder, load, tmp_path):  # AC-14
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


def test_labels_only_in_evaluation_data_get_ids_of_their_own_and_one_warning(write_folder, load):  # AC-15
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
        with pytest.warns(UserWarning, match="1 label occurs only in evaluation data"):
            load(folder, validation_fraction=0)


@pytest.mark.parametrize(
    ("label_file", "hint"),
    [
        (
            {"label": ["x/1", "x/2"], "name": ["a", "z"]},
            "such as 'a', is among the 2 of the label file, such as 'x/1'. 1 of them are names there",
        ),
        ({"label": ["x/a", "x/b"]}, "2 of them are ends of labels there"),
        ({"label": ["y", "z"]}, "Does the file belong to other data"),
    ],
)
@pytest.mark.parametrize("for_training", [True, False])
def test_a_label_file_without_a_label_of_the_data_is_refused(write_folder, load, label_file, hint, for_training):
    with pytest.raises(ValueError, match=f"corpus: none of its 3 labels, .*{hint}"):
        load(write_folder(train=ROWS, label_file=label_file), for_training=for_training)


def test_a_label_file_with_few_labels_of_the_data_is_warned_about(write_folder, load):
    with pytest.warns(UserWarning, match="only 1 of its 3 labels are in the label file; the others, such as 'b'"):
        load(write_folder(train=ROWS, label_file={"label": ["y", "a"]}), validation_fraction=0)
