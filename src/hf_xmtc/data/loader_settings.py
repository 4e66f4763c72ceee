"""The arguments of `load_xmtc_dataset` that say how a source is encoded."""

from dataclasses import dataclass

__all__ = ["LoaderSettings"]


@dataclass(frozen=True)
class LoaderSettings:
    """How a source is turned into texts and label ids; the arguments of `load_xmtc_dataset`, checked."""

    label_space: str = "train"
    label_format: str = "ids"
    validation_fraction: float = 0.1
    text_column: str = "text"
    label_column: str = "labels"
    for_training: bool = True
    test_fraction: float = 0.0
    split_by: str = "hash"
    group_column: str | None = None
    normalize_labels: bool = False
    drop_unlabeled: bool = False
    label_separator: str | None = None

    def __post_init__(self):
        for setting, allowed in (
            ("label_space", ("train", "file")),
            ("label_format", ("ids", "multi_hot")),
            ("split_by", ("hash", "stratified", "group")),
        ):
            if getattr(self, setting) not in allowed:
                raise ValueError(f"{setting} is {getattr(self, setting)!r} but must be one of {allowed}.")
        for setting in ("validation_fraction", "test_fraction"):
            if not 0 <= (fraction := getattr(self, setting)) < 1:
                raise ValueError(
                    f"{setting} is {fraction} but must be at least 0 and below 1. Use 0.1 for a tenth of the training documents, 0 for none."
                )
        if self.validation_fraction + self.test_fraction >= 1:
            raise ValueError(
                f"validation_fraction={self.validation_fraction} and test_fraction={self.test_fraction} leave nothing to train on. "
                "Together they must be below 1."
            )
        if (self.split_by == "group") != (self.group_column is not None):
            raise ValueError(
                f"split_by={self.split_by!r} and group_column={self.group_column!r}: one needs the other. Name the column whose equal "
                "values must stay together in group_column=… with split_by='group', or leave both out."
            )
