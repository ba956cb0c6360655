"""The vendor's wheel installed into the same folders: said clearly, at import and by ``rknnlite doctor``."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import rknnlite

from .project import ROOT

COMPILED = "rknn_lite.cpython-311-aarch64-linux-gnu.so"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder for PYTHONPATH with a copy of the core."""
    here = Path(str(rknnlite.__file__)).parent
    shutil.copytree(here, tmp_path / "rknnlite", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def run(site: Path, *command: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(site), str(ROOT / "plugins")])
    environment = {**os.environ, "PYTHONPATH": path, "RKNNLITE_CONFIG": ""}
    return subprocess.run(
        [sys.executable, *command], env=environment, capture_output=True, text=True, cwd=site
    )


def test_ours_alone_is_imported(site: Path) -> None:
    assert run(site, "-c", "from rknnlite.api import RKNNLite").returncode == 0


def test_theirs_came_first_and_ours_over_it(site: Path) -> None:
    (site / "rknnlite" / "api" / COMPILED).touch()
    done = run(site, "-c", "from rknnlite.api import RKNNLite")
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: rknnlite.api is mixed with the vendor's rknn-toolkit-lite2: ")
    assert COMPILED in last
    assert "pip uninstall rknn-toolkit-lite2 rknnlite, then install rknnlite again" in last


def test_ours_came_first_and_theirs_over_it(site: Path) -> None:
    """Their ``__init__`` is in force, so the message can only come from the command."""
    (site / "rknnlite" / "__init__.py").write_text("")
    (site / "rknnlite" / "api" / "__init__.py").write_text("from .rknn_lite import RKNNLite\n")
    (site / "rknnlite" / "api" / COMPILED).touch()
    done = run(site, "-c", "from rknnlite.cli import main; raise SystemExit(main(['doctor']))")
    assert done.returncode == 4, done.stderr
    assert f"files of one hide those of the other: {COMPILED}" in done.stdout
    assert "Traceback" not in done.stderr
