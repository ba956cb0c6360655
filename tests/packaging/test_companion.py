"""The distribution by whose name programs look for the vendor's package."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from rknnlite.cli.health import software
from tests.support.corpus import ROOT


def install(folder: Path, version: str | None) -> metadata.Distribution:
    """Its metadata as an installer writes them, in a folder of its own."""
    work = folder / "source"
    work.mkdir()
    for name in ("setup.py", "pyproject.toml"):
        (work / name).write_text((ROOT / "tools" / "companion" / name).read_text())
    environment = {k: v for k, v in os.environ.items() if k != "RKNN_TOOLKIT_LITE2_VERSION"}
    environment.update({"RKNN_TOOLKIT_LITE2_VERSION": version} if version else {})
    words = [sys.executable, "setup.py", "-q", "egg_info", "--egg-base", str(folder)]
    subprocess.run(words, cwd=work, env=environment, check=True, capture_output=True)
    return next(metadata.distributions(name="rknn-toolkit-lite2", path=[str(folder)]))


@pytest.mark.parametrize(("asked", "found"), [(None, "2.3.2"), ("2.5.0", "2.5.0")])
def test_found_under_the_vendors_name(tmp_path: Path, asked: str | None, found: str) -> None:
    pytest.importorskip("setuptools")
    companion = install(tmp_path, asked)
    assert (companion.metadata["Name"], companion.version) == ("rknn-toolkit-lite2", found)
    assert companion.requires == ["rknnlite"]
    assert not (companion.read_text("top_level.txt") or "").strip(), "it hides nothing of ours"


def test_doctor_does_not_take_it_for_the_vendors_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("setuptools")
    install(tmp_path, None)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert metadata.version("rknn-toolkit-lite2") == "2.3.2"
    assert not list(software._vendor_wheel("software"))


# -- how programs ask --------------------------------------------------------------------------------------


@pytest.fixture
def companion(tmp_path: Path) -> metadata.Distribution:
    pytest.importorskip("setuptools")
    return install(tmp_path, None)


@pytest.mark.parametrize("asked", ["", ">=2.0.0", ">=2.3", ">=2.3.0,<3", "==2.3.2"])
def test_satisfies_what_is_asked_for_by_version(companion: metadata.Distribution, asked: str) -> None:
    """ultralytics compares ``importlib.metadata.version`` itself; others name a version in an extra."""
    specifiers = pytest.importorskip("packaging.specifiers")
    assert companion.version in specifiers.SpecifierSet(asked)


def test_names_no_home_page(companion: metadata.Distribution) -> None:
    """rk-transformers takes a distribution of this name for the vendor's when it has the vendor's home page or none."""
    assert companion.metadata["Home-page"] is None


@pytest.mark.slow
@pytest.mark.parametrize(("version", "asked"), [(None, "==2.3.2"), ("2.5.0", ">=2.4,<3")])
def test_pip_looks_no_further(tmp_path: Path, version: str | None, asked: str) -> None:
    """Its resolver takes companion and rknnlite as they are; without an index it could get nothing else."""
    pytest.importorskip("pip")
    pytest.importorskip("setuptools")
    install(tmp_path, version)
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    words = [sys.executable, "-m", "pip", "install", "--no-index", "--dry-run", f"rknn-toolkit-lite2{asked}"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (
        "Requirement already satisfied: rknn-toolkit-lite2" in done.stdout
        and "Would install" not in done.stdout
    )
