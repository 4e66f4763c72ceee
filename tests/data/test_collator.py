import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from hf_xmtc.data import XMTCDataCollator


def features_with(*label_rows):
    return [{"input_ids": [2] * (i + 1), "labels": row} for i, row in enumerate(label_rows)]


def targets_of(labels, num_labels):
    """Multi-hot targets as the loss defines them: every id that is not padding is a one."""
    targets = torch.zeros(len(labels), num_labels)
    for document, row in enumerate(labels):
        targets[document, row[row >= 0]] = 1
    return targets


def test_label_lists_of_any_size_make_the_target(tokenizer):  # AC-19
    batch = XMTCDataCollator(tokenizer, num_labels=5)(features_with([], [1], [0, 2, 4]))
    assert batch["labels"].tolist() == [[-100, -100, -100], [1, -100, -100], [0, 2, 4]]
    assert batch["labels"].dtype == torch.int64
    targets = targets_of(batch["labels"], 5)
    assert targets.shape == (3, 5)
    assert targets.sum(dim=1).tolist() == [0, 1, 3]
    assert binary_cross_entropy_with_logits(torch.randn(3, 5), targets).isfinite()


def test_two_ids_of_two_labels_are_ids_as_declared(tokenizer):  # AC-19
    batch = XMTCDataCollator(tokenizer, num_labels=2)(features_with([0, 1], [1, 0]))
    assert targets_of(batch["labels"], 2).tolist() == [[1, 1], [1, 1]]


@pytest.mark.parametrize("one", [1, 1.0, True])
def test_multi_hot_rows_of_whole_numbers_are_accepted(tokenizer, one):  # AC-19
    zero = type(one)(0)
    rows = [[zero, one, zero], [one, zero, one], torch.tensor([zero, zero, zero])]
    batch = XMTCDataCollator(tokenizer, num_labels=3, label_format="multi_hot")(features_with(*rows))
    assert batch["labels"].tolist() == [[1, -100], [0, 2], [-100, -100]]


def test_two_labels_multi_hot_as_declared(tokenizer):  # AC-19
    batch = XMTCDataCollator(tokenizer, num_labels=2, label_format="multi_hot")(features_with([0, 1], [1, 0]))
    assert targets_of(batch["labels"], 2).tolist() == [[0, 1], [1, 0]]


def test_labels_have_a_column_even_if_no_document_has_a_label(tokenizer):
    assert XMTCDataCollator(tokenizer, num_labels=3)(features_with([], []))["labels"].tolist() == [[-100], [-100]]


def test_inputs_are_padded_to_the_longest_of_the_batch(tokenizer):
    batch = XMTCDataCollator(tokenizer, num_labels=3)([{"input_ids": [2, 3], "url": "a"}, {"input_ids": [4], "url": "b"}])
    assert set(batch) == {"input_ids", "attention_mask"}  # no token_type_ids, no labels, nothing else
    assert batch["input_ids"].tolist() == [[2, 3], [4, 0]]
    assert batch["attention_mask"].tolist() == [[1, 1], [1, 0]]


def test_token_type_ids_pass_where_the_features_have_them(tokenizer):
    features = [{"input_ids": [2, 3], "token_type_ids": [0, 1]}, {"input_ids": [4], "token_type_ids": [0]}]
    assert XMTCDataCollator(tokenizer, num_labels=3)(features)["token_type_ids"].tolist() == [[0, 1], [0, 0]]


def test_the_padded_length_can_be_fixed(tokenizer):
    features = features_with([0], [1])
    assert XMTCDataCollator(tokenizer, num_labels=3, max_length=5)(features)["input_ids"].shape == (2, 5)
    with pytest.raises(ValueError, match="document of 2 tokens is longer than max_length=1"):
        XMTCDataCollator(tokenizer, num_labels=3, max_length=1)(features)


def test_documents_without_tokens_are_all_padding(tokenizer):
    batch = XMTCDataCollator(tokenizer, num_labels=3)([{"input_ids": []}, {"input_ids": []}])
    assert batch["input_ids"].tolist() == [[0], [0]]
    assert batch["input_ids"].dtype == torch.int64
    assert batch["attention_mask"].tolist() == [[0], [0]]


def test_unseen_labels_stay_out_of_the_loss_but_reach_the_metrics(tokenizer):  # AC-15
    features = features_with([0, 3], [4])
    assert XMTCDataCollator(tokenizer, num_labels=3)(features)["labels"].tolist() == [[0], [-100]]
    kept = XMTCDataCollator(tokenizer, num_labels=3, keep_unseen=True)(features)["labels"]
    assert kept.tolist() == [[0, 3], [4, -100]]


@pytest.mark.parametrize(
    "row, message",
    [
        ([1, -100], "negative label id -100. Were the labels padded already"),
        ([0.0, 1.0], r"list of integer label ids, found \[0.0, 1.0\].*label_format='multi_hot'"),
        (["a"], "label strings become ids in load_xmtc_dataset"),
    ],
)
def test_bad_ids_are_refused(tokenizer, row, message):
    with pytest.raises(ValueError, match=message):
        XMTCDataCollator(tokenizer, num_labels=3)(features_with(row))


@pytest.mark.parametrize("row, message", [([0, 1], r"shape \(2,\) but num_labels=3"), ([0, 2, 0], "holds the value 2")])
def test_bad_multi_hot_rows_are_refused(tokenizer, row, message):
    with pytest.raises(ValueError, match=message):
        XMTCDataCollator(tokenizer, num_labels=3, label_format="multi_hot")(features_with(row))


def test_labels_in_only_some_documents_are_refused(tokenizer):
    with pytest.raises(ValueError, match="1 of 2 documents of a batch have labels"):
        XMTCDataCollator(tokenizer, num_labels=3)([{"input_ids": [2], "labels": [0]}, {"input_ids": [2]}])


def test_bad_settings_are_refused(tokenizer):
    with pytest.raises(ValueError, match="num_labels is 0"):
        XMTCDataCollator(tokenizer, num_labels=0)
    with pytest.raises(ValueError, match="label_format is 'dense'"):
        XMTCDataCollator(tokenizer, num_labels=2, label_format="dense")


def test_documents_that_were_not_tokenized_are_refused(tokenizer):
    with pytest.raises(ValueError, match=r"has the fields \['labels', 'text'\] and no 'input_ids'. Tokenize the data first"):
        XMTCDataCollator(tokenizer, num_labels=3)([{"text": "cat", "labels": [1]}])


def test_random_numbers_follow_from_seed_epoch_and_document_alone(tokenizer):
    features = [{"input_ids": [5, 6], "labels": [0]}, {"input_ids": [7], "labels": [1, 2]}]
    collator = XMTCDataCollator(tokenizer, num_labels=3, num_random_numbers=4, seed=1)
    numbers = collator(features)["random_numbers"]
    assert numbers.shape == (2, 6) and numbers.min() >= 0 and not set(numbers[0].tolist()) & set(numbers[1].tolist())
    assert torch.equal(collator(features[:1])["random_numbers"][0], numbers[0, :5])  # with fewer columns of labels beside it
    collator.epoch.fill_(1)
    assert not (collator(features)["random_numbers"] == numbers).any()
    other = XMTCDataCollator(tokenizer, num_labels=3, num_random_numbers=4, seed=2)
    assert not (other(features)["random_numbers"] == numbers).any()
    assert "random_numbers" not in XMTCDataCollator(tokenizer, num_labels=3)(features)
