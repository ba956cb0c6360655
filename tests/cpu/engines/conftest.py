"""An engine of its own cache per test."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What is compiled goes here."""
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    folder = tmp_path / "cache"
    monkeypatch.setenv("RKNNLITE_CACHE", str(folder))
    return folder
