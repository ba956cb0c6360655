"""Patterns of today's networks that the compiler may join into nodes of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from graph import Case, Net
from judge import Judge

__all__ = ["cases"]

_MAP = (1, 20, 9, 7)


def _rope(tokens: int, depth: int, halves: bool) -> Callable[[Net], str]:
    """Rotary positions on [1, heads, tokens, depth], as two halves or as pairs."""

    def build(n: Net) -> str:
        x = n.x(1, 3, tokens, depth)
        angle = np.outer(np.arange(tokens), 100.0 ** (-np.arange(depth // 2) / (depth // 2)))
        if halves:
            angle = np.concatenate([angle, angle], axis=1)
            a, b = n.ops("Split", 2, x, n.ints(depth // 2, depth // 2), axis=3)
            turned = n.op("Concat", n.op("Neg", b), a, axis=3)
        else:
            angle = np.repeat(angle, 2, axis=1)
            pairs = n.op("Reshape", x, n.ints(1, 3, tokens, depth // 2, 2))
            a, b = n.ops("Split", 2, pairs, n.ints(1, 1), axis=4)
            turned = n.op("Reshape", n.op("Concat", n.op("Neg", b), a, axis=4), n.ints(1, 3, tokens, depth))
        return n.op(
            "Add", n.op("Mul", x, n.const(np.cos(angle))), n.op("Mul", turned, n.const(np.sin(angle)))
        )

    return build


def _causal(n: Net) -> str:
    """Scores below the diagonal only, through Where."""
    scores = n.x(1, 3, 9, 9)
    mask = n.const(np.tril(np.ones((1, 1, 9, 9), bool)), "bool")
    return n.op("Softmax", n.op("Where", mask, scores, n.const(-1e4)), axis=-1)


def _cosine_attention(n: Net) -> str:
    """Swin v2: normalised queries and keys, a learned scale per head."""
    q, k, v = (n.x(1, 3, 10, 12) for _ in range(3))
    q, k = (n.op("Div", x, n.op("ReduceL2", x, axes=[-1], keepdims=1)) for x in (q, k))
    scores = n.op("MatMul", q, n.op("Transpose", k, perm=[0, 1, 3, 2]))
    scores = n.op("Mul", scores, n.const(n.rng.uniform(5, 12, (3, 1, 1))))
    return n.op("MatMul", n.op("Softmax", scores, axis=-1), v)


def _per_head(kind: str) -> Callable[[Net], str]:
    """Scores with a factor or an offset per head."""

    def build(n: Net) -> str:
        q, k = n.x(1, 3, 10, 12), n.x(1, 3, 10, 12)
        scores = n.op("MatMul", q, n.op("Transpose", k, perm=[0, 1, 3, 2]))
        return n.op(kind, scores, n.const(n.rng.uniform(0.2, 1.2, (3, 1, 1))))

    return build


def _grouped_queries(n: Net) -> str:
    """Keys of two heads for six of queries."""
    q, k = n.x(1, 6, 9, 12), n.x(1, 2, 9, 12)
    wide = n.op("Expand", n.op("Unsqueeze", k, n.ints(2)), n.ints(1, 2, 3, 9, 12))
    wide = n.op("Reshape", wide, n.ints(1, 6, 9, 12))
    return n.op("MatMul", q, n.op("Transpose", wide, perm=[0, 1, 3, 2]))


def _response_norm(n: Net) -> str:
    """ConvNeXt v2: lengths over the picture, over their mean."""
    x = n.x(*_MAP)
    length = n.op("ReduceL2", x, axes=[2, 3], keepdims=1)
    share = n.op("Div", length, n.op("Add", n.op("ReduceMean", length, axes=[1], keepdims=1), n.const(1e-6)))
    y = n.op("Add", n.op("Mul", n.op("Mul", x, share), n.weight(1, 20, 1, 1)), n.weight(1, 20, 1, 1))
    return n.op("Add", y, x)


def _norm2d(n: Net) -> str:
    """LayerNorm over channels without a transpose."""
    x = n.x(*_MAP)
    centred = n.op("Sub", x, n.op("ReduceMean", x, axes=[1], keepdims=1))
    spread = n.op("ReduceMean", n.op("Pow", centred, n.const(2.0)), axes=[1], keepdims=1)
    y = n.op("Div", centred, n.op("Sqrt", n.op("Add", spread, n.const(1e-6))))
    return n.op("Add", n.op("Mul", y, n.const(n.rng.uniform(0.5, 1.5, (20, 1, 1)))), n.weight(20, 1, 1))


def _statistics(n: Net) -> str:
    """Speaker models: mean and deviation over time."""
    x = n.x(1, 20, 33)
    mean = n.op("ReduceMean", x, axes=[2], keepdims=1)
    centred = n.op("Sub", x, mean)
    variance = n.op("ReduceMean", n.op("Mul", centred, centred), axes=[2], keepdims=0)
    deviation = n.op("Sqrt", n.op("Clip", variance, n.const(1e-5)))
    return n.op("Concat", n.op("Squeeze", mean, n.ints(2)), deviation, axis=1)


def _spatial_attention(n: Net) -> str:
    """CBAM: mean and maximum over channels, a convolution, a gate."""
    x = n.x(*_MAP)
    both = [n.op("ReduceMean", x, axes=[1], keepdims=1), n.op("ReduceMax", x, axes=[1], keepdims=1)]
    return n.op("Mul", x, n.op("Sigmoid", n.conv(n.op("Concat", *both, axis=1), 2, 1, 7)))


def _channel_attention(n: Net) -> str:
    """ECA: a convolution over channels."""
    x = n.x(*_MAP)
    y = n.op("Transpose", n.op("Squeeze", n.op("GlobalAveragePool", x), n.ints(3)), perm=[0, 2, 1])
    y = n.op("Conv", y, n.weight(1, 1, 3), pads=[1, 1])
    return n.op("Mul", x, n.op("Sigmoid", n.op("Unsqueeze", n.op("Transpose", y, perm=[0, 2, 1]), n.ints(3))))


def _coordinates(n: Net) -> str:
    """Coordinate attention: means along both directions share a convolution."""
    x = n.x(*_MAP)
    down = n.op("ReduceMean", x, axes=[3], keepdims=1)
    across = n.op("Transpose", n.op("ReduceMean", x, axes=[2], keepdims=1), perm=[0, 1, 3, 2])
    y = n.op("Relu", n.conv(n.op("Concat", down, across, axis=2), 20, 8, 1))
    a, b = n.ops("Split", 2, y, n.ints(9, 7), axis=2)
    b = n.op("Transpose", b, perm=[0, 1, 3, 2])
    gates = [n.op("Sigmoid", n.conv(part, 8, 20, 1)) for part in (a, b)]
    return n.op("Mul", n.op("Mul", x, gates[0]), gates[1])


def _soft_argmax(n: Net) -> str:
    """Key points: softmax over the picture, expected place."""
    y = n.op("Softmax", n.op("Reshape", n.x(1, 5, 9, 7), n.ints(1, 5, 63)), axis=2)
    rows, columns = np.indices((9, 7))
    return n.op("MatMul", y, n.const(np.stack([rows.ravel(), columns.ravel()], 1)))


def _hard_swish_parts(n: Net) -> str:
    x = n.conv(n.x(1, 3, 9, 7), 3, 20)
    return n.op(
        "Div",
        n.op("Mul", x, n.op("Clip", n.op("Add", x, n.const(3.0)), n.const(0.0), n.const(6.0))),
        n.const(6.0),
    )


def _mish_parts(n: Net) -> str:
    x = n.conv(n.x(1, 3, 9, 7), 3, 20)
    return n.op("Mul", x, n.op("Tanh", n.op("Softplus", x)))


def _gelu_tanh_parts(n: Net) -> str:
    x = n.x(1, 9, 20)
    inner = n.op(
        "Mul",
        n.op("Add", x, n.op("Mul", n.op("Pow", x, n.const(3.0)), n.const(0.044715))),
        n.const(0.7978845608),
    )
    return n.op("Mul", n.op("Mul", x, n.op("Add", n.op("Tanh", inner), n.const(1.0))), n.const(0.5))


def _gated_relu(n: Net) -> str:
    """MobileViT v2: the values of its linear attention, one node with the product."""
    values = n.op("Relu", n.conv(n.x(1, 3, 5, 7), 3, 9))
    return n.op("Mul", values, n.op("Sigmoid", n.x(1, 9, 5, 7)))


def _gated_slope(kind: str) -> Callable[[Net], str]:
    """A gate on a convolution with a slope below zero: one node with the product."""

    def build(n: Net) -> str:
        values = n.conv(n.x(1, 3, 5, 7), 3, 9)
        if kind == "LeakyRelu":
            values = n.op(kind, values, alpha=0.2)
        else:
            values = n.op(kind, values, n.const(n.rng.uniform(0.05, 0.6, (9, 1, 1))))
        return n.op("Mul", values, n.op("Sigmoid", n.x(1, 9, 5, 7)))

    return build


def _layer_scale(n: Net) -> str:
    x = n.x(*_MAP)
    return n.op("Add", x, n.op("Mul", n.conv(x, 20, 20), n.const(n.rng.uniform(0.1, 0.6, (20, 1, 1)))))


def _softmax_pool(n: Net) -> str:
    """Attentive pooling: weights over time, a weighted mean."""
    x = n.x(1, 20, 33)
    weights = n.op("Softmax", n.op("Conv", x, n.weight(20, 20, 1)), axis=2)
    return n.op("ReduceSum", n.op("Mul", x, weights), n.ints(2), keepdims=0)


def _strip(n: Net) -> str:
    """Channels back to front through Slice, and every second row."""
    x = n.op("Slice", n.x(*_MAP), n.ints(-1), n.ints(-(2**31)), n.ints(1), n.ints(-1))
    return n.op("Slice", x, n.ints(0), n.ints(9), n.ints(2), n.ints(2))


def _windowed_statistics(n: Net) -> str:
    """SSIM-like: mean of squares less square of the mean."""
    x = n.x(*_MAP)
    mean, square = (n.op("AveragePool", y, kernel_shape=[3, 3], pads=[1] * 4) for y in (x, n.op("Mul", x, x)))
    return n.op("Sub", square, n.op("Mul", mean, mean))


def _meshgrid(n: Net) -> str:
    """Boxes of a detector: places of cells plus offsets, times strides."""
    x = n.op("Sigmoid", n.x(1, 4, 9, 7))
    rows, columns = np.indices((9, 7))
    zeros = np.zeros((9, 7))
    grid = np.stack([columns, rows, zeros, zeros])[None]
    return n.op("Mul", n.op("Add", x, n.const(grid)), n.const([[[[8.0]], [[8.0]], [[30.0]], [[40.0]]]]))


def _distances(n: Net) -> str:
    """Squared distances of two sets of points."""
    a, b = n.x(1, 10, 1, 4), n.x(1, 1, 12, 4)
    return n.op("ReduceSum", n.op("Pow", n.op("Sub", a, b), n.const(2.0)), n.ints(3), keepdims=0)


def _noisy_or(n: Net) -> str:
    return n.op(
        "Sub",
        n.const(1.0),
        n.op("ReduceProd", n.op("Sub", n.const(1.0), n.op("Sigmoid", n.x(1, 4, 9, 7))), axes=[1], keepdims=1),
    )


def cases() -> Iterator[Case]:
    """All cases of this family."""
    yield Case("rope_halves", _rope(9, 12, True), 13, Judge.FUSED)
    yield Case("rope_pairs", _rope(9, 12, False), 13, Judge.FUSED)
    yield Case("causal_where", _causal)
    yield Case("cosine_attention", _cosine_attention, 13, Judge.FUSED)
    yield Case("factor_per_head", _per_head("Mul"), 13, Judge.FUSED)
    yield Case("offset_per_head", _per_head("Add"), 13, Judge.FUSED)
    yield Case("grouped_queries", _grouped_queries, 13, Judge.FUSED)
    yield Case("response_norm", _response_norm, 13, Judge.FUSED)
    yield Case("norm_2d", _norm2d, 13, Judge.FUSED)
    yield Case("statistics_pooling", _statistics, 13, Judge.FUSED)
    yield Case("spatial_attention", _spatial_attention, 13, Judge.FUSED)
    yield Case("channel_attention", _channel_attention, 13, Judge.FUSED)
    yield Case("coordinate_attention", _coordinates, 13, Judge.FUSED)
    yield Case("soft_argmax", _soft_argmax)
    yield Case("hard_swish_parts", _hard_swish_parts)
    yield Case("mish_parts", _mish_parts)
    yield Case("gelu_tanh_parts", _gelu_tanh_parts, 13, Judge.FUSED)
    yield Case("gated_relu", _gated_relu, 13, Judge.FUSED)
    yield Case("gated_leaky", _gated_slope("LeakyRelu"), 13, Judge.FUSED)
    yield Case("gated_prelu", _gated_slope("PRelu"), 13, Judge.FUSED)
    yield Case("layer_scale", _layer_scale, 13, Judge.FUSED)
    yield Case("softmax_pooling", _softmax_pool, 13, Judge.FUSED)
    yield Case("slice_backwards", _strip)
    yield Case("windowed_statistics", _windowed_statistics, 13, Judge.FUSED)
    yield Case("cell_offsets", _meshgrid, 13, Judge.FUSED)
    yield Case("distances", _distances, 13, Judge.FUSED)
    yield Case("noisy_or", _noisy_or, 13, Judge.FUSED)
