"""The usual way of training a label head, beside which label blocks are measured."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import dense_peer
from dense_peer import dense_loss
from small_corpus import write_corpus


def test_dense_loss_is_that_of_a_multi_hot_matrix():
    logits = torch.tensor([[0.0, 2.0, -1.0], [1.0, 0.0, 3.0]])
    labels = torch.tensor([[1, -100], [0, 2]])
    hot = torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0]])
    expected = torch.nn.functional.binary_cross_entropy_with_logits(logits, hot)
    torch.testing.assert_close(dense_loss(logits, labels, "mean"), expected)
    torch.testing.assert_close(dense_loss(logits, labels, "sum_labels"), 3 * expected)


@pytest.mark.parametrize("reduction", ["mean", "sum_labels"])
def test_a_run_writes_a_model_folder_and_how_far_its_gradients_are_from_those_of_label_blocks(
    unchecked, tmp_path, reduction
):
    corpus = write_corpus(tmp_path / "corpus")
    settings = {
        "dataset": corpus,
        "output_dir": tmp_path / "model",
        "cornet_num_blocks": 1,
        "cornet_context_size": 4,
        "num_cls_tokens": 2,
        "config_overrides": "hidden_size=16,num_hidden_layers=1,num_attention_heads=2,intermediate_size=16,label_block_size=4,"
        f"loss_reduction={reduction}",
        "max_length_tokens": 8,
        "min_document_frequency": 1,
        "per_device_train_batch_size": 4,
        "num_train_epochs": 1,
        "disable_tqdm": True,
        "use_cpu": True,
    }
    dense_peer.main([text for key, value in settings.items() for text in (f"--{key}", str(value))])
    metrics = json.loads((tmp_path / "model" / "metrics.json").read_text(encoding="utf-8"))
    assert 0 < metrics["train"]["first_step_gradient_difference"] < 1e-5
    assert (tmp_path / "model" / "model.safetensors").exists() and "nDCG@5" in metrics["test"]


def test_another_loss_than_binary_cross_entropy_shows_in_the_difference(unchecked, tmp_path):
    """The comparison can fail: the dense peer knows one loss only."""
    corpus = write_corpus(tmp_path / "corpus")
    arguments = ["--dataset", str(corpus), "--output_dir", str(tmp_path / "model"), "--cornet_num_blocks", "0"]
    arguments += ["--config_overrides", "hidden_size=16,num_hidden_layers=1,intermediate_size=16,label_loss=asymmetric"]
    arguments += ["--max_length_tokens", "8", "--num_train_epochs", "1", "--use_cpu", "True", "--disable_tqdm", "True"]
    dense_peer.main(arguments)
    metrics = json.loads((tmp_path / "model" / "metrics.json").read_text(encoding="utf-8"))
    assert metrics["train"]["first_step_gradient_difference"] > 1e-2


def test_labels_that_are_left_out_of_documents_are_no_argument_of_the_model(unchecked, tmp_path):
    corpus = write_corpus(tmp_path / "corpus")
    for path in corpus.glob("*.parquet"):
        table = pq.read_table(path)
        pq.write_table(table.append_column("filter_labels", pa.array([["tool"]] * len(table))), path)
    arguments = ["--dataset", str(corpus), "--output_dir", str(tmp_path / "model"), "--cornet_num_blocks", "0"]
    arguments += ["--config_overrides", "hidden_size=16,num_hidden_layers=1,intermediate_size=16"]
    arguments += ["--max_length_tokens", "8", "--num_train_epochs", "1", "--use_cpu", "True", "--disable_tqdm", "True"]
    dense_peer.main(arguments)
    for split in ("validation", "test"):
        ranked = pq.read_table(tmp_path / "model" / "predictions" / f"{split}.parquet")["labels"].to_pylist()
        assert not any("tool" in labels for labels in ranked)
