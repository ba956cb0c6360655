"""The server of ``mixed_load``: its models, its life, and what it holds."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

__all__ = ["KEYS", "LANGUAGE_MODELS", "NETWORKS", "Held", "Left", "MixedServer"]

ROOT = Path(__file__).resolve().parent.parent
TINY = ROOT / "examples" / "llm_chat" / "models"
NETWORKS = ("act_relu.rk3588.i8", "act_silu.rk3588.i8", "mobilenetv2_like.rk3588.i8")
LANGUAGE_MODELS = ("red", "green", "blue")
KEYS = ("key-of-one", "key-of-two")
_PATIENCE = 60.0
_GROWN, _MORE = 60e6, 12
"""Bytes and descriptors that a server may hold more at the end than when it was warm."""


@dataclass(frozen=True)
class Held:
    """What a process holds: resident bytes, descriptors, threads, children."""

    resident: int
    files: int
    threads: int
    children: int


@dataclass(frozen=True)
class Left:
    """What the last server held when it was warm, and when all clients had gone."""

    before: Held
    after: Held
    kills: int
    complaints: list[str]

    @property
    def grown(self) -> list[str]:
        """What the server holds at the end that it did not when it was warm."""
        more = self.after.resident - self.before.resident
        found = [f"{more / 1e6:.0f} MB"] if more > _GROWN else []
        for name in ("files", "threads", "children"):
            more = getattr(self.after, name) - getattr(self.before, name)
            found += [f"{more} {name}"] if more > _MORE else []
        return found

    def __str__(self) -> str:
        rows = [
            f"{name:10} {getattr(self.before, name):12} {getattr(self.after, name):12}"
            for name in ("resident", "files", "threads", "children")
        ]
        return "\n".join(
            [
                "server           warm      at the end",
                *rows,
                *(f"LEFT {text}" for text in (*self.complaints, *self.grown)),
            ]
        )


class MixedServer:
    """A ``rknnlite serve`` process on a port that stays over its lives."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, self.grpc_port = _free_port(), _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.batches, self.audit, self.keys = folder / "batches", folder / "audit.log", folder / "keys"
        self._models, self._networks = folder / "models", folder / "networks"
        self._process: subprocess.Popen[bytes] | None = None
        self._moving, self.lives = threading.Lock(), 0
        self.calm = threading.Event()
        """Set while the server is up and nobody is about to end it."""

    def __enter__(self) -> MixedServer:
        for name in LANGUAGE_MODELS:
            self._models.mkdir(exist_ok=True)
            for part in TINY.glob("tiny.*"):
                shutil.copy(part, self._models / part.name.replace("tiny", name))
        for name in NETWORKS:
            self._networks.mkdir(exist_ok=True)
            shutil.copy(ROOT / "tests" / "data" / f"{name}.rknn", self._networks)
        self.batches.mkdir()
        self.write_keys()
        (self.folder / "whisper").mkdir()
        return self

    def __exit__(self, *args: object) -> None:
        if self._process is not None:
            self._end(politely=True)

    def write_keys(self) -> None:
        """The file of keys anew, with the same keys."""
        text = "".join(
            f"{key} name=k{number} requests=100000 concurrent=500\n" for number, key in enumerate(KEYS)
        )
        made = self.keys.with_suffix(f".{time.monotonic_ns()}")
        made.write_text(text)
        made.chmod(0o600)
        made.replace(self.keys)

    def start(self) -> None:
        """Start it, and wait until it is ready."""
        arguments = [
            "--host", "127.0.0.1", "--port", self.port, "--grpc-port", self.grpc_port, "--backend", "cpu",
            "--llm-repository", self._models, "--llm-models", 2, "--keep-alive", "20s", "--allow-manage", "--temp", 0,
            "--repository", self._networks, "--speech", self.folder / "whisper", "--batch-dir", self.batches,
            "--audit-file", self.audit, "--api-key-file", self.keys, "--metrics", "--queue", 200, "--parallel", 4,
        ]  # fmt: skip
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'plugins'}", "OMP_NUM_THREADS": "1"}
        log = (self.folder / "log").open("ab")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.serve_with_speech", *map(str, arguments)],
            env=environment, cwd=ROOT, stdout=log, stderr=log,
        )  # fmt: skip
        self.lives += 1
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end and self._process.poll() is None:
            with contextlib.suppress(httpx.HTTPError):
                if httpx.get(f"{self.url}/health", timeout=5).status_code == 200:
                    self.calm.set()
                    return
            time.sleep(0.1)
        raise RuntimeError(f"the server did not start: {self.log()[-2000:]}")

    def restart(self, politely: bool) -> None:
        """End it by SIGTERM or SIGKILL, and start it again."""
        with self._moving:
            self.calm.clear()
            self._end(politely)
            self.start()

    def _end(self, politely: bool) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM if politely else signal.SIGKILL)
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise RuntimeError("the server did not end within a minute of SIGTERM") from None

    def held(self) -> Held:
        """What the process holds now."""
        assert self._process is not None
        found = psutil.Process(self._process.pid)
        return Held(
            found.memory_info().rss, found.num_fds(), found.num_threads(), len(found.children(recursive=True))
        )

    def log(self) -> str:
        """All that it has printed, in all its lives."""
        return (self.folder / "log").read_text(errors="replace")

    def complaints(self) -> list[str]:
        """What should not be there at the end."""
        text = self.log()
        found = [
            f"in the log: {match[0][:300]}"
            for match in re.finditer(r"Traceback[^\0]{0,1200}?\n\S*Error.*", text)
        ]
        found += [
            f"left in the folder: {path.name}"
            for path in self._models.glob(".p*/*")
            if path.name.startswith("tmp")
        ]
        lines = self.audit.read_text().splitlines()
        return found + ([] if lines else ["the audit is empty"])

    @contextlib.contextmanager
    def life(self) -> Iterator[int]:
        """Waits until the server is up; its number, by which a client knows whether it is still the same."""
        self.calm.wait(_PATIENCE)
        yield self.lives


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
