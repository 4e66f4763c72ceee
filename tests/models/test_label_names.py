import copy
import gc
import json
import time

import pytest

from hf_xmtc import LabelNames


def test_index_is_the_label_id_in_the_given_order(tmp_path):
    names = LabelNames(["zebra", "ant", "mule"])
    assert len(names) == 3 and names[0] == "zebra" and names.id_of("mule") == 2
    assert names.ids == {"zebra": 0, "ant": 1, "mule": 2}
    names.save(tmp_path)
    assert json.loads((tmp_path / "labels.json").read_text(encoding="utf-8")) == ["zebra", "ant", "mule"]
    assert LabelNames.load(tmp_path) == names


def test_display_names_and_parents_survive_saving(tmp_path):
    names = LabelNames(["a::b", "c", "d"], names=["a: b", None, ""], parents=[["a"], [], ["x", "y"]])
    assert [names.name_of(label_id) for label_id in range(3)] == ["a: b", "c", "d"]
    names.save(tmp_path / "labels.json")
    stored = json.loads((tmp_path / "labels.json").read_text(encoding="utf-8"))
    assert stored == [{"label": "a::b", "name": "a: b", "parents": ["a"]}, "c", {"label": "d", "parents": ["x", "y"]}]
    loaded = LabelNames.load(tmp_path / "labels.json")
    assert loaded == names and loaded.parents_of(2) == ["x", "y"] and loaded.parents_of(1) == []


def test_the_file_is_plain_json_with_one_label_a_line(tmp_path):
    labels = ["plain", 'a "b"\\c', "two\nlines\ttab", "\x00\x1f\x7f", "心脏病 🫀", "", "\u2028"]
    names = ["plain", 'the "name"', None, "x\n", "", "empty", None]
    parents = [[], [], ['p "q"', "r\n"], ["s"], [], ["", "t"], []]
    LabelNames(labels, names=names, parents=parents).save(tmp_path)
    entries = []
    for label, name, above in zip(labels, names, parents, strict=True):
        extra = {"name": name} if name and name != label else {}
        extra |= {"parents": above} if above else {}
        entries.append({"label": label, **extra} if extra else label)
    lines = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries)
    assert (tmp_path / "labels.json").read_text(encoding="utf-8") == f"[\n{lines}\n]\n"
    assert LabelNames.load(tmp_path) == LabelNames(labels, names=names, parents=parents)


def test_equal_means_the_same_labels_names_and_parents():
    plain = LabelNames(["a", "b"])
    assert plain == LabelNames(["a", "b"], names=["", "b"], parents=[[], []])
    for other in (
        LabelNames(["b", "a"]),
        LabelNames(["a", "b"], names=["A", None]),
        LabelNames(["a", "b"], parents=[["b"], []]),
        ["a", "b"],
    ):
        assert plain != other
    assert LabelNames(["a", "b"], parents=[["b"], []]) == LabelNames(["a", "b"], parents=[("b",), ()])


def test_accents_cjk_emoji_quotes_and_line_breaks_survive_saving(tmp_path):
    labels = ["Ärzte", "心脏病", "🫀 heart", 'a "quoted", one', "two\nlines", "", " blank "]
    LabelNames(labels).save(tmp_path)
    assert LabelNames.load(tmp_path).labels == labels
    assert "心脏病" in (tmp_path / "labels.json").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"labels": ["a", "b", "a"]}, "The label 'a' occurs twice, as label ids 0 and 2"),
        ({"labels": ["a", 5]}, "Label id 1 is 5 of type int, but labels are strings"),
        (
            {"labels": ["a", "b"], "names": [None, 5]},
            "The name of label id 1 is 5 of type int, but names are strings or None",
        ),
        ({"labels": ["a", "b"], "names": ["A"]}, "There are 2 labels but 1 names"),
        ({"labels": ["a"], "parents": [[], []]}, "There are 1 labels but 2 parents"),
        ({"labels": ["a"], "parents": ["food"]}, "The parents of label id 0 are 'food', but parents are a list of strings"),
    ],
)
def test_contradictory_lists_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        LabelNames(**arguments)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('["a",', "is not valid JSON"),
        ('{"0": "a"}', "must hold a JSON list, found a dict"),
        ('["a", 5]', r"entry 1 is 5; expected a string or"),
        ('["a", {"name": "b"}]', r"entry 1 is {'name': 'b'}; expected a string or"),
        ('["a", {"label": "b", "parents": 5}]', "The parents of label id 1 are 5, but parents are a list of strings"),
        (
            '[{"label": "a", "parents": "food"}]',
            r"The parents of label id 0 are 'food', .* Write \[\"food\"\] for one parent",
        ),
        (
            '[{"label": "a", "parents": ["x", 1]}]',
            r"The parents of label id 0 are \['x', 1\], but parents are a list of strings",
        ),
        ('[{"label": "a", "parents": 0}]', "The parents of label id 0 are 0, but parents are a list of strings"),
        ("[" * 100_000, "is not valid JSON"),
        (r'["a", "\ud800"]', r"labels.json: The label of label id 1, '\\ud800', cannot be written as UTF-8"),
        ('[{"label": 5}]', "Label id 0 is 5 of type int, but labels are strings"),
        ('["a", "a"]', "The label 'a' occurs twice"),
    ],
)
def test_damaged_files_are_refused_with_what_is_wrong(tmp_path, content, message):
    (tmp_path / "labels.json").write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        LabelNames.load(tmp_path)
    assert gc.isenabled()


def test_a_damaged_file_is_named(tmp_path):  # AC-54
    (tmp_path / "labels.json").write_text('[{"label": "a", "parents": "food"}]')
    with pytest.raises(ValueError, match=rf"^{tmp_path / 'labels.json'}: The parents of label id 0"):
        LabelNames.load(tmp_path)


def test_labels_with_nul_have_a_digest_of_their_own():
    one, other, joined = LabelNames(["a\0b", "c"]), LabelNames(["a", "b\0c"]), LabelNames(["a", "b", "c"])
    assert len({one.digest(), other.digest(), joined.digest()}) == 3
    assert joined.digest() == "a00b6c0609201a0d"  # recorded in the configs of trained models


def test_an_unknown_label_is_a_key_error():
    with pytest.raises(KeyError, match="'c'"):
        LabelNames(["a", "b"]).id_of("c")
    with pytest.raises(KeyError, match="no label 'c1' among the 2. Close to it: c."):
        LabelNames(["a", "c"]).id_of("c1")


def test_copies_are_free_and_the_repr_stays_short():
    names = LabelNames([f"label {number}" for number in range(1000)])
    assert copy.deepcopy(names) is names
    assert repr(names) == "LabelNames(1000 labels: 'label 0', 'label 1', 'label 2', …)"
    assert len(repr(LabelNames(["a" * 10_000, "b" * 10_000]))) < 200


def test_half_a_million_names_load_in_seconds(tmp_path):
    labels = [f"label {number}" for number in range(500_000)]
    start = time.process_time()
    LabelNames(labels, names=[label.title() for label in labels], parents=[labels[:1]] * 500_000).save(tmp_path)
    assert len(LabelNames.load(tmp_path)) == 500_000
    assert time.process_time() - start < 10
    assert gc.isenabled()
