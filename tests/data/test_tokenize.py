import datasets
import pytest
from transformers import AutoTokenizer

from hf_xmtc.data import label_info_of, tokenize, tokenize_dataset

ROWS = [("a b c d e", ["x"]), ("", ["y"]), ("a zebra", ["x", "y"]), (None, [])]


@pytest.fixture
def dataset(write_folder, load):
    return load(write_folder(train=ROWS, test=ROWS[:1]), validation_fraction=0)


def test_texts_become_ids_and_cut_texts_are_counted(dataset, tokenizer):
    tokenized, num_cut = tokenize_dataset(dataset, tokenizer, max_length=6)
    assert num_cut == {"train": 1, "test": 1}
    assert tokenized["train"].column_names == ["input_ids", "labels"]
    assert tokenized["train"]["input_ids"][:] == [[10, 11, 2, 3, 4, 5], [10, 11], [10, 11, 2, 1], [10, 11]]
    assert tokenized["train"]["labels"][:] == dataset["train"]["labels"][:]


def test_a_text_that_fits_exactly_is_not_cut(dataset, tokenizer):
    assert tokenize_dataset(dataset["test"], tokenizer, max_length=7)[1] == {"test": 0}
    assert tokenize_dataset(dataset["test"], tokenizer, max_length=6)[1] == {"test": 1}


def test_without_special_tokens_an_empty_text_is_an_empty_document_as_to_the_tokenizer(dataset, plain_tokenizer):
    tokenized, _ = tokenize_dataset(dataset["train"], plain_tokenizer, max_length=3)
    assert tokenized["input_ids"][:] == [[2, 3, 4], [], [2, 1], []]


def test_the_result_is_cached_beside_the_data_with_its_count(dataset, tokenizer):
    first, num_cut = tokenize_dataset(dataset, tokenizer, max_length=6)
    again, num_cut_again = tokenize_dataset(dataset, tokenizer, max_length=6)
    other, _ = tokenize_dataset(dataset, tokenizer, max_length=5)
    assert again["train"].cache_files == first["train"].cache_files != other["train"].cache_files
    assert num_cut_again == num_cut
    assert label_info_of(first) == label_info_of(dataset)


def test_texts_without_labels_and_data_in_memory_work(tokenizer):
    rows = datasets.Dataset.from_dict({"text": ["a", "b c"], "url": ["1", "2"]})
    tokenized, num_cut = tokenize_dataset(rows, tokenizer, max_length=4)
    assert tokenized.column_names == ["input_ids"]
    assert num_cut == {"data": 0}


def test_lengths_that_cannot_work_are_refused(dataset, tokenizer):
    with pytest.raises(ValueError, match="max_length=2 leaves no room for text beside the 2 special tokens"):
        tokenize_dataset(dataset, tokenizer, max_length=2)
    with pytest.raises(ValueError, match="max_length=64 exceeds the limit of 32 tokens"):
        tokenize_dataset(dataset, tokenizer, max_length=64)


def test_no_documents_are_tokenized_into_none(tokenizer):  # AC-38
    documents = datasets.Dataset.from_dict({"text": ["a b"], "labels": [[1, 2]]}, split="test")
    tokenized, num_cut = tokenize_dataset(documents, tokenizer, 8)
    nothing, none_cut = tokenize_dataset(documents.select([]), tokenizer, 8)
    assert len(nothing) == 0 and nothing.features == tokenized.features
    assert num_cut == none_cut == {"test": 0}


def test_batches_of_long_texts_have_fewer_rows(tokenizer, monkeypatch):  # AC-58
    rows = datasets.Dataset.from_dict({"text": ["a b " * 5_000] * 40, "labels": [[0]] * 40})
    expected = tokenize_dataset(rows, tokenizer, max_length=6)[0]["input_ids"][:]
    sizes, tokenize_batch = [], tokenize._tokenize_batch
    monkeypatch.setattr(tokenize, "_BATCH_BYTES", 100_000)
    monkeypatch.setattr(
        tokenize, "_tokenize_batch", lambda batch, **kw: sizes.append(len(batch["text"])) or tokenize_batch(batch, **kw)
    )
    tokenized, num_cut = tokenize_dataset(rows.select(range(39)), tokenizer, max_length=6)
    assert max(sizes) <= 5 and sum(sizes) == 39
    assert num_cut == {"data": 39} and tokenized["input_ids"][:] == expected[:39]


def test_special_tokens_in_a_text_are_text_and_the_tokenizer_says_so_when_saved(tokenizer, tmp_path):  # AC-62
    rows = datasets.Dataset.from_dict({"text": ["a [CLS_1] b [PAD]"]})
    tokenized, _ = tokenize_dataset(rows, tokenizer, max_length=16)
    assert tokenized["input_ids"][:] == [[10, 11, 2, 1, 3, 1]]
    tokenizer.save_pretrained(tmp_path)
    assert AutoTokenizer.from_pretrained(tmp_path).split_special_tokens


def test_a_split_of_unknown_words_is_warned_about(write_folder, load, tokenizer):  # AC-56
    folder = write_folder(train=[("a b c d", ["x"])], test=[("天气 很好 x y", ["x"])])
    with pytest.warns(UserWarning) as said:
        tokenize_dataset(load(folder, validation_fraction=0), tokenizer, 16)
    assert [str(entry.message)[:40] for entry in said if "unknown" in str(entry.message)] == [
        "67% of the 6 tokens in test are unknown "[:40]
    ]
