"""What networks are fed with: patches of packaged photographs, smooth signals, tokens."""

from __future__ import annotations

import zlib
from functools import lru_cache
from typing import Any

import cv2
import numpy as np
from network import Feed, Kind, Network
from numpy.typing import NDArray

__all__ = ["MANY", "PURPOSES", "draw", "drawn", "purposes"]

PURPOSES = ("run", *(f"calibration{n}" for n in range(6)))
"""What is drawn for each network: one set to compare with, six for the converter's calibration."""
MANY = 24
"""Further sets of a network with real inputs, for the table of trained networks."""
CALIBRATION = 20
"""Calibration sets of such a network."""


@lru_cache(maxsize=1)
def _photographs() -> list[NDArray[np.uint8]]:
    import skimage.data
    from sklearn.datasets import load_sample_images

    ours = [skimage.data.astronaut(), skimage.data.chelsea(), skimage.data.coffee()]
    return [*ours, *load_sample_images().images]


def _patch(rng: np.random.Generator, channels: int, height: int, width: int) -> NDArray[np.uint8]:
    """A random part of a photograph, scaled, CHW."""
    photo = _photographs()[rng.integers(len(_photographs()))]
    rows, columns = photo.shape[:2]
    part = rng.uniform(0.3, 0.9)
    h, w = int(rows * part), int(columns * part)
    top, left = rng.integers(rows - h), rng.integers(columns - w)
    patch = cv2.resize(photo[top : top + h, left : left + w], (width, height), interpolation=cv2.INTER_AREA)
    planes = patch.transpose(2, 0, 1)
    return np.stack([planes[c % 3] for c in range(channels)])


def _line(rng: np.random.Generator, height: int, width: int) -> NDArray[np.uint8]:
    """A part of a page with some lines, or one line where the part is flat."""
    import skimage.data

    page = skimage.data.page()  # 191 x 384, a line is 22 high
    h = 24 if width > 2 * height else 120
    w = h * width // height
    top, left = int(rng.integers(page.shape[0] - h)), int(rng.integers(page.shape[1] - w))
    part = cv2.resize(page[top : top + h, left : left + w], (width, height), interpolation=cv2.INTER_CUBIC)
    return np.stack([part] * 3)


def _smooth(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Noise with a falling spectrum along the last axis, about unit variance: like features or a waveform."""
    noise = rng.standard_normal(shape)
    for axis in range(max(0, len(shape) - 2), len(shape)):
        if shape[axis] > 8:
            noise = (noise + np.roll(noise, 1, axis) + np.roll(noise, 2, axis)) / np.sqrt(3)
    return np.clip(noise, -3.5, 3.5).astype(np.float32)


def draw(network: str, feeds: tuple[Feed, ...], purpose: str) -> list[NDArray[Any]]:
    """One array per input, the same for the same names."""
    rng = np.random.default_rng(zlib.crc32(f"{network}/{purpose}".encode()))
    arrays: list[NDArray[Any]] = []
    for feed in feeds:
        if feed.kind is Kind.TEXT:
            arrays.append(_line(rng, *feed.shape[2:])[None])
        elif feed.kind is Kind.IMAGE:
            batch = [_patch(rng, *feed.shape[1:]) for _ in range(feed.shape[0])]
            arrays.append(np.stack(batch))
        elif feed.kind is Kind.TOKENS:
            arrays.append(rng.integers(0, feed.high, feed.shape))
        else:
            arrays.append(_smooth(rng, feed.shape))
    return arrays


def purposes(network: Network) -> tuple[str, ...]:
    """All sets of a network: for one with real inputs many to compare with, and more to calibrate with."""
    if network.source is None:
        return PURPOSES
    return (
        "run",
        *(f"calibration{n}" for n in range(CALIBRATION)),
        *(f"many{n}" for n in range(MANY)),
    )


def drawn(network: Network, purpose: str) -> list[NDArray[Any]]:
    """One array per input: from the network's own source, or what its feeds ask for."""
    if network.source is None:
        return draw(network.name, network.feeds, purpose)
    rng = np.random.default_rng(zlib.crc32(f"{network.name}/{purpose}".encode()))
    arrays = network.source(rng)
    for feed, array in zip(network.feeds, arrays, strict=True):
        if array.shape != feed.shape:
            raise ValueError(f"{network.name}: a source of {array.shape} for an input of {feed.shape}")
    return arrays
