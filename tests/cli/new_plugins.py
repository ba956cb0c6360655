"""What tests of ``rknnlite new-plugin`` share: programs in the folder it writes, and what its ``convert.py`` wrote."""

from __future__ import annotations

import lzma
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.corpus import ROOT

__all__ = ["GOLDEN", "PATH", "program", "run", "unpack_goldens"]

GOLDEN = Path(__file__).parent / "data" / "new_plugin"
"""Of ``new-plugin my_scale``: ``tests/golden`` as ``make golden`` fills it, with rknn-toolkit2 2.5.0."""
PATH = [str(ROOT), str(ROOT / "plugins")]


def run(folder: Path, *command: str, first: str = "", **environment: str) -> str:
    """The output of Python with these arguments in a folder; ``first`` is on its path before rknnlite."""
    path = os.pathsep.join(filter(None, [first, *PATH]))
    return program(folder, sys.executable, *command, PYTHONPATH=path, **environment)


def program(folder: Path, *command: str, **environment: str) -> str:
    """The output of a program; make's own variables are not handed on."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    done = subprocess.run(
        command, cwd=folder, env={**inherited, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def unpack_goldens(folder: Path) -> None:
    """Put models and answers where the tests of a new package look for them."""
    folder.mkdir()
    for file in GOLDEN.iterdir():
        if file.suffix == ".xz":
            (folder / file.stem).write_bytes(lzma.decompress(file.read_bytes()))
        else:
            shutil.copy(file, folder)
