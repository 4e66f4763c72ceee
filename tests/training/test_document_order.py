import numpy as np
from datasets import Dataset

from hf_xmtc.training import LengthBucketedSampler
from hf_xmtc.training.document_order import ShuffledSampler, document_lengths

LENGTHS = np.random.default_rng(0).integers(1, 200, size=1_003).tolist()


def order_of(sampler: LengthBucketedSampler, epoch: int) -> list[int]:
    sampler.set_epoch(epoch)
    return list(sampler)


def test_every_document_comes_once_in_every_epoch():
    sampler = LengthBucketedSampler(LENGTHS, batch_size=8, seed=0)
    assert len(sampler) == 1_003
    for epoch in range(3):
        assert sorted(order_of(sampler, epoch)) == list(range(1_003))


def test_the_order_follows_from_seed_and_epoch_alone():
    sampler = LengthBucketedSampler(LENGTHS, batch_size=8, seed=0)
    epochs = [order_of(sampler, epoch) for epoch in range(3)]
    np.random.seed(5)
    assert (
        order_of(LengthBucketedSampler(LENGTHS, batch_size=8, seed=0), 2) == epochs[2]
    )  # epochs 0 and 1 were never asked for
    assert epochs[0] != epochs[1] != epochs[2]
    assert order_of(LengthBucketedSampler(LENGTHS, batch_size=8, seed=1), 0) != epochs[0]


def test_documents_of_a_batch_have_similar_lengths():
    order = order_of(LengthBucketedSampler(LENGTHS, batch_size=8, seed=0), 0)
    batches = np.array(LENGTHS)[order[:1_000]].reshape(-1, 8)
    at_random = np.array(LENGTHS)[:1_000].reshape(-1, 8)
    padding = (batches.max(axis=1, keepdims=True) - batches).mean()
    assert padding < 0.1 * (at_random.max(axis=1, keepdims=True) - at_random).mean()
    assert len({batch[0] for batch in batches[:20].tolist()}) > 15  # and batches are not sorted among themselves


def test_a_short_batch_is_the_last_one():
    order = order_of(LengthBucketedSampler([3, 1, 2, 5, 4], batch_size=2, seed=0), 0)
    # Sorted by length: (3, 4), (0, 2), (1); whole batches may change places, the short one may not.
    assert order[4:] == [1]
    assert {frozenset(order[:2]), frozenset(order[2:4])} == {frozenset({3, 4}), frozenset({0, 2})}


def test_fewer_documents_than_a_batch():
    assert sorted(order_of(LengthBucketedSampler([2, 1], batch_size=8, seed=0), 0)) == [0, 1]


def test_lengths_are_counted_in_the_order_of_the_rows():
    dataset = Dataset.from_dict({"input_ids": [[1, 2, 3], [], [4]], "labels": [[0], [], [1]]})
    assert document_lengths(dataset).tolist() == [3, 0, 1]
    assert document_lengths(dataset.select([2, 0])).tolist() == [1, 3]
    assert document_lengths(dataset.select([])).tolist() == []


def test_a_random_order_follows_from_seed_and_epoch_alone():
    orders = {(seed, epoch): order_of(ShuffledSampler(50, seed), epoch) for seed in (0, 1) for epoch in (0, 1)}
    assert all(sorted(order) == list(range(50)) for order in orders.values())
    assert len({tuple(order) for order in orders.values()}) == 4
    assert orders[0, 1] == order_of(ShuffledSampler(50, 0), 1)
