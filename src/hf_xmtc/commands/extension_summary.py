"""What an extension has added to a model, and what of it cannot be found, in a few sentences."""

from collections.abc import Sequence
from typing import Any

from hf_xmtc.data.label_spellings import spelling_groups
from hf_xmtc.models.label_names import LabelNames
from hf_xmtc.models.stored_documents import AddedDocuments

from .extension_report import counted

__all__ = ["summarize"]

# Labels that are named.
NUM_NAMED = 5
# From this share of unknown words on, the remedy is said too.
MANY_UNKNOWN = 0.1


def summarize(model: Any, tokenizer: Any, counts: AddedDocuments, num_known: int, texts: Sequence[str]) -> str:
    """Documents and labels that are new, labels that differ only in spelling, unknown words, and labels that nothing finds.

    Args:
        model: The extended model; its labels from id ``num_known`` on are new.
        tokenizer: Its tokenizer.
        counts: Of the documents.
        num_known: Labels that were there.
        texts: All documents that were given.
    """
    names = model.config.label_names
    sentences = [
        _documents(counts),
        _labels(names, num_known),
        "They have no scores until the model is trained further."
        if len(names) > num_known and not model.scores_new_labels
        else "",
        f"The model now has {counted(model.config.num_documents, 'document')} and {counted(len(names), 'label')}.",
    ]
    lines = [
        " ".join(filter(None, sentences)),
        _spellings(names, num_known),
        _unknown_words(model, tokenizer, texts, num_known),
    ]
    if texts and (never := model.labels_never_found(num_known)):  # without documents `add_labels` has said it
        lines.append(
            f"{counted(len(never), 'new label')} still cannot be found, such as {names[never[0]]!r}: {model.reason_never_found}"
        )
    return "\n".join(filter(None, lines))


def _documents(counts: AddedDocuments) -> str:
    sentence = f"{counted(counts.new, 'document')} {_are(counts.new)} new"
    if one := counts.relabelled:
        sentence += f", {one:,} that {'was there has' if one == 1 else 'were there have'} further labels"
    if counts.known:
        sentence += f"; {counts.known:,} {'was' if counts.known == 1 else 'were'} there already"
    if counts.left_out:
        sentence += f"; {counts.left_out:,} without any known word {_are(counts.left_out)} left out"
    return f"{sentence}."


def _labels(names: LabelNames, num_known: int) -> str:
    new = names.labels[num_known:]
    if not new:
        return "0 labels are new."
    more = f" and {len(new) - NUM_NAMED:,} more" if len(new) > NUM_NAMED else ""
    return f"{counted(len(new), 'label')} {_are(len(new))} new: {', '.join(map(repr, new[:NUM_NAMED]))}{more}."


def _spellings(names: LabelNames, num_known: int) -> str:
    pairs = []
    for group in spelling_groups(names.labels) if len(names) > num_known else []:
        known = [label for label in group if names.ids[label] < num_known]
        pairs += [(label, known[0]) for label in group if known and names.ids[label] >= num_known]
    if not pairs:
        return ""
    listing = ", ".join(f"{new!r} beside {known!r}" for new, known in pairs[:NUM_NAMED])
    return (
        f"{counted(len(pairs), 'new label')} {'differs' if len(pairs) == 1 else 'differ'} from one of the model's only by case, blanks, final "
        f"punctuation or Unicode form: {listing}. If they are one label, write it as the model does, and extend anew."
    )


def _unknown_words(model: Any, tokenizer: Any, texts: Sequence[str], num_known: int) -> str:
    names = model.config.label_names
    of_labels = [names.name_of(label) for label in range(num_known, len(names))]
    shares = [_unknown_share(model, tokenizer, given) for given in (texts, of_labels)]
    kinds = ("of the words of the documents", "of the words of the new labels' names")
    listing = " and ".join(f"{100 * share:.1f} % {kind}" for share, kind in zip(shares, kinds, strict=True) if share)
    if not listing:
        return ""
    remedy = ""
    if max(shares[0], 0 if texts else shares[1]) >= MANY_UNKNOWN:  # documents find labels of any name
        remedy = " To know them, train anew on the old and the new documents together, or with a --backbone, whose word pieces know every word."
    return f"{listing} are not in the model's vocabulary, which stays that of training.{remedy}"


def _unknown_share(model: Any, tokenizer: Any, texts: Sequence[str]) -> float:
    special = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
    words = [token for ids in model.token_ids_of(list(texts), tokenizer) for token in ids if token not in special]
    return words.count(tokenizer.unk_token_id) / max(1, len(words))


def _are(number: int) -> str:
    return "is" if number == 1 else "are"
