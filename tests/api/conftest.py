"""Fixtures of the face's tests: a bench with a fake backend, faces on it, and the genuine CPU reference."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from rknnlite import plugins
from rknnlite.api import RKNNLite

from .fake_backend import Bench


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable of the developer's shell decides a test."""
    for name in ("RKNNLITE_BACKEND", "RKNNLITE_SOC", "RKNN_LOG_LEVEL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def bench() -> Iterator[Bench]:
    """A fake backend that is chosen while the test runs."""
    double = Bench()
    plugins.manager().register(double, name="fake")
    plugins.backends.cache_clear()
    yield double
    plugins.manager().unregister(name="fake")
    plugins.backends.cache_clear()


@pytest.fixture
def model_file(tmp_path: Path) -> Path:
    """A file that the fake backend takes for a model."""
    path = tmp_path / "model.rknn"
    path.write_bytes(b"any bytes")
    return path


@pytest.fixture
def rknn(bench: Bench, model_file: Path, capfd: pytest.CaptureFixture[str]) -> Iterator[RKNNLite]:
    """A face on the fake backend, initialised; what it said so far is already read."""
    face = RKNNLite()
    assert face.load_rknn(str(model_file)) == 0
    assert face.init_runtime() == 0
    capfd.readouterr()
    yield face
    face.release()


@pytest.fixture
def image() -> np.ndarray:
    """An image that the fake backend's model takes: NHWC, uint8."""
    return np.arange(72, dtype=np.uint8).reshape(1, 4, 6, 3)


@pytest.fixture
def cpu() -> None:
    """The CPU reference, also where the distribution is not installed."""
    package = pytest.importorskip("rknnlite_cpu")
    if not plugins.manager().has_plugin("cpu"):
        plugins.manager().register(package, name="cpu")
    plugins.backends.cache_clear()
