"""Things built on first use (small helper libraries, host stubs), kept by the hash of what they are built from."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from . import config
from .errors import BackendUnavailable, ParamInvalid

__all__ = ["build", "cache_dir", "writable_by_others"]

_TIME_LIMIT = 120.0


def cache_dir() -> Path:
    """``RKNNLITE_CACHE``, else ``rknnlite`` in the XDG cache folder; made, and for this user alone.

    Raises ParamInvalid when others could put files there: what lies in it is executed.
    """
    named = config.get("cache")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(named) if named else base / "rknnlite"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if writable_by_others(folder):
        raise ParamInvalid(
            f"{folder} can be written by other users, and programs are kept in it; run chmod go-w on it, or name "
            "another folder in RKNNLITE_CACHE"
        )
    return folder


def writable_by_others(path: Path) -> bool:
    """Whether anybody but root and this user owns or may write a file or folder."""
    status = path.stat()
    return status.st_uid not in (0, os.geteuid()) or bool(status.st_mode & 0o022)


def build(name: str, files: Mapping[str, bytes], command: Sequence[str], purpose: str) -> Path:
    """The result of a compiler run, from the cache when the same was built before.

    Args:
        name: file name of the result.
        files: what the command reads, by file name.
        command: compiler and arguments; runs in a folder that holds ``files``. ``{out}`` is the result.
        purpose: what it is for, for messages.

    Raises:
        BackendUnavailable: there is no such compiler. ParamInvalid: it fails; the text holds its last lines.
    """
    compiler = shutil.which(command[0])
    digest = hashlib.sha256(repr((name, tuple(command), compiler)).encode())
    for file, content in sorted(files.items()):
        digest.update(f"\0{file}\0{len(content)}\0".encode() + content)
    target = cache_dir() / digest.hexdigest()[:32] / name
    if target.is_file():
        return target
    if compiler is None:
        raise BackendUnavailable(f"{purpose} needs the compiler {command[0]}, which is not installed")
    target.parent.mkdir(mode=0o700, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        for file, content in files.items():
            Path(folder, file).write_bytes(content)
        _run([compiler, *(a.replace("{out}", name) for a in command[1:])], folder, purpose)
        Path(folder, name).replace(target)  # at once, so that nobody sees half of it
    return target


def _run(command: Sequence[str], folder: str, purpose: str) -> None:
    try:
        done = subprocess.run(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=_TIME_LIMIT, check=False, text=True, errors="replace",
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise ParamInvalid(f"{purpose}: {command[0]} did not finish within {_TIME_LIMIT:.0f} s") from None
    if done.returncode:
        tail = "\n".join(done.stdout.strip().splitlines()[-15:])
        raise ParamInvalid(f"{purpose}: {Path(command[0]).name} ended with status {done.returncode}:\n{tail}")
