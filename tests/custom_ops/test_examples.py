"""The examples of custom operators run, and say what their README says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support.corpus import EXAMPLES, ROOT
from tests.support.entry_points import install
from tests.support.needs import needs, skip_for_want

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "plugins")])}


def run(folder: Path, *command: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env={**ENVIRONMENT, **environment}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    if done.returncode:
        skip_for_want(done.stdout + done.stderr)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def documented(example: str) -> list[str]:
    """The indented lines of the README."""
    return [
        line.strip()
        for line in (EXAMPLES / example / "README.md").read_text().splitlines()
        if line.startswith("    ")
    ]


def test_the_four_operators_give_the_documented_sums(tmp_path: Path) -> None:
    pytest.importorskip("pyopencl")
    lines = run(tmp_path, str(EXAMPLES / "custom_op" / "test.py")).splitlines()
    assert [line.split() for line in lines] == [
        line.split() for line in documented("custom_op") if "features" in line
    ]


def test_the_topics_give_the_documented_sums(tmp_path: Path) -> None:
    needs("gcc")
    lines = run(tmp_path, str(EXAMPLES / "custom_op" / "topics" / "run.py")).splitlines()
    assert [line.split() for line in lines] == [
        line.split() for line in documented("custom_op") if "[1, 4," in line
    ]


@pytest.mark.slow
def test_the_package_to_copy_is_found_once_installed(tmp_path: Path) -> None:
    """Installed by hand: the package and its entry point in a folder on the path."""
    package = EXAMPLES / "plugin_package"
    install(package, tmp_path)
    shutil.copytree(package / "tests", tmp_path / "tests")
    path = os.pathsep.join([str(tmp_path), ENVIRONMENT["PYTHONPATH"]])
    output = run(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests", PYTHONPATH=path)
    assert "5 passed" in output


@pytest.mark.parametrize("place", ["operator", "riscv"])
def test_shapes_are_found(place: str, tmp_path: Path) -> None:
    cv2 = pytest.importorskip("cv2")
    if place == "riscv" and shutil.which("riscv64-unknown-elf-gcc") is None:
        pytest.skip("riscv64-unknown-elf-gcc is not installed")
    output = run(tmp_path, str(EXAMPLES / "yolo_postprocess" / "test.py"), place)
    found = [(line.split()[0], *map(float, line.split()[1:])) for line in output.splitlines()]
    told = [line.split() for line in documented("yolo_postprocess") if re.match(r"\S+ +[01]\.\d+ ", line)]
    assert [entry[0] for entry in found] == [entry[0] for entry in told]
    for entry, expected in zip(found, told):
        assert np.allclose(entry[1], float(expected[1]), atol=0.02)
        assert np.allclose(entry[2:], [float(c) for c in expected[2:]], atol=1.0)
    assert cv2.imread(str(tmp_path / "shapes_found.png")) is not None
