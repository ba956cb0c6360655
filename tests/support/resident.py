"""Programs in copies of one interpreter that has imported what all of them import; each otherwise pays for that again.

A program is what may follow ``python``: ``-c CODE``, ``-m MODULE`` or a file, with its arguments. It runs in a process of
its own that was copied from the resident one, with its caller's folder, environment and three streams, and ends as any
interpreter does. Its caller gets the exit code.
"""

from __future__ import annotations

import array
import contextlib
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from tests.support import installed

__all__ = ["Resident", "spent"]

IMPORTED = (
    "PIL.Image",
    "concurrent.futures",
    "hashlib",
    "importlib.metadata",
    "numpy.random",
    "rknnlite_insight",
    "rknnlite.api",
    "rknnlite_insight.commands.bench",
    "rknnlite_insight.commands.compare",
    "rknnlite.cli.doctor",
    "rknnlite.cli.info",
    "rknnlite_insight.commands.perf",
    "rknnlite.cli.plugin_probe",
    "rknnlite.cli.program",
    "rknnlite.cli.run",
    "rknnlite_graph.reading.builder",
    "rknnlite_llm.container.description",
    "rknnlite.formats.rknn6",
    "rknnlite_llm",
    "rknnlite_cplugin",
    "rknnlite_cplugin.host",
    "rknnlite_cpu.backend",
    "rknnlite_cpu.context",
    "rknnlite_cpu.engines.choice",
    "rknnlite_cpu.llm",
    "rknnlite_cpu.ops",
    "rknnlite_onnx",
    "rknnlite_opencl.host",
    "rknnlite_riscv.host",
    "rknnlite_rknn1rt.backend",
    "rknnlite_rknn3rt.backend",
    "rknnlite_rknnrt.backend",
    "rknnlite_server.arguments",
    "rknnlite_server.command",
)
_LOOKS = 0.5
"""Seconds after which signals are looked at: one that comes just before ``accept`` does not wake it."""
_HERE: list[psutil.Process] = []
CALLER = '''\
import _socket, array, json, os, sys
def resident(*words):
    """Run ``python WORDS`` in a copy of the resident interpreter and end with its exit code."""
    link = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    link.connect({address!r})
    what = json.dumps([words, os.getcwd(), dict(os.environ)]).encode()
    streams = array.array("i", [0, 1, 2]).tobytes()
    link.sendmsg([b"%8d" % len(what)], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
    while what:
        what = what[link.send(what):]
    code = link.recv(8)
    if not code:
        sys.exit("the resident interpreter has not answered")
    sys.stdout.flush()
    os._exit(int(code))
'''


class Resident:
    """``with Resident("-W", "error") as resident``: an interpreter with these options, until the end of the block."""

    def __init__(self, *options: str, hidden: str = "") -> None:
        self._options = options
        self._hidden = hidden  # modules that it and its children do not find, see tests.support.installed

    def __enter__(self) -> Resident:
        self._folder = tempfile.TemporaryDirectory()
        self.address = str(Path(self._folder.name) / "link")
        root = Path(__file__).resolve().parents[2]
        folders = [str(root), str(root / "plugins"), os.environ.get("PYTHONPATH", "")]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("RKNN")}
        if self._hidden:
            folders.insert(0, str(installed.hiding_folder(Path(self._folder.name))))
        self.environment = {"PYTHONPATH": os.pathsep.join(folders), installed.HIDE: self._hidden}
        self._process = subprocess.Popen(
            [sys.executable, *self._options, "-m", __name__, self.address],
            env={**environment, **self.environment}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"listens\n"
        _HERE.append(psutil.Process(self._process.pid))
        return self

    def __exit__(self, *exc: object) -> None:
        _HERE[:] = [process for process in _HERE if process.pid != self._process.pid]
        self._process.terminate()
        self._process.communicate()
        self._folder.cleanup()

    @property
    def caller(self) -> str:
        """Source of the function ``resident(*words)``, for a script that stands for ``python``."""
        return CALLER.format(address=self.address)

    def run(self, *words: str, cwd: Path, env: dict[str, str], timeout: float = 120) -> Any:
        """As ``subprocess.run([sys.executable, *words])`` with the output captured as text."""
        return subprocess.run(
            [sys.executable, "-I", "-S", "-c", f"{self.caller}resident(*sys.argv[1:])", *words],
            cwd=cwd, env=env, capture_output=True, text=True, timeout=timeout, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip


def spent() -> float:
    """Seconds of CPU time of the interpreters that are there, and of their copies; ``os.times`` has those that ended."""
    return sum(sum(process.cpu_times()[:4]) for process in _HERE)


# -- in the resident interpreter -----------------------------------------------------------------------------


def serve(address: str) -> None:
    """Listen until terminated; each caller is served by a copy, which runs the program in a copy of itself."""
    for name in IMPORTED:
        with contextlib.suppress(ImportError):  # an extra that is missing here
            importlib.import_module(name)
    gc.freeze()  # a copy that looked through all of it would copy its memory
    path = sys.path[1:]  # without the folder that -m put first
    door = socket.socket(socket.AF_UNIX)
    door.bind(address)
    door.listen()
    door.settimeout(_LOOKS)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGCHLD, lambda *_: collect())
    sys.stdout.write("listens\n")
    sys.stdout.flush()
    try:
        while True:
            try:
                link, _ = door.accept()
            except socket.timeout:
                continue
            if not os.fork():
                break
            link.close()
    except SystemExit:
        collect(0)
        raise
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    door.close()
    answer(link, path)


def collect(options: int = os.WNOHANG) -> None:
    """The copies that have ended: their CPU time becomes that of this process."""
    try:
        while os.waitpid(-1, options)[0]:
            pass
    except ChildProcessError:
        pass


def answer(link: socket.socket, path: list[str]) -> None:
    """Serve one caller; returns in no process but the program's, which ends with it."""
    size, ancillary, *_ = link.recvmsg(8, socket.CMSG_LEN(3 * array.array("i").itemsize))
    what = b""
    while len(what) < int(size):
        what += link.recv(int(size) - len(what))
    words, folder, environment = json.loads(what)
    streams = array.array("i", ancillary[0][2])
    program = os.fork()
    if program:
        for stream in streams:  # a reader of the program's output waits for the last who could write
            os.close(stream)
        null = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(null, stream)
        status = os.waitpid(program, 0)[1]
        code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
        link.sendall(str(code).encode())
        os._exit(0)
    link.close()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    run(words, path)


def run(words: Sequence[str], path: list[str]) -> None:
    """What an interpreter with these arguments does."""
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    if words[0] == "-c":
        sys.argv, sys.path[:] = ["-c", *words[2:]], ["", *path]
        exec(compile(words[1], "<string>", "exec"), vars(main))
    elif words[0] == "-m":
        sys.argv, sys.path[:] = list(words[1:]), [str(Path.cwd()), *path]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv, sys.path[:] = list(words), [str(Path(words[0]).resolve().parent), *path]
        runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    serve(sys.argv[1])
