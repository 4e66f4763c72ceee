"""Publish a model folder on the Hugging Face Hub, in one commit that holds exactly the files of the model."""

import logging
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, ModelCard
from huggingface_hub.errors import HfHubHTTPError, RevisionNotFoundError
from huggingface_hub.utils import validate_repo_id

from hf_xmtc.file_checks import read_json_object
from hf_xmtc.models.label_names import LABELS_FILE, LabelNames

from .model_card import REPO_ID_PLACEHOLDER, is_local_path
from .model_files import CONFIG_FILE
from .verify import ModelFolderReport, check_model_folder, num_labels_of

__all__ = ["describe_left_out", "push_folder"]

# Any error of the HTTP library that the Hub's client is built on, which differs by version; what the Hub itself refused is the narrower
# HfHubHTTPError.
TransportError = next(
    kind for kind in HfHubHTTPError.__mro__ if kind.__module__.partition(".")[0] not in ("huggingface_hub", "builtins")
)

logger = logging.getLogger(__name__)

_WEIGHT_SUFFIXES = (".safetensors", ".bin", ".gguf", ".onnx")
_Operations = list[CommitOperationAdd | CommitOperationDelete]


def push_folder(
    folder: str | Path,
    repo_id: str,
    *,
    private: bool = False,
    token: str | None = None,
    revision: str | None = None,
    commit_message: str | None = None,
    license: str | None = None,
    overwrite: bool = False,
    dry_run: bool = False,
) -> str:
    """Upload a model folder to the Hub.

    Only what belongs to a model is sent (see `ModelFiles`); everything else in the folder stays behind. In the card, the placeholder for the repo's name and the
    licence are filled in on the way; the folder itself is not changed. The upload is one commit, so readers see the old model
    or the new one.

    Args:
        folder: A complete model folder (see `check_model_folder`).
        repo_id: ``user/name``, or ``name`` for the account of the token. The repo is made if it is not there.
        private: Make a new repo private.
        token: A token with write permission; without it the one of ``hf auth login`` or ``HF_TOKEN``.
        revision: Branch to commit to, made from ``main`` if it is not there. Default ``main``.
        commit_message: Subject of the commit.
        license: Licence of the weights for the card, as the Hub abbreviates it (``apache-2.0``, ``cc-by-4.0``, ``other``);
            None leaves the card's own, if it has one.
        overwrite: Replace a repo that holds another model. Files that only the other model has are deleted in the same
            commit; the Hub's history keeps them.
        dry_run: Check the folder and return the address, but send and ask nothing; `check_model_folder` lists what would be sent and
            what would stay behind.

    Returns:
        Address of the published model.

    Raises:
        FileNotFoundError: If there is no such folder.
        ValueError: If the folder is not complete, holds pickles or corrupt weights, or the repo holds another model, or is
            public where ``private`` was asked for, or a file of the model is a link that leads out of the folder.
        PermissionError: If the Hub refuses the token.
        ConnectionError: If the Hub cannot be reached.
    """
    validate_repo_id(repo_id)
    report = check_model_folder(folder)
    report.raise_for_problems()
    _warn_about_paths(report)
    api = HfApi(token=token)
    if dry_run:
        return _address(f"{api.endpoint}/{repo_id}", revision)
    if report.left_out:
        shown = ", ".join(report.left_out[:20]) + (", …" if len(report.left_out) > 20 else "")
        logger.warning(describe_left_out(report.left_out, shown))
    try:
        repo_url = api.create_repo(repo_id, private=True if private else None, exist_ok=True)
        remote = _look_at_remote(api, repo_url.repo_id, revision)
        if private and not remote.private:
            raise ValueError(
                f"The repo {repo_url.repo_id} is public, but private=True was asked for, which only applies to a new repo. "
                "Make it private in its settings on the Hub first, or push without private=True."
            )
        if (difference := _difference(report, remote)) and not overwrite:
            raise ValueError(
                f"The repo {repo_url.repo_id} holds another model: {difference}. Push to another repo_id or another "
                "revision of an empty repo, or replace it with overwrite=True (--overwrite)."
            )
        if revision is not None and remote.is_new_branch:
            api.create_branch(repo_url.repo_id, branch=revision)
        operations = _uploads(report, repo_url.repo_id, license)
        if difference is not None:
            stale = sorted(set(remote.files) - set(report.files) - {".gitattributes"})
            operations += [CommitOperationDelete(path_in_repo=name, is_folder=False) for name in stale]
        subject = commit_message or f"Upload {report.model_type} with {report.num_labels} labels"
        _commit(api, repo_url.repo_id, operations, subject, revision)
    except HfHubHTTPError as error:
        if error.response.status_code not in (401, 403):
            raise
        raise PermissionError(
            f"The Hub at {api.endpoint} refused to write to {repo_id} (HTTP {error.response.status_code}): {error}\n"
            "Is the token missing, expired or without write permission for this account? Log in with `hf auth login` or "
            "set HF_TOKEN to a token with the role `write`."
        ) from error
    except TransportError as error:
        raise ConnectionError(
            f"The Hub at {api.endpoint} cannot be reached ({error}). Is there a network, and is HF_ENDPOINT right?"
        ) from error
    return _address(str(repo_url), revision)


