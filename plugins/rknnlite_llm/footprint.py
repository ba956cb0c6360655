"""What generating a token moves and holds: bytes of weights, bytes of the KV cache, and how fast the machine's memory is."""

from __future__ import annotations

import time
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np

from rknnlite.errors import ModelInvalid
from rknnlite.formats import ModelFile
from rknnlite.tensor import KvDtype

from .container.architecture import Mixer
from .container.description import LlmModel, read_llm
from .package import Package
from .weights import matrices

__all__ = ["Bandwidth", "bandwidth", "kv_bytes", "own_bytes", "package_model", "weight_bytes"]

_BITS = {KvDtype.UNDEFINED: 32, KvDtype.FLOAT16: 16, KvDtype.INT8_TO_F16: 8, KvDtype.INT4_TO_F16: 4}
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
    """Bytes of keys and values of so many tokens; layers with a window keep all of them, too."""
    arch, group = model.arch, model.kv.group
    own = [arch.of_layer(layer) for layer in range(arch.layers) if arch.kind(layer).mixer is not Mixer.CONV]
    bits = _BITS[model.kv.dtype] + (_SCALE_BITS / group if group else 0)
    return int(2 * sum(layer.kv_size for layer in own) * tokens * bits / 8)


def own_bytes() -> int | None:
    """Resident memory of this process beside mapped files; None where the system does not tell them apart."""
    import psutil

    memory = psutil.Process().memory_info()
    return int(memory.rss - memory.shared) if hasattr(memory, "shared") else None
