"""Push a model folder full of traps to a Hub on loopback, and print what arrived and what was refused.

In the first push the traps lie beside the model: keys, logs, data, links out of the folder, loops of links. Nothing of them may
arrive, and the dry run must list exactly what does. In the others a file of the model is itself a trap, and nothing may be sent.

    python scripts/reliability/push_of_traps.py
"""

import contextlib
import functools
import io
import json
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
os.environ |= {"HF_HUB_DISABLE_XET": "1", "HF_TOKEN": "hf_token_of_the_trial", "NO_PROXY": "127.0.0.1"}

import huggingface_hub  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

import hf_xmtc.hub.push as push_module  # noqa: E402
from hf_xmtc.commands.push import main as push_main  # noqa: E402
from hf_xmtc.hub import card_from_folder  # noqa: E402
from local_hub import LocalHub  # noqa: E402
from small_laco import save_generator, save_small_laco  # noqa: E402

SECRET = "top secret"
TEXTS = ["edit a plain text file", "play music and sound files", "a library of sound filters", "show a picture"]
BESIDE = (
    *(
        "token",
        "hf_token.txt",
        "id_rsa",
        "id_ed25519.pub",
        "server.pem",
        "credentials.json",
        "secrets.yaml",
        ".env",
        ".netrc",
    ),
    *(
        ".git/config",
        ".cache/huggingface/token",
        "wandb/run-1/output.log",
        "mlruns/0/meta.yaml",
        "runs/events.out",
        "train.log",
    ),
    *(
        "nohup.out",
        "texts.csv",
        "mydata/train.parquet",
        "metrics.json.tmp",
        "checkpoints/notes.txt",
        "checkpoint-10/config.json",
    ),
    *(
        "predictions/texts.parquet",
        "candidates/private.json",
        "notes.ipynb",
        "helper.py",
        "other.safetensors",
        "__pycache__/a.pyc",
    ),
)


def make_model(folder: Path) -> None:
    """A complete folder: a tiny model with its generator, predictions and card."""
    torch.manual_seed(0)
    save_small_laco(folder, TEXTS, list("abcde"), num_candidates=3)
    save_generator(folder, TEXTS, [[0, 4], [2, 3], [1], [3]], 5)
    (folder / "metrics.json").write_text('{"test": {"P@1": 0.5}}')
    (folder / "recipe.json").write_text('{"model_family": "laco", "dataset_name": "traps"}')
    (folder / "training_log.json").write_text("[]")
    (folder / "predictions").mkdir()
    (folder / "predictions" / "test.parquet").write_bytes(b"PAR1")
    card_from_folder(folder).save(folder / "README.md")


def lay_traps_beside(folder: Path, private: Path) -> None:
    for name in BESIDE:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(SECRET)
    links = {
        "leak.txt": private / "passwords.txt",
        "linked": private,
        "candidates/up": "../..",
        "loop": ".",
        "loop2": "..",
        "self": "self",
    }
    for name, target in {**links, "nowhere": "gone"}.items():
        (folder / name).symlink_to(target)


def _link(name: str, target: str) -> Callable[[Path, Path], None]:
    def lay(folder: Path, private: Path) -> None:
        shutil.rmtree(folder / name) if (folder / name).is_dir() else (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(target.format(private=private))

    return lay


def _content(name: str, content: bytes | str) -> Callable[[Path, Path], None]:
    return lambda folder, private: (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def _setting(name: str, **settings: object) -> Callable[[Path, Path], None]:
    return lambda folder, private: (folder / name).write_text(
        json.dumps({**json.loads((folder / name).read_text()), **settings})
    )


def _not_finite(folder: Path, private: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    next(iter(weights.values())).fill_(float("nan"))
    save_file(weights, folder / "model.safetensors")


# A trap in the model itself → what lays it.
TRAPS = {
    "licence is a link to a private file": _link("LICENSE", "{private}/passwords.txt"),
    "card is a link to a private file": _link("README.md", "{private}/passwords.txt"),
    "predictions are a link to a private file": _link("predictions/test.parquet", "{private}/passwords.txt"),
    "metrics are a link to themselves": _link("metrics.json", "metrics.json"),
    "labels are a link to nowhere": _link("labels.json", "gone.json"),
    "weights are a link to a folder": _link("model.safetensors", "{private}"),
    "weights are a pickle beside": _content("pytorch_model.bin", b"\x80\x04."),
    "weights are cut": _content("model.safetensors", b"\x08\x00\x00\x00\x00\x00\x00\x00{}"),
    "weights are nan": _not_finite,
    "auto_map is a list": _setting("config.json", auto_map=["a.B"]),
    "auto_map leads upwards": _setting("config.json", auto_map={"AutoModel": "../private.Evil"}),
    "custom_pipelines is a text": _setting("config.json", custom_pipelines="x"),
    "config is nested deep": _content("config.json", "[" * 100_000),
    "card's metadata is broken": _content("README.md", "---\n{a: [\n---\n"),
}


def push(folder: Path, *options: str) -> tuple[int, str]:
    """Run the command in this process; its status and what it said."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
        status = push_main(["--model", str(folder), "--repo_id", "me/tagger", *options])
    return status, out.getvalue()


def trial(lay: Callable[[Path, Path], None]) -> tuple[int, str, str, dict[str, bytes], int]:
    """Status, what dry run and push said, the files that arrived, and the number of requests to the Hub."""
    with tempfile.TemporaryDirectory() as temporary, LocalHub() as hub:
        folder, private = Path(temporary, "tagger"), Path(temporary, "private")
        private.mkdir()
        (private / "passwords.txt").write_text(SECRET)
        make_model(folder)
        lay(folder, private)
        push_module.HfApi = functools.partial(huggingface_hub.HfApi, endpoint=hub.url)
        _, dry = push(folder, "--dry_run")
        asked = len(hub.requests)
        status, said = push(folder)
        arrived = hub.repos["me/tagger"].files() if "me/tagger" in hub.repos else {}
        return (
            status,
            dry.replace(temporary, ""),
            said.replace(temporary, ""),
            arrived,
            asked or (len(hub.requests) if status else 0),
        )


def main() -> int:
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    huggingface_hub.utils.disable_progress_bars()
    logging.disable(logging.WARNING)
    failures = []
    status, dry, said, arrived, _ = trial(lay_traps_beside)
    print(
        f"traps beside the model: {'pushed' if not status else 'refused: ' + said}\n{dry}\narrived: {', '.join(sorted(arrived))}\n"
    )
    listed = {line.split("  ")[-1] for line in dry.split("would go to")[0].splitlines()[:-1]}
    if (
        status
        or any(SECRET.encode() in content for content in arrived.values())
        or set(arrived) - {".gitattributes"} != listed
    ):
        failures.append("traps beside the model")
    for name, lay in TRAPS.items():
        status, _, said, arrived, requests = trial(lay)
        verdict = "refused" if status and not arrived and not requests else "FAILURE"
        print(f"{verdict}: {name}: {' '.join(said.split())[:260]}")
        if verdict == "FAILURE":
            failures.append(name)
    print(f"{len(failures)} failures in {len(TRAPS) + 1} folders{': ' if failures else ''}{', '.join(failures)}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
