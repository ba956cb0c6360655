"""OpenCV's nets for depthwise layers: made once for a geometry, used by all layers that have it, gone with the last."""

from __future__ import annotations

import gc
from types import SimpleNamespace

import numpy as np
import pytest
from rknnlite_cpu.kernels import opencv
from rknnlite_cpu.kernels.conv import ConvSpec, depthwise2d

cv2 = pytest.importorskip("cv2")

SMALL = ConvSpec((3, 3), (1, 1), (1, 1), (1, 1), (13, 11), (13, 11))
LARGE = ConvSpec((3, 3), (2, 2), (1, 1), (0, 0), (112, 96), (56, 48))  # padded below and on the right only


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the models that nets were made of."""
    sizes: list[int] = []

    def read(model: np.ndarray) -> object:
        sizes.append(model.size)
        return cv2.dnn.readNetFromONNX(model)

    monkeypatch.setattr(opencv, "module", lambda: SimpleNamespace(dnn=SimpleNamespace(readNetFromONNX=read)))
    for spec in (SMALL, LARGE):
        assert opencv._trusted(spec.kernel, spec.strides, spec.dilations)
    sizes.clear()
    return sizes


def integers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-255, 256, shape).astype(np.float32)


def test_layers_of_one_geometry_share_a_net(made: list[int]) -> None:
    x = integers(1, 20, 13, 11)
    weights = [integers(20, 3, 3, seed=seed) for seed in range(4)]
    layers = [opencv.depthwise_layer(weight, SMALL, 1) for weight in weights]
    for weight, layer in zip(weights, layers):
        assert layer is not None
        assert np.array_equal(layer(x), depthwise2d(x, weight, SMALL))
    assert len(made) == 1


@pytest.mark.parametrize("channels", [1, 20, 61, 96])
def test_a_large_layer_uses_its_nets_again(made: list[int], channels: int) -> None:
    """In blocks of channels, which overlap where they do not come out even."""
    x, weight = integers(1, channels, 112, 96), integers(channels, 3, 3, seed=1)
    layer = opencv.depthwise_layer(weight, LARGE, 1)
    assert layer is not None
    for _ in range(2):
        assert np.array_equal(layer(x), depthwise2d(x, weight, LARGE))
    assert len(made) == 1


def test_a_result_is_not_written_again(made: list[int]) -> None:
    layer = opencv.depthwise_layer(integers(20, 3, 3), SMALL, 1)
    assert layer is not None
    first, second = (layer(integers(1, 20, 13, 11, seed=seed)) for seed in (1, 2))
    assert np.array_equal(first, layer(integers(1, 20, 13, 11, seed=1)))
    assert not np.shares_memory(first, second)


def test_nothing_is_kept_without_a_layer(made: list[int]) -> None:
    layer = opencv.depthwise_layer(integers(20, 3, 3), SMALL, 1)
    assert layer is not None
    layer(integers(1, 20, 13, 11))
    key = (SMALL, 20, 1)
    assert key in opencv._nets
    del layer
    gc.collect()
    assert key not in opencv._nets


def test_a_version_that_keeps_the_weights_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which would answer for the second layer with the first one's."""

    class Net:
        def __init__(self, model: np.ndarray) -> None:
            self.net, self.weight = cv2.dnn.readNetFromONNX(model), None

        def setInput(self, values: np.ndarray, name: str) -> None:
            if name == "w":
                values = self.weight = values if self.weight is None else self.weight
            self.net.setInput(values, name)

        def forward(self) -> np.ndarray:
            return self.net.forward()

    monkeypatch.setattr(opencv, "module", lambda: SimpleNamespace(dnn=SimpleNamespace(readNetFromONNX=Net)))
    opencv._nets.clear()
    assert not opencv._trusted.__wrapped__((3, 3), (1, 1), (1, 1))
