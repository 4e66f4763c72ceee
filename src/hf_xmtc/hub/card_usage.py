"""How to use a model: the examples of its card."""

from collections.abc import Mapping

from hf_xmtc.models import FAMILIES

from .markdown import python_string

__all__ = ["TASK", "has_tuned_threshold", "usage"]

# The Hub's task id of multi-label text classification.
TASK = "text-classification"


def usage(repo_id: str, family: str, label_info: Mapping, recipe: Mapping) -> str:
    """Examples for what a model can do, as Markdown.

    Args:
        repo_id: The model's id on the Hub.
        family: Its family.
        label_info: As for `build_model_card`.
        recipe: Likewise.
    """
    num_candidates = label_info.get("num_candidates", 0)
    parts = [
        _usage_with_candidates(repo_id, num_candidates, bool(recipe.get("candidates_digest")))
        if num_candidates
        else _usage(repo_id, family == "ensemble")
    ]
    if family == "seqtag" or recipe.get("set_metrics") or has_tuned_threshold(recipe):
        parts.append(_usage_of_sets(family, label_info, recipe))
    if _weighs_words(family, label_info, recipe):
        parts.append(
            '`tagger.explain("Your text")` says which words speak for the best label, and `tagger.explain("Your text", "a label")` for another.'
        )
    if not num_candidates:
        parts += _usage_of_tasks(label_info.get("auxiliary_task", "none"))
    return "\n\n".join(parts)


def _weighs_words(family: str, label_info: Mapping, recipe: Mapping) -> bool:
    """True if the pipeline's ``explain`` has weights of words."""
    if family not in FAMILIES or FAMILIES[family].token_weight_kind is None:
        return False
    if family == "neighbors" and recipe.get("backbone"):
        return False
    return label_info.get("cross_attention", True) and label_info.get("label_scoring", "attention") == "attention"


def has_tuned_threshold(recipe: Mapping) -> bool:
    """True if thresholds were tuned on validation."""
    return recipe.get("tune_threshold", "none") != "none"


def _usage(repo_id: str, reads_texts: bool = False) -> str:
    pipeline = f"""Needs only `torch` and `transformers`; the model's code is in this repository.

```python
from transformers import pipeline

tagger = pipeline("{TASK}", model={python_string(repo_id)}, trust_remote_code=True)
tagger("Your text", top_k=5)  # [{{"label": ..., "score": ...}}, ...], best first
```

For the numbers themselves:"""
    if reads_texts:
        return f"""{pipeline}

```python
from transformers import AutoModel

model = AutoModel.from_pretrained({python_string(repo_id)}, trust_remote_code=True)
output = model(["Your text"], top_k=5)
output.top_labels, output.top_scores  # label ids and scores, (1, 5)
```"""
    return f"""{pipeline}

```python
from transformers import AutoModel, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained({python_string(repo_id)}, trust_remote_code=True)
model = AutoModel.from_pretrained({python_string(repo_id)}, trust_remote_code=True)
output = model(**tokenizer(["Your text"], truncation=True, return_tensors="pt"), top_k=5)
output.top_labels, output.top_scores  # label ids and scores, (1, 5)
```"""


def _usage_with_candidates(repo_id: str, num_candidates: int, are_of_a_model: bool) -> str:
    origin, package = "the labels of the training texts that are nearest to it", "hf_xmtc[retrieval]"
    if are_of_a_model:
        origin, package = "the best labels of the model in `candidates/`", "hf_xmtc"
    return f"""Scores {num_candidates} candidates of each text, which are {origin}. `hf_xmtc` finds them:
`pip install "{package}"`.

```python
from transformers import pipeline

from hf_xmtc.retrieval import open_generator

generator = open_generator({python_string(repo_id)})
tagger = pipeline("{TASK}", model={python_string(repo_id)}, trust_remote_code=True, candidates=generator)
tagger("Your text", top_k=5)  # [{{"label": ..., "score": ...}}, ...], best first
```

Labels of your own choice are scored with only `torch` and `transformers`: `tagger("Your text", candidates=["a label", "another"])`."""


def _usage_of_sets(family: str, label_info: Mapping, recipe: Mapping) -> str:
    kind = recipe.get("tune_threshold", "none")
    of_all = f"score above {label_info.get('decision_threshold', 0.5):.4g}"
    of_labels = {
        "none": of_all,
        "global": f"{of_all}, which gave the best micro F1 on the validation split",
        "per_label": "score above a threshold of their own, which gave the best F1 of the label on the validation split",
    }[kind]
    set_of = "best sequence of yes and no over all labels" if family == "seqtag" else f"labels with a {of_labels}"
    return f"""`tagger("Your text", threshold="model")` gives the predicted set: the {set_of}."""


def _usage_of_tasks(task: str) -> list[str]:
    """The section on labels that occur together, learnt by LACO's tasks."""
    asked = {
        "clcp": "model.conditional_probabilities(**inputs, given=torch.tensor([[0]]))  # of every other label, when label 0 is known: (1, L)",
        "plcp": "model.pair_probabilities(**inputs, pairs=torch.tensor([[[0, 1]]]))  # of labels 0 and 1 together: (1, 1)",
    }
    lines = [line for name, line in asked.items() if task in (name, "both")]
    if not lines:
        return []
    head = """import torch

inputs = tokenizer(["Your text"], truncation=True, return_tensors="pt")"""
    return [
        "What labels say of each other (`model.config.label_names.id_of(label)` is the id of a label):",
        "\n".join(["```python", head, *lines, "```"]),
    ]
