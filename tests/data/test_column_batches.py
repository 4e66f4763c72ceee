import random

import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest
from damaged_files import damage

from hf_xmtc.data.column_batches import column_batches

TEXTS = [f"text {random.Random(i).random()}" for i in range(2_000)]
LABELS = [[text] for text in TEXTS]


def not_utf8(*texts: bytes) -> pa.Array:
    """Strings of any bytes, as writers without a check leave them."""
    return pa.Array.from_buffers(pa.string(), len(texts), pa.array(texts, pa.binary()).buffers())


@pytest.mark.parametrize("column", ["text", "labels"])
def test_damaged_pages_name_the_file(tmp_path, load, column):
    whole, damaged = (tmp_path / f"train-0000{shard}-of-00002.parquet" for shard in (0, 1))
    texts, labels = (TEXTS, [["a"]] * 2_000) if column == "text" else (["x"] * 2_000, LABELS)
    for path in (whole, damaged):
        pq.write_table(pa.table({"text": texts, "labels": labels}), path, compression="gzip", use_dictionary=False)
    damage(damaged)
    with pytest.raises(ValueError, match=f"{damaged} is not readable parquet .*cut off"):
        load(tmp_path)


@pytest.mark.parametrize("dictionary", [False, True])
def test_text_that_is_no_utf8_is_noticed_while_loading(tmp_path, load, dictionary):
    texts = not_utf8(b"a", b"b", b"caf\xe9")
    for shard, part in enumerate((pa.array(["x", "y"]), texts)):
        part = part.dictionary_encode() if dictionary else part
        table = pa.table({"text": part, "labels": [["a"]] * len(part)})
        pq.write_table(table, tmp_path / f"train-0000{shard}-of-00002.parquet")
    message = r"train-00001-of-00002.parquet: row 2 \(counted from 0\) of the column 'text' is not valid text"
    with pytest.raises(ValueError, match=message):
        load(tmp_path)


def test_labels_that_are_no_utf8_are_noticed_too(tmp_path, load):
    labels = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), not_utf8(b"a", b"\xff"))
    pq.write_table(pa.table({"text": ["x", "y"], "labels": labels}), tmp_path / "train.parquet")
    with pytest.raises(
        ValueError, match=r"train.parquet: row 1 \(counted from 0\) of the column 'labels' is not valid text"
    ):
        load(tmp_path)


@pytest.mark.parametrize("column", ["text", "labels"])
def test_a_repeated_column_is_refused(tmp_path, load, column):
    columns = {"text": pa.array(["x"]), "labels": pa.array([["a"]])}
    names = [*columns, column]
    pq.write_table(pa.table([columns[name] for name in names], names=names), tmp_path / "train.parquet")
    with pytest.raises(ValueError, match=f"train.parquet has 2 columns that share a name, '{column}', '{column}', among"):
        load(tmp_path)


def test_damaged_features_of_datasets_are_refused(tmp_path, load):
    metadata = {b"huggingface": b'{"info": {"features": {"text": 1, "labels": [}}'}
    table = pa.table({"text": ["x"], "labels": [["a"]]}).replace_schema_metadata(metadata)
    pq.write_table(table, tmp_path / "train.parquet")
    with pytest.raises(ValueError, match="column 'labels' of train: the description of its features.* is damaged"):
        load(tmp_path)


def test_long_texts_are_read_in_small_batches(tmp_path):  # AC-58
    texts = [f"{i} " + TEXTS[i][5:] * 20_000 for i in range(150)]  # 360 KB each
    pq.write_table(pa.table({"text": texts}), tmp_path / "train.parquet", row_group_size=5, use_dictionary=False)
    before, most, read = pa.total_allocated_bytes(), 0, []
    for array in column_batches(pads.dataset([str(tmp_path / "train.parquet")]), "text", 8_192, "here"):
        most = max(most, pa.total_allocated_bytes() - before)
        read += array.to_pylist()
    assert read == texts
    assert most < sum(map(len, texts))


def test_a_row_group_of_long_texts_is_read_in_few_rows(tmp_path):
    path = tmp_path / "train.parquet"
    texts = [TEXTS[i][5:] * 20_000 for i in range(100)]  # 360 KB each, in one row group
    pq.write_table(pa.table({"text": texts}), path, use_dictionary=False)
    arrays = list(column_batches(pads.dataset([str(path)]), "text", 8_192, "here"))
    assert [text for array in arrays for text in array.to_pylist()] == texts
    assert max(array.nbytes for array in arrays) < 5_000_000 and len(arrays) < 20
