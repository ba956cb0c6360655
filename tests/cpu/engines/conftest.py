"""An engine of its own cache per test, and the library of the native engine, built once for a file of tests."""

from __future__ import annotations

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


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Library:
    needs("gcc")
    library.cache_clear()
    before = os.environ.get("RKNNLITE_CACHE")
    os.environ["RKNNLITE_CACHE"] = str(tmp_path_factory.mktemp("built"))
    try:
        return library()
    finally:
        del os.environ["RKNNLITE_CACHE"]
        if before is not None:
            os.environ["RKNNLITE_CACHE"] = before
