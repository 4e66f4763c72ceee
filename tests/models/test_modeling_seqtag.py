"""SeqTag: the predicted set is the best sequence, scores are marginals, and the model's loss is the CRF's."""

import pytest
import torch
from transformers import BertConfig

from hf_xmtc import SeqTagConfig, SeqTagForXMTC, XMTCPipeline, XMTCTrainingArguments, train_word_tokenizer
from hf_xmtc.training.option_conflicts import check_model_options
from models.families import make_batch
from models.tiny_laco import BACKBONE, BATCH, LABELS


def build(dropout: float = 0.0, **settings) -> SeqTagForXMTC:
    torch.manual_seed(0)
    config = {"backbone_config": BertConfig(**BACKBONE), "num_labels": 5, "cls_token_id": 2, "sep_token_id": 3}
    return SeqTagForXMTC(SeqTagConfig(**{**config, "classifier_dropout": dropout, **settings})).eval()


def drawn_apart() -> SeqTagForXMTC:
    """Transitions that make the labels above one half other ones than those of the best sequence, for some of the texts."""
    model = build()
    with torch.no_grad():
        model.label_head.output.weight.mul_(5.0)
        model.label_head.crf.transitions.copy_(torch.tensor([[1.5, -1.5], [-2.0, 1.0]]))
    return model


@torch.no_grad()
def test_the_predicted_set_is_the_best_sequence_and_scores_are_marginals():
    torch.manual_seed(1)
    model, head = drawn_apart(), drawn_apart().label_head
    batch = {"input_ids": torch.randint(5, 35, (60, 9))}
    output = model(**batch, top_k=5)
    emissions = head.emissions(model.read_jointly(**batch).labels)
    best, marginals = head.crf.best_tags(emissions) == 1, head.crf.log_marginals(emissions).exp()[..., 1]
    assert torch.equal(output.label_sets, best)
    assert (best != (marginals > 0.5)).any() and best.any()  # what the two would confuse
    found = torch.zeros_like(best).scatter(1, output.top_labels, model.in_predicted_set(output))
    assert torch.equal(found, best)
    torch.testing.assert_close(output.top_scores, marginals.sort(dim=1, descending=True).values)


def test_the_loss_is_that_of_the_crf_and_every_parameter_learns_from_it():
    model = build().train()
    batch = make_batch(model, BATCH)
    loss = model(**batch, labels=LABELS).loss
    head = model.label_head
    tags = torch.tensor([[1, 0, 1, 1, 0], [0, 1, 0, 0, 0]])
    expected = head.crf.negative_log_likelihood(head.emissions(model.read_jointly(**batch).labels), tags)
    torch.testing.assert_close(loss, expected.mean())
    loss.backward()
    idle = {name for name, parameter in model.named_parameters() if parameter.grad is None or not parameter.grad.any()}
    assert {name for name in idle if "key.bias" not in name} == set()  # a softmax does not see what all keys share


@pytest.mark.parametrize("guard", [torch.no_grad, torch.inference_mode])
def test_it_predicts_where_gradients_are_off(guard):
    model = drawn_apart()
    expected = model(**make_batch(model, BATCH), top_k=3)
    with guard():
        found = model(**make_batch(model, BATCH), top_k=3)
    assert torch.equal(found.top_labels, expected.top_labels) and torch.equal(found.label_sets, expected.label_sets)


def test_the_pipeline_answers_the_best_sequence():
    tokenizer = train_word_tokenizer(
        ["a cat sings", "a dog barks"], min_document_frequency=1, max_length=16, num_cls_tokens=1
    )
    sizes = {key: BACKBONE[key] for key in ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")}
    torch.manual_seed(0)
    model = SeqTagForXMTC(SeqTagConfig.for_tokenizer(tokenizer, label_names=list("abcde"), backbone_config=sizes)).eval()
    tagger = XMTCPipeline(model=model, tokenizer=tokenizer)
    (expected,) = model(**tokenizer("a cat", return_tensors="pt"), top_k=5).label_sets.tolist()
    assert {answer["label"] for answer in tagger("a cat", threshold="model")} == {
        "abcde"[i] for i in range(5) if expected[i]
    }


def test_its_dropout_acts_in_training_alone():
    model = build(dropout=0.5)
    batch = make_batch(model, BATCH)
    states = model.read_jointly(**batch).labels.detach()
    assert torch.equal(model.label_head.emissions(states), model.label_head.emissions(states))
    model.train()
    torch.manual_seed(0)
    first = model.label_head.emissions(states)
    assert not torch.equal(first, model.label_head.emissions(states))


def test_a_crf_that_a_checkpoint_lacks_starts_at_zero(tmp_path):
    from safetensors.torch import load_file, save_file

    build().save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    kept = {name: value for name, value in weights.items() if ".crf." not in name}
    assert len(kept) == len(weights) - 3
    save_file(kept, tmp_path / "model.safetensors", metadata={"format": "pt"})
    crf = SeqTagForXMTC.from_pretrained(tmp_path).label_head.crf
    assert all((parameter == 0).all() for parameter in crf.parameters())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"joint_embedding": False}, "joint_embedding=False, but for SeqTag it must be True"),
        ({"cornet_num_blocks": 1}, "cornet_num_blocks=1, but for SeqTag it must be 0"),
        ({"label_loss": "asymmetric"}, "label_loss='asymmetric', but for SeqTag it must be 'bce'"),
        ({"lstm_hidden_size": 0}, "lstm_hidden_size=0"),
        ({"label_positions": "sequential", "num_labels": 38}, "need 41 positions .* num_labels=38, but the backbone has 40"),
    ],
)
def test_settings_that_it_cannot_take_are_refused(settings, message):  # AC-06
    with pytest.raises(ValueError, match=message):
        build(**settings)


def test_thresholds_are_refused_before_training(tmp_path):
    args = XMTCTrainingArguments(output_dir=str(tmp_path), tune_threshold="global")
    with pytest.raises(ValueError, match="the predicted set of SeqTagForXMTC has no thresholds"):
        check_model_options(args, build())
