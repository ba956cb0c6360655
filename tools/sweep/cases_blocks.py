"""Normalisation, softmax, matrix products, attention and recurrent layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from graph import Case, Net
from judge import Judge

__all__ = ["cases"]


def _softmax(kind: str, axis: int, *shape: int) -> Callable[[Net], str]:
    return lambda n: n.op(kind, n.x(*shape), axis=axis)


def _softmax_after_conv(n: Net) -> str:
    return n.op("Softmax", n.conv(n.x(1, 16, 8, 8), 16, 12, 1), axis=1)


def _batch_norm(n: Net) -> str:
    stats = [
        n.const(n.rng.uniform(0.5, 1.5, 16)),
        n.weight(16),
        n.weight(16),
        n.const(n.rng.uniform(0.5, 2, 16)),
    ]
    return n.op("BatchNormalization", n.x(1, 16, 8, 8), *stats)


def _batch_norm_relu(n: Net) -> str:
    x = n.op("MaxPool", n.x(1, 16, 8, 8), kernel_shape=[2, 2], strides=[2, 2])
    stats = [
        n.const(n.rng.uniform(0.5, 1.5, 16)),
        n.weight(16),
        n.weight(16),
        n.const(n.rng.uniform(0.5, 2, 16)),
    ]
    return n.op("Relu", n.op("BatchNormalization", x, *stats))


def _instance_norm(n: Net) -> str:
    return n.op("InstanceNormalization", n.x(1, 16, 8, 8), n.const(n.rng.uniform(0.5, 1.5, 16)), n.weight(16))


def _group_norm(n: Net) -> str:
    """As exporters write it: through an instance norm over groups."""
    y = n.op("Reshape", n.x(1, 16, 8, 8), n.ints(0, 4, -1))
    y = n.op("InstanceNormalization", y, n.const(np.ones(4)), n.const(np.zeros(4)))
    y = n.op("Reshape", y, n.ints(1, 16, 8, 8))
    return n.op("Add", n.op("Mul", y, n.const(n.rng.uniform(0.5, 1.5, (16, 1, 1)))), n.weight(16, 1, 1))


def _group_norm18(n: Net) -> str:
    return n.op("GroupNormalization", n.x(1, 16, 8, 8), n.weight(4), n.weight(4), num_groups=4)


def _layer_norm(n: Net) -> str:
    return n.op(
        "LayerNormalization", n.x(1, 9, 32), n.const(n.rng.uniform(0.5, 1.5, 32)), n.weight(32), axis=-1
    )


def _layer_norm_parts(n: Net) -> str:
    x = n.x(1, 9, 32)
    centred = n.op("Sub", x, n.op("ReduceMean", x, axes=[-1]))
    spread = n.op("ReduceMean", n.op("Pow", centred, n.const(2.0)), axes=[-1])
    y = n.op("Div", centred, n.op("Sqrt", n.op("Add", spread, n.const(1e-5))))
    return n.op("Add", n.op("Mul", y, n.const(n.rng.uniform(0.5, 1.5, 32))), n.weight(32))


def _layer_norm_channels(n: Net) -> str:
    y = n.op("Transpose", n.x(1, 16, 6, 6), perm=[0, 2, 3, 1])
    y = n.op("LayerNormalization", y, n.const(n.rng.uniform(0.5, 1.5, 16)), n.weight(16), axis=-1)
    return n.op("Transpose", y, perm=[0, 3, 1, 2])


def _rms_norm(n: Net) -> str:
    x = n.x(1, 9, 32)
    mean = n.op("ReduceMean", n.op("Pow", x, n.const(2.0)), axes=[-1])
    y = n.op("Div", x, n.op("Sqrt", n.op("Add", mean, n.const(1e-5))))
    return n.op("Mul", y, n.const(n.rng.uniform(0.5, 1.5, 32)))


def _lp_norm(p: int) -> Callable[[Net], str]:
    return lambda n: n.op("LpNormalization", n.x(1, 16, 6, 6), axis=1, p=p)


def _lrn(n: Net) -> str:
    return n.op("LRN", n.x(1, 16, 6, 6), size=5, alpha=0.1, beta=0.75, bias=1.0)


def _mean_variance(n: Net) -> str:
    return n.op("MeanVarianceNormalization", n.x(1, 8, 6, 6), axes=[0, 2, 3])


def _product(a: tuple[int, ...], b: tuple[int, ...]) -> Callable[[Net], str]:
    return lambda n: n.op("MatMul", n.x(*a), n.x(*b))


def _product_constant(*shape: int) -> Callable[[Net], str]:
    return lambda n: n.op("MatMul", n.x(*shape), n.weight(shape[-1], 24))


def _product_tail(kind: str, *shape: int) -> Callable[[Net], str]:
    def build(n: Net) -> str:
        y = n.op("MatMul", n.x(1, 4, 10, 16), n.x(1, 4, 16, 12))
        return n.op(kind, y, n.const(n.rng.uniform(0.3, 1.2, shape)))

    return build


def _product_relu(n: Net) -> str:
    return n.op("Relu", n.op("MatMul", n.x(1, 4, 10, 16), n.x(1, 4, 16, 12)))


def _gemm_inputs(n: Net) -> str:
    return n.op("Gemm", n.x(10, 16), n.x(12, 16), transB=1)


def _einsum(n: Net) -> str:
    return n.op("Einsum", n.x(1, 4, 10, 16), n.x(1, 4, 12, 16), equation="bhid,bhjd->bhij")


def _linear(n: Net, x: str, width: int, out: int) -> str:
    return n.op("Add", n.op("MatMul", x, n.weight(width, out)), n.weight(out))


def _attention(
    heads: int = 4, width: int = 32, tokens: int = 10, batch: int = 1, packed: bool = False, scale: str = "scores",
    mask: str = "",
) -> Callable[[Net], str]:  # fmt: skip
    """Multi-head self-attention on [batch, tokens, width]."""
    depth = width // heads

    def split(n: Net, x: str, perm: list[int]) -> str:
        return n.op("Transpose", n.op("Reshape", x, n.ints(batch, tokens, heads, depth)), perm=perm)

    def build(n: Net) -> str:
        x = n.x(batch, tokens, width)
        if packed:
            parts = n.ops("Split", 3, _linear(n, x, width, 3 * width), n.ints(*[width] * 3), axis=2)
        else:
            parts = [_linear(n, x, width, width) for _ in range(3)]
        q, v = split(n, parts[0], [0, 2, 1, 3]), split(n, parts[2], [0, 2, 1, 3])
        k = split(n, parts[1], [0, 2, 3, 1])
        if scale == "q":
            q = n.op("Mul", q, n.const(depth**-0.5))
        scores = n.op("MatMul", q, k)
        if scale == "scores":
            scores = n.op("Mul", scores, n.const(depth**-0.5))
        elif scale == "div":
            scores = n.op("Div", scores, n.const(depth**0.5))
        if mask:
            hidden = np.triu(np.ones((1, 1, tokens, tokens)), 1) * (-1e4 if mask == "large" else -4.0)
            scores = n.op("Add", scores, n.const(hidden))
        y = n.op("MatMul", n.op("Softmax", scores, axis=-1), v)
        y = n.op("Reshape", n.op("Transpose", y, perm=[0, 2, 1, 3]), n.ints(batch, tokens, width))
        return _linear(n, y, width, width)

    return build


def _cross_attention(n: Net) -> str:
    """Of three inputs, without any linear layer."""
    q, k, v = n.x(1, 4, 10, 16), n.x(1, 4, 12, 16), n.x(1, 4, 12, 16)
    scores = n.op("MatMul", q, n.op("Transpose", k, perm=[0, 1, 3, 2]))
    scores = n.op("Mul", scores, n.const(0.25))
    return n.op("MatMul", n.op("Softmax", scores, axis=-1), v)


def _disentangled_attention(n: Net) -> str:
    """As in DeBERTa: products with a constant for every head, of which each token takes those of its distances."""
    heads, tokens, depth = 2, 6, 12
    q, k, v = (n.op("Mul", n.x(heads, tokens, depth), n.const(0.8)) for _ in range(3))
    distance = np.arange(tokens)[:, None] - np.arange(tokens) + tokens
    places = n.op("MatMul", q, n.weight(heads, depth, 2 * tokens))
    near = n.op("GatherElements", places, n.const(np.stack([distance] * heads), "int64"), axis=2)
    scores = n.op("Add", n.op("MatMul", q, n.op("Transpose", k, perm=[0, 2, 1])), near)
    return n.op("MatMul", n.op("Softmax", n.op("Mul", scores, n.const(0.3)), axis=-1), v)


def _causal_attention(n: Net) -> str:
    """Of three inputs; the first token sees only itself: weights of 1, 1/2, 1/3, ..."""
    q, k, v = (n.x(1, 2, 16, 16) for _ in range(3))
    scores = n.op("MatMul", n.op("Mul", q, n.const(0.25)), n.op("Transpose", k, perm=[0, 1, 3, 2]))
    scores = n.op("Add", scores, n.const(np.triu(np.ones((1, 1, 16, 16)), 1) * -1e4))
    return n.op("MatMul", n.op("Softmax", scores, axis=-1), v)


def _recurrent(
    kind: str,
    direction: str = "forward",
    batch: int = 1,
    hidden: int = 16,
    outputs: int = 1,
    **attributes: Any,
) -> Callable[[Net], list[str]]:
    """LSTM or GRU over 6 steps of 12 features."""
    gates, directions = (4 if kind == "LSTM" else 3), 1 + (direction == "bidirectional")

    def build(n: Net) -> list[str]:
        x = n.x(6, batch, 12)
        w, r = n.weight(directions, gates * hidden, 12), n.weight(directions, gates * hidden, hidden)
        b = n.const(n.rng.standard_normal((directions, 2 * gates * hidden)) * 0.1)
        extra = {} if direction == "forward" else {"direction": direction}
        return n.ops(kind, outputs, x, w, r, b, hidden_size=hidden, **extra, **attributes)

    return build


def _lstm_states(n: Net) -> list[str]:
    x, h, c = n.x(6, 1, 12), n.x(1, 1, 16, low=-0.9, high=0.9), n.x(1, 1, 16)
    w, r, b = n.weight(1, 64, 12), n.weight(1, 64, 16), n.const(n.rng.standard_normal((1, 128)) * 0.1)
    return n.ops("LSTM", 3, x, w, r, b, "", h, c, hidden_size=16)


def _lstm_last_states(n: Net) -> list[str]:
    """What is heard of a stream so far: nobody reads the first result, so the file does not have it."""
    return _recurrent("LSTM", hidden=5, outputs=3)(n)[1:]


def _lstm_shifted(n: Net) -> list[str]:
    """One row weighs next to nothing beside its bias, which passes 32 bits in steps of the row."""
    w, r = n.rng.standard_normal((1, 32, 12)) * 0.4, n.rng.standard_normal((1, 32, 8)) * 0.4
    b = n.rng.standard_normal((1, 64)) * 0.1
    w[:, 3] *= 1e-10
    r[:, 3] *= 1e-10
    b[:, 3] = 60
    return n.ops("LSTM", 1, n.x(3, 1, 12), n.const(w), n.const(r), n.const(b), hidden_size=8)


def _rnn(n: Net) -> str:
    return n.op("RNN", n.x(6, 1, 12), n.weight(1, 16, 12), n.weight(1, 16, 16), hidden_size=16)


def _transformer(n: Net) -> str:
    """Layer norm, attention, residual, layer norm, two linear layers with GELU, residual."""
    x = n.x(1, 10, 32)

    def norm(y: str) -> str:
        return n.op("LayerNormalization", y, n.const(n.rng.uniform(0.5, 1.5, 32)), n.weight(32), axis=-1)

    def heads(y: str, perm: list[int]) -> str:
        y = n.op("Reshape", _linear(n, y, 32, 32), n.ints(1, 10, 4, 8))
        return n.op("Transpose", y, perm=perm)

    y = norm(x)
    q, k, v = heads(y, [0, 2, 1, 3]), heads(y, [0, 2, 3, 1]), heads(y, [0, 2, 1, 3])
    weights = n.op("Softmax", n.op("Mul", n.op("MatMul", q, k), n.const(8**-0.5)), axis=-1)
    y = n.op("Reshape", n.op("Transpose", n.op("MatMul", weights, v), perm=[0, 2, 1, 3]), n.ints(1, 10, 32))
    x = n.op("Add", x, _linear(n, y, 32, 32))
    y = _linear(n, norm(x), 32, 64)
    erf = n.op("Add", n.op("Erf", n.op("Div", y, n.const(2**0.5))), n.const(1.0))
    y = n.op("Mul", n.op("Mul", y, erf), n.const(0.5))
    return n.op("Add", x, _linear(n, y, 64, 32))


def cases() -> Iterator[Case]:
    """All cases of this family."""
    yield Case("softmax_c", _softmax("Softmax", 1, 1, 16, 6, 6))
    yield Case("softmax_w", _softmax("Softmax", 3, 1, 8, 6, 10))
    yield Case("softmax_rank2", _softmax("Softmax", 1, 1, 20))
    yield Case("softmax_rank3", _softmax("Softmax", -1, 1, 9, 20))
    yield Case("softmax_after_conv", _softmax_after_conv)
    yield Case("logsoftmax_c", _softmax("LogSoftmax", 1, 1, 16, 6, 6))
    yield Case("batch_norm", _batch_norm)
    yield Case("batch_norm_relu", _batch_norm_relu)
    yield Case("instance_norm", _instance_norm, 13, Judge.FUSED)
    yield Case("group_norm", _group_norm)
    yield Case("group_norm18", _group_norm18, 18)
    yield Case("layer_norm", _layer_norm, 17)
    yield Case("layer_norm_parts", _layer_norm_parts)
    yield Case("layer_norm_channels", _layer_norm_channels, 17)
    yield Case("rms_norm", _rms_norm)
    yield Case("lp_norm_1", _lp_norm(1))
    yield Case("lp_norm_2", _lp_norm(2))
    yield Case("lrn", _lrn)
    yield Case("mean_variance_norm", _mean_variance)
    yield Case("matmul_rank2", _product((10, 16), (16, 12)))
    yield Case("matmul_rank3", _product((3, 10, 16), (3, 16, 12)))
    yield Case("matmul_rank4", _product((1, 4, 10, 16), (1, 4, 16, 12)))
    yield Case("matmul_broadcast", _product((4, 10, 16), (16, 12)))
    yield Case("matmul_constant_rank2", _product_constant(5, 32))
    yield Case("matmul_constant_rank3", _product_constant(1, 9, 32))
    yield Case("matmul_constant_rank4", _product_constant(1, 3, 9, 32))
    yield Case("matmul+mul_scalar", _product_tail("Mul"), 13, Judge.FUSED)
    yield Case("matmul+div_scalar", _product_tail("Div"), 13, Judge.FUSED)
    yield Case("matmul+add_row", _product_tail("Add", 12), 13, Judge.FUSED)
    yield Case("matmul+mul_tensor", _product_tail("Mul", 1, 4, 10, 12), 13, Judge.FUSED)
    yield Case("matmul+relu", _product_relu, 13, Judge.FUSED)
    yield Case("gemm_inputs", _gemm_inputs)
    yield Case("einsum", _einsum)
    yield Case("attention", _attention(), 13, Judge.FUSED)
    yield Case("attention_packed", _attention(packed=True, scale="div"), 13, Judge.FUSED)
    yield Case("attention_scaled_q", _attention(scale="q", heads=2), 13, Judge.FUSED)
    yield Case("attention_unscaled", _attention(scale="", heads=1, width=16), 13, Judge.FUSED)
    yield Case("attention_batch2", _attention(batch=2), 13, Judge.FUSED)
    yield Case("attention_odd", _attention(heads=3, width=36, tokens=17), 13, Judge.FUSED)
    yield Case("attention_mask", _attention(mask="small"), 13, Judge.FUSED)
    yield Case("attention_mask_large", _attention(mask="large"), 13, Judge.FUSED)
    yield Case("attention_of_inputs", _cross_attention, 13, Judge.FUSED)
    yield Case("attention_causal", _causal_attention, 13)
    yield Case("attention_disentangled", _disentangled_attention, 13, Judge.FUSED)
    yield Case("transformer_block", _transformer, 17, Judge.FUSED)
    for kind in ("LSTM", "GRU"):
        name = kind.lower()
        yield Case(f"{name}_forward", _recurrent(kind))
        yield Case(f"{name}_reverse", _recurrent(kind, "reverse"))
        yield Case(f"{name}_bidirectional", _recurrent(kind, "bidirectional", outputs=2))
        yield Case(f"{name}_batch3", _recurrent(kind, batch=3))
        yield Case(f"{name}_odd", _recurrent(kind, hidden=21))
    yield Case("gru_linear_before_reset", _recurrent("GRU", linear_before_reset=1))
    yield Case("lstm_states", _lstm_states)
    yield Case("lstm_last_states", _lstm_last_states)
    yield Case("lstm_shifted", _lstm_shifted)
    yield Case("gru_reverse_reset", _recurrent("GRU", "reverse", linear_before_reset=1))
    yield Case("rnn", _rnn)
