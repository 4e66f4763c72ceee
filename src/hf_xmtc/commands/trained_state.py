"""The end of a training, kept until the folder is finished: a crash repeats only what follows."""

import logging
import os
import shutil
from pathlib import Path

from transformers.trainer import TRAINER_STATE_NAME, TrainerState

from hf_xmtc.file_checks import read_json_object
from hf_xmtc.training import XMTCTrainer
from hf_xmtc.training.checkpoint_files import UNFINISHED, clear_unfinished, damage_of, seal

from .json_files import write_json

__all__ = ["keep_trained", "restore_trained"]

logger = logging.getLogger(__name__)

COSTS_FILE = "figures.json"


def keep_trained(trainer: XMTCTrainer, costs: dict[str, float], trained: Path) -> None:
    """Write the final weights, the Trainer's state and the costs into the folder ``trained``.

    All processes have to call it.
    """
    unsealed = trained.parent / UNFINISHED / trained.name
    trainer.save_model(str(unsealed), _internal_call=True)
    if trainer.args.should_save:
        trainer.state.save_to_json(os.path.join(unsealed, TRAINER_STATE_NAME))
        write_json(unsealed / COSTS_FILE, costs)
        seal(unsealed, trained)
        clear_unfinished(trained.parent)


def restore_trained(trainer: XMTCTrainer, trained: Path) -> dict[str, float] | None:
    """Open what `keep_trained` has written; None where there is nothing, or it is damaged (which is logged)."""
    args = trainer.args
    with args.main_process_first(local=args.save_on_each_node, desc="looking for the trained model"):
        if args.should_save and trained.exists() and (damage := damage_of(trained)):
            logger.warning(
                f"The trained model in {trained} cannot be used: {damage}. Training goes on from the last checkpoint."
            )
            shutil.rmtree(trained)
        if not trained.exists():
            return None
    model = trainer.model
    if not model.is_trained_by_gradient:  # training has given it its size
        model.take_sizes(type(model.config).from_pretrained(trained))
    trainer._load_from_checkpoint(str(trained))
    trainer.state = TrainerState.load_from_json(os.path.join(trained, TRAINER_STATE_NAME))
    return read_json_object(trained / COSTS_FILE)
