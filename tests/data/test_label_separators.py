import itertools

import pytest

from hf_xmtc.data.formats.label_cells import labels_of_cell
from hf_xmtc.data.label_separators import separator_warning

PAIRS = list(itertools.combinations([f"t{i}" for i in range(6)], 2))


@pytest.mark.parametrize("sign", ["|", "、", "；", "，", "/", " "])
def test_labels_that_are_several_with_another_separator(tmp_path, load, sign):
    rows = "".join(f'text {i},"{first}{sign}{second}"\n' for i, (first, second) in enumerate(PAIRS))
    (tmp_path / "a.csv").write_text(f"text,labels\n{rows}", encoding="utf-8")
    with pytest.warns(UserWarning, match="such as 't0") as caught:
        load(tmp_path / "a.csv", label_separator="-")
    said = next(str(warning.message) for warning in caught if "split there" in str(warning.message))
    assert f"label_separator={sign!r}" in said and "would be 6 labels" in said


@pytest.mark.parametrize("sign", ["；", "、", "，", "｜"])
def test_full_width_separators_are_refused_like_the_others(sign):
    with pytest.raises(ValueError, match=f"hold '{sign}'.*label_separator='{sign}'.*label_separator=''"):
        labels_of_cell(f"a{sign}b", None, "line 2")
    assert labels_of_cell(f"a{sign}b", sign, "line 2") == ["a", "b"]


@pytest.mark.parametrize(
    ("labels", "num_documents"),
    [
        ([f"http://example.org/p{i}" for i in range(50)], 50),
        ([f"topic number{i}" for i in range(50)], 50),
        ([f"Shoes {i}, black" for i in range(50)], 500),
        ([f"Books/Crime {i}" for i in range(50)], 50),
        (["a|b", "b|c"], 2),
    ],
)
def test_labels_that_hold_a_separator_of_their_own(labels, num_documents):
    assert separator_warning("corpus", labels, num_documents) is None


def test_a_label_of_its_own_for_each_document():
    assert "'a0;b0'" in separator_warning("corpus", [f"a{i};b{i}" for i in range(50)], 50)
