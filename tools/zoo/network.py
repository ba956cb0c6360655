"""What a network of the zoo is: how it is built, fed and exported."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Optional

import numpy as np

__all__ = [
    "Exporter",
    "Feed",
    "Kind",
    "Network",
    "Source",
    "image",
    "network",
    "packaged",
    "registered",
    "signal",
    "text",
    "tokens",
]


Source = Callable[[np.random.Generator], list[Any]]
"""Draws one real input of a network: an array for each feed."""


class Kind(Enum):
    """What an input holds."""

    @property
    def is_picture(self) -> bool:
        """Whether it is uint8 and normalised by the converter."""
        return self in (Kind.IMAGE, Kind.TEXT)

    IMAGE = "image"  # uint8 patches of photographs; mean and std are given to the converter
    TEXT = "text"  # the same, of a printed page
    SIGNAL = "signal"  # smooth random float32
    TOKENS = "tokens"  # int64 in [0, high)


class Exporter(Enum):
    """Who wrote the ONNX file."""

    SCRIPT = "torch.onnx"  # the older exporter, which traces
    DYNAMO = "torch.onnx dynamo"
    FILE = "packaged file"  # with fixed shapes
    TF = "tf2onnx"
    PADDLE = "paddle2onnx"


@dataclass(frozen=True)
class Feed:
    """One input of a network, shape as in the ONNX file."""

    shape: tuple[int, ...]
    kind: Kind = Kind.IMAGE
    high: int = 0
    name: str = ""  # packaged files only


@dataclass(frozen=True)
class Network:
    """``build`` returns a torch module, or for packaged files the path of the ONNX file.

    Trained ones of packages tell the ``package``, draw real inputs from a ``source`` and name what a user reads in the
    answer (``meaning``, see ``meanings.py``): these are in the table of trained networks.
    """

    name: str
    build: Callable[[], Any]
    feeds: tuple[Feed, ...]
    opset: int = 12
    exporter: Exporter = Exporter.SCRIPT
    trained: bool = False
    mean: tuple[float, ...] = (123.675, 116.28, 103.53)
    std: tuple[float, ...] = (58.395, 57.12, 57.375)
    ends: tuple[str, ...] = ()  # packaged files: cut the graph at these tensors
    folded: bool = False  # packaged files: constants folded, where the toolkit fails on what computes them
    config: dict[str, Any] = field(default_factory=dict)
    source: Optional[Source] = None
    meaning: str = ""
    package: str = ""


def image(height: int, width: int = 0, channels: int = 3, name: str = "") -> Feed:
    """An image input; square unless told otherwise."""
    return Feed((1, channels, height, width or height), Kind.IMAGE, name=name)


def text(height: int, width: int = 0, name: str = "") -> Feed:
    """A part of a printed page."""
    return Feed((1, 3, height, width or height), Kind.TEXT, name=name)


def signal(*shape: int, name: str = "") -> Feed:
    """A float input that is no image."""
    return Feed(shape, Kind.SIGNAL, name=name)


def tokens(*shape: int, high: int, name: str = "") -> Feed:
    """Indices below ``high``."""
    return Feed(shape, Kind.TOKENS, high, name=name)


_networks: dict[str, Network] = {}


def network(name: str, *feeds: Feed, **how: Any) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Decorator: the function builds the network called ``name``. ``dynamo=True`` is short for that exporter."""
    if how.pop("dynamo", False):
        how = {"opset": 18, **how, "exporter": Exporter.DYNAMO}
    if name in _networks:
        raise ValueError(f"two networks are called {name}")

    def register(build: Callable[[], Any]) -> Callable[[], Any]:
        _networks[name] = Network(name, build, feeds, **how)
        return build

    return register


def packaged(package: str, path: str) -> Path:
    """A file that an installed package ships; the package is not imported."""
    import importlib.util

    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise FileNotFoundError(f"package {package} is not installed: see tools/zoo/setup.sh")
    return Path(spec.origin).parent / path


def registered() -> Iterator[Network]:
    """All networks, in the order of their modules."""
    yield from _networks.values()
