"""Chooses the fastest exact way to accumulate one convolution, once, when a model is prepared.

A float32 product-sum of integers is exact as long as no partial sum reaches 2**24. The weights and the range of the input bound
the largest partial sum per output channel. Where the bound passes 2**24 the input channels are cut into parts that stay below,
and the parts are added in float64. So the accumulator is always the NPU's integer, whatever BLAS does with the order of the
sum, and integer layers do not depend on the machine or the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rknnlite.quant import split_for_exactness

from .conv import ConvSpec, convolution, depthwise2d, pad2d, whole_plane, windows
from .opencv import depthwise_layer

__all__ = ["Accumulate", "accumulator"]

Array = NDArray[Any]
_SHORT = 1 << 12  # a wider range of data is int16
Accumulate = Callable[[Array], Array]
"""[N, IC, H, W] -> [N, OC, OH * OW], an array of its own; float32, or float64 where sums pass 2**24."""


def accumulator(
    weight: Array,
    spec: ConvSpec,
    depthwise: bool,
    transposed: bool,
    bounds: tuple[float, float],
    batch: int = 1,
    in_double: bool = False,
) -> Accumulate:
    """Prepare a convolution.

    Args:
        weight: [OC, IC, kh, kw] float32 (depthwise [C, 1, kh, kw]); centred integers when ``bounds`` are given.
        bounds: range of the integer inputs, (0, 0) for floating data.
        in_double: of floating data whose last bits must not hang on the machine.
    """
    if transposed:
        return _transposed(weight, spec, depthwise, bounds, batch, in_double)
    if in_double or bounds[1] - bounds[0] > _SHORT:
        return _precise(weight, spec, depthwise)
    if depthwise:
        taps = np.ascontiguousarray(weight[:, 0])
        if spec.out_size == (1, 1) and max(spec.padding) <= 0:
            return partial(whole_plane, weight=taps, spec=spec)
        return depthwise_layer(taps, spec, batch) or partial(depthwise2d, weight=taps, spec=spec)
    exact = bounds != (0.0, 0.0)
    parts = split_for_exactness(weight, *bounds) if exact else [slice(0, weight.shape[1])]
    matrices = [np.ascontiguousarray(weight[:, part].reshape(weight.shape[0], -1)) for part in parts]
    convolve = [convolution(matrix, spec, batch, exact) for matrix in matrices]
    if len(parts) == 1:
        return convolve[0]

    def split(x: Array) -> Array:
        total: Array = convolve[0](x[:, parts[0]]).astype(np.float64)
        for part, run in zip(parts[1:], convolve[1:]):
            total += run(x[:, part])
        return total

    return split


def _precise(weight: Array, spec: ConvSpec, depthwise: bool) -> Accumulate:
    """Everything is added in float64, since single products of int16 data pass 2**24."""
    rows = weight.shape[0]
    taps = weight.astype(np.float64).reshape(rows, -1)

    def run(x: Array) -> Array:
        view = windows(pad2d(x, spec.padding).astype(np.float64), spec)
        positions = spec.out_size[0] * spec.out_size[1]
        acc: Array
        if depthwise:
            acc = np.einsum("nctp,ct->ncp", view.reshape(x.shape[0], rows, taps.shape[1], positions), taps)
        else:
            acc = np.matmul(taps, view.reshape(x.shape[0], taps.shape[1], positions))
        return acc

    return run


def _transposed(
    weight: Array,
    spec: ConvSpec,
    depthwise: bool,
    bounds: tuple[float, float],
    batch: int,
    in_double: bool,
) -> Accumulate:
    """Zeros between the inputs, then the stored forward kernel with stride 1."""
    (kh, kw), (sy, sx), (dy, dx), (top, left) = spec.kernel, spec.strides, spec.dilations, spec.pads
    size = ((spec.in_size[0] - 1) * sy + 1, (spec.in_size[1] - 1) * sx + 1)
    inner = replace(spec, strides=(1, 1), pads=(dy * (kh - 1) - top, dx * (kw - 1) - left), in_size=size)
    forward = accumulator(weight, inner, depthwise, False, bounds, batch, in_double)

    def run(x: Array) -> Array:
        spread = np.zeros((*x.shape[:2], *size), np.float32)
        spread[:, :, ::sy, ::sx] = x
        return forward(spread)

    return run
