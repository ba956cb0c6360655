"""Windows as Swin and its relatives cut them, and blocks around them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from graph import Case, Net
from judge import Judge

__all__ = ["cases"]


def _cut(
    n: Net, x: str, batch: int, size: tuple[int, int], window: tuple[int, int], width: int, flat: bool
) -> str:
    """[batch, H, W, C] -> [windows, wy, wx, C], or [windows, wy * wx, C]."""
    rows, columns = size[0] // window[0], size[1] // window[1]
    x = n.op("Reshape", x, n.ints(batch, rows, window[0], columns, window[1], width))
    x = n.op("Transpose", x, perm=[0, 1, 3, 2, 4, 5])
    ends = (window[0] * window[1],) if flat else window
    return n.op("Reshape", x, n.ints(batch * rows * columns, *ends, width))


def _join(n: Net, x: str, batch: int, size: tuple[int, int], window: tuple[int, int], width: int) -> str:
    """Windows -> [batch, H, W, C]."""
    rows, columns = size[0] // window[0], size[1] // window[1]
    x = n.op("Reshape", x, n.ints(batch, rows, columns, *window, width))
    x = n.op("Transpose", x, perm=[0, 1, 3, 2, 4, 5])
    return n.op("Reshape", x, n.ints(batch, *size, width))


def _partition(
    size: tuple[int, int], window: tuple[int, int], width: int, batch: int = 1, flat: bool = False
) -> Callable[[Net], str]:
    return lambda n: _cut(n, n.x(batch, *size, width), batch, size, window, width, flat)


def _reverse(
    size: tuple[int, int], window: tuple[int, int], width: int, batch: int = 1, flat: bool = False
) -> Callable[[Net], str]:
    def build(n: Net) -> str:
        count = batch * size[0] // window[0] * (size[1] // window[1])
        ends = (window[0] * window[1],) if flat else window
        return _join(n, n.x(count, *ends, width), batch, size, window, width)

    return build


def _there_and_back(
    size: tuple[int, int], window: tuple[int, int], width: int, shift: bool
) -> Callable[[Net], str]:
    """Partition, a linear layer per token, reverse; with ``shift`` rolled before and after, as exporters write it."""

    def build(n: Net) -> str:
        x = n.op("Transpose", n.conv(n.x(1, 3, *size), 3, width), perm=[0, 2, 3, 1])
        if shift:
            x = _rolled(n, x, 1, size)
        y = _cut(n, x, 1, size, window, width, True)
        y = n.op("Add", n.op("MatMul", y, n.weight(width, width)), n.weight(width))
        y = _join(n, y, 1, size, window, width)
        if shift:
            y = _rolled(n, y, -1, size)
        return n.op("Transpose", y, perm=[0, 3, 1, 2])

    return build


def _of_map(size: tuple[int, int], window: tuple[int, int], width: int) -> Callable[[Net], str]:
    """Windows of a feature map, a linear layer behind: what becomes one node on every SoC."""

    def build(n: Net) -> str:
        x = n.op("Transpose", n.conv(n.x(1, 3, *size), 3, width), perm=[0, 2, 3, 1])
        return _linear(n, _cut(n, x, 1, size, window, width, True), width, width)

    return build


def _to_map(size: tuple[int, int], window: tuple[int, int], width: int) -> Callable[[Net], str]:
    """A linear layer, and its windows as a feature map before a convolution."""

    def build(n: Net) -> str:
        tokens = window[0] * window[1]
        x = _linear(n, n.x(size[0] * size[1] // tokens, tokens, width), width, width)
        y = n.op("Transpose", _join(n, x, 1, size, window, width), perm=[0, 3, 1, 2])
        return n.conv(y, width, width)

    return build


def _unfolded(size: tuple[int, int], patch: tuple[int, int], width: int, back: bool) -> Callable[[Net], str]:
    """MobileViT v2: the same place of every patch side by side, a layer, and (``back``) the picture again."""
    rows, columns = size[0] // patch[0], size[1] // patch[1]
    places, patches = patch[0] * patch[1], rows * columns

    def build(n: Net) -> str:
        x = n.conv(n.x(1, 3, *size), 3, width)
        x = n.op("Reshape", x, n.ints(width, rows, patch[0], columns, patch[1]))
        x = n.op("Reshape", n.op("Transpose", x, perm=[0, 2, 4, 1, 3]), n.ints(1, width, places, patches))
        x = n.conv(x, width, width, 1)
        if not back:
            return x
        x = n.op("Transpose", n.op("Reshape", x, n.ints(width, *patch, rows, columns)), perm=[0, 3, 1, 4, 2])
        return n.conv(n.op("Reshape", x, n.ints(1, width, *size)), width, 7, 1)

    return build


def _rolled(n: Net, x: str, by: int, size: tuple[int, int]) -> str:
    """torch.roll over height and width: two slices and a concatenation each."""
    for axis, length in zip((1, 2), size, strict=True):
        cut = by % length
        parts = [
            n.op("Slice", x, n.ints(start), n.ints(end), n.ints(axis), n.ints(1))
            for start, end in ((cut, length), (0, cut))
        ]
        x = n.op("Concat", *parts, axis=axis)
    return x


def _norm(n: Net, x: str, width: int) -> str:
    """Layer norm in parts, as opset 16 and older have it."""
    centred = n.op("Sub", x, n.op("ReduceMean", x, axes=[-1], keepdims=1))
    spread = n.op("ReduceMean", n.op("Pow", centred, n.const(2.0)), axes=[-1], keepdims=1)
    y = n.op("Div", centred, n.op("Sqrt", n.op("Add", spread, n.const(1e-5))))
    return n.op("Add", n.op("Mul", y, n.const(n.rng.uniform(0.5, 1.5, width))), n.weight(width))


def _linear(n: Net, x: str, width: int, out: int) -> str:
    return n.op("Add", n.op("MatMul", x, n.weight(width, out)), n.weight(out))


def _window_attention(n: Net, x: str, windows: int, tokens: int, width: int, heads: int, bias: bool) -> str:
    """q, k, v out of one linear layer and a Gather each; scores plus the relative position bias."""
    y = n.op("Reshape", _linear(n, x, width, 3 * width), n.ints(windows, tokens, 3, heads, width // heads))
    y = n.op("Transpose", y, perm=[2, 0, 3, 1, 4])
    q, k, v = (n.op("Gather", y, n.const(i, "int64"), axis=0) for i in range(3))
    q = n.op("Mul", q, n.const((width // heads) ** -0.5))
    scores = n.op("MatMul", q, n.op("Transpose", k, perm=[0, 1, 3, 2]))
    if bias:
        scores = n.op("Add", scores, n.const(n.rng.standard_normal((1, heads, tokens, tokens)) * 0.3))
    y = n.op("MatMul", n.op("Softmax", scores, axis=-1), v)
    y = n.op("Reshape", n.op("Transpose", y, perm=[0, 2, 1, 3]), n.ints(windows, tokens, width))
    return _linear(n, y, width, width)


def _block(
    size: tuple[int, int], window: tuple[int, int], width: int, heads: int, shift: bool, bias: bool = True
) -> Callable[[Net], str]:
    """One Swin block on [1, H * W, C]: norm, windows, attention, back, residual, norm, two linear layers, residual."""

    def build(n: Net) -> str:
        tokens = window[0] * window[1]
        windows = size[0] * size[1] // tokens
        x = n.x(1, size[0] * size[1], width)
        y = n.op("Reshape", _norm(n, x, width), n.ints(1, *size, width))
        if shift:
            y = _rolled(n, y, 1, size)
        y = _window_attention(
            n, _cut(n, y, 1, size, window, width, True), windows, tokens, width, heads, bias
        )
        y = _join(n, y, 1, size, window, width)
        if shift:
            y = _rolled(n, y, -1, size)
        x = n.op("Add", x, n.op("Reshape", y, n.ints(1, size[0] * size[1], width)))
        y = _linear(n, _norm(n, x, width), width, 2 * width)
        erf = n.op("Add", n.op("Erf", n.op("Div", y, n.const(np.sqrt(2.0)))), n.const(1.0))
        return n.op("Add", x, _linear(n, n.op("Mul", n.op("Mul", y, erf), n.const(0.5)), 2 * width, width))

    return build


def _merging(n: Net) -> str:
    """Patch merging: every second row and column, side by side, one linear layer."""
    x = n.x(1, 6, 10, 12)
    parts = [
        n.op("Slice", x, n.ints(row, column), n.ints(6, 10), n.ints(1, 2), n.ints(2, 2))
        for column in (0, 1) for row in (0, 1)
    ]  # fmt: skip
    return n.op("MatMul", n.op("Concat", *parts, axis=3), n.weight(48, 24))


def cases() -> Iterator[Case]:
    """All cases of this family."""
    for name, size, window, width in (("square", (8, 8), (4, 4), 20), ("uneven", (6, 10), (3, 2), 20),
                                      ("wide", (4, 21), (4, 7), 12), ("tall", (15, 4), (5, 4), 33)):  # fmt: skip
        yield Case(f"window_partition_{name}", _partition(size, window, width))
        yield Case(f"window_reverse_{name}", _reverse(size, window, width))
    yield Case("window_partition_flat", _partition((6, 10), (3, 5), 20, flat=True))
    yield Case("window_reverse_flat", _reverse((6, 10), (3, 5), 20, flat=True))
    yield Case("window_partition_batch", _partition((6, 10), (2, 5), 20, batch=2))
    yield Case("window_reverse_batch", _reverse((6, 10), (2, 5), 20, batch=2))
    yield Case("window_there_and_back", _there_and_back((6, 15), (3, 5), 20, False), 13, Judge.FUSED)
    yield Case("window_there_and_back_shifted", _there_and_back((6, 15), (3, 5), 20, True), 13, Judge.FUSED)
    for window, size, width in (((2, 4), (8, 8), 20), ((4, 2), (8, 8), 20), ((3, 5), (6, 10), 9), ((7, 7), (14, 28), 20),
                                ((2, 3), (10, 18), 40), ((7, 5), (21, 40), 17)):  # fmt: skip
        name = f"{window[0]}x{window[1]}_{size[0]}x{size[1]}"
        yield Case(f"window_of_map_{name}", _of_map(size, window, width))
        yield Case(f"window_to_map_{name}", _to_map(size, window, width))
    for patch, size, width in (((2, 2), (8, 8), 9), ((2, 2), (8, 12), 20), ((2, 3), (8, 15), 9), ((4, 2), (12, 6), 33),
                               ((2, 2), (4, 4), 20)):  # fmt: skip
        name = f"{patch[0]}x{patch[1]}_{size[0]}x{size[1]}"
        yield Case(f"window_unfold_{name}", _unfolded(size, patch, width, False))
        yield Case(f"window_fold_{name}", _unfolded(size, patch, width, True), 13, Judge.FUSED)
    yield Case("window_merging", _merging)
    yield Case("swin_block", _block((6, 10), (3, 5), 24, 3, False), 13, Judge.FUSED)
    yield Case("swin_block_shifted", _block((6, 10), (3, 5), 24, 3, True), 13, Judge.FUSED)
    yield Case("swin_block_plain", _block((8, 4), (4, 2), 32, 2, False, bias=False), 13, Judge.FUSED)
