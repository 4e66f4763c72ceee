import numpy as np
import torch
from transformers import TrainerState

from strict_parser import parse_strictly


def strict(path):
    return parse_strictly(path.read_text())


def test_the_trainers_files_are_json_whatever_was_measured(tmp_path, make_trainer):  # AC-68
    trainer = make_trainer()
    trainer.log({"loss": float("nan"), "grad_norm": torch.tensor(float("inf")), "eval_P@1": np.float32(0.5)})
    assert not trainer._determine_best_metric({"eval_nDCG@5": float("nan")}, None)
    trainer.state.save_to_json(tmp_path / "trainer_state.json")
    state = strict(tmp_path / "trainer_state.json")
    assert state["log_history"] == [{"loss": None, "grad_norm": None, "eval_P@1": 0.5, "epoch": 0, "step": 0}]
    assert state["best_metric"] is None

    trainer.state = TrainerState.load_from_json(tmp_path / "trainer_state.json")
    assert trainer._determine_best_metric({"eval_nDCG@5": 0.25}, None) and trainer.state.best_metric == 0.25

    (tmp_path / "run").mkdir(exist_ok=True)
    trainer.save_metrics("test", {"P@1": np.float32(0.5), "PSP@1": float("nan"), "num_documents": np.int64(3)})
    for name in ("test_results.json", "all_results.json"):
        assert strict(tmp_path / "run" / name) == {"P@1": 0.5, "PSP@1": None, "num_documents": 3}


def test_settings_of_a_checkpoint_are_json(tmp_path, make_trainer):  # AC-68
    trainer = make_trainer(
        max_steps=1, save_steps=1, save_strategy="steps", eval_strategy="no", load_best_model_at_end=False
    )
    trainer.args.adam_epsilon = float("inf")
    trainer.train()
    files = list((tmp_path / "run" / "checkpoint-1").glob("*.json"))
    contents = {path.name: strict(path) for path in files}
    assert contents["training_args.json"]["adam_epsilon"] is None and "trainer_state.json" in contents
