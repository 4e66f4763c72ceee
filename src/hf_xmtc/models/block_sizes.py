"""`labels_of_a_block`: for how many labels numbers are formed at a time."""

__all__ = ["labels_of_a_block"]

# Numbers of a block of labels where no block size is given.
BLOCK_NUMBERS = {"cpu": 2**22, "other": 2**26}


def labels_of_a_block(numbers_per_label: int, device_type: str) -> int:
    """Labels of a block where each takes so many numbers, on a device of a type such as ``cpu``; at least one."""
    return max(1, BLOCK_NUMBERS["cpu" if device_type == "cpu" else "other"] // max(1, numbers_per_label))
