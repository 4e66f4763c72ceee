"""Meanings of the metrics of a model card, in words."""

__all__ = ["NOT_PER_CENT", "PARTS", "meaning_of"]

# By the part of a metric's name before "@"; k is the part after it.
MEANINGS = {
    "P": "share of the first {k} predicted labels that are right",
    "R": "share of a document's labels that are among the first {k} predicted",
    "RP": "as P, divided by the best value possible for a document with fewer than {k} labels",
    "nDCG": "ranking quality of the first {k} labels: right labels count more the higher they stand; 100 is a perfect order",
    "PSP": "as P, with rare labels weighted up by their propensity, relative to the best possible value",
    "PSnDCG": "as nDCG, with rare labels weighted up by their propensity, relative to the best possible value",
    "micro_precision": "share of the predicted pairs of document and label that are right",
    "micro_recall": "share of the true pairs of document and label that are predicted",
    "micro_f1": "F1 of all pairs of document and label",
    "macro_precision": "mean over labels of their precision",
    "macro_recall": "mean over labels of their recall",
    "macro_f1": "mean over labels of their F1",
    "samples_precision": "mean over documents of the share of their predicted labels that are right",
    "samples_recall": "mean over documents of the share of their labels that are predicted",
    "samples_f1": "mean over documents of the F1 of their predicted set",
    "macro_f1_group1": "as macro_f1, over the most frequent quarter of the labels",
    "macro_f1_group2": "as macro_f1, over the second quarter",
    "macro_f1_group3": "as macro_f1, over the third quarter",
    "macro_f1_group4": "as macro_f1, over the rarest quarter of the labels",
    "hamming_loss": "share of pairs of document and label that are wrong",
    "subset_accuracy": "share of documents whose predicted set is exactly right",
    "label_dependency_kl": "distance of the label pairs of predicted and true sets (LACO, equation 8; pairs that are never predicted count "
    "with 1e-6); no percentage, lower is better",
    "candidate_recall": "share of a document's labels among its candidates, the most that the model can find",
    "teacher_recall": "share of a document's labels among those of its neighbours in training and their parents",
    "near_duplicates": "share of documents with a neighbour in training of similarity 0.8 or more",
    "teacher_size": "labels and parents that a document's neighbours give it, on average; no percentage",
}
NOT_PER_CENT = ("label_dependency_kl", "teacher_size")
# Metrics of parts of a model, by the beginnings of their names.
PARTS = {
    "generator_": "the candidates' generator alone: ",
    "model_": "the model's own scores alone: ",
    "neighbors_": "the votes of near training texts alone: ",
}


def meaning_of(name: str) -> str:
    """A sentence on a metric; empty for one that is not known here."""
    prefix = next((prefix for prefix in PARTS if name.startswith(prefix)), "")
    family, _, k = name.removeprefix(prefix).partition("@")
    meaning = MEANINGS.get(family, "").format(k=k)
    return PARTS[prefix] + meaning if prefix else meaning
