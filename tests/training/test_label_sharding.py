"""Training with the labels spread over two processes: the runs equal those of one process with the joint batches."""

from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file

from hf_xmtc import BertXMLForXMTC, XMTCTrainingArguments
from hf_xmtc.training.label_sharding import check_resumed_processes, spread_labels
from hf_xmtc.training.sharded_label_head import LabelShard
from training.sharded_training import CASES, make_trainer, observe, read

RESUMED = ["propensity, averaged", "adamw", "sgd_in_backward", "rowwise_in_backward", "adam_in_backward"]


@pytest.fixture(scope="module")
def folder(two_processes):
    """Where the two processes have left their runs."""
    return two_processes / "sharded"


@pytest.fixture(scope="module")
def corpus(folder):
    return read(folder)


@pytest.mark.parametrize("name", CASES)
def test_two_processes_with_half_the_labels_train_the_model_that_one_trains(folder, corpus, name, tmp_path):
    data, tokenizer = corpus
    model_settings, settings = CASES[name]
    if not settings.get("load_best_model_at_end"):
        settings = {"save_strategy": "no", **settings}
    trainer = make_trainer(tmp_path, data, tokenizer, model_settings, per_device_train_batch_size=4, **settings)
    start = {key: tensor.clone() for key, tensor in trainer.model.state_dict().items()}
    trainer.train()
    expected, weights = trainer.model.state_dict(), load_file(folder / name / "model.safetensors")
    assert weights.keys() == expected.keys()
    assert max((weights[key] - expected[key]).abs().max().item() for key in weights) < 1e-5
    assert max((weights[key] - start[key]).abs().max().item() for key in weights) > 1e-3

    alone = observe(trainer, data)
    for rank in range(2):
        found = torch.load(folder / name / f"{rank}.pt", weights_only=True)
        assert found["metrics"] == pytest.approx(alone["metrics"], abs=1e-6)
        assert torch.equal(found["labels"], alone["labels"])
        torch.testing.assert_close(found["scores"], alone["scores"], rtol=0, atol=1e-5)
        assert found["norms"] == pytest.approx(alone["norms"], rel=1e-4)
        assert found["losses"] == pytest.approx(alone["losses"], rel=1e-4)


def test_the_norm_that_is_clipped_was_above_the_limit(folder):
    norms = torch.load(folder / "clipped" / "0.pt", weights_only=True)["norms"]
    assert min(norms) > 2 * CASES["clipped"][1]["max_grad_norm"]


@pytest.mark.parametrize("name", RESUMED)
def test_a_resumed_run_equals_an_uninterrupted_one(folder, name):  # AC-21
    for rank in range(2):
        differences = torch.load(folder / f"{name}, resumed" / f"{rank}.pt", weights_only=True)
        assert max(differences.values()) <= 1e-6, differences


def test_one_process_opens_a_checkpoint(folder):
    checkpoint = folder / "adamw" / "checkpoint-12"
    weights = BertXMLForXMTC.from_pretrained(checkpoint).state_dict()
    assert all(torch.equal(weights[key], tensor) for key, tensor in load_file(checkpoint / "model.safetensors").items())
    assert weights["label_head.output.weight"].shape == (6, 32)


def test_resuming_in_one_piece_is_refused(folder, corpus, tmp_path):
    trainer = make_trainer(tmp_path, *corpus, {}, optim="adamw_torch")
    with pytest.raises(ValueError, match="trained with shard_labels=True, but this run has shard_labels=False"):
        trainer.train(resume_from_checkpoint=str(folder / "clipped" / "checkpoint-6"))


def test_resuming_with_another_number_of_processes_is_refused(folder):
    four = object.__new__(LabelShard)
    four.rank, four.world_size = 0, 4
    checkpoint = str(folder / "adamw" / "checkpoint-6")
    with pytest.raises(ValueError, match="checkpoint-6 were spread over 2 processes, but this run has 4.* Resume with 2"):
        check_resumed_processes(checkpoint, four)
    four.world_size = 2
    check_resumed_processes(checkpoint, four)


def test_a_sharded_model_wants_arguments_for_it():
    model = SimpleNamespace(label_head=SimpleNamespace(shard=SimpleNamespace(world_size=2)))
    with pytest.raises(ValueError, match="spread over 2 processes, but shard_labels=False"):
        spread_labels(model, SimpleNamespace(shard_labels=False))


def test_one_process_is_refused(tmp_path):
    with pytest.raises(ValueError, match="shard_labels=True with world_size=1: .*torchrun --nproc_per_node N"):
        XMTCTrainingArguments(output_dir=str(tmp_path), use_cpu=True, shard_labels=True)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"fp16": True}, "shard_labels=True with fp16=True.* Use bf16=True"),
        ({"optim": "adafactor"}, "with optim='adafactor': it may look at whole matrices"),
        ({"accelerator_config": {"even_batches": False}}, "with even_batches=False"),
        ({"fsdp": True}, "shard_labels=True with fsdp=True: it shards"),
    ],
)
def test_what_does_not_go_with_sharded_labels_is_refused(tmp_path, monkeypatch, settings, message):
    monkeypatch.setattr(XMTCTrainingArguments, "world_size", 2)
    with pytest.raises(ValueError, match=message):
        XMTCTrainingArguments(output_dir=str(tmp_path), use_cpu=True, shard_labels=True, **settings)


@pytest.mark.parametrize(("engine", "name"), [("is_fsdp_enabled", "fsdp"), ("is_deepspeed_enabled", "deepspeed")])
def test_engines_that_shard_are_refused_before_training(corpus, tmp_path, engine, name):
    trainer = make_trainer(tmp_path, *corpus, {})
    trainer.args.shard_labels = True
    setattr(trainer, engine, True)
    with pytest.raises(ValueError, match=f"shard_labels=True with {name}=True"):
        trainer.train()


def test_processes_decide_together_whether_label_weights_are_missing(folder):
    found = [torch.load(folder / "weights" / f"{rank}.pt", weights_only=True) for rank in (0, 1)]
    for weights in found:
        assert (weights["all set"] == 2.0).all()
        assert not (weights["one missing"] == 2.0).any() and weights["one missing"].all()  # those of all are set anew


def test_the_whole_model_is_saved_where_only_one_process_is_asked_to(folder):
    older, newer = (load_file(folder / name / "model.safetensors") for name in ("older", "clipped"))
    assert older.keys() == newer.keys() and all(torch.equal(older[name], newer[name]) for name in newer)
