"""A small Hugging Face Hub on loopback, in memory: tests push to it and reopen from it over real HTTP without a network.

It speaks what `huggingface_hub`, `transformers` and `datasets` ask when they create a repo, upload, list and download models
and data sets, but not Xet: clients set ``HF_HUB_DISABLE_XET=1``. They read ``HF_ENDPOINT`` when they are imported.
"""

import base64
import hashlib
import json
import os
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

__all__ = ["LocalHub", "Repo", "StoredFile"]

LFS_SUFFIXES = (".safetensors", ".parquet", ".arrow", ".bin", ".png")


@dataclass
class StoredFile:
    """One file of a commit; ``lfs`` says which of the Hub's two upload ways it came by."""

    data: bytes
    lfs: bool = False

    @property
    def etag(self) -> str:
        """SHA-256 of a large file, git's blob id of an ordinary one, as on the Hub."""
        if self.lfs:
            return hashlib.sha256(self.data).hexdigest()
        return hashlib.sha1(b"blob %d\0" % len(self.data) + self.data).hexdigest()


@dataclass
class Repo:
    """The commits of one repo, each with all its files, and the branches that point to them."""

    private: bool = False
    commits: dict[str, dict[str, StoredFile]] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)

    def commit(self, branch: str, files: dict[str, StoredFile]) -> str:
        """Store a commit, move the branch to it and return its id."""
        commit_id = hashlib.sha1(os.urandom(20)).hexdigest()
        self.commits[commit_id] = files
        self.branches[branch] = commit_id
        return commit_id

    def resolve(self, revision: str) -> str | None:
        """Commit id of a branch name or commit id; None where there is no such revision."""
        revision = self.branches.get(revision.removeprefix("refs/heads/"), revision)
        return revision if revision in self.commits else None

    def files(self, revision: str = "main") -> dict[str, bytes]:
        """Contents of every file at a revision, for assertions."""
        return {path: file.data for path, file in self.commits[self.resolve(revision)].items()}


class LocalHub:
    """A hub that runs in a thread while the ``with`` block lasts.

    Attributes:
        url: Endpoint for ``HF_ENDPOINT``.
        repos: Repos by id; data sets under ``"datasets/<id>"``.
        lfs: Uploaded large files by SHA-256.
        requests: ``"METHOD /path"`` of each request so far.
        cut_downloads_of: Downloads of this file break off half-way, as when a connection is lost. None: no file.
        deny_with: Every request is answered by this status, 401 or 403. None: none is.
    """

    def __init__(self) -> None:
        self.repos: dict[str, Repo] = {}
        self.lfs: dict[str, bytes] = {}
        self.requests: list[str] = []
        self.cut_downloads_of: str | None = None
        self.deny_with: int | None = None
        self._server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> "LocalHub":
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.hub = self
        threading.Thread(target=self._server.serve_forever, name="local-hub", daemon=True).start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Refusal(Exception):
    """Ends a request with an error in the form that `huggingface_hub` turns into its own exceptions."""

    def __init__(self, status: int, message: str, **headers: str):
        super().__init__(message)
        self.status = status
        self.headers = {"X-Error-Message": message} | {
            f"X-{name.replace('_', '-')}": value for name, value in headers.items()
        }


