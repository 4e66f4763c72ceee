"""`XMLCNNConfig`: settings of XML-CNN."""

from typing import TYPE_CHECKING, Any

from .configuration_word_level import WordLevelConfig

# Never imported, but read by transformers, which tells model folders apart by the code that their config reaches.
if TYPE_CHECKING:
    from .modeling_xmlcnn import XMLCNNForXMTC  # noqa: F401

__all__ = ["XMLCNNConfig"]


class XMLCNNConfig(WordLevelConfig):
    """Settings of `XMLCNNForXMTC`; the defaults are the sizes of CorNet §5.2.1, which its authors use for all data sets.

    Fields of `WordLevelConfig` apply too; there is no dropout on embeddings unless asked for.

    Args:
        num_filters: Filters F of each width.
        filter_widths: Words that a filter spans, one set of filters each.
        pool_size: Chunks P that a document is pooled over.
        bottleneck_size: Width of the ReLU layer in front of the label head.
        classifier_dropout: Dropout on that layer's output.
        pooling: ``document`` pools every document over its own length, in P chunks that do not overlap (XML-CNN §3.2).
            ``padded`` is the CorNet authors' code: padding is a word, and all documents are pooled over ``padded_length``
            columns, in chunks that overlap where P does not divide them.
        padded_length: Columns that every document is padded to with ``pooling="padded"`` (500 in the authors' code).
        convolutions_as_images: Start the filters as the authors' code does, whose two-dimensional convolutions count the embedding
            size among the outputs: ten times smaller at the sizes of the paper.
    """

    model_type = "xmlcnn"
    left_out_of_files = ("embedding_dropout", "classifier_dropout", "pooling", "padded_length", "convolutions_as_images")

    num_filters: int = 128
    filter_widths: list[int] | tuple[int, ...] = (2, 4, 8)
    pool_size: int = 8
    bottleneck_size: int = 512
    classifier_dropout: float = 0.5
    pooling: str = "document"
    padded_length: int | None = None
    convolutions_as_images: bool = False

    def __post_init__(self, **kwargs: Any):
        self.filter_widths = list(self.filter_widths)
        super().__post_init__(**kwargs)

    @classmethod
    def reproduction(cls, **settings: Any) -> "XMLCNNConfig":
        """The numerics of the CorNet authors' code (``models/xmlcnn.py`` of XunGuangxu/CorNet): see ``pooling="padded"``.

        A document's scores depend on ``padded_length`` there, which is fixed to their 500 so that they do not depend on the batch.
        """
        return cls(**{"pooling": "padded", "padded_length": 500, "convolutions_as_images": True, **settings})

    def check(self) -> None:
        super().check()
        self.check_sizes("num_filters", "filter_widths", "pool_size", "bottleneck_size")
        if not self.filter_widths:
            raise ValueError("filter_widths is empty, but XML-CNN needs at least one width, such as [2, 4, 8].")
        if self.pooling not in ("document", "padded"):
            raise ValueError(f"pooling={self.pooling!r} is not one of document, padded.")
        if (self.pooling == "padded") != (self.padded_length is not None):
            raise ValueError(
                f"pooling={self.pooling!r} and padded_length={self.padded_length}: pooling='padded' needs the columns that documents "
                "are padded to, such as 500, and pooling='document' has none."
            )

    @property
    def max_input_tokens(self) -> int | None:
        return self.padded_length

    @property
    def activation_elements_per_token(self) -> int:
        # The filters' outputs before and after ReLU, and their masked copy.
        return super().activation_elements_per_token + 3 * self.num_filters * len(self.filter_widths)
