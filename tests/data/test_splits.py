import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hf_xmtc.data import label_info_of
from hf_xmtc.data.document_sample import text_hashes
from hf_xmtc.data.splits import split_by_hash, split_stratified


def long_tail(num_documents: int, num_labels: int):
    """Hashes, and labels of which the rarest have a document or two."""
    rng = np.random.default_rng(0)
    lengths = rng.poisson(4, num_documents)
    chances = 1 / np.arange(1, num_labels + 1)
    codes = rng.choice(num_labels, lengths.sum(), p=chances / chances.sum())
    return text_hashes(map(str, range(num_documents))), codes, lengths


def shares_of(splits, codes, lengths, num_labels: int):
    """Share of each label's documents in each split, (splits, L), and its documents."""
    of_label = np.repeat(splits, lengths)
    counts = np.stack([np.bincount(codes[of_label == split], minlength=num_labels) for split in range(3)])
    return counts / np.maximum(counts.sum(0), 1), counts.sum(0)


def test_shares_follow_the_fractions_and_training_is_last():
    splits = split_by_hash(text_hashes(map(str, range(10_000))), [0.1, 0.2])
    assert np.bincount(splits) / 10_000 == pytest.approx([0.1, 0.2, 0.7], abs=0.02)


def test_the_validation_documents_do_not_depend_on_a_test_split():
    hashes = text_hashes(map(str, range(1_000)))
    assert ((split_by_hash(hashes, [0.1]) == 0) == (split_by_hash(hashes, [0.1, 0.3]) == 0)).all()


def test_every_label_has_its_share_in_each_split_and_a_document_in_training():
    hashes, codes, lengths = long_tail(5_000, 1_000)
    drawn, counts = shares_of(split_by_hash(hashes, [0.1, 0.1]), codes, lengths, 1_000)
    shares, _ = shares_of(split_stratified(hashes, codes, lengths, [0.1, 0.1]), codes, lengths, 1_000)
    assert (drawn[2, counts > 0] == 0).any()  # a hash leaves labels without a training document
    assert (shares[2, counts > 0] > 0).all()
    frequent = counts >= 10
    deviation = np.abs(shares[0, frequent] - 0.1).mean()
    assert deviation < 0.5 * np.abs(drawn[0, frequent] - 0.1).mean()


def test_stratification_is_as_close_as_the_published_algorithm():
    hashes, codes, lengths = long_tail(600, 100)
    shares, counts = shares_of(split_stratified(hashes, codes, lengths, [0.1, 0.1]), codes, lengths, 100)
    published, _ = shares_of(_algorithm_1(codes, lengths, [0.1, 0.1]), codes, lengths, 100)
    often = counts >= 10
    assert np.abs(shares[0, often] - 0.1).mean() <= 1.1 * np.abs(published[0, often] - 0.1).mean()


def _algorithm_1(codes, lengths, fractions):
    """Sechidis et al. (2011), document by document; the first of equals in place of a lot."""
    ends = np.cumsum(lengths)
    left = {
        row: set(codes[end - length : end].tolist()) for row, (end, length) in enumerate(zip(ends, lengths, strict=True))
    }
    shares = np.array([*fractions, 1 - sum(fractions)])
    wanting = np.outer(
        np.bincount([label for labels in left.values() for label in labels], minlength=codes.max() + 1), shares
    )
    room, splits = len(lengths) * shares, np.zeros(len(lengths), dtype=int)
    while left:
        counts = np.bincount([label for labels in left.values() for label in labels], minlength=len(wanting))
        label = None if not counts.any() else min(np.flatnonzero(counts), key=lambda index: counts[index])
        for row in [row for row, labels in left.items() if label is None or label in labels]:
            goal = room if label is None else wanting[label]
            split = max(range(len(shares)), key=lambda index: (goal[index], room[index]))
            for other in left.pop(row):
                wanting[other, split] -= 1
            room[split] -= 1
            splits[row] = split
    return splits


def test_equal_texts_stay_together_when_stratified():
    hashes, codes, lengths = np.repeat(text_hashes(map(str, range(100))), 2), np.arange(200) % 7, np.ones(200, int)
    splits = split_stratified(hashes, codes, lengths, [0.3])
    assert (splits[::2] == splits[1::2]).all() and set(splits) == {0, 1}


def test_documents_without_labels_are_split_too():
    splits = split_stratified(text_hashes(map(str, range(100))), np.empty(0, int), np.zeros(100, int), [0.2])
    assert np.bincount(splits).tolist() == [20, 80]


def test_the_order_of_the_documents_makes_no_difference():
    hashes, codes, lengths = text_hashes(map(str, range(300))), np.arange(300) % 11, np.ones(300, int)
    order = np.random.default_rng(1).permutation(300)
    splits = split_stratified(hashes, codes, lengths, [0.1, 0.1])
    assert (split_stratified(hashes[order], codes[order], lengths, [0.1, 0.1]) == splits[order]).all()


@pytest.fixture
def books(tmp_path):
    """A folder with 30 books of 5 chapters, in one split; a chapter has the labels of its book."""
    rows = [(f"chapter {chapter} of book {book}", [f"label {book % 6}"], book) for book in range(30) for chapter in range(5)]
    texts, labels, names = zip(*rows, strict=True)
    (tmp_path / "books").mkdir()
    pq.write_table(pa.table({"text": texts, "labels": labels, "book": names}), tmp_path / "books" / "train.parquet")
    return tmp_path / "books"


