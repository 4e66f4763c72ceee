import dataclasses

import pytest
from transformers import TrainingArguments

from hf_xmtc import XMTCTrainingArguments
from hf_xmtc.training.option_conflicts import IN_COMMAND, IN_TRAINER


def make(tmp_path, **settings) -> XMTCTrainingArguments:
    return XMTCTrainingArguments(output_dir=str(tmp_path), use_cpu=True, **settings)


def test_defaults_evaluate_every_epoch_and_keep_the_best_model_by_ndcg_at_5(tmp_path):
    args = make(tmp_path)
    assert (args.eval_strategy, args.save_strategy, args.load_best_model_at_end) == ("epoch", "epoch", True)
    assert (args.metric_for_best_model, args.greater_is_better) == ("nDCG@5", True)
    assert args.restore_callback_states_from_checkpoint


def test_a_loss_as_metric_is_better_when_smaller(tmp_path):
    assert make(tmp_path, metric_for_best_model="loss").greater_is_better is False
    assert make(tmp_path, metric_for_best_model="label_dependency_kl").greater_is_better is False
    assert make(tmp_path, metric_for_best_model="micro_f1").greater_is_better is True


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"eval_top_k": 3}, "eval_top_k=3, but it must be at least 5: P@5"),
        ({"averaging_start_epoch": -1}, "averaging_start_epoch=-1, but epochs count from 0"),
        ({"early_stopping_patience": 0}, "early_stopping_patience=0, but it must be at least 1"),
        ({"averaging_start_epoch": 1, "eval_strategy": "no"}, "averaging_start_epoch=1 with eval_strategy='no'"),
        ({"early_stopping_patience": 2, "eval_strategy": "no"}, "early_stopping_patience=2 with eval_strategy='no'"),
        (
            {"eval_do_concat_batches": False},
            "eval_do_concat_batches=False cannot be used here. Metrics and .* Leave the option out",
        ),
        (
            {"label_smoothing_factor": 0.1},
            "label_smoothing_factor=0.1 cannot be used here. transformers smooths labels of which one",
        ),
        ({"use_cache": True}, "use_cache=True cannot be used here"),
        (
            {"label_names": ["targets"]},
            r"label_names=\['targets'\] cannot be used here. The labels of a batch are called labels",
        ),
        ({"length_column_name": "words"}, "length_column_name=words cannot be used here"),
        ({"optim": "lomo"}, "optim='lomo', but it groups parameters in its own way"),
        ({"adaptive_gradient_clipping": True, "max_grad_norm": 0.0}, "max_grad_norm=0.0: that switches all clipping off"),
    ],
)
def test_settings_that_would_do_nothing_or_harm_are_refused(tmp_path, settings, message):
    with pytest.raises(ValueError, match=message):
        make(tmp_path, load_best_model_at_end=False, **settings)


def test_what_is_refused_as_doing_nothing_are_arguments_at_their_defaults():
    fields = {field.name: field for field in dataclasses.fields(TrainingArguments)}
    for name, (idle, _) in {**IN_TRAINER, **IN_COMMAND}.items():
        default = fields[name].default if fields[name].default is not dataclasses.MISSING else fields[name].default_factory()
        assert name.startswith("do_") or default in idle, name


def test_arguments_at_their_defaults_written_out_are_taken(tmp_path):
    make(tmp_path, label_names=["labels"], label_smoothing_factor=0.0, use_cache=False, optim="adamw_torch")
