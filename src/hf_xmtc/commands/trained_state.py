"""The end of training, kept until the folder is finished: a crash in what follows repeats only that."""

import logging
import os
import shutil
from pathlib import Path
from typing import Any

from transformers.trainer import TRAINER_STATE_NAME, TrainerState

from hf_xmtc.file_checks import read_json_object
from hf_xmtc.training import XMTCTrainer
from hf_xmtc.training.checkpoint_files import UNFINISHED, clear_unfinished, damage_of, seal

from .json_files import write_json

__all__ = ["keep_trained", "restore_trained"]

logger = logging.getLogger(__name__)

FIGURES_FILE = "figures.json"


def keep_trained(trainer: XMTCTrainer, figures: dict[str, Any], folder: Path) -> None:
    """Write the final weights (the best or averaged ones, if so asked), the Trainer's state and what training has cost.

    All processes have to call it.
    """
    written = folder.parent / UNFINISHED / folder.name
    trainer.save_model(str(written), _internal_call=True)
    if trainer.args.should_save:
        trainer.state.save_to_json(os.path.join(written, TRAINER_STATE_NAME))
        write_json(written / FIGURES_FILE, figures)
        seal(written, folder)
        clear_unfinished(folder.parent)


def restore_trained(trainer: XMTCTrainer, folder: Path) -> dict[str, Any] | None:
    """Put what `keep_trained` has written into the trainer and its model.

    Returns:
        What training has cost; None where there is nothing, or it is damaged (which is said).
    """
    with trainer.args.main_process_first(local=trainer.args.save_on_each_node, desc="looking for the trained model"):
        if trainer.args.should_save and folder.exists() and (damage := damage_of(folder)):
            logger.warning(
                f"The trained model in {folder} cannot be used: {damage}. Training goes on from the last checkpoint."
            )
            shutil.rmtree(folder)
        if not folder.exists():
            return None
    if not trainer.model.is_trained_by_gradient:  # training has given it its size
        config = type(trainer.model.config).from_pretrained(folder)
        trainer.model.resize_trees(config.level_sizes, config.num_weights)
    trainer._load_from_checkpoint(str(folder))
    trainer.state = TrainerState.load_from_json(os.path.join(folder, TRAINER_STATE_NAME))
    return read_json_object(folder / FIGURES_FILE)
