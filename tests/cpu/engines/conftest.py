"""An engine of its own cache per test, and the library of the native engine, built once for all of them."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest
from rknnlite_cpu.engines.native.library import Library, library

from tests.support.needs import needs


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What is compiled goes here."""
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    folder = tmp_path / "cache"
    monkeypatch.setenv("RKNNLITE_CACHE", str(folder))
    return folder


@pytest.fixture(scope="session")
def cache_of_the_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shared by the processes that test side by side: the folder above theirs is that of the run."""
    folder = tmp_path_factory.getbasetemp()
    return (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "built"


@pytest.fixture(scope="session")
def built(cache_of_the_run: Path) -> Library:
    needs("gcc")
    library.cache_clear()
    cache_of_the_run.mkdir(mode=0o700, exist_ok=True)
    with pytest.MonkeyPatch.context() as patch, (cache_of_the_run / "one builds").open("w") as door:
        fcntl.flock(door, fcntl.LOCK_EX)
        patch.setenv("RKNNLITE_CACHE", str(cache_of_the_run))
        return library()
