"""The card's section of limits: what the model cannot do, what its scores are, and what its files give away."""

from collections.abc import Mapping
from pathlib import Path

from hf_xmtc.file_checks import read_json_object
from hf_xmtc.inference.model_opening import GENERATOR_FOLDER

from .card_usage import has_tuned_threshold

__all__ = ["limits_of", "stored_families"]

# Stands among families for candidates that are found by an index of the training texts and not by a model.
TRAINING_TEXTS = "training texts"
_HOLDS_DOCUMENTS = "The model holds its training documents as numbers: publish it only where these may be published."


def limits_of(family: str, label_info: Mapping, recipe: Mapping) -> list[str]:
    """Sentences on what the model cannot do, and what its scores are."""
    length = recipe.get("max_length_tokens") or recipe.get("max_length")
    cut = f"Only the first {length:,} tokens of a text are read" if length else "Long texts are cut at the tokenizer's limit"
    scores = (
        "Scores are independent sigmoids, one per label. They do not add up to 1 and are not calibrated: a score of 0.8 does not mean that "
        "the label is right in 80 % of cases."
    )
    if family in ("bonsai", "parabel"):
        scores = (
            "Scores are products of probabilities along a path of each tree, averaged over the trees. They are low for labels that texts seldom "
            "have, and are not calibrated."
        )
    known = "Only labels seen in training can be predicted"
    label_set = "the label set is fixed in `labels.json`"
    if family == "neighbors":
        known = "Only labels that have a training document can be predicted"
        if label_info.get("label_text_weight"):
            known = "Labels without a training document are found by their names and descriptions alone"
        label_set = "`hf-xmtc extend` adds labels and documents without training, not words to the vocabulary"
        scores = (
            "Scores are the share of the votes of similar training documents, mixed with the similarity of a label's own text. They rank labels and "
            "are no probabilities."
        )
    if family == "seqtag":
        scores = "Scores are each label's probability in a chain over all labels (a CRF), and are not calibrated."
    if family == "ensemble":
        known = "Only labels that a part predicts can be predicted"
        cut = "Each part cuts long texts at its own limit"
        scores = "Scores are combined from the parts' and rank labels; they are no probabilities. Labels that no part ranks high have none."
    tuned = family == "seqtag" or has_tuned_threshold(recipe)
    families = {family, *_of_parts(recipe), *(label_info.get("families") or ())}
    if family == "treaderxml" and (recipe.get("config_overrides") or {}).get("use_teacher") is False:
        families.discard(family)  # then it holds none
    elif family == "treaderxml":
        known = "Only labels that the model was trained with can be predicted"
        label_set = "labels that `hf-xmtc extend` adds count in teachers, and get scores when the model is trained further"
    return [
        f"{cut}; what stands after them has no influence.",
        f"{known}; {label_set}.",
        scores + ("" if tuned else " Rank by them, and choose a threshold on your own documents."),
        "Rare labels are predicted less well than frequent ones; compare PSP with P in the table above.",
        "The model repeats the habits of the people who assigned the training labels, their omissions included.",
        *([_HOLDS_DOCUMENTS] if families & {"neighbors", "treaderxml", TRAINING_TEXTS} else []),
    ]


def stored_families(folder: Path, config: Mapping) -> list[str]:
    """Families of all models in a model folder: its own, an ensemble's parts, and what finds LACO's candidates."""
    families, generator = [config["model_type"], *_of_parts(config)], folder / GENERATOR_FOLDER
    if (generator / "config.json").is_file():
        families += stored_families(generator, read_json_object(generator / "config.json"))
    elif generator.is_dir():
        families.append(TRAINING_TEXTS)
    return families


def _of_parts(settings: Mapping) -> list[str]:
    return [part.get("model_type") for part in (settings.get("parts") or {}).values()]
