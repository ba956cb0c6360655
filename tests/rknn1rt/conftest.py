"""Fixtures on the test double of librknn_api; after every test nothing of it may be alive."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rknnlite
from rknnlite import plugins
from tests.doubles.double import compiler
from tests.doubles.rknn1.double1 import Double1, build, model


def built(host: bool = False) -> Path:
    """The double in one of its flavours."""
    if compiler() is None:
        pytest.skip("no C compiler is installed")
    return build(host)


def steered(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Double1]:
    """The double as the machine's runtime; what a test opens it must give back."""
    import rknnlite_rknn1rt

    monkeypatch.setenv("RKNNLITE_RKNN1_LIBRARY", str(path))
    monkeypatch.setenv("RKNNLITE_BACKEND", "rknn1rt")
    if not plugins.manager().has_plugin("rknn1rt"):
        plugins.manager().register(rknnlite_rknn1rt, name="rknn1rt")
        plugins.backends.cache_clear()
    steering = Double1(path)
    steering.reset()
    assert steering.live() == {}, "an earlier test left something behind"
    yield steering
    gc.collect()  # a caught exception and the frame that caught it refer to each other
    left = steering.live()
    steering.reset()
    assert left == {}


@pytest.fixture
def double(monkeypatch: pytest.MonkeyPatch) -> Iterator[Double1]:
    """The board flavour."""
    yield from steered(built(), monkeypatch)


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[Double1]:
    """The host flavour, with two devices."""
    for steering in steered(built(host=True), monkeypatch):
        steering.devices(2)
        yield steering


@pytest.fixture
def start(double: Double1) -> Iterator[Callable[..., Any]]:
    """``start(options={...}, **fields)``: a context on a model of the double; closed after the test."""
    opened: list[Any] = []

    def open_(options: dict[str, Any] | None = None, **fields: Any) -> Any:
        opened.append(rknnlite.open(model(**fields), **(options or {})))
        return opened[-1]

    yield open_
    for context in opened:
        context.close()


def picture(seed: int = 0, shape: tuple[int, ...] = (1, 4, 6, 3)) -> Any:
    """A random picture; small values, so that nothing saturates in the models of the tests."""
    return np.random.default_rng(seed).integers(0, 60, shape, dtype=np.uint8)


def scores(image: Any, a: float = 1, b: float = 0) -> Any:
    """What the double answers to a picture (NHWC) with its default tensors, as float32."""
    real = image.transpose(0, 3, 1, 2).reshape(1, -1).astype(np.float64)
    stored = np.clip(np.rint(real / 0.5) + 128, 0, 255)
    out = np.clip(np.rint(((stored - 128) * 0.5 * a + b) / 0.5) + 100, 0, 255)
    return ((out - 100) * 0.5).astype(np.float32)
