"""How weights and numbers per channel lie for the kernels: see the heads of ``convolution.c`` and ``depthwise.c``."""

from __future__ import annotations

import numpy as np

from ...values import Array

__all__ = [
    "dense_weights",
    "depthwise_order",
    "depthwise_weights",
    "eight_bits",
    "float_weights",
    "padded_to",
    "selected_channels",
]


def eight_bits(weight: Array, zeros: Array) -> tuple[Array, Array]:
    """Stored weights [OC, ...] and their zero points -> int8 weights and zero points of the same differences.

    Raises ValueError for weights of more than 8 bits.
    """
    weight, zeros = weight.astype(np.int64), zeros.astype(np.int64).reshape(-1)
    centred = weight - zeros.reshape(-1, *[1] * (weight.ndim - 1))
    if centred.min(initial=0) >= -128 and centred.max(initial=0) <= 127:
        return centred.astype(np.int8), np.zeros_like(zeros)
    if weight.min(initial=0) >= 0:
        weight, zeros = weight - 128, zeros - 128
    if weight.min(initial=0) < -128 or weight.max(initial=0) > 127:
        raise ValueError("weights of more than 8 bits")
    return weight.astype(np.int8), zeros


def padded_to(values: Array, count: int) -> Array:
    """The numbers, and zeros behind them."""
    found = np.zeros((count, *values.shape[1:]), values.dtype)
    found[: len(values)] = values
    return found


def dense_weights(weight: Array, lanes: int, across: int) -> Array:
    """[OC, IC, kh, kw] -> [block of vectors][kh][kw][IC / 4][vector][lane][4], flat."""
    count, channels, kh, kw = weight.shape
    vectors, fours = -(-count // lanes), -(-channels // 4)
    whole = np.zeros((vectors * lanes, kh, kw, fours * 4), np.int8)
    whole[:count, :, :, :channels] = weight.transpose(0, 2, 3, 1)
    cut = whole.reshape(vectors, lanes, kh * kw * fours, 4)
    blocks = [cut[i : i + across].transpose(2, 0, 1, 3).reshape(-1) for i in range(0, vectors, across)]
    return np.concatenate(blocks)


def depthwise_order(values: Array, lanes: int) -> Array:
    """Numbers per channel [C] in the order of ``interleave``, zeros for channels that are not there."""
    chunk = 4 * lanes
    whole = padded_to(values, -(-len(values) // chunk) * chunk)
    return whole.reshape(-1, lanes // 4, 4, 4).transpose(0, 2, 1, 3).reshape(-1)


def depthwise_weights(weight: Array, lanes: int) -> Array:
    """[C, 1, kh, kw] -> [chunk][four taps][vector][lane][4 taps], flat."""
    count, taps = len(weight), weight.shape[2] * weight.shape[3]
    chunk, groups = 4 * lanes, -(-taps // 4)
    whole = np.zeros((-(-count // chunk) * chunk, groups * 4), np.int8)
    whole[:count, :taps] = weight.reshape(count, taps)
    cut = whole.reshape(-1, lanes // 4, 4, 4, groups, 4)  # chunk, i, j, channel, group, tap
    return cut.transpose(0, 4, 2, 1, 3, 5).reshape(-1)


def float_weights(weight: Array, lanes: int) -> Array:
    """float16 [OC, IC, kh, kw], depthwise ones [C, 1, kh, kw] -> [vector][kh][kw][IC][lane], flat, as bytes."""
    count, channels, kh, kw = weight.shape
    vectors = -(-count // lanes)
    whole = padded_to(weight.astype(np.float16), vectors * lanes)
    return whole.reshape(vectors, lanes, channels, kh, kw).transpose(0, 3, 4, 2, 1).reshape(-1).view(np.int8)


def selected_channels(weight: Array, lanes: int) -> dict[str, Array]:
    """[OC, IC] with one weight in a row, or none -> what ``float_select`` of ``float_places.c`` reads."""
    count = len(weight)
    places = np.argmax(weight != 0, axis=1)
    factors = weight[np.arange(count), places].astype(np.float32)
    used = factors != 0
    # where nothing is taken, the channel of a neighbour
    places = padded_to(places, -(-count // lanes) * lanes).reshape(-1, lanes)
    used = padded_to(used, places.size).reshape(-1, lanes)
    first = np.where(used, places, weight.shape[1]).min(axis=1)
    first = np.where(used.any(axis=1), first, 0)
    places = np.where(used, places, first[:, None])
    near = (places < first[:, None] + lanes).all(axis=1)
    return {
        "zeros": places.astype(np.int32).reshape(-1),
        "numbers": padded_to(factors, places.size),
        "sizes": np.where(near, first, -1).astype(np.int64),
    }
