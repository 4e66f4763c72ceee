import pytest
from huggingface_hub.errors import LocalEntryNotFoundError

from hf_xmtc.data import label_info_of
from hf_xmtc.data.sources import _hub_file

ROWS = [("first", ["b", "a"]), ("second", ["c"])]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("3", "3"),
        ("{a: 1}", "a: 1"),
        ("2020-01-01", "2020-01-01"),
        ("[1, 2]", "1, 2"),
        ("[mit, apache-2.0]", "mit, apache-2.0"),
        ("[]", None),
        ("no", None),
        ('" "', None),
    ],
)
def test_a_licence_of_any_type_is_text(write_folder, load, written, read):  # AC-74
    folder = write_folder(train=ROWS)
    (folder / "README.md").write_text(f"---\nlicense: {written}\n---\n")
    assert label_info_of(load(folder)).license == read


@pytest.mark.parametrize("header", ["license: [", "license: !!timestamp x", "a: " + "[" * 100_000, "license: \x00", "- a"])
def test_a_card_that_cannot_be_read_names_nothing_and_is_warned_about(write_folder, load, header):
    folder = write_folder(train=ROWS)
    (folder / "README.md").write_text(f"---\n{header}\n---\n")
    with pytest.warns(
        UserWarning, match="(?s)The header of the data card .*README.md cannot be read .*licence and language"
    ):
        assert label_info_of(load(folder)).license is None


@pytest.mark.parametrize(
    ("written", "read"), [("fi", "fi"), ("[fi, sv]", "fi, sv"), ("no", "no"), ("[en, no]", "en, no"), ("[]", None)]
)
def test_the_languages_of_the_card_are_read(write_folder, load, written, read):  # AC-69
    folder = write_folder(train=ROWS)
    (folder / "README.md").write_text(f"---\nlanguage: {written}\n---\n")
    assert label_info_of(load(folder)).language == read


def test_a_language_that_is_named_later_needs_no_new_encoding(write_folder, load):
    folder = write_folder(train=ROWS)
    first = label_info_of(load(folder))
    (folder / "README.md").write_text("---\nlanguage: fi\n---\n")
    second = label_info_of(load(folder))
    assert (first.language, second.language) == (None, "fi") and first.fingerprint == second.fingerprint


@pytest.mark.parametrize(
    ("file", "effect"), [("README.md", "licence and language"), ("labels.json", "labels may get other ids")]
)
def test_what_cannot_be_looked_for_offline_is_said(monkeypatch, file, effect):  # AC-69
    def offline(*args, **kwargs):
        raise LocalEntryNotFoundError("offline")

    monkeypatch.setattr("hf_xmtc.data.sources.hf_hub_download", offline)
    with pytest.warns(UserWarning, match=f"to look for {file} of 'user/corpus'.* {effect}") as caught:
        assert _hub_file("user/corpus", file, None) is None
    assert ("labels" in str(caught[0].message)) == (file != "README.md")
