"""One token through the whole decoder by ``step.c``, in one call of every thread.

``decoder.py`` is the definition, and computes what is not here: several tokens at a time, caches that drop tokens, adapters,
mixtures of experts, convolutions, latent attention, layers whose halves are parallel, float32 weights.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any, Optional
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from rknnlite_llm.container.architecture import Architecture, Mixer, Turn
from rknnlite_llm.container.family import Norm, Order
from rknnlite_llm.container.weight_types import COLUMNS, GROUP
from rknnlite_llm.weights import gated, layer_norms

from rknnlite.errors import ParamInvalid

from ..kernels.parallel import parts_of, run_blocks
from .attention_mask import Chunk
from .compiled_products import CompiledLinear, MatrixLayout
from .compiled_store import StoreLayout, layout_of
from .kv_cache import KvCache
from .linear import Linear
from .lora import Adapted

__all__ = ["CompiledStep"]

Array = NDArray[Any]
_ACTIVATIONS = ("silu", "gelu_tanh", "relu", "relu2")
"""In the order of ``enum activation``."""
_NORMS = ("norm1", "norm2", "post1", "post2", "q_norm", "k_norm")
_MATRICES = ("qkv", "out", "first", "down")
_TURNS = (Turn.MAIN, Turn.LOCAL)
_UNIT, _MOST_WIDTH, _MOST_PARTS = 16, 512, 16
_MOST_RANGES = 64
_LEAST_TASK = 4
"""Tiles of a task where its bytes are fewest."""
_ALIGNED = 64
_SHARED = 1 << 20
"""Weights from which on waking other threads takes less time than their part of the work."""
_WAKES_ALL = 1 << 30


class _Norm(ctypes.Structure):
    _fields_ = (("weight", ctypes.c_void_p), ("bias", ctypes.c_void_p))


class _Layer(ctypes.Structure):
    """``struct layer``."""

    _fields_ = (
        *((name, MatrixLayout) for name in _MATRICES),
        *((name, _Norm) for name in _NORMS),
        *((f"{name}_bias", ctypes.c_void_p) for name in _MATRICES),
        ("sinks", ctypes.c_void_p),
        ("window", ctypes.c_ssize_t),
        ("turn", ctypes.c_ssize_t),
    )


class _Turned(ctypes.Structure):
    """``struct turn``."""

    _fields_ = (("pairs", ctypes.c_ssize_t), ("cos", ctypes.c_void_p), ("sin", ctypes.c_void_p))


_SIZES = ("layers", "hidden", "heads", "kv_heads", "dim", "width", "inner", "vocab", "gated", "activation", "centred",
          "whole", "behind")  # fmt: skip
_FACTORS = ("eps", "score", "score_cap", "residual", "logit", "logit_cap")
_BUFFERS = ("x", "normed", "qkv", "query", "parts", "shares", "mixed", "wide", "sums", "rests", "logits")


class _Step(ctypes.Structure):
    """``struct step``."""

    _fields_ = (
        *((name, ctypes.c_ssize_t) for name in _SIZES),
        *((name, ctypes.c_float) for name in _FACTORS),
        ("layer", ctypes.POINTER(_Layer)),
        ("norm", _Norm),
        ("head", MatrixLayout),
        ("head_bias", ctypes.c_void_p),
        ("stores", ctypes.POINTER(StoreLayout)),
        ("turns", _Turned * len(_TURNS)),
        *((name, ctypes.c_ssize_t) for name in ("total", "slot", "keys")),
        ("growth", ctypes.c_float),
        *((name, ctypes.c_void_p) for name in _BUFFERS),
        ("ranges", ctypes.c_uint64 * _MOST_RANGES),
        ("open", ctypes.c_int64),
        ("finished", ctypes.c_int),
        *((name, ctypes.c_ssize_t) for name in ("threads", "at", "tasks", "part")),
    )


class _Room:
    """A step and its buffers, lent to one computation at a time."""

    def __init__(self, step: _Step, sizes: Mapping[str, int]) -> None:
        self.step = _Step.from_buffer_copy(step)
        self.buffers = {name: _aligned(size) for name, size in sizes.items()}
        for name, buffer in self.buffers.items():
            setattr(self.step, name, buffer.ctypes.data)


class CompiledStep:
    """The layers of a decoder, its last norm and its head as the library is given them."""

    @staticmethod
    def of(
        arch: Architecture,
        layers: Sequence[Mapping[str, Any]],
        ends: Mapping[str, Array],
        head: Optional[Linear],
    ) -> Optional[CompiledStep]:
        """For ``layers`` and ``ends`` as ``WeightReader`` has them; None where the library does not compute such a decoder."""
        return CompiledStep(arch, layers, ends, head) if _known(arch, layers, head) else None

    def __init__(
        self,
        arch: Architecture,
        layers: Sequence[Mapping[str, Any]],
        ends: Mapping[str, Array],
        head: Optional[Linear],
    ) -> None:
        self._arch, self._held = arch, (layers, ends, head)
        library = _matrix(layers[0], "qkv").products.library
        self._begin, self._run = library.rknnlite_begin, library.rknnlite_step
        self._begin.argtypes = self._run.argtypes = [ctypes.POINTER(_Step), ctypes.c_ssize_t]
        self._begin.restype, self._run.restype = ctypes.c_ssize_t, None
        _check_layout(library)
        self._first = "gate_up" if gated(arch) else "up"
        self._layers = (_Layer * arch.layers)(*(self._layer(i, parts) for i, parts in enumerate(layers)))
        self._weights = sum(
            matrix.inputs * matrix.outputs for parts in layers for matrix in self._matrices(parts)
        )
        self._step, self._sizes = self._made(ends, head)
        self._turning = [
            turn for turn in _TURNS if any(arch.kind(i).turn is turn for i in range(arch.layers))
        ]
        self._stores: WeakKeyDictionary[KvCache, Any] = WeakKeyDictionary()
        self._idle: list[_Room] = []

    def _matrices(self, parts: Mapping[str, Any]) -> list[CompiledLinear]:
        return [_matrix(parts, name) for name in ("qkv", "out", self._first, "down")]

    def _layer(self, number: int, parts: Mapping[str, Any]) -> _Layer:
        arch, kind, there = self._arch, self._arch.kind(number), layer_norms(self._arch, number)
        names = {"first": self._first}
        layer = _Layer(window=kind.window, sinks=_address(parts.get("sinks")))
        layer.turn = -1 if kind.turn is Turn.NONE else _TURNS.index(kind.turn)
        for name, matrix in zip(_MATRICES, self._matrices(parts)):
            setattr(layer, name, matrix.layout)
            setattr(layer, f"{name}_bias", _address(parts.get(f"{names.get(name, name)}_bias")))
        for name in _NORMS:
            if name in there or (name in ("q_norm", "k_norm") and arch.qk_norm):
                setattr(layer, name, _norm(parts, name))
        return layer

    def _made(self, ends: Mapping[str, Array], head: Optional[Linear]) -> tuple[_Step, dict[str, int]]:
        arch, scales = self._arch, self._arch.scales
        width = -(-arch.head_dim // _UNIT) * _UNIT
        score = arch.head_dim**-0.5 if scales.score is None else scales.score
        activation = _ACTIVATIONS.index(arch.activation)
        sizes = (arch.layers, arch.hidden, arch.heads, arch.kv_heads, arch.head_dim, width, arch.intermediate)
        forms = (gated(arch), activation, arch.norm is Norm.LAYER, arch.qk_norm_whole, arch.qk_norm_turned)
        factors = (
            arch.rms_eps,
            score,
            scales.score_cap or 0,
            scales.residual,
            scales.logit,
            scales.logit_cap or 0,
        )
        step = _Step(*sizes, arch.vocab_size, *forms, *factors, self._layers, _norm(ends, "norm"))
        matrices = [matrix for parts in self._held[0] for matrix in self._matrices(parts)]
        if head is not None:
            step.head, step.head_bias = _compiled(head).layout, _address(ends.get("head_bias"))
        deep = max(matrix.layout.down for matrix in matrices) * GROUP
        across = max(matrix.layout.across for matrix in matrices) * COLUMNS
        tiles = max(matrix.layout.down * matrix.layout.across for matrix in matrices)
        parts = arch.heads * _MOST_PARTS
        return step, {
            "x": arch.hidden,
            "normed": deep,
            "qkv": across,
            "query": arch.heads * width,
            "parts": parts * width,
            "shares": 2 * parts,
            "mixed": deep,
            "wide": max(across, deep),
            "sums": across,
            "rests": (-(-tiles // _LEAST_TASK) + 1) * COLUMNS,
        }

    def __call__(self, row: Array, chunk: Chunk, logits: bool) -> tuple[Array, Optional[Array]]:
        """A token (hidden,) behind what the cache of ``chunk`` holds, which gets its keys and values: its hidden state (hidden,),
        normalised, and its logits (vocab,)."""
        room = self._idle.pop() if self._idle else self.room()
        try:
            return self._through(room, row, chunk, logits)
        finally:
            self._idle.append(room)

    def _through(self, room: _Room, row: Array, chunk: Chunk, logits: bool) -> tuple[Array, Optional[Array]]:
        out = np.empty(room.step.head.across * COLUMNS, np.float32) if logits else None
        turns = self.prepare(room, row, chunk, out)
        given = ctypes.byref(room.step)
        threads = parts_of(_WAKES_ALL) if self._weights >= _SHARED else (slice(0, 1),)
        self._begin(given, len(threads))
        run_blocks(lambda part: self._run(given, part.start // threads[0].stop), threads, _WAKES_ALL)
        del turns
        hidden = room.buffers["normed"][: self._arch.hidden].copy()
        return hidden, None if out is None else out[: self._arch.vocab_size]

    def room(self) -> _Room:
        """A step of its own."""
        return _Room(self._step, self._sizes)

    def prepare(
        self, room: _Room, row: Array, chunk: Chunk, out: Optional[Array]
    ) -> list[tuple[Array, Array]]:
        """Give a step its token; ``out`` gets logits, 128 at a time. What is returned is to be kept until the step is through."""
        step, cache = room.step, chunk.cache
        room.buffers["x"][:] = row
        stores = self._stores.get(cache)
        if stores is None:
            stores = self._stores[cache] = (StoreLayout * self._arch.layers)(
                *map(layout_of, cache.layers.values())
            )
        step.stores = stores
        turns = [chunk.turn(turn) for turn in self._turning]
        for turn, (cos, sin) in zip(self._turning, turns):
            place = step.turns[_TURNS.index(turn)]
            place.pairs, place.cos, place.sin = cos.shape[1], cos.ctypes.data, sin.ctypes.data
        step.total, step.slot, step.keys = cache.total, cache.total, cache.total + 1
        step.growth = 1 if chunk.growth is None else float(chunk.growth[0, 0])
        step.logits = _address(out)
        return turns


def _known(arch: Architecture, layers: Sequence[Mapping[str, Any]], head: Optional[Linear]) -> bool:
    kinds = [arch.kind(i) for i in range(arch.layers)]
    plain = all(kind.mixer is Mixer.ATTENTION and not (kind.experts and arch.experts) for kind in kinds)
    usual = (
        arch.causal and arch.activation in _ACTIVATIONS and arch.order not in (Order.PARALLEL, Order.SIDES)
    )
    alike = all(arch.of_layer(i) == arch for i in range(arch.layers))
    alike = alike and not any(kind.reuses for kind in kinds)
    further = arch.attention_gate or arch.layer_rows or arch.v_norm or arch.layer_scale
    if not (plain and usual and alike and arch.head_dim <= _MOST_WIDTH) or further:
        return False
    names = ("qkv", "out", "gate_up" if gated(arch) else "up", "down")
    matrices = [parts[name].product for parts in layers for name in names if isinstance(parts[name], Adapted)]
    matrices += [] if head is None else [head]
    return all(isinstance(matrix, CompiledLinear) for matrix in matrices)


def _matrix(parts: Mapping[str, Any], name: str) -> CompiledLinear:
    return _compiled(parts[name].product)


def _compiled(matrix: Linear) -> CompiledLinear:
    assert isinstance(matrix, CompiledLinear)
    return matrix


def _norm(vectors: Mapping[str, Any], name: str) -> _Norm:
    return _Norm(_address(vectors.get(name)), _address(vectors.get(f"{name}_bias")))


def _address(array: Any) -> Any:
    return None if array is None else array.ctypes.data


def _aligned(size: int) -> Array:
    """Zeros of float32 that begin at a line of the cache."""
    whole = np.zeros(size * 4 + _ALIGNED, np.uint8)
    start = -whole.ctypes.data % _ALIGNED
    return whole[start : start + size * 4].view(np.float32)


def _check_layout(library: ctypes.CDLL) -> None:
    sizes = (ctypes.c_ssize_t * 3)()
    library.rknnlite_sizes(sizes)
    if tuple(sizes) != (ctypes.sizeof(StoreLayout), ctypes.sizeof(_Layer), ctypes.sizeof(_Step)):
        raise ParamInvalid(f"the native engine {library._name} has other structures; remove it")
