"""The vendor's wheel and ours installed into one environment by pip, in both orders: one message, first and alone."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.support.needs import needs

from .project import ROOT

pytestmark = pytest.mark.slow

THIS, OTHER = "abi3", "cpython-37m-aarch64-linux-gnu"
"""Compiled modules that this Python would load, and such that it would not."""
SAID = "rknnlite.api is mixed with the vendor's rknn-toolkit-lite2: both are imported as rknnlite, and in "
REMEDY = "pip uninstall rknn-toolkit-lite2 rknnlite, then install rknnlite again"
WHERE = [
    pytest.param(tag, id=name, marks=[] if tag == THIS else pytest.mark.slow)
    for name, tag in (("loadable", THIS), ("not_loadable", OTHER))
]


class Environment:
    """A fresh virtual environment; what rknnlite depends on is seen in the one that runs the tests."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.python = folder, folder / "bin" / "python"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
        (self.site,) = folder.glob("lib/python*/site-packages")
        (self.site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")

    def pip(self, *words: str) -> None:
        command = [sys.executable, "-m", "pip", "--python", str(self.python), "--quiet", *words]
        subprocess.run(command, check=True, env={**os.environ, "PIP_NO_INDEX": "1", "PYTHONPATH": ""})

    def install(self, *wheels: Path) -> None:
        for wheel in wheels:
            self.pip("install", "--no-deps", "--force-reinstall", str(wheel))

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": "", "RKNNLITE_CONFIG": ""}
        return subprocess.run(
            [self.python, *words], env=environment, cwd=self.folder, capture_output=True, text=True, check=False
        )  # fmt: skip


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel with all Python files of this project, made without a build tool."""
    needs("pip")
    folder, info = tmp_path_factory.mktemp("ours"), "rknnlite-0.dist-info"
    packages = [ROOT / "rknnlite", *(folder for folder in (ROOT / "plugins").iterdir() if folder.is_dir())]
    content = {
        str(file.relative_to(package.parent)): file.read_text("utf-8")
        for package in packages
        for file in package.rglob("*.py")
    }
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    entries = text.split("[project.entry-points.rknnlite]")[1].split("[")[0].replace('"', "")
    content[f"{info}/entry_points.txt"] = f"[rknnlite]{entries}"
    content[f"{info}/METADATA"] = "Metadata-Version: 2.1\nName: rknnlite\nVersion: 0\n"
    content[f"{info}/WHEEL"] = (
        "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    content[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*content, f"{info}/RECORD"])
    with zipfile.ZipFile(folder / "rknnlite-0-py3-none-any.whl", "w") as wheel:
        for name, text in content.items():
            wheel.writestr(name, text)
    return folder / "rknnlite-0-py3-none-any.whl"


@pytest.fixture
def theirs(tmp_path: Path) -> dict[str, Path]:
    """The vendor's wheel, played by a stand-in, by the tag of its compiled modules."""
    made = {}
    for tag in (THIS, OTHER):
        command = [sys.executable, str(ROOT / "tools" / "vendor_stand_in.py"), str(tmp_path / tag), tag]
        subprocess.run(command, check=True)
        (made[tag],) = (tmp_path / tag).glob("*.whl")
    return made


def check(environment: Environment, tag: str) -> None:
    """Import and doctor say the same, and nothing before it."""
    for statement in ("import rknnlite.api", "from rknnlite.api import RKNNLite"):
        done = environment.run("-c", statement)
        assert done.returncode == 1
        last = done.stderr.strip().splitlines()[-1]
        assert last.startswith(f"ImportError: {SAID}")
        assert f"rknn_lite.{tag}.so" in last
        assert last.endswith(REMEDY)
        assert "During handling" not in done.stderr
    done = environment.run("-m", "rknnlite", "doctor")
    assert (done.returncode, done.stderr) == (4, "")
    topic, finding, remedy = done.stdout.splitlines()[:3]
    assert topic == "software:"
    assert finding.startswith(f"FAIL  {SAID}")
    assert remedy.strip().startswith("->")
    assert remedy.endswith(REMEDY)


@pytest.mark.parametrize("tag", WHERE)
def test_ours_came_last(ours: Path, theirs: dict[str, Path], tag: str, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "venv")
    environment.install(theirs[tag], ours)
    check(environment, tag)


@pytest.mark.parametrize("tag", WHERE)
def test_theirs_came_last(ours: Path, theirs: dict[str, Path], tag: str, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "venv")
    environment.install(ours, theirs[tag])
    check(environment, tag)
    for words in (["info", "model.rknn"], ["--help"], ["no-such-command"]):
        done = environment.run("-m", "rknnlite", *words)
        assert (done.returncode, done.stdout) == (4, "")
        assert done.stderr.startswith(f"rknnlite: {SAID}")
        assert done.stderr.count("\n") == 1
    if tag != THIS:
        return
    environment.pip("uninstall", "-y", "rknn-toolkit-lite2")  # takes files with it that were ours
    done = environment.run("-m", "rknnlite", "doctor")
    assert (done.returncode, done.stderr) == (4, "")
    assert f"{environment.site / 'rknnlite' / '__init__.py'} is missing" in done.stdout.splitlines()[1]
    environment.install(ours)
    assert environment.run("-c", "from rknnlite.api import RKNNLite").returncode == 0
