import pytest

from hf_xmtc.data import label_info_of
from hf_xmtc.data.label_file import read_label_file
from hf_xmtc.data.skos import read_skos

TURTLE = """
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix x: <http://x/> .
x:food a skos:Concept ; skos:prefLabel "food"@en, "ruoka"@fi ; skos:narrower x:bread .
x:bread a skos:Concept ; skos:prefLabel "bread"@en ; skos:altLabel "loaf"@en, "leipä"@fi ; skos:definition "baked dough"@en .
x:rye a skos:Concept ; skos:prefLabel "ruis"@fi ; skos:broader x:bread, x:food .
"""


def test_a_vocabulary_gives_names_descriptions_and_parents(tmp_path):
    pytest.importorskip("rdflib")
    path = tmp_path / "vocabulary.ttl"
    path.write_text(TURTLE, encoding="utf-8")
    labels = read_label_file(path)
    assert labels.names.labels == ["http://x/bread", "http://x/food", "http://x/rye"]
    assert [labels.names.name_of(i) for i in range(3)] == ["bread", "food", "ruis"]
    assert [labels.names.parents_of(i) for i in range(3)] == [["http://x/food"], [], ["http://x/bread", "http://x/food"]]
    assert labels.descriptions == ["loaf; baked dough", None, None]


def test_names_in_a_language_become_a_label_file(tmp_path):
    pytest.importorskip("rdflib")
    (tmp_path / "vocabulary.ttl").write_text(TURTLE, encoding="utf-8")
    read_skos(str(tmp_path / "vocabulary.ttl"), language="fi")[0].save(tmp_path / "finnish.json")
    names = read_label_file(tmp_path / "finnish.json").names
    assert [names.name_of(i) for i in range(3)] == ["bread", "ruoka", "ruis"]


def test_a_file_without_concepts_or_cut_off_is_refused(tmp_path):
    pytest.importorskip("rdflib")
    path = tmp_path / "vocabulary.ttl"
    path.write_text("@prefix x: <http://x/> .\n", encoding="utf-8")
    with pytest.raises(ValueError, match="vocabulary.ttl holds no skos:Concept"):
        read_label_file(path)
    path.write_text(TURTLE[:200], encoding="utf-8")
    with pytest.raises(ValueError, match="vocabulary.ttl cannot be read as turtle .*cut off"):
        read_label_file(path)


def test_labels_of_data_that_are_notations_are_found_by_them(tmp_path, load):
    pytest.importorskip("rdflib")
    path = tmp_path / "vocabulary.ttl"
    path.write_text(
        TURTLE + 'x:food skos:notation "F" . x:bread skos:notation "F1" . x:rye skos:notation "F1" .\n', encoding="utf-8"
    )
    (tmp_path / "a.csv").write_text("text,labels\na,F\nb,F1\n")
    names = label_info_of(load(tmp_path / "a.csv", label_file=path, validation_fraction=0)).names
    assert names.labels == ["F1", "F"] and [names.name_of(i) for i in range(2)] == ["bread", "food"]
    assert names.parents_of(0) == ["F"]
    whole = label_info_of(load(tmp_path / "a.csv", label_file=path, label_space="file", validation_fraction=0)).names
    assert whole.labels == ["F1", "F", "http://x/rye"] and whole.parents_of(2) == ["F1", "F"]
