"""What generating a token moves and holds: bytes of weights, bytes of the KV cache, and how fast the machine's memory is."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np

from rknnlite.errors import ModelInvalid
from rknnlite.formats import ModelFile

from .container.architecture import Mixer
from .container.description import LlmModel, read_llm
from .package import Package
from .weights import matrices

__all__ = [
    "Bandwidth",
    "bandwidth",
    "kv_bytes",
    "kv_read_bytes",
    "own_bytes",
    "package_model",
    "weight_bytes",
]

_BITS = {"undefined": 32, "float16": 16, "int8": 8, "float8": 8, "int4": 4, "float4": 4}
"""By what is stored, which names of ``KvDtype`` begin with."""
_SCALE_BITS = 16
_ROWS, _COLUMNS = 16384, 4096  # 268 MB: more than any cache
_TRIES = 5


@dataclass(frozen=True)
class Bandwidth:
    """Bytes per second that numpy moves here, the best of some tries: ``gemv`` reads a float32 matrix times a vector; ``copy``
    reads and writes."""

    gemv: float
    copy: float


def bandwidth() -> Bandwidth:
    """Measure; takes about a second and 0.6 GB."""
    matrix, vector = np.ones((_ROWS, _COLUMNS), np.float32), np.ones(_COLUMNS, np.float32)
    target = np.zeros_like(matrix)
    gemv = min(_seconds(lambda: matrix @ vector) for _ in range(_TRIES))
    copy = min(_seconds(lambda: np.copyto(target, matrix)) for _ in range(_TRIES))
    return Bandwidth(matrix.nbytes / gemv, 2 * matrix.nbytes / copy)


def _seconds(call: object) -> float:
    assert callable(call)
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def package_model(prefix: str | Path) -> LlmModel | None:
    """The description of a package of ours; None for a device's file."""
    try:
        return read_llm(ModelFile(Package.of(prefix).model))
    except ModelInvalid:
        return None


def weight_bytes(model: LlmModel) -> int:
    """Bytes of matrices that one step of decoding reads; of a mixture the experts that one token uses."""
    experts, kinds, total = model.arch.experts, model.weight_types, 0.0
    for name, size in matrices(model.arch).items():
        kind = kinds[name]
        count = float(prod(kind.shape(*size)) * _element(kind.element))
        count += 2 * prod(kind.scale_shape(*size)) if kind.scaled else 0
        total += count * (experts.used / experts.count if experts and ".experts." in name else 1)
    return round(total)


def _element(name: str) -> int:
    return {"F32": 4, "F16": 2, "BF16": 2, "I8": 1, "U8": 1}[name]


def kv_bytes(model: LlmModel, tokens: int) -> int:
    """Bytes of keys and values of so many tokens, and of a running state; layers with a window keep all of them, too."""
    return _kv_bytes(model, [tokens] * model.arch.layers) + _running_bytes(model)


def kv_read_bytes(model: LlmModel, tokens: int) -> int:
    """Bytes of keys and values, and of a running state, that a step of decoding reads behind so many tokens."""
    windows = (model.arch.kind(layer).window for layer in range(model.arch.layers))
    return _kv_bytes(model, [min(tokens, window or tokens) for window in windows]) + _running_bytes(model)


def _running_bytes(model: LlmModel) -> int:
    arch = model.arch
    state = 4 * sum(map(prod, arch.recurrence.shapes)) if arch.recurrence else 0
    return state * sum(arch.kind(layer).mixer.recurrent for layer in range(arch.layers))


def _kv_bytes(model: LlmModel, tokens: Sequence[int]) -> int:
    """Of so many tokens in each layer."""
    arch, group = model.arch, model.kv.group
    kinds = (
        (arch.kind(layer).mixer, arch.of_layer(layer).kv_size, count)
        for layer, count in enumerate(tokens)
        if not arch.kind(layer).reuses
    )
    numbers = 2 * sum(
        size * count for mixer, size, count in kinds if mixer in (Mixer.ATTENTION, Mixer.LATENT)
    )
    bits = _BITS[model.kv.dtype.name.lower().split("_")[0]] + (_SCALE_BITS / group if group else 0)
    return int(numbers * bits / 8)


def own_bytes() -> int | None:
    """Resident memory of this process beside mapped files; None where the system does not tell them apart."""
    import psutil

    memory = psutil.Process().memory_info()
    return int(memory.rss - memory.shared) if hasattr(memory, "shared") else None
