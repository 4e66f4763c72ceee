import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from hf_xmtc import cli


def test_a_data_set_is_described_in_numbers_a_picture_and_a_card(tmp_path, capsys):
    texts, folder = ["one two", "Two!", "", "天气很好", "three"], tmp_path / "corpus"
    folder.mkdir()
    pq.write_table(pa.table({"text": texts, "labels": [["a"], ["b"], [], ["a"], ["a", "b"]]}), folder / "train.parquet")
    pq.write_table(pa.table({"text": ["two", "x"], "labels": [["a"], ["z"]]}), folder / "test.parquet")
    command = ["describe", "--dataset", str(folder), "--validation_fraction", "0", "--output_dir", str(tmp_path / "out")]
    assert cli.main(command) == 0
    said = capsys.readouterr().out
    assert "| documents | 5 | 2 |" in said and "| with a text of train (letter by letter) | 0 (0) | 1 (0) |" in said
    statistics = json.loads((tmp_path / "out" / "statistics.json").read_text())
    train = statistics["splits"]["train"]
    assert (train["num_empty"], train["num_without_blanks"], train["num_without_labels"]) == (1, 1, 1)
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    header = yaml.safe_load(card.split("---")[1])
    assert header["size_categories"] == ["n<1K"] and header["task_categories"] == ["text-classification"]
    assert (tmp_path / "out" / "label_frequency.png").stat().st_size > 1_000
    with pytest.raises(SystemExit, match="holds a README.md"):
        cli.main(command)
    assert cli.main([*command[:-2], "--drop_unlabeled"]) == 0 and "| documents | 4 | 2 |" in capsys.readouterr().out


def test_data_without_a_training_split_or_without_labels_are_described(tmp_path, capsys):
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "test.jsonl").write_text('{"text": "one two"}\n{"text": "three"}\n')
    command = ["describe", "--dataset", str(folder)]
    assert cli.main([*command, "--output_dir", str(tmp_path / "out")]) == 0
    assert "test: 2 documents, 1.5 words each" in capsys.readouterr().out
    (folder / "test.jsonl").write_text('{"text": "one two", "labels": ["a"]}\n')
    assert cli.main(command) == 1 and "no training split to number them by" in capsys.readouterr().err
    (tmp_path / "labels.json").write_text('["a", "b"]')
    labels = ["--label_file", str(tmp_path / "labels.json"), "--label_space", "file", "--output_dir", str(tmp_path / "out2")]
    assert cli.main([*command, *labels]) == 0


@pytest.mark.parametrize("name", ["train.csv", "train.jsonl", "train.parquet"])
def test_a_label_column_of_another_name_is_named(tmp_path, capsys, name):
    rows = {"text": ["one", "two"], "tags": ["a", "b"]}
    if name.endswith("parquet"):
        pq.write_table(pa.table(rows), tmp_path / name)
    else:
        lines = "text,tags\none,a\ntwo,b\n" if name.endswith("csv") else '{"text": "one", "tags": ["a"]}\n'
        (tmp_path / name).write_text(lines)
    for _ in range(2):  # the second time from the cache
        with pytest.warns(UserWarning, match="train.* have no labels here, .*the columns are 'text', 'tags'"):
            assert cli.main(["describe", "--dataset", str(tmp_path / name)]) == 0
        assert "no labels" in capsys.readouterr().out