def _warn_about_paths(report: ModelFolderReport) -> None:
    if "recipe.json" in report.files:
        recipe = read_json_object(report.folder / "recipe.json")
        paths = {key: value for key, value in recipe.items() if isinstance(value, str) and is_local_path(value)}
        if paths:
            logger.warning("recipe.json names paths of this machine, which everyone will be able to read: %s", paths)


def describe_left_out(left_out: Sequence[str], shown: str) -> str:
    """A sentence that counts what is not published of a folder, and ends in ``shown``."""
    entries = "1 entry is" if len(left_out) == 1 else f"{len(left_out)} entries are"
    return f"{entries} not part of a model and {'stays' if len(left_out) == 1 else 'stay'} here: {shown}"


@dataclass
class _Remote:
    """The content of the repo before the push; fields are None where the repo has no such file or none that can be read."""

    private: bool
    is_new_branch: bool
    files: list[str]
    config: dict | None
    labels: LabelNames | None


def _look_at_remote(api: HfApi, repo_id: str, revision: str | None) -> _Remote:
    is_new_branch = False
    try:
        info = api.model_info(repo_id, revision=revision)
    except RevisionNotFoundError:
        is_new_branch = True  # it will start as a copy of main
        info = api.model_info(repo_id)
    files = [sibling.rfilename for sibling in info.siblings or []]
    contents = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in (CONFIG_FILE, LABELS_FILE):
            if name in files:
                contents[name] = api.hf_hub_download(repo_id, name, revision=info.sha, local_dir=folder)
        config = _read_or_none(contents.get(CONFIG_FILE), read_json_object)
        labels = _read_or_none(contents.get(LABELS_FILE), LabelNames.load)
    return _Remote(bool(info.private), is_new_branch, files, config, labels)


def _read_or_none(path: str | None, read: Callable[[str], Any]) -> Any:
    try:
        return None if path is None else read(path)
    except ValueError:
        return None  # unreadable counts as not there, so that it can only be replaced on request


def _difference(report: ModelFolderReport, remote: _Remote) -> str | None:
    """How the model in the repo differs from the one in the folder; None for the same kind of model or no model at all."""
    if remote.config is None:
        weights = [name for name in remote.files if name.endswith(_WEIGHT_SUFFIXES)]
        return f"it has weights ({', '.join(weights)}) but no readable {CONFIG_FILE}" if weights else None
    here, there = report.model_type, remote.config.get("model_type")
    if here != there:
        return f"model_type={there!r} there, {here!r} in the folder"
    here, there = report.num_labels, num_labels_of(remote.config)
    if here != there:
        return f"num_labels={there} there, {here} in the folder"
    if remote.labels is None:
        return f"it has no readable {LABELS_FILE}, so its {there} labels cannot be compared"
    labels = LabelNames.load(report.folder)
    for label_id, (here, there) in enumerate(zip(labels.labels, remote.labels.labels, strict=False)):
        if here != there:
            return f"label id {label_id} is {there!r} there, {here!r} in the folder"
    return None


def _uploads(report: ModelFolderReport, repo_id: str, license: str | None) -> _Operations:
    """The folder's files; in the card, the repo's name and the licence are filled in."""
    operations: _Operations = []
    for name in report.files:
        content: Path | bytes = report.folder / name
        if name == "README.md":
            text = content.read_text(encoding="utf-8").replace(REPO_ID_PLACEHOLDER, repo_id)
            if license is not None:
                card = ModelCard(text)
                card.data.license = license
                text = str(card)
            content = text.encode("utf-8")
        operations.append(CommitOperationAdd(path_in_repo=name, path_or_fileobj=content))
    return operations


def _commit(api: HfApi, repo_id: str, operations: _Operations, subject: str, revision: str | None) -> None:
    with warnings.catch_warnings():
        # predictions/test.parquet belongs beside the model it was made with.
        warnings.filterwarnings("ignore", message="It seems that you are about to commit a data file")
        api.create_commit(repo_id, operations, commit_message=subject, revision=revision)


def _address(repo_url: str, revision: str | None) -> str:
    return repo_url if revision is None else f"{repo_url}/tree/{revision}"
