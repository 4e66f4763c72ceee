"""Programs in Python processes of their own that begin with torch imported, which takes longer than most of these programs.

A server that has imported torch, and nothing of Hugging Face's (which reads environment variables when it is imported), forks them.
"""

import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
from multiprocessing import forkserver
from pathlib import Path
from unittest import mock

import torch

__all__ = ["run_python"]

# Not the server that multiprocessing keeps, which a benchmark fills with other imports.
_SERVER = forkserver.ForkServer()
_SERVER.set_forkserver_preload(["torch", "torch._dynamo", "torch.distributed.tensor", "torch.export", "scipy.optimize"])


def run_python(
    program: str | Path, *arguments: object, environment: dict | None = None, stdin: str = "", timeout: float = 120
) -> subprocess.CompletedProcess:
    """Run code, or the file of a script, as ``python`` would, with the import path of the tests.

    Args:
        program: Code or script.
        arguments: On its command line.
        environment: Variables to change; None takes one away.
        stdin: What it reads.
        timeout: Seconds.

    Returns:
        What `subprocess.run` returns, with text.
    """
    variables = {name: value for name, value in {**os.environ, **(environment or {})}.items() if value is not None}
    with tempfile.TemporaryDirectory() as folder:
        streams = [Path(folder, name) for name in ("stdin", "stdout", "stderr")]
        streams[0].write_text(stdin, encoding="utf-8")
        job = (program, [str(argument) for argument in arguments], variables, os.getcwd(), streams)
        process = multiprocessing.get_context("forkserver").Process(target=_run, args=job)
        with mock.patch.object(forkserver, "connect_to_new_process", _SERVER.connect_to_new_process):
            process.start()
        process.join(timeout)
        if process.is_alive():
            process.kill()
            raise subprocess.TimeoutExpired(str(program), timeout)
        stdout, stderr = (stream.read_text(encoding="utf-8") for stream in streams[1:])
    return subprocess.CompletedProcess([str(program), *job[1]], process.exitcode, stdout, stderr)


def _run(program: str | Path, arguments: list[str], environment: dict, folder: str, streams: list[Path]) -> None:
    for number, (stream, flags) in enumerate(zip(streams, (os.O_RDONLY, *[os.O_WRONLY | os.O_CREAT] * 2), strict=True)):
        os.dup2(os.open(stream, flags), number)
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    # The path is that of the tests, where transformers has put the code of models that they have opened.
    sys.path[:] = [entry for entry in sys.path if not Path(entry, "transformers_modules").is_dir()]
    torch.set_num_threads(1)
    if isinstance(program, Path):
        sys.argv = [str(program), *arguments]
        runpy.run_path(str(program), run_name="__main__")
    else:
        sys.argv = ["-c", *arguments]
        exec(compile(program, "<string>", "exec"), {"__name__": "__main__"})
