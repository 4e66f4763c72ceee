"""`GrowingModel`: families that hold their training documents, and take further documents and labels without training."""

from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from torch import Tensor
from transformers.tokenization_utils_base import LARGE_INTEGER
from transformers.utils import logging

from .document_tokens import list_texts, tokenize_documents
from .label_names import LabelNames
from .stored_documents import AddedDocuments, Assignments, StoredDocuments, digests_of

__all__ = ["GrowingModel", "label_text"]

logger = logging.get_logger(__name__)


def label_text(name: str, description: str | None = None) -> str:
    """The text of a label, by which it is found."""
    return f"{name}. {description}" if description else name


class GrowingModel:
    """Mixin of these families, which say where their documents and label texts are.

    Attributes:
        scores_new_labels: A new label gets scores at once; else it is silent until the model is trained further.
        reason_never_found: Why labels are never found (`labels_never_found`), and what helps.
    """

    scores_new_labels = True
    reason_never_found = ""

    # ---- what a family says ----------------------------------------------------------------------------------------------

    @property
    def document_labels(self) -> Assignments:
        """Labels of the documents that are stored."""
        raise NotImplementedError

    @property
    def stored_documents(self) -> StoredDocuments:
        """Their digests too."""
        raise NotImplementedError

    @property
    def found_by(self) -> Tensor | None:
        """True for words by which documents are found, (V,); None where an encoder reads all tokens."""
        raise NotImplementedError

    def hold_documents(self, documents: list[list[int]], stored: StoredDocuments) -> None:
        """Hold further documents, as token ids; ``stored`` has the digests and labels of all."""
        raise NotImplementedError

    def hold_label_texts(self, texts: list[str], tokenizer: Any) -> None:
        """Hold the texts of the last labels, which are new."""
        raise NotImplementedError

    def check_growth(self) -> None:
        """Refuse a model that holds no documents.

        Raises:
            ValueError: If it does not.
        """

    # ---- further documents and labels ------------------------------------------------------------------------------------

    def add_documents(self, texts: Iterable[str], labels: Iterable[Iterable[str | int]], tokenizer: Any) -> AddedDocuments:
        """Hold further documents, which count as neighbours at once, without training.

        The words that count and their idf stay those of training, as do all settings. A text that is there already is not stored again:
        its document gets the labels that it lacks. Texts are the same where their tokens are, up to the cut; with unknown words, which
        may hide different texts, where their labels are the same too. A text without any known word is left out, with a warning: no
        text could find it.

        Args:
            texts: N texts, cut where the tokenizer and the model say.
            labels: The labels of each, or their ids.
            tokenizer: The model's tokenizer.

        Returns:
            How many were new, were there, or are left out.

        Raises:
            TypeError: If the texts are no list of strings, or the tokenizer is none.
            ValueError: If the model does not have a label, texts and labels differ in number, or an older version has stored the model.
        """
        self.check_growth()
        documents, label_ids = self.token_ids_of(texts, tokenizer), self._label_ids(labels)
        if len(documents) != len(label_ids):
            raise ValueError(
                f"There are {len(documents)} texts but labels of {len(label_ids)}. Give a list of labels for each text."
            )
        num_given, is_known = len(documents), self.known_tokens(tokenizer)
        can_be_found = [bool(is_known[ids].any()) for ids in documents]
        documents, label_ids = (
            [row for row, kept in zip(rows, can_be_found, strict=True) if kept] for rows in (documents, label_ids)
        )
        given = StoredDocuments(digests_of(documents), Assignments.of(label_ids, self.config.num_labels)).to(self.device)
        ambiguous = [tokenizer.unk_token_id in ids for ids in documents]
        stored, new, counts = self.stored_documents.union(given, self.config.num_labels, ambiguous)
        if counts.new or counts.relabelled:
            self.hold_documents([documents[row] for row in new.tolist()], stored)
        if num_left_out := num_given - len(documents):
            logger.warning(
                f"{num_left_out} of {num_given} documents are left out: the model knows none of their words, because its vocabulary stays that of "
                "training, and no text could find them. Train anew on all documents to take them in."
            )
        return counts._replace(left_out=num_left_out)

    def add_labels(
        self, labels: LabelNames | Sequence[str], tokenizer: Any, descriptions: Sequence[str | None] | None = None
    ) -> int:
        """Add labels with their texts, without training; see `resize_labels` on the scores of the others.

        Args:
            labels: Labels, with display names and parents as `LabelNames`. Those the model has stay as they are.
            tokenizer: The model's tokenizer.
            descriptions: Description of each label, which is read after its name.

        Returns:
            How many the model did not have. A warning says how many of them nothing can find yet (`labels_never_found`).

        Raises:
            TypeError: If the labels are no list, or the tokenizer is none.
            ValueError: If there is not one description for each label.
        """
        self.check_growth()
        self._check_tokenizer(tokenizer)
        labels, known = LabelNames.of(labels), self.config.label_names
        if descriptions is not None and (isinstance(descriptions, str) or len(descriptions) != len(labels)):
            raise ValueError(
                f"The descriptions are {descriptions!r:.80} for {len(labels)} labels. Give a list of one, or None, for each."
            )
        new = [label_id for label_id, label in enumerate(labels.labels) if label not in known.ids]
        if new:
            sources = [*((known, label_id) for label_id in range(len(known))), *((labels, label_id) for label_id in new)]
            columns = zip(*((names[i], names.name_of(i), names.parents_of(i)) for names, i in sources), strict=True)
            self.resize_labels(LabelNames(*columns))
            texts = [label_text(labels.name_of(label_id), descriptions and descriptions[label_id]) for label_id in new]
            self.hold_label_texts(texts, tokenizer)
            if never := self.labels_never_found(len(known)):
                logger.warning(
                    f"Until documents that have them are added, {len(never)} of {len(new)} new labels cannot be found: "
                    f"{self.reason_never_found}"
                )
        return len(new)

    def labels_never_found(self, first: int = 0) -> list[int]:
        """Label ids, from ``first`` on, that are in no ranking: labels without documents whose own texts do not help."""
        return []

    def token_ids_of(self, texts: Iterable[str], tokenizer: Any) -> list[list[int]]:
        """Token ids of texts, cut as in training."""
        self._check_tokenizer(tokenizer)
        limit = min(tokenizer.model_max_length, self.max_input_tokens or LARGE_INTEGER)
        documents = tokenize_documents(tokenizer, list_texts(texts), limit if limit < LARGE_INTEGER else None)
        return [document.ids for document in documents]

    def _check_tokenizer(self, tokenizer: Any) -> None:
        if not hasattr(tokenizer, "all_special_ids"):
            raise TypeError(
                f"The tokenizer is of type {type(tokenizer).__name__}: {tokenizer!r:.80}. Pass the one beside the model: "
                "AutoTokenizer.from_pretrained(FOLDER)."
            )
        self.check_tokenizer(tokenizer)

    def known_tokens(self, tokenizer: Any) -> np.ndarray:
        """True for the tokens by which texts are found: not for special ones, the unknown word among them, (V,)."""
        found_by = self.found_by
        known = np.ones(len(tokenizer), dtype=bool) if found_by is None else found_by.cpu().numpy().copy()
        known[tokenizer.all_special_ids] = False
        return known

    def _label_ids(self, labels: Iterable[Iterable[str | int]]) -> list[list[int]]:
        ids, num_labels = self.config.label_names.ids, self.config.num_labels
        rows = [list(row) if isinstance(row, Iterable) and not isinstance(row, str) else row for row in labels]
        for row in rows:
            # A string would be read letter by letter, and 1.7 as 1.
            if not isinstance(row, list) or any(
                isinstance(label, bool) or not isinstance(label, (str, Integral)) for label in row
            ):
                raise ValueError(
                    f"The labels of a document are {row!r:.80}, but must be a list of labels or of label ids: [['travel', 'italy']] for one "
                    "text."
                )
        rows = [[ids.get(label, label) if isinstance(label, str) else int(label) for label in row] for row in rows]
        unknown = {label for row in rows for label in row if isinstance(label, str) or not 0 <= label < num_labels}
        if unknown:
            raise ValueError(
                f"The model lacks {len(unknown)} labels of these documents, such as {min(unknown, key=str)!r}. Add them first: "
                "model.add_labels(…)."
            )
        return rows
