"""A limit on documents takes a fair sample: the same each time, nested, of all parts of the data."""

import numpy as np
import pyarrow as pa
import pytest
from datasets import Dataset

from hf_xmtc.data import load_xmtc_dataset, sample_documents
from hf_xmtc.data.document_sample import array_hashes, sample_rows, text_hashes
from small_corpus import write_split


def sorted_documents(count: int) -> Dataset:
    """Sorted by name; label 1 occurs in the second half alone."""
    return Dataset.from_dict(
        {
            "text": [f"package {number:06}" for number in range(count)],
            "labels": [[int(2 * n >= count)] for n in range(count)],
        }
    )


def test_a_sample_of_sorted_data_has_the_label_frequencies_of_the_whole():
    sample = sample_documents(sorted_documents(4_000), 1_000)
    assert len(sample) == 1_000
    assert np.mean(sample["labels"][:]) == pytest.approx(0.5, abs=0.05)


def test_a_sample_is_in_file_order_and_holds_every_smaller_one():
    documents = sorted_documents(200)
    samples = [sample_documents(documents, limit)["text"][:] for limit in (1, 7, 50, 199)]
    assert [len(sample) for sample in samples] == [1, 7, 50, 199]
    for smaller, larger in zip(samples, samples[1:], strict=False):
        assert set(smaller) < set(larger) and larger == sorted(larger)


def test_the_order_of_the_rows_and_labels_do_not_change_the_sample():
    documents = sorted_documents(100)
    turned = documents.select(range(99, -1, -1)).remove_columns("labels")
    assert sample_documents(turned, 20)["text"][:] == sample_documents(documents, 20)["text"][::-1]


def test_a_text_that_stands_there_often_is_in_the_sample_as_often_as_in_the_data():
    texts = [None if number % 3 else f"text {number}" for number in range(3_000)]
    sample = sample_documents(Dataset.from_dict({"text": texts}), 300)
    assert len(sample) == 300
    assert sum(text is None for text in sample["text"]) == pytest.approx(200, abs=20)


def test_no_limit_and_a_large_one_leave_the_data_as_they_are():
    documents = sorted_documents(5)
    assert sample_documents(documents, None) is documents
    assert sample_documents(documents, 5) is documents
    assert len(sample_documents(documents.select([]), 3)) == 0


@pytest.mark.parametrize("limit", [0, -1])
def test_a_sample_of_nothing_is_refused(limit):
    with pytest.raises(ValueError, match=f"limit={limit}, but a sample has at least one document"):
        sample_documents(sorted_documents(5), limit)


def test_data_without_texts_are_refused():
    with pytest.raises(ValueError, match=r"columns \['input_ids'\] and no 'text'.*before tokenize_dataset"):
        sample_documents(Dataset.from_dict({"input_ids": [[1], [2]]}), 1)


def test_the_sample_does_not_depend_on_how_validation_was_carved(tmp_path):
    """Training documents that the carving left have the larger hashes; by the same hash small samples would follow its share."""
    write_split(tmp_path / "data", "train", [(f"text {number}", ["a"]) for number in range(400)])
    samples = []
    for fraction in (0.1, 0.3):
        data = load_xmtc_dataset(tmp_path / "data", validation_fraction=fraction, cache_dir=tmp_path / "cache")
        samples.append(set(sample_documents(data["train"], 50)["text"]))
    assert len(samples[0] & samples[1]) > 30


def test_hashes_are_those_that_carving_has_always_used():
    assert text_hashes(["a", ""]).tolist() == [0x40F89E395B66422F, 0xE4A6A0577479B2B4]


def test_an_array_has_the_hashes_of_its_texts():
    texts = ["a", "", "\u00fcber \u5927\u5b66", "\N{GRINNING FACE}"]
    assert array_hashes(pa.array(["x", *texts]).slice(1)).tolist() == text_hashes(texts).tolist()


def test_rows_say_where_the_sample_stands():
    documents = sorted_documents(30)
    rows = sample_rows(documents, 4)
    assert documents.select(rows)["text"][:] == sample_documents(documents, 4)["text"][:]
