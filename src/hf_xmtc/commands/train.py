"""`hf-xmtc train`: from a data set to a trained, evaluated, publishable model folder."""

import contextlib
import logging
import sys
from pathlib import Path

from hf_xmtc.disk import disk_error
from hf_xmtc.training import XMTCTrainer

from .data_loading import cache_folders
from .model_building import with_starting_model
from .output_folder import OutputFolder
from .processes import UnjoinedProcessesError, leave_processes, set_up_process
from .push import push_command
from .recipe import Recipe
from .recipe_parsing import parse_recipe
from .training_run import TrainingRun

__all__ = ["main", "train"]

logger = logging.getLogger(__name__)

MENDABLE = (OSError, ImportError, MemoryError, ValueError, FloatingPointError, UnjoinedProcessesError)


def main(argv: list[str] | None = None) -> None:
    """Entry point of ``scripts/train.py`` and ``hf-xmtc train``."""
    recipe, folder = None, None
    try:
        recipe = parse_recipe(argv)
        folder = OutputFolder(recipe.training.output_dir)
        set_up_process(recipe.training)
        train(recipe)
        leave_processes()
    except Exception as error:
        # What the user can mend is said in one paragraph; everything else keeps its traceback.
        unfinished = folder is not None and not folder.is_finished
        explanation = disk_error(error, folder.path, *cache_folders()) if unfinished else None
        explanation = explanation or (error if isinstance(error, MENDABLE) else None)
        if explanation is None or (recipe is not None and recipe.training.log_level == "debug"):
            raise
        sys.exit(f"{type(explanation).__name__}: {explanation}")
    except KeyboardInterrupt:
        print(_interruption_message(recipe, folder), file=sys.stderr)
        sys.exit(130)


def _interruption_message(recipe: Recipe | None, folder: OutputFolder | None) -> str:
    if folder is not None and folder.is_finished:
        command = push_command(folder.path, recipe.training)
        return f"Interrupted, but the model is finished in {folder.path}. To publish it, without training again: {command}"
    last = folder and folder.last_checkpoint()
    where = f"to go on from {folder.checkpoints / last}" if last else "to start anew: there is no checkpoint yet"
    return f"Interrupted. Give the same command again {where}."


def train(recipe: Recipe, trainer_class: type[XMTCTrainer] | None = None) -> Path:
    """Train, evaluate and write a model folder.

    Args:
        recipe: Model, data and training settings; ``recipe.training.output_dir`` is the folder.
        trainer_class: A subclass of `XMTCTrainer` that takes its place.

    Returns:
        The folder: config.json, model.safetensors, tokenizer, labels.json, code, README.md (the card), metrics.json,
        predictions/test.parquet, training_curve.png, training_log.json.

    Raises:
        FileExistsError: If the folder holds a finished model or anything else that would be overwritten.
        InUseError: If another run is in the folder.
        ValueError: If a setting or the data cannot be used.
        MemoryError: If the run cannot fit into the free memory.
        FloatingPointError: If the loss or the weights are no longer finite.
    """
    recipe = with_starting_model(recipe)
    recipe.check()
    folder = OutputFolder(recipe.training.output_dir)
    folder.check_free()
    with folder.lock() if recipe.training.should_save else contextlib.nullcontext():
        return TrainingRun(recipe, folder, trainer_class or XMTCTrainer).run()


if __name__ == "__main__":
    main()
