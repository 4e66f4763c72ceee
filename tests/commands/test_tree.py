"""scripts/build_label_tree.py from a folder of texts to the files of a tree."""

import json
import runpy
import shutil
import sys
from pathlib import Path

import pytest

from hf_xmtc import cli, label_info_of, load_xmtc_dataset
from hf_xmtc.label_tree import LabelTree
from small_corpus import make_documents, write_split

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "build_label_tree.py"


@pytest.fixture
def build(own_caches, corpus_folder, tmp_path, capsys):
    """Run the script; its status, the folder and what it told the user."""

    def run(*options, dataset=corpus_folder, output="tree"):
        folder = tmp_path / output
        arguments = [str(SCRIPT), "--dataset", str(dataset), "--output_dir", str(folder), *map(str, options)]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", arguments)
            with pytest.raises(SystemExit) as stopped:
                runpy.run_path(str(SCRIPT), run_name="__main__")
        return stopped.value.code, folder, capsys.readouterr()

    return run


def test_a_tree_of_the_training_labels_is_written(build, corpus_folder):
    status, folder, said = build("--max_leaf", 2, "--levels", 1, 2, "--seed", 4)
    assert status == 0
    assert "level 1: 4 clusters, 2 in a node above\n  level 2: 6 labels, 1 to 2 in a cluster" in said.out
    assert "Clusters: 100%" in said.err
    tree = LabelTree.load(folder)
    assert tree.num_nodes == (2, 4, 6)
    info = label_info_of(load_xmtc_dataset(corpus_folder))
    tree.check_labels(6, info.names.digest())
    built_from = json.loads((folder / "label_tree.json").read_text())["built_from"]
    assert (built_from["max_leaf"], built_from["levels"], built_from["seed"]) == (2, [1, 2], 4)
    assert built_from["num_documents"] == 24


def test_other_texts_and_labels_for_evaluation_leave_the_tree_alone(build, corpus_folder, tmp_path):  # W16
    other = shutil.copytree(corpus_folder, tmp_path / "other")
    texts = make_documents(30, seed=99)
    for split in ("validation", "test"):
        write_split(other, split, [(text, [*labels[:-1], "unheard of"]) for text, labels in texts])
    _, first, _ = build("--max_leaf", 1, output="first")
    with pytest.warns(UserWarning, match="1 label occurs only in evaluation data"):
        _, second, _ = build("--max_leaf", 1, dataset=other, output="second")
    trees = [LabelTree.load(folder) for folder in (first, second)]
    assert trees[0].digest() == trees[1].digest()
    assert trees[0].labels_digest == trees[1].labels_digest


def test_labels_without_text_are_reported_and_in_the_tree(build, tmp_path, corpus_folder, caplog):  # AC-30
    labels = tmp_path / "labels.json"
    labels.write_text(json.dumps(["animal", "colour", "food", "music", "nobody's", "place", "tool"]))
    status, folder, _ = build("--label_space", "file", "--label_file", labels, "--max_leaf", 2)
    assert status == 0
    assert "1 of 7 labels have no word in any training text" in caplog.text
    assert LabelTree.load(folder).num_labels == 7


def test_what_cannot_be_built_is_refused_with_the_reason(build, tmp_path):
    status, folder, said = build("--max_leaf", 2, "--levels", 1, 3)
    assert status == 1
    assert "No tree was built. Levels at the depths [1, 3] do not fit 6 labels" in said.err
    assert not folder.exists()
    write_split(tmp_path / "empty", "train", [("", ["a"]), ("", ["b"])])
    status, _, said = build("--validation_fraction", 0, dataset=tmp_path / "empty")
    assert status == 1
    assert "No word of the 2 training texts is left to describe labels by" in said.err


def test_a_tree_that_is_there_is_not_replaced(build):
    build()
    refusal, _, _ = build()
    assert "holds a label tree. Choose another --output_dir" in refusal


def test_levels_need_the_size_of_clusters(capsys):
    with pytest.raises(SystemExit):
        cli.main(["tree", "--output_dir", "x", "--levels", "3", "6"])
    assert "--levels 3 6 needs --max_leaf" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cli.main(["tree", "--model", "x", "--max_leaf", "5", "--dataset", "y"])
    assert "--dataset, --max_leaf build a tree, but with --model one is listed" in capsys.readouterr().err
