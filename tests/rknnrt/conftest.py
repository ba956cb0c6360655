"""Fixtures on the test double of librknnrt; after every test nothing of it may be alive."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import rknnlite
from rknnlite import plugins
from rknnlite.api import RKNNLite
from tests.doubles.double import Double, build, compiler, model


@pytest.fixture(scope="session")
def library() -> Path:
    """The double as a shared library."""
    return built()


def built(*defines: str, mini: bool = False) -> Path:
    """A variant of the double."""
    if compiler() is None:
        pytest.skip("no C compiler is installed")
    return build(mini, defines)


@pytest.fixture
def double(library: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Double]:
    """The double as the machine's runtime; what a test opens it must give back."""
    import rknnlite_rknnrt

    monkeypatch.setenv("RKNNLITE_LIBRARY", str(library))
    monkeypatch.setenv("RKNNLITE_BACKEND", "rknnrt")
    if not plugins.manager().has_plugin("rknnrt"):
        plugins.manager().register(rknnlite_rknnrt, name="rknnrt")
        plugins.backends.cache_clear()
    steering = Double(library)
    steering.reset()
    assert steering.live() == {}, "an earlier test left something behind"
    yield steering
    gc.collect()  # a caught exception and the frame that caught it refer to each other
    left = steering.live()
    steering.reset()
    assert left == {}


@pytest.fixture
def start(double: Double) -> Iterator[Callable[..., Any]]:
    """``start(*lines, **options)``: a context on a model of the double; closed after the test."""
    opened: list[Any] = []

    def open_(*lines: str, **options: Any) -> Any:
        opened.append(rknnlite.open(model(*lines), **options))
        return opened[-1]

    yield open_
    for context in opened:
        context.close()


@pytest.fixture
def face(double: Double, tmp_path: Path) -> Iterator[Callable[..., RKNNLite]]:
    """``face(*lines, **options)``: an initialised ``RKNNLite``; released after the test."""
    made: list[RKNNLite] = []

    def make(*lines: str, verbose: bool = False, **options: Any) -> RKNNLite:
        path = tmp_path / "model.rknn"
        path.write_bytes(model(*lines))
        rknn = RKNNLite(verbose=verbose)
        made.append(rknn)
        assert rknn.load_rknn(str(path)) == 0
        assert rknn.init_runtime(**options) == 0
        return rknn

    yield make
    for rknn in made:
        rknn.release()
