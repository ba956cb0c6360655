"""The two networks of a speech model, and how their tensors are told apart."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional, Protocol

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ModelInvalid
from rknnlite.tensor import TensorAttr

__all__ = ["Network", "Pair", "PairFiles", "by_name", "infer"]

Array = NDArray[Any]


class Network(Protocol):
    """What is needed of a ``Context``."""

    @property
    def inputs(self) -> list[TensorAttr]:
        """Its inputs."""

    @property
    def outputs(self) -> list[TensorAttr]:
        """Its outputs."""

    def infer(self, inputs: Sequence[Any]) -> list[Array]:
        """Run it."""

    def close(self) -> None:
        """Release it."""


@dataclass(frozen=True)
class PairFiles:
    """The files of one model in a folder."""

    encoder: Path
    decoder: Path
    vocabulary: Path

    @classmethod
    def of(cls, folder: Path) -> PairFiles:
        """``*encoder*.rknn``, ``*decoder*.rknn`` and a vocabulary. Raises ModelInvalid unless there is one of each."""
        if not folder.is_dir():
            raise ModelInvalid(
                f"{folder} is no folder; a speech model is one, with an encoder, a decoder and a vocabulary"
            )
        words = [_only(folder, f"*{word}*.rknn") for word in ("encoder", "decoder")]
        for name in ("tokenizer.json", "vocab.json"):
            if (folder / name).is_file():
                return cls(words[0], words[1], folder / name)
        return cls(words[0], words[1], _only(folder, "vocab*.txt"))


def _only(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if len(found) == 1:
        return found[0]
    there = ", ".join(path.name for path in found[:4]) or "none"
    raise ModelInvalid(f"{folder}: one file {pattern} is needed, there is {there}")


class Pair:
    """An encoder and a decoder that are open."""

    def __init__(self, encoder: Network, decoder: Network) -> None:
        self.encoder, self.decoder = encoder, decoder

    def close(self) -> None:
        """Release both; may be called again."""
        with ExitStack() as both:
            both.callback(self.encoder.close)
            both.callback(self.decoder.close)


def by_name(attrs: Sequence[TensorAttr], names: Sequence[str]) -> list[int]:
    """Where each of ``names`` is among the tensors; their order is taken for it where a converter has renamed them."""
    there = [attr.name for attr in attrs]
    return [there.index(name) for name in names] if set(names) <= set(there) else list(range(len(names)))


def infer(network: Network, values: Sequence[tuple[int, Array]]) -> list[Array]:
    """Outputs, float32, for inputs by their number; a shape differs from the network's at most in where ones are."""
    given: list[Optional[Array]] = [None] * len(values)
    for number, value in values:
        attr = network.inputs[number]
        given[number] = np.ascontiguousarray(value).reshape(attr.dims)
    return [np.asarray(found) for found in network.infer(given)]
