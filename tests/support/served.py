"""``rknnlite serve`` as a process of its own, on genuine networks or on those of the stand-in backend."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .entry_points import install

__all__ = ["Server", "serve", "stand_in_path"]

ROOT = Path(__file__).parents[2]
STAND_IN = ROOT / "tests" / "doubles" / "stand_in"


@dataclass
class Server:
    """A server that is ready; addresses without scheme."""

    process: subprocess.Popen[str]
    http: str
    grpc: str


def stand_in_path(folder: Path) -> str:
    """A PYTHONPATH with this project and the stand-in backend, which is installed below ``folder``."""
    place = folder / "stand_in_package"
    if not place.exists():
        place.mkdir(parents=True)
        install(STAND_IN, place)
    return os.pathsep.join(map(str, (place, ROOT, ROOT / "plugins")))


@contextmanager
def serve(
    *words: object, path: str = f"{ROOT}{os.pathsep}{ROOT / 'plugins'}", grpc: int = 0
) -> Iterator[Server]:
    """A server on free ports, or on the one given for ``grpc``; ``path`` is its PYTHONPATH."""
    grpc = grpc or _free_port()
    command = [
        sys.executable,
        "-m",
        "rknnlite",
        "serve",
        *map(str, words),
        "--port",
        "0",
        "--grpc-port",
        str(grpc),
    ]
    environment = {**os.environ, "PYTHONPATH": path}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    said: list[str] = []
    assert process.stderr is not None
    threading.Thread(target=_read, args=(process.stderr, said), daemon=True).start()
    try:
        end = time.monotonic() + 60
        while "ready: " not in "".join(said):
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"the server did not start: {''.join(said)}")
            time.sleep(0.02)
        url = re.search(r"https?://(\S+) \(models", "".join(said))
        assert url, said
        yield Server(process, url[1], f"127.0.0.1:{grpc}")
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _read(lines: Iterable[str], said: list[str]) -> None:
    for line in lines:
        said += [line]


def _free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])
