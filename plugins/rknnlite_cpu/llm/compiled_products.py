"""Products by ``products.c``, built on this machine when a model is first opened: the weights are widened in registers.

The library has attention of few tokens (``compiled_attention.py``) and whole steps of one token (``compiled_step.py``), too.

``linear.py`` is the definition. These sums are of the same float32 products in another order; nothing else is rounded, and
activations stay float32. Weights and scales are read where they lie in the mapped file, so that sessions and processes share
them. A library whose sums are not those of the definition is not used.
"""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray
from rknnlite_llm.container.weight_types import COLUMNS, GROUP, WEIGHT_TYPES, tiles
from rknnlite_programs import buildcache

from rknnlite import config
from rknnlite.errors import BackendUnavailable, ParamInvalid
from rknnlite.log import logger

from ..kernels.parallel import parts_of, run_blocks
from .compiled_attention import CompiledAttention
from .linear import Linear, make_linear, padded

__all__ = ["ENGINES", "CompiledLinear", "MatrixLayout", "Products", "chosen"]

Array = NDArray[Any]

ENGINES = ("numpy", "native")
_NETWORKS_ONLY = ("onnxruntime", "openvino")
_SOURCE = Path(__file__).with_name("products.c")
_BESIDE = [
    Path(__file__).with_name(name)
    for name in ("attention.c", "step.c", "attention.h", "functions.h", "products.h", "store.h", "vectors.h")
]
_KINDS = ("f16", "bf16", "w8", "w4")
"""Types of weights, in the order of ``enum kind``."""
_FEW = 16
"""Rows that are multiplied with weights in registers; for more, weights are widened into the first cache."""
_QUARTER = 32
"""Outputs that the product of many rows works on at a time."""
_SHARED = 1 << 20
"""Bytes of weights from which on waking another core takes less time than a few rows with half of them."""
_ALIGNED = "-falign-loops=32"
"""Where an inner loop lay in the middle of such a line, by chance of what was before it, products took a fifth longer."""
_TOLERANCE = 1e-5


class Products:
    """The built library; ``attention`` is its attention.

    Raises BackendUnavailable without a compiler, ParamInvalid when it fails or gives wrong sums.
    """

    def __init__(self) -> None:
        flags = ["-O3", "-fno-math-errno", _ALIGNED, *buildcache.for_this_processor()]
        path = buildcache.build_library(
            "librknnlite_products.so", [_SOURCE, *_BESIDE], "the native engine", *flags
        )
        try:
            library = ctypes.CDLL(str(path))
        except OSError as error:
            raise ParamInvalid(f"the native engine {path} cannot be loaded: {error}; remove it") from None
        self.few, self.many = library.rknnlite_few, library.rknnlite_many
        size, address, matrix = ctypes.c_ssize_t, ctypes.c_void_p, ctypes.POINTER(MatrixLayout)
        self.few.argtypes = [matrix, size, size, size, address, size, address, address]
        self.many.argtypes = [matrix, size, size, address, size, address]
        self.few.restype = self.many.restype = None
        self._check()
        self.attention = CompiledAttention(library)
        self.library = library

    def linear(self, weights: str, codes: Array, scale: Optional[Array], inputs: int, outputs: int) -> Linear:
        """As ``linear.make_linear``, by the library where it knows the type."""
        if weights in _KINDS:
            return CompiledLinear(self, _KINDS.index(weights), codes, scale, inputs, outputs)
        return make_linear(weights, codes, scale, inputs, outputs)

    def _check(self) -> None:
        """A small product of every type, in both ways."""
        random = np.random.default_rng(0)
        inputs, outputs = 9 * GROUP + 1, COLUMNS + 1
        matrix = random.standard_normal((outputs, inputs)).astype(np.float32)
        x = random.standard_normal((_FEW + 3, inputs)).astype(np.float32)
        for name in _KINDS:
            parts = WEIGHT_TYPES[name].pack(matrix)
            ours, wanted = (
                self.linear(name, *parts, inputs, outputs),
                make_linear(name, *parts, inputs, outputs)(x),
            )
            for rows in (1, 7, len(x)):
                far = float(np.abs(ours(x[:rows]) - wanted[:rows]).max() / np.abs(wanted).max())
                if not far < _TOLERANCE:
                    raise ParamInvalid(
                        f"the native engine is wrong here: {name} differs by {far:.1e} of the largest product"
                    )


