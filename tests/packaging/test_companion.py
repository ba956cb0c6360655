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