class _Handler(BaseHTTPRequestHandler):
    """Routes a request to the method named in `_ROUTES`, with the groups of the pattern as arguments."""

    protocol_version = "HTTP/1.1"
    hub = property(lambda self: self.server.hub)

    def log_message(self, *args: object) -> None:
        """Say nothing on stderr; `LocalHub.requests` is the log."""

    def _handle(self) -> None:
        self.body = self._read_body()
        path = urlsplit(self.path).path
        self.hub.requests.append(f"{self.command} {path}")
        try:
            if self.hub.deny_with is not None:
                raise _Refusal(self.hub.deny_with, "Invalid credentials in Authorization header")
            for methods, pattern, name in _ROUTES:
                match = re.fullmatch(pattern, path)
                if match and self.command in methods:
                    return getattr(self, name)(**{key: unquote(value or "") for key, value in match.groupdict().items()})
            raise _Refusal(404, f"The local hub has no route for {self.command} {path}", Error_Code="EntryNotFound")
        except _Refusal as refusal:
            self._send({"error": str(refusal)}, refusal.status, refusal.headers)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _handle

    def _read_body(self) -> bytes:
        if "chunked" not in (self.headers.get("Transfer-Encoding") or ""):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        chunks = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)

    def _send(self, content: bytes | dict | list, status: int = 200, headers: dict | None = None, cut: bool = False):
        """Answer with bytes or JSON; with ``cut`` the full length is announced and half of it is sent."""
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        kind = "application/octet-stream" if isinstance(content, bytes) else "application/json"
        self.send_response(status)
        for name, value in ({"Content-Type": kind, "Content-Length": str(len(data))} | (headers or {})).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data[: len(data) // 2] if cut else data)
        self.close_connection = self.close_connection or cut

    def _repo(self, prefix: str, repo_id: str) -> Repo:
        repo = self.hub.repos.get(f"datasets/{repo_id}" if prefix.startswith("datasets") else repo_id)
        if repo is None:
            raise _Refusal(404, "Repository not found", Error_Code="RepoNotFound")
        return repo

    def _commit(self, prefix: str, repo_id: str, revision: str) -> tuple[str, dict[str, StoredFile]]:
        repo = self._repo(prefix, repo_id)
        commit_id = repo.resolve(revision)
        if commit_id is None:
            raise _Refusal(404, f"Invalid rev id: {revision}", Error_Code="RevisionNotFound")
        return commit_id, repo.commits[commit_id]

    # The account and its repos.

    def whoami(self) -> None:
        self._send({"type": "user", "name": "me", "orgs": [], "auth": {"accessToken": {"role": "write"}}})

    def validate_yaml(self) -> None:
        self._send({"errors": [], "warnings": []})

    def create_repo(self) -> None:
        asked = json.loads(self.body)
        prefix = "datasets/" if asked.get("type") == "dataset" else ""
        repo_id = f"{asked.get('organization') or 'me'}/{asked['name']}"
        answer = {"url": f"{self.hub.url}/{prefix}{repo_id}", "name": repo_id, "id": repo_id}
        if prefix + repo_id in self.hub.repos:
            return self._send(answer, 409)
        repo = self.hub.repos[prefix + repo_id] = Repo(private=asked.get("visibility") == "private")
        repo.commit("main", {".gitattributes": StoredFile(b"")})
        self._send(answer)

    def create_branch(self, kind: str, repo_id: str, revision: str) -> None:
        branches = self._repo(kind, repo_id).branches
        if revision in branches:
            raise _Refusal(409, "Reference already exists")
        start = json.loads(self.body or b"{}").get("startingPoint") or "main"
        branches[revision], _ = self._commit(kind, repo_id, start)
        self._send({})

    # Upload: ask how, send the large files, commit.

    def preupload(self, kind: str, repo_id: str, revision: str) -> None:
        self._commit(kind, repo_id, revision)
        paths = [file["path"] for file in json.loads(self.body)["files"]]
        modes = {path: "lfs" if path.endswith(LFS_SUFFIXES) else "regular" for path in paths}
        self._send({"files": [{"path": path, "uploadMode": modes[path], "shouldIgnore": False} for path in paths]})

    def lfs_batch(self, prefix: str, repo_id: str) -> None:
        self._repo(prefix, repo_id)
        objects = [{"oid": entry["oid"], "size": entry["size"]} for entry in json.loads(self.body)["objects"]]
        for entry in objects:
            if entry["oid"] not in self.hub.lfs:
                entry["actions"] = {"upload": {"href": f"{self.hub.url}/lfs/{entry['oid']}", "header": {}}}
        self._send({"transfer": "basic", "objects": objects})

    def lfs_put(self, oid: str) -> None:
        if hashlib.sha256(self.body).hexdigest() != oid:
            raise _Refusal(422, "The uploaded bytes have another SHA-256 than announced")
        self.hub.lfs[oid] = self.body
        self._send({})

    def commit(self, kind: str, repo_id: str, revision: str) -> None:
        files = dict(self._commit(kind, repo_id, revision)[1])
        for line in self.body.splitlines():
            entry = json.loads(line)
            value = entry["value"]
            if entry["key"] == "file":
                files[value["path"]] = StoredFile(base64.b64decode(value["content"]))
            elif entry["key"] == "lfsFile":
                files[value["path"]] = StoredFile(self.hub.lfs[value["oid"]], lfs=True)
            elif entry["key"] == "deletedFile":
                files.pop(value["path"], None)
            elif entry["key"] == "deletedFolder":
                files = {path: file for path, file in files.items() if not path.startswith(value["path"].rstrip("/") + "/")}
        commit_id = self._repo(kind, repo_id).commit(revision, files)
        self._send({"success": True, "commitOid": commit_id, "commitUrl": f"{self.hub.url}/{repo_id}/commit/{commit_id}"})

    # Looking around and downloading.

    def info(self, kind: str, repo_id: str, revision: str = "") -> None:
        commit_id, files = self._commit(kind, repo_id, revision or "main")
        facts = {"id": repo_id, "sha": commit_id, "private": self._repo(kind, repo_id).private, "gated": False, "tags": []}
        self._send(facts | {"siblings": [{"rfilename": path} for path in sorted(files)]})

    def tree(self, kind: str, repo_id: str, revision: str, folder: str = "") -> None:
        _, files = self._commit(kind, repo_id, revision)
        start = f"{folder.strip('/')}/" if folder.strip("/") else ""
        inside = sorted(path for path in files if path.startswith(start))
        if start and not inside:
            raise _Refusal(404, f"{folder} does not exist on {revision}", Error_Code="EntryNotFound")
        recursive = parse_qs(urlsplit(self.path).query).get("recursive", [""])[0].lower() in ("true", "1")
        direct = [path for path in inside if recursive or "/" not in path[len(start) :]]
        folders = sorted({start + path[len(start) :].split("/")[0] for path in set(inside) - set(direct)})
        self._send([_directory_entry(path) for path in folders] + [_file_entry(path, files[path]) for path in direct])

    def paths_info(self, kind: str, repo_id: str, revision: str) -> None:
        _, files = self._commit(kind, repo_id, revision)
        paths = parse_qs(self.body.decode()).get("paths", [])
        folders = [path for path in paths if any(name.startswith(path.rstrip("/") + "/") for name in files)]
        found = [_file_entry(path, files[path]) for path in paths if path in files]
        self._send(found + [_directory_entry(path) for path in folders])

    def download(self, prefix: str, repo_id: str, revision: str, path: str) -> None:
        commit_id, files = self._commit(prefix, repo_id, revision)
        if path not in files:
            raise _Refusal(404, "Entry not found", Error_Code="EntryNotFound", Repo_Commit=commit_id)
        data, etag, status = files[path].data, files[path].etag, 200
        headers = {"ETag": f'"{etag}"', "X-Repo-Commit": commit_id, "Accept-Ranges": "bytes"}
        if files[path].lfs:
            headers |= {"X-Linked-Etag": f'"{etag}"', "X-Linked-Size": str(len(data))}
        if wanted := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or ""):
            first, last = int(wanted[1]), min(int(wanted[2] or len(data)), len(data) - 1)
            headers["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
            data, status = data[first : last + 1], 206
        self._send(data, status, headers, cut=path == self.hub.cut_downloads_of)


def _file_entry(path: str, file: StoredFile) -> dict:
    entry = {"type": "file", "path": path, "size": len(file.data), "oid": file.etag[:40]}
    return entry | ({"lfs": {"oid": file.etag, "size": len(file.data), "pointerSize": 134}} if file.lfs else {})


def _directory_entry(path: str) -> dict:
    return {"type": "directory", "path": path, "oid": "0" * 40, "size": 0}


_API = r"/api/(?P<kind>models|datasets)/(?P<repo_id>[^/]+/[^/]+)"
_WEB = r"/(?P<prefix>datasets/)?(?P<repo_id>[^/]+/[^/]+?)"
_READ = ("GET", "HEAD")
_ROUTES = [
    (_READ, r"/api/whoami-v2", "whoami"),
    (("POST",), r"/api/validate-yaml", "validate_yaml"),
    (("POST",), r"/api/repos/create", "create_repo"),
    (("POST",), _API + r"/branch/(?P<revision>[^/]+)", "create_branch"),
    (("POST",), _API + r"/preupload/(?P<revision>[^/]+)", "preupload"),
    (("POST",), _WEB + r"\.git/info/lfs/objects/batch", "lfs_batch"),
    (("PUT",), r"/lfs/(?P<oid>[0-9a-f]{64})", "lfs_put"),
    (("POST",), _API + r"/commit/(?P<revision>[^/]+)", "commit"),
    (_READ, _API, "info"),
    (_READ, _API + r"/revision/(?P<revision>[^/]+)", "info"),
    (_READ, _API + r"/tree/(?P<revision>[^/]+)(?P<folder>/.*)?", "tree"),
    (("POST",), _API + r"/paths-info/(?P<revision>[^/]+)", "paths_info"),
    (_READ, _WEB + r"/resolve/(?P<revision>[^/]+)/(?P<path>.+)", "download"),
]
