"""Refuse to mix results of different recipes."""

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any

import hf_xmtc
from hf_xmtc.commands.recipe import SAID_ELSEWHERE, DataArguments, ModelArguments

__all__ = ["DEFAULTS", "refuse_changed_recipe", "refuse_differences"]

# What a recipe file can say, and what holds where it does not. Left out is what decides nothing or is on the command line.
DEFAULTS = {
    entry.name: entry.default
    for settings in (ModelArguments, DataArguments, hf_xmtc.XMTCTrainingArguments)
    for entry in dataclasses.fields(settings)
    if entry.name not in {*SAID_ELSEWHERE, "seed", "dataset", "backbone", "candidates_from", "word_vectors"}
}

# What a recipe that says nothing of it was made with.
_NOT_RECORDED = {**DEFAULTS, "test_carved": False, "validation_carved": False}


def refuse_changed_recipe(wanted: Mapping[str, Any], file: str, name: str, used: Mapping[str, Any]) -> None:
    """Refuse the result ``name`` if the recipe ``file`` says something else now.

    Args:
        wanted: Settings of the recipe today.
        file: Its name, for the message.
        name: Name of the result.
        used: The recipe that the result was made with.

    Raises:
        ValueError: If they differ.
    """
    # The recipe of a result leaves out what has its default, and so may a recipe file. Some defaults are the family's.
    of_family = dataclasses.asdict(ModelArguments(model_family=wanted.get("model_family", DEFAULTS["model_family"])))
    defaults = {key: of_family.get(key, default) for key, default in DEFAULTS.items()}
    changed = [
        f"{key} was {used.get(key, default)!r}, is now {wanted.get(key, default)!r}"
        for key, default in defaults.items()
        if (key in wanted or key in used) and used.get(key, default) != wanted.get(key, default)
    ]
    if changed:
        raise ValueError(
            f"{name} was made with another recipe than {file}: {'; '.join(changed)}. Delete the result and its "
            "model folder to run it anew, or restore the recipe."
        )


def refuse_differences(recipes: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse recipes, by the names of their result files, that differ in more than the seed.

    A setting that a recipe does not have is an option that came later, so it had what is the default now.

    Raises:
        ValueError: If they do.
    """
    for (first, expected), (name, recipe) in itertools.pairwise(recipes.items()):
        different = [
            f"{key} is {expected.get(key, default)!r} in {first} and {recipe.get(key, default)!r} in {name}"
            for key, default in ((key, _NOT_RECORDED.get(key)) for key in sorted({*expected, *recipe} - {"seed"}))
            if recipe.get(key, default) != expected.get(key, default)
        ]
        if different:
            raise ValueError(
                f"Results of different recipes or data cannot be compared: {'; '.join(different)}. Delete the older, and its model folder."
            )