class MatrixLayout(ctypes.Structure):
    """``struct matrix``."""

    _fields_ = (
        *((name, ctypes.c_ssize_t) for name in ("kind", "across", "down")),
        *((name, ctypes.c_void_p) for name in ("codes", "scales")),
    )


class CompiledLinear(Linear):
    """``layout``: what the library is given; ``products``: where it is."""

    def __init__(
        self, products: Products, kind: int, codes: Array, scale: Optional[Array], inputs: int, outputs: int
    ) -> None:
        super().__init__(inputs, outputs)
        self.products, self._held = products, (codes, scale)
        self._few, self._many = products.few, products.many
        self._across, self._down = tiles(inputs, outputs)
        scales = None if scale is None else scale.ctypes.data
        self.layout = MatrixLayout(kind, self._across, self._down, codes.ctypes.data, scales)
        self._size = codes.size

    def __call__(self, x: Array) -> Array:
        rows = np.ascontiguousarray(padded(x, self._down * GROUP), np.float32)
        out = self._of_few(rows) if len(x) <= _FEW else self._of_many(rows)
        return out[:, : self.outputs]

    def _of_few(self, x: Array) -> Array:
        """Cores share the tiles as they lie; where one begins in the middle of 128 outputs, its part of them is added."""
        count = self._across * self._down
        shares = parts_of(count) if self._held[0].nbytes >= _SHARED else (slice(0, count),)
        out = np.empty((len(x), self._across * COLUMNS), np.float32)
        if len(shares) == 1:
            self._few(self.layout, 0, count, count, x.ctypes.data, len(x), out.ctypes.data, None)
            return out
        rests = np.empty((len(shares), len(x), COLUMNS), np.float32)
        source, target, rest, step = x.ctypes.data, out.ctypes.data, rests.ctypes.data, rests[0].nbytes

        def work(share: slice) -> None:
            number = share.start // shares[0].stop
            end = share.stop
            self._few(self.layout, share.start, end, end, source, len(x), target, rest + number * step)

        run_blocks(work, shares, self._size)
        for part, share in zip(rests, shares):
            column, middle = divmod(share.start, self._down)
            if middle:
                out[:, column * COLUMNS : (column + 1) * COLUMNS] += part
        return out

    def _of_many(self, x: Array) -> Array:
        """Cores share the outputs."""
        out = np.empty((len(x), self._across * COLUMNS), np.float32)
        source, target = x.ctypes.data, out.ctypes.data

        def work(share: slice) -> None:
            self._many(self.layout, share.start, share.stop, source, len(x), target)

        run_blocks(work, parts_of(self._across * COLUMNS // _QUARTER), len(x) * self._size)
        return out


def chosen(given: Any) -> Optional[Products]:
    """The engine that an option names, else ``RKNNLITE_ENGINE``, else the native one where it can be built.

    None: numpy. An engine of networks in ``RKNNLITE_ENGINE`` chooses nothing here.

    Raises ParamInvalid for an unknown name; BackendUnavailable or ParamInvalid for a native engine that was asked for and
    cannot be built.
    """
    asked = given if given is not None else config.get("engine") or None
    if given is None and asked in _NETWORKS_ONLY:
        asked = None
    if asked is not None and asked not in ENGINES:
        raise ParamInvalid(f"engine {asked!r:.80} runs no language models; there are {', '.join(ENGINES)}")
    if asked == "numpy":
        return None
    if asked == "native":
        return _built()
    return _where_possible()


@functools.cache
def _built() -> Products:
    return Products()


@functools.cache
def _where_possible() -> Optional[Products]:
    try:
        return _built()
    except (BackendUnavailable, ParamInvalid) as error:
        logger.info(
            "numpy multiplies the weights of language models, which takes several times as long: %s", error
        )
        return None
