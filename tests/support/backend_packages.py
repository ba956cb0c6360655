"""The packages of examples that bring a backend, installed by hand in a folder of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.corpus import EXAMPLES, ROOT
from tests.support.entry_points import install

__all__ = ["installed", "run_there"]


def installed(name: str, folder: Path) -> Path:
    """``folder`` with the package ``examples/NAME`` and its tests."""
    install(EXAMPLES / name, folder)
    shutil.copytree(EXAMPLES / name / "tests", folder / "tests")
    return folder


def run_there(site: Path, *command: str, **settings: str) -> str:
    """What Python prints with the package on its path; it has to end well."""
    path = os.pathsep.join([str(site), str(ROOT), str(ROOT / "plugins")])
    environment = {**os.environ, "PYTHONPATH": path, "RKNNLITE_CONFIG": "", **settings}
    done = subprocess.run(
        [sys.executable, *command], cwd=site, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout
