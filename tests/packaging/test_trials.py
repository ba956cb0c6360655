"""The trials of the Debian packages find in examples and plugins what they name: they run on this tree, too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.needs import needs

from .project import ROOT

pytestmark = pytest.mark.slow

INSTALLED = "/usr/share/doc/rknnlite-examples/examples"
TRIALS = {
    "detect": ("cv2",),
    "doubles": ("cv2", "gcc"),
    "llm-chat": ("jinja2",),
    "remote": ("PIL", "grpc", "uvicorn"),
    "resnet18": ("cv2",),
    "riscv": ("cv2", "gcc-riscv64-linux-gnu", "qemu-user"),
}
"""Trials that need neither root nor services -> what they need; the rest looks at packages and at what they leave."""


@pytest.mark.parametrize("trial", TRIALS)
def test_a_trial_on_this_tree(trial: str, tmp_path: Path) -> None:
    needs(*TRIALS[trial])
    (tmp_path / "trial").write_text(
        (ROOT / "debian" / "tests" / trial).read_text().replace(INSTALLED, f"{ROOT}/examples")
    )
    (tmp_path / "place").mkdir()
    environment = {
        **os.environ,
        "AUTOPKGTEST_TMP": str(tmp_path / "place"),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": "",
    }
    done = subprocess.run(
        ["sh", tmp_path / "trial"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=300
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