def books_of(split) -> set[str]:
    return {text.partition(" of ")[2] for text in split["text"]}


@pytest.mark.parametrize("split_by", ["hash", "stratified"])
def test_one_split_becomes_three(books, load, split_by):
    dataset = load(books, test_fraction=0.2, split_by=split_by)
    assert list(dataset) == ["train", "validation", "test"]
    assert sum(dataset.num_rows.values()) == 150 and 15 <= len(dataset["test"]) <= 45
    info = label_info_of(dataset)
    assert info.validation_carved and info.test_carved
    assert not info.evaluation_only


def test_groups_stay_on_one_side(books, load):
    dataset = load(books, test_fraction=0.2, split_by="group", group_column="book")
    parts = [books_of(split) for split in dataset.values()]
    assert len(set().union(*parts)) == sum(map(len, parts)) == 30 and min(map(len, parts)) > 0


def test_splits_that_are_there_stay(write_folder, load):
    rows = [(f"text {i}", ["a"]) for i in range(40)]
    dataset = load(write_folder(train=rows, test=[("x", ["a"])]), test_fraction=0.5)
    assert len(dataset["test"]) == 1 and not label_info_of(dataset).test_carved


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"test_fraction": 1.0}, "test_fraction is 1.0"),
        ({"test_fraction": 0.6, "validation_fraction": 0.4}, "leave nothing to train on"),
        ({"split_by": "group"}, "one needs the other"),
        ({"group_column": "book"}, "one needs the other"),
        ({"split_by": "random"}, "split_by is 'random'"),
        ({"split_by": "group", "group_column": "labels"}, "'labels' has the type list.*one group"),
        ({"split_by": "group", "group_column": "novel"}, "has no column 'novel'; its columns are"),
    ],
)
def test_wrong_settings_are_refused(books, load, settings, message):
    with pytest.raises(ValueError, match=message):
        load(books, **settings)


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl"])
@pytest.mark.parametrize("has_labels", [True, False])
def test_the_groups_of_text_files_are_kept(tmp_path, load, ending, has_labels):
    rows = [{"text": f"t{i}", "book": str(i % 7), "labels": "x"} for i in range(40)]
    rows = [{key: value for key, value in row.items() if has_labels or key != "labels"} for row in rows]
    lines = [json.dumps(row) for row in rows]
    if ending != "jsonl":
        lines = [("\t" if ending == "tsv" else ",").join(cells) for cells in (rows[0], *(row.values() for row in rows))]
    path = tmp_path / f"books.{ending}"
    path.write_text("".join(f"{line}\n" for line in lines))
    settings = {"split_by": "group", "group_column": "book", "validation_fraction": 0.4, "for_training": has_labels}
    data = load(path, **settings)
    books = [{int(text[1:]) % 7 for text in data[split]["text"]} for split in ("train", "validation")]
    assert books[0].isdisjoint(books[1]) and set().union(*books) == set(range(7))
    with pytest.raises(ValueError, match=f"books.{ending} has no column 'chapter'; its columns are .*--group_column"):
        load(path, **{**settings, "group_column": "chapter"})


def test_a_document_of_no_group_is_refused(tmp_path, load):
    pq.write_table(pa.table({"text": ["a", "b"], "labels": [["x"], ["x"]], "book": ["1", None]}), tmp_path / "train.parquet")
    with pytest.raises(ValueError, match=r"row 1 \(counted from 0\) has nothing in the column 'book'"):
        load(tmp_path, split_by="group", group_column="book")


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
@pytest.mark.parametrize("columns", ["body tags text", "body tags labels", "text labels filter_labels", "text labels text"])
def test_groups_may_be_called_as_a_column_of_documents(tmp_path, load, ending, columns):
    text, labels, group = columns.split()
    rows = [{text: f"t{i}", labels: "x", group: f"t{i % 7}"} for i in range(40)]
    lines = [json.dumps(row) for row in rows]
    if ending == "csv":
        lines = [",".join(cells) for cells in (rows[0], *(row.values() for row in rows))]
    (path := tmp_path / f"books.{ending}").write_text("".join(f"{line}\n" for line in lines))
    data = load(path, split_by="group", group_column=group, validation_fraction=0.4, text_column=text, label_column=labels)
    groups = [{int(text[1:]) % 7 for text in data[split]["text"]} for split in ("train", "validation")]
    assert groups[0].isdisjoint(groups[1]) and min(map(len, groups)) > 0
    assert set(data["train"].column_names) == {"text", "labels"}


@pytest.mark.parametrize(
    ("split_by", "validation", "test"),
    [
        ("hash", [10, 25, 38, 40, 50, 57], [8, 17, 31, 43, 49]),
        ("stratified", [4, 18, 19, 22, 26, 61], [0, 9, 29, 36, 39, 51]),
    ],
)
def test_documents_stay_in_the_split_of_earlier_versions(write_folder, load, split_by, validation, test):
    # The numbers are those of the loader before it hashed whole Arrow batches.
    texts = [*(f"t\u00ebxt {i}" for i in range(60)), "\u5927\u5b66", "", "\N{GRINNING FACE} x"]
    folder = write_folder(train=[(text, ["a"]) for text in texts])
    dataset = load(folder, validation_fraction=0.1, test_fraction=0.1, split_by=split_by)
    assert [texts.index(text) for text in dataset["validation"]["text"]] == validation
    assert [texts.index(text) for text in dataset["test"]["text"]] == test
