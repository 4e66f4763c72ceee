"""`GradientFreeModel`: families whose training stores what it finds, instead of following the gradient of a loss."""

from .configuration_xmtc import XMTCConfig
from .modeling_xmtc import XMTCPreTrainedModel

__all__ = ["GradientFreeModel"]


class GradientFreeModel(XMTCPreTrainedModel):
    """Base of these families. Training decides the sizes of their arrays, which the config then holds.

    Attributes:
        content: What training stores, as messages name it.
    """

    is_trained_by_gradient = False

    supports_gradient_checkpointing = False

    content = "arrays"

    def take_sizes(self, config: XMTCConfig) -> None:
        """Make room for arrays of the sizes in ``config``, which are then loaded."""
        raise NotImplementedError

    def check_content(self) -> None:
        """Refuse arrays that point to what is not there, which fast products would read without looking.

        Raises:
            ValueError: If they do; the message begins with "damaged".
        """
        raise NotImplementedError

    @classmethod
    def from_pretrained(cls, *args, ignore_mismatched_sizes: bool = False, **kwargs):
        """Open a checkpoint of this family; arguments as in `transformers.PreTrainedModel.from_pretrained`.

        Raises:
            ValueError: If ``ignore_mismatched_sizes`` is set: the labels are in what training stored, which cannot start anew in
                part. If that is damaged.
        """
        if ignore_mismatched_sizes:
            raise ValueError(
                f"ignore_mismatched_sizes=True, but the {cls.content} of {cls.__name__} hold its labels and cannot be opened with "
                "others. Open it without, and call model.resize_labels(…), or train a new model."
            )
        loaded = super().from_pretrained(*args, **kwargs)
        model = loaded[0] if isinstance(loaded, tuple) else loaded
        try:
            model.check_content()
        except ValueError as error:
            raise ValueError(
                f"The {cls.content} of {args[0] if args else 'this model'} are {error}. Fetch the model again."
            ) from error
        return loaded
