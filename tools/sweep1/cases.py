"""One small network per operator of the first toolkit, in uint8 and in other types: names -> functions that write the file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.support.rknn1_files import F16, F32, File, dfp, i32, u8

__all__ = ["CASES"]

Case = Callable[[], File]
CASES: dict[str, Case] = {}
S = (1, 8, 11, 13)
I8, I16 = dfp("INT8", 5), dfp("INT16", 10)
U = u8(0.02, 120)
W = u8(0.004, 131)
VX = {
    "overflow_policy": "VX_CONVERT_POLICY_SATURATE", "rounding_policy": "VX_ROUND_POLICY_TO_ZERO",
    "down_scale_size_rounding": "VX_CONVOLUTIONAL_NETWORK_DS_SIZE_ROUNDING_FLOOR",
}  # fmt: skip

NEAREST = {
    "overflow_policy": "VX_CONVERT_POLICY_SATURATE",
    "rounding_policy": "VX_ROUND_POLICY_TO_NEAREST_EVEN",
}
"""What files say of MULTIPLY and DIVIDE."""


def one(
    name: str,
    op: str,
    nn: Any = None,
    x: Any = U,
    y: Any = U,
    shape: tuple[int, ...] = S,
    out: tuple[int, ...] | None = None,
    more: Callable[[File], list[Any]] = lambda file: [],
    vx: Any = None,
    **fields: Any,
) -> None:
    """A network of one node with one input; ``more`` adds what its further slots read."""

    def make() -> File:
        file = File(name, **fields)
        given = file.input(shape, x)
        file.output(file.node(op, [given, *more(file)], y, nn=nn, vx=vx), out or shape)
        return file

    CASES[name] = make


def two(
    name: str,
    op: str,
    nn: Any = None,
    y: Any = None,
    other: tuple[int, ...] = S,
    a: Any = U,
    b: Any = None,
    shape: Any = S,
) -> None:
    """A network of one node with two inputs."""

    def make() -> File:
        file = File(name)
        reads = [file.input(shape, a), file.input(other, b or u8(0.013, 90))]
        out = np.broadcast_shapes(shape, other)
        file.output(
            file.node(
                op, reads, y or u8(0.03, 110), nn=nn, vx=NEAREST if op in ("MULTIPLY", "DIVIDE") else None
            ),
            out,
        )
        return file

    CASES[name] = make


def kernel(
    k: Any,
    weights: int,
    stride: Any = (1, 1),
    pad: Any = (0, 0, 0, 0),
    dil: Any = (1, 1),
    group: int = 1,
    mult: int = 0,
) -> Any:
    """Attributes of CONV2D."""
    return {
        "conv2d": {
            "ksize": list(k), "weights": weights, "stride": list(stride), "pad": list(pad), "group": group,
            "dilation": list(dil), "multiplier": mult,
        }
    }  # fmt: skip


def weights(
    shape: tuple[int, ...], dtype: Any = W, bias: Any = None, x: Any = U
) -> Callable[[File], list[Any]]:
    """Weights and a bias of a layer."""
    unit = i32(x["scale"] * dtype["scale"]) if "scale" in dtype and "scale" in x else F32
    count = shape[1] if shape[0] == 1 else shape[0]

    def add(file: File) -> list[Any]:
        low, high = {"UINT8": (0, 256), "INT8": (-128, 128), "INT16": (-4000, 4000)}.get(
            dtype["vx_type"][12:], (0, 1)
        )
        return [file.random(shape, dtype, low, high), file.random((count,), bias or unit, -3000, 3000)]

    return add


Y6 = (1, 6, 11, 13)
one(
    "conv",
    "CONV2D",
    kernel((3, 3), 6, pad=(1, 1, 1, 1)),
    y=u8(0.05, 100),
    out=Y6,
    more=weights((6, 8, 3, 3)),
    vx=VX,
)
one(
    "conv_uneven",
    "CONV2D",
    kernel((3, 2), 6, (2, 1), (1, 2, 0, 1)),
    y=u8(0.05, 100),
    out=(1, 6, 11, 7),
    more=weights((6, 8, 2, 3)),
    vx=VX,
)
one(
    "conv_dilated",
    "CONV2D",
    kernel((3, 3), 6, pad=(2, 2, 2, 2), dil=(2, 2)),
    y=u8(0.05, 100),
    out=Y6,
    more=weights((6, 8, 3, 3)),
    vx=VX,
)
one(
    "conv_1x1_one_channel",
    "CONV2D",
    kernel((1, 1), 1),
    y=u8(0.05, 100),
    shape=(1, 1, 9, 7),
    out=(1, 1, 9, 7),
    more=weights((1, 1, 1, 1)),
    vx=VX,
)
one(
    "conv_first_layer",
    "CONV2D",
    kernel((3, 3), 8, (2, 2), (1, 1, 1, 1)),
    x=u8(1 / 255, 0),
    y=u8(0.02, 0),
    shape=(1, 3, 33, 29),
    out=(1, 8, 17, 15),
    more=weights((8, 3, 3, 3), u8(0.01, 140), x=u8(1 / 255, 0)),
    vx=VX,
)
one(
    "depthwise",
    "CONV2D",
    kernel((3, 3), 8, pad=(1, 1, 1, 1), group=8, mult=1),
    y=u8(0.02, 100),
    more=weights((1, 8, 3, 3)),
    vx=VX,
)
one(
    "depthwise_2",
    "CONV2D",
    kernel((3, 3), 16, pad=(1, 1, 1, 1), group=8, mult=2),
    y=u8(0.02, 100),
    out=(1, 16, 11, 13),
    more=weights((1, 16, 3, 3)),
    vx=VX,
)
one(
    "conv_groups",
    "CONV2D",
    kernel((3, 3), 6, pad=(1, 1, 1, 1), group=2),
    y=u8(0.03, 100),
    out=Y6,
    more=weights((6, 4, 3, 3)),
    vx=VX,
)
one(
    "grouped_conv2d",
    "GROUPED_CONV2D",
    {"grouped_conv2d": kernel((3, 3), 6, pad=(1, 1, 1, 1), group=2)["conv2d"]},
    y=u8(0.03, 100),
    out=Y6,
    more=weights((6, 4, 3, 3)),
    vx=VX,
)
one(
    "conv_i8",
    "CONV2D",
    kernel((3, 3), 6, pad=(1, 1, 1, 1)),
    x=I8,
    y=dfp("INT8", 3),
    out=Y6,
    more=weights((6, 8, 3, 3), dfp("INT8", 6), dfp("INT32", 11)),
    vx=VX,
)
one(
    "conv_i16",
    "CONV2D",
    kernel((3, 3), 6, pad=(1, 1, 1, 1)),
    x=I16,
    y=dfp("INT16", 12),
    out=Y6,
    more=lambda f: weights((6, 8, 3, 3), dfp("INT16", 14), dfp("INT32", 24))(f)[:1],
    vx=VX,
)
one(
    "conv_f16",
    "CONV2D",
    kernel((3, 3), 6, pad=(1, 1, 1, 1)),
    x=F16,
    y=F16,
    out=Y6,
    more=weights((6, 8, 3, 3), F16, F32),
    vx=VX,
)
one(
    "fcl",
    "FCL",
    {"fcl": {"weights": 10}},
    y=u8(0.08, 120),
    shape=(1, 40),
    out=(1, 10),
    more=weights((10, 40)),
    vx=VX,
)
one(
    "fcl_4d",
    "FCL",
    {"fcl": {"weights": 10}},
    y=u8(0.2, 120),
    shape=(1, 8, 3, 5),
    out=(1, 10),
    more=weights((10, 120)),
    vx=VX,
)
one(
    "fcl_batch",
    "FCL",
    {"fcl": {"weights": 10}},
    y=u8(0.08, 120),
    shape=(3, 40),
    out=(3, 10),
    more=weights((10, 40)),
    vx=VX,
)
one(
    "fcl_i8",
    "FCL",
    {"fcl": {"weights": 10}},
    x=I8,
    y=dfp("INT8", 2),
    shape=(1, 40),
    out=(1, 10),
    more=weights((10, 40), dfp("INT8", 6), dfp("INT32", 11)),
    vx=VX,
)


def deconv(
    k: int, stride: int, pad: Any = (0, 0, 0, 0), weights_: int = 6, more: Any = (0, 0), group: int = 1
) -> Any:
    """Attributes of DECONVOLUTION."""
    return {
        "deconv": {
            "ksize": [k, k], "weights": weights_, "stride": [stride, stride], "pad": list(pad), "group": group,
            "output_padding": list(more),
        }
    }  # fmt: skip


for _order, _wide in (("io", (8, 6)), ("oi", (6, 8))):
    for _word, _version in (("", "1.1.26"), ("_24", "1.1.24"), ("_old", "1.1.12")):
        for _k, _s, _p in ((1, 2, 0), (2, 2, 0), (4, 2, 1), (3, 1, 1)):
            _out = (1, 6, 10 * _s + _k - 2 * _p, 12 * _s + _k - 2 * _p)
            one(
                f"deconv_{_order}{_word}_{_k}",
                "DECONVOLUTION",
                deconv(_k, _s, (_p,) * 4),
                y=u8(0.05, 100),
                out=_out,
                more=lambda f, w=_wide, k=_k: [
                    f.random((*w, k, k), W),
                    f.random((6,), i32(0.02 * 0.004), -3000, 3000),
                ],
                vx=VX,
                ovxlib_version=_version,
            )
one(
    "deconv_square",
    "DECONVOLUTION",
    deconv(3, 2, (1, 1, 1, 1), 8),
    y=u8(0.05, 100),
    out=(1, 8, 21, 25),
    more=lambda f: [f.random((8, 8, 3, 3), W), f.random((8,), i32(0.02 * 0.004), -3000, 3000)],
    vx=VX,
)
one(
    "deconv_one",
    "DECONVOLUTION",
    deconv(2, 2, weights_=1),
    y=u8(0.05, 100),
    out=(1, 1, 22, 26),
    more=lambda f: [f.random((8, 1, 2, 2), W), f.random((1,), i32(0.02 * 0.004), -3000, 3000)],
    vx=VX,
)
one(
    "deconv_depthwise",
    "DECONVOLUTION",
    deconv(4, 2, (1, 1, 1, 1), 8, group=8),
    y=u8(0.02, 100),
    out=(1, 8, 22, 26),
    more=lambda f: weights((1, 8, 4, 4))(f)[:1],
    vx=VX,
)


def behind(
    name: str,
    first: Any,
    reads: Any,
    between: Any,
    op: str,
    y: Any,
    out: Any,
    nn: Any = None,
    x: Any = U,
    shape: Any = S,
) -> None:
    """Two nodes, the second of which reads the first."""

    def make() -> File:
        file = File(name)
        given = file.input(shape, x)
        first_op, first_nn = first
        inner = file.node(first_op, [given, *reads(file)], between, nn=first_nn, vx=VX)
        file.output(file.node(op, [inner], y, nn=nn), out)
        return file

    CASES[name] = make


_CONV = ("CONV2D", kernel((3, 3), 6, pad=(1, 1, 1, 1)))
behind("conv_relu", _CONV, weights((6, 8, 3, 3)), u8(0.05, 128), "RELU", u8(0.02, 0), Y6)
behind("conv_relu6", _CONV, weights((6, 8, 3, 3)), u8(0.05, 128), "RELU6", u8(0.02, 0), Y6)
behind("conv_relu1", _CONV, weights((6, 8, 3, 3)), u8(0.05, 128), "RELU1", u8(0.01, 128), Y6)
behind(
    "conv_leaky",
    _CONV,
    weights((6, 8, 3, 3)),
    u8(0.05, 128),
    "LEAKY_RELU",
    u8(0.02, 30),
    Y6,
    {"activation": {"leaky_ratio": 0.1}},
)
behind("conv_sigmoid", _CONV, weights((6, 8, 3, 3)), u8(0.05, 128), "SIGMOID", u8(1 / 255, 0), Y6)
behind(
    "conv_clip",
    _CONV,
    weights((6, 8, 3, 3)),
    u8(0.05, 128),
    "CLIP",
    u8(6 / 255, 0),
    Y6,
    {"clip": {"min": 0.0, "max": 6.0}},
)
behind(
    "fcl_relu",
    ("FCL", {"fcl": {"weights": 10}}),
    weights((10, 40)),
    u8(0.08, 128),
    "RELU",
    u8(0.03, 0),
    (1, 10),
    shape=(1, 40),
)
behind(
    "deconv_relu",
    ("DECONVOLUTION", deconv(2, 2, weights_=8)),
    weights((8, 8, 2, 2)),
    u8(0.05, 128),
    "RELU",
    u8(0.02, 0),
    (1, 8, 22, 26),
)
behind(
    "depthwise_relu",
    ("CONV2D", kernel((3, 3), 8, pad=(1, 1, 1, 1), group=8, mult=1)),
    weights((1, 8, 3, 3)),
    u8(0.03, 128),
    "RELU",
    u8(0.012, 0),
    S,
)
behind(
    "conv_i8_relu",
    _CONV,
    weights((6, 8, 3, 3), dfp("INT8", 6), dfp("INT32", 11)),
    dfp("INT8", 3),
    "RELU",
    dfp("INT8", 4),
    Y6,
    x=I8,
)
behind("conv_f16_relu", _CONV, weights((6, 8, 3, 3), F16, F32), F16, "RELU", F16, Y6, x=F16)


def pool(kind: str, k: Any, stride: Any, pad: Any = (0, 0, 0, 0), up: str = "FLOOR") -> Any:
    """Attributes of POOL."""
    return {
        "pool": {
            "ksize": list(k), "stride": list(stride), "pad": list(pad), "round_type": f"VSI_NN_ROUND_{up}",
            "type": f"VX_CONVOLUTIONAL_NETWORK_POOLING_{kind}",
        }
    }  # fmt: skip


_FLOOR, _CEIL = (
    {"down_scale_size_rounding": f"VX_CONVOLUTIONAL_NETWORK_DS_SIZE_ROUNDING_{word}"}
    for word in ("FLOOR", "CEILING")
)
one("max_pool", "POOL", pool("MAX", (3, 2), (2, 1), (1, 1, 0, 0)), out=(1, 8, 10, 7), vx=_FLOOR)
one(
    "max_pool_up",
    "POOL",
    pool("MAX", (3, 3), (2, 2), up="CEIL"),
    shape=(1, 8, 12, 14),
    out=(1, 8, 6, 7),
    vx=_CEIL,
)
one("avg_pool_pad", "POOL", pool("AVG", (3, 3), (2, 2), (1, 1, 1, 1)), out=(1, 8, 6, 7), vx=_FLOOR)
one(
    "avg_pool_up",
    "POOL",
    pool("AVG", (3, 3), (2, 2), up="CEIL"),
    shape=(1, 8, 12, 14),
    out=(1, 8, 6, 7),
    vx=_CEIL,
)
one("avg_pool_whole", "POOL", pool("AVG", (13, 11), (1, 1)), y=u8(0.005, 118), out=(1, 8, 1, 1), vx=_FLOOR)
one("avg_pool_f16", "POOL", pool("AVG", (3, 3), (1, 1), (1, 1, 1, 1)), x=F16, y=F16, vx=_FLOOR)

for _name, _type in (("u8", U), ("i8", I8), ("i16", I16)):
    for _k, _p in ((2, 0), (3, 1), (3, 0)):
        one(
            f"avg_pool_{_k}_{_p}_{_name}",
            "POOL",
            pool("AVG", (_k, _k), (2, 2), (_p,) * 4),
            x=_type,
            y=_type,
            shape=(1, 4, 11, 13),
            out=(1, 4, (11 + 2 * _p - _k) // 2 + 1, (13 + 2 * _p - _k) // 2 + 1),
            vx=_FLOOR,
        )

_MAP = (1, 1, 16, 16)
for _name, _op, _nn, _x, _y in (
    ("relu", "RELU", None, U, u8(0.011, 0)),
    ("relu6", "RELU6", None, u8(0.06, 100), u8(6 / 255, 0)),
    ("relu1", "RELU1", None, u8(0.02, 120), u8(2 / 255, 128)),
    ("relun", "RELUN", {"relun": {"relu_clamp_top": 4.0, "relu_clamp_bottom": 0.0}}, u8(0.06, 100), u8(4 / 255, 0)),
    ("leaky_relu", "LEAKY_RELU", {"activation": {"leaky_ratio": 0.1}}, U, u8(0.012, 30)),
    ("sigmoid", "SIGMOID", None, u8(0.05, 128), u8(1 / 255, 0)),
    ("tanh", "TANH", {"tanh": {"scale_a": 1.0, "scale_b": 1.0}}, u8(0.03, 128), u8(2 / 255, 128)),
    ("tanh_scaled", "TANH", {"tanh": {"scale_a": 1.7, "scale_b": 0.6}}, u8(0.03, 128), u8(4 / 255, 128)),
    ("elu", "ELU", None, u8(0.03, 128), u8(0.02, 50)),
    ("elu_alpha", "ELU", {"elu": {"alpha": 0.5}}, u8(0.03, 128), u8(0.02, 50)),
    ("swish", "SWISH", {"swish": {"type": "VSI_NN_SWISH"}}, u8(0.05, 128), u8(0.026, 11)),
    ("swish_beta", "SWISH", {"swish": {"type": "VSI_NN_SWISH", "beta": 1.7}}, u8(0.05, 128), u8(0.026, 11)),
    ("hswish", "SWISH", {"swish": {"type": "VSI_NN_HSWISH"}}, u8(0.05, 128), u8(0.026, 15)),
    ("hard_sigmoid", "HARD_SIGMOID", {"hard_sigmoid": {"alpha": 0.2, "beta": 0.5}}, u8(0.05, 128), u8(1 / 255, 0)),
    ("mish", "MISH", None, u8(0.05, 128), u8(0.026, 12)),
    ("softrelu", "SOFTRELU", None, u8(0.05, 128), u8(0.026, 0)),
    ("clip", "CLIP", {"clip": {"min": -1.0, "max": 3.0}}, u8(0.06, 100), u8(4 / 255, 64)),
    ("abs", "ABS", None, u8(0.02, 120), u8(0.011, 0)),
    ("exp", "EXP", None, u8(0.01, 200), u8(0.008, 0)),
    ("log", "LOG", None, u8(0.02, 0), u8(0.025, 180)),
    ("sqrt", "SQRT", None, u8(0.02, 0), u8(0.009, 0)),
    ("rsqrt", "RSQRT", None, u8(0.02, 0), u8(0.03, 0)),
    ("square", "SQUARE", None, u8(0.02, 120), u8(0.029, 0)),
    ("floor", "FLOOR", None, u8(0.05, 120), u8(0.05, 120)),
    ("neg", "NEG", None, u8(0.02, 120), u8(0.02, 135)),
    ("sin", "SIN", None, u8(0.03, 120), u8(2 / 255, 128)),
    ("erf", "ERF", None, u8(0.02, 128), u8(2 / 255, 128)),
    ("round", "ROUND", None, u8(0.05, 120), u8(0.05, 120)),
    ("noop", "NOOP", None, U, U),
    ("dataconvert", "DATACONVERT", None, U, u8(0.03, 100)),
    ("dataconvert_f16", "DATACONVERT", None, U, F16),
    ("linear", "LINEAR", {"linear": {"a": 0.5, "b": 0.3}}, U, u8(0.015, 80)),
):  # fmt: skip
    one(_name, _op, _nn, _x, _y, _MAP)
for _name, _op, _nn in (
    ("relu", "RELU", None), ("sigmoid", "SIGMOID", None), ("tanh", "TANH", {"tanh": {"scale_a": 1.0, "scale_b": 1.0}}),
    ("swish", "SWISH", {"swish": {"type": "VSI_NN_SWISH"}}), ("leaky_relu", "LEAKY_RELU", {"activation": {"leaky_ratio": 0.1}}),
    ("elu", "ELU", None), ("mish", "MISH", None), ("abs", "ABS", None),
):  # fmt: skip
    one(f"{_name}_i8", _op, _nn, dfp("INT8", 5), dfp("INT8", 6), _MAP)
    one(f"{_name}_i16", _op, _nn, dfp("INT16", 12), dfp("INT16", 12), _MAP)
    one(f"{_name}_f16", _op, _nn, F16, F16, _MAP)
one("prelu", "PRELU", y=u8(0.015, 60), more=lambda f: [f.const(np.linspace(0.02, 0.6, 8), F16)])
one(
    "prelu_shape",
    "PRELU",
    {"prelu": {"axis": 2}},
    y=u8(0.015, 60),
    more=lambda f: [f.const(np.linspace(0.02, 0.6, 8).reshape(1, 8, 1, 1), F16)],
)
one(
    "prelu_u8",
    "PRELU",
    {"prelu": {"axis": 2}},
    y=u8(0.015, 60),
    more=lambda f: [f.const(np.arange(1, 9).reshape(1, 8, 1, 1) * 20, u8(0.004, 0))],
)

for _name, _op, _nn in (
    ("add", "ADD", None), ("subtract", "SUBTRACT", None), ("multiply", "MULTIPLY", {"multiply": {"scale": 1.0}}),
    ("maximum", "MAXIMUM", None), ("minimum", "MINIMUM", None),
):  # fmt: skip
    two(_name, _op, _nn)
    two(f"{_name}_channels", _op, _nn, other=(1, 8, 1, 1))
    two(f"{_name}_i8", _op, _nn, dfp("INT8", 4), a=I8, b=dfp("INT8", 6))
    two(f"{_name}_f16", _op, _nn, F16, a=F16, b=F16)
two("multiply_scale", "MULTIPLY", {"multiply": {"scale": 0.5}})
two("divide", "DIVIDE", {"divide": {"scale": 1.0}}, u8(0.05, 128), b=u8(0.02, 0), shape=_MAP, other=_MAP)
two("add_row", "ADD", other=(1, 1, 1, 13))
two("add_f16_u8", "ADD", b=F16)
two("pow", "POW", None, u8(0.02, 0), a=u8(0.008, 0), b=u8(0.008, 0), shape=_MAP, other=_MAP)


def _product_shape() -> None:
    """Their result is no broadcast of their inputs."""

    def make(name: str, flags: list[int], other: tuple[int, ...]) -> Case:
        def build() -> File:
            file = File(name)
            reads = [file.input((1, 4, 6, 7), U), file.input(other, u8(0.013, 90))]
            file.output(
                file.node("MATRIXMUL", reads, u8(0.1, 128), nn={"matrixmul": {"transpose": flags}}),
                (1, 4, 6, 5),
            )
            return file

        return build

    CASES["matmul"] = make("matmul", [0, 0], (1, 4, 7, 5))
    CASES["matmul_turned"] = make("matmul_turned", [0, 1], (1, 4, 5, 7))


_product_shape()


def joined(name: str, axis: int, out: tuple[int, ...], other: tuple[int, ...] = S) -> None:
    """CONCAT of two inputs of different scales."""

    def make() -> File:
        file = File(name)
        reads = [file.input(S, U), file.input(other, u8(0.013, 90))]
        file.output(file.node("CONCAT", reads, u8(0.025, 115), nn={"concat": {"axis": axis}}), out)
        return file

    CASES[name] = make


joined("concat", 2, (1, 16, 11, 13))
joined("concat_rows", 1, (1, 8, 16, 13), (1, 8, 5, 13))
joined("concat_columns", 0, (1, 8, 11, 20), (1, 8, 11, 7))
one("slice", "SLICE", {"slice": {"dims": 4, "start": [2, 1, 3, 0], "length": [5, 7, 4, 1]}}, out=(1, 4, 7, 5))
one(
    "permute",
    "PERMUTE",
    {"permute": {"perm": [2, 0, 1, 3], "dim_num": 4}},
    y=u8(0.03, 110),
    out=(1, 11, 13, 8),
)
one("permute_0123", "PERMUTE", {"permute": {"perm": [1, 0, 2, 3], "dim_num": 4}}, out=(1, 8, 13, 11))
one("reshape", "RESHAPE", {"reshape": {"size": [26, -1, 4, 1], "dim_num": 4}}, out=(1, 4, 11, 26))


def pad(front: list[int], back: list[int], value: int = 0) -> Any:
    """Attributes of PAD."""
    return {
        "pad": {
            "front_size": front,
            "back_size": back,
            "dim_num": 4,
            "const_val": value,
            "mode": "VSI_NN_PAD_MODE_CONSTANT",
        }
    }


one("pad", "PAD", pad([1, 2, 0, 0], [2, 0, 0, 0]), out=(1, 8, 13, 16))
one("pad_value", "PAD", pad([1, 2, 0, 0], [2, 0, 0, 0], 1), out=(1, 8, 13, 16))
one("pad_channels", "PAD", pad([0, 0, 1, 0], [0, 0, 2, 0]), out=(1, 11, 11, 13))


def resize(kind: str, size: list[int], align: int = 0, half: int = 0) -> Any:
    """Attributes of RESIZE."""
    word = "VSI_NN_INTERPOLATION_" + ("NEAREST_NEIGHBOR" if kind == "nearest" else "BILINEAR")
    return {
        "resize": {
            "type": word,
            "factor": 0.0,
            "align_corners": align,
            "half_pixel_centers": half,
            "size": size,
        }
    }


for _kind in ("nearest", "bilinear"):
    for _word, _align, _half in (("", 0, 0), ("_align", 1, 0), ("_half", 0, 1)):
        one(f"resize_{_kind}{_word}", "RESIZE", resize(_kind, [26, 22], _align, _half), out=(1, 8, 22, 26))
        one(
            f"resize_{_kind}{_word}_uneven",
            "RESIZE",
            resize(_kind, [17, 7], _align, _half),
            out=(1, 8, 7, 17),
        )
one("shuffle", "SHUFFLECHANNEL", {"shufflechannel": {"group_number": 2}})
one("reorg", "REORG", {"reorg": {"stride": 2}}, shape=(1, 8, 12, 14), out=(1, 32, 6, 7))
one(
    "space2depth",
    "SPACE2DEPTH",
    {"space2depth": {"block_size": [2, 2]}},
    shape=(1, 8, 12, 14),
    out=(1, 32, 6, 7),
)
one("depth2space", "DEPTH2SPACE", {"depth2space": {"block_size": 2}}, out=(1, 2, 22, 26))
one(
    "depth2space_crd",
    "DEPTH2SPACE",
    {"depth2space": {"block_size": 2, "mode": "VSI_NN_DEPTH2SPACE_CRD"}},
    out=(1, 2, 22, 26),
)
one("reverse", "REVERSE", {"reverse": {"axis": [1], "axis_num": 1}})
one("tile", "TILE", {"tile": {"multiples": [2, 1, 3, 1], "multiples_num": 4}}, out=(1, 24, 11, 26))
one(
    "strided_slice",
    "STRIDED_SLICE",
    {
        "strided_slice": {
            "begin_dims": [1, 0, 2, 0],
            "begin_dims_num": 4,
            "end_dims": [11, 11, 7, 1],
            "end_dims_num": 4,
            "stride_dims": [2, 3, 1, 1],
            "stride_dims_num": 4,
            "begin_mask": 0,
            "end_mask": 0,
            "shrink_axis_mask": 0,
        }
    },
    out=(1, 5, 4, 5),
)
one("crop", "CROP", {"crop": {"axis": 0, "dims": 4, "offset": [2, 1, 3, 0]}}, out=(1, 4, 7, 5))
one(
    "space2batch",
    "SPACE2BATCH",
    {"space2batch": {"block_size": [2, 2], "block_size_num": 2, "pad": [0, 0, 0, 0]}},
    shape=(1, 8, 12, 14),
    out=(4, 8, 6, 7),
)
one(
    "batch2space",
    "BATCH2SPACE",
    {"batch2space": {"block_size": [2, 2], "block_size_num": 2, "crop": [0, 0, 0, 0]}},
    shape=(4, 8, 6, 7),
    out=(1, 8, 12, 14),
)


def split() -> File:
    """Two ports."""
    file = File("split")
    file.node("SPLIT", [file.input(S, U)], U, U, nn={"split": {"axis": 2, "slices": [3, 5], "slices_num": 2}})
    file.output(file.port(0, 0), (1, 3, 11, 13))
    file.output(file.port(0, 1), (1, 5, 11, 13))
    return file


CASES["split"] = split
one(
    "gather", "GATHER", {"gather": {"axis": 2}}, out=(1, 3, 11, 13), more=lambda f: [f.const([5, 0, 7], _I32)]
)
_I32 = {"vx_type": "VSI_NN_TYPE_INT32", "qnt_type": "VSI_NN_QNT_TYPE_NONE"}

for _kind in ("SUM", "MEAN", "MAX", "MIN", "PROD"):
    for _label, _axis, _out in (("hw", [0, 1], (1, 8)), ("c", [2], (1, 11, 13))):
        one(
            f"reduce_{_kind.lower()}_{_label}",
            "REDUCE",
            {
                "reduce": {
                    "type": f"VSI_NN_REDUCE_{_kind}",
                    "axis": _axis,
                    "axis_num": len(_axis),
                    "keep_dim": 0,
                }
            },
            x=u8(0.008, 120),
            y=u8(1.2 if (_kind, _label) == ("SUM", "hw") else 0.06 if _kind == "SUM" else 0.008, 120),
            out=_out,
        )
one("argmax", "ARGMAX", {"argmax": {"axis": 2}}, y=_I32, out=(1, 11, 13))
one("argmin", "ARGMIN", {"argmin": {"axis": 2}}, y=_I32, out=(1, 11, 13))
one(
    "softmax_rank2", "SOFTMAX", {"softmax": {"beta": 1.0}}, x=u8(0.08, 128), y=F16, shape=(1, 20), out=(1, 20)
)
one("softmax_rank4", "SOFTMAX", {"softmax": {"beta": 1.0, "axis": 2}}, x=u8(0.08, 128), y=u8(1 / 255, 0))
one("softmax_inner", "SOFTMAX", {"softmax": {"beta": 1.0, "axis": 0}}, x=u8(0.08, 128), y=u8(1 / 255, 0))
one("softmax_beta", "SOFTMAX", {"softmax": {"beta": 0.5, "axis": 2}}, x=u8(0.08, 128), y=u8(1 / 255, 0))
one(
    "log_softmax",
    "LOG_SOFTMAX",
    {"log_softmax": {"betaValue": 1.0, "axis": 2}},
    x=u8(0.08, 128),
    y=u8(0.08, 250),
)
one("l2_normalize", "L2_NORMALIZE", {"l2_normalize": {"axis": 2}}, y=u8(1 / 128, 128))
one(
    "lrn",
    "LRN",
    {
        "lrn": {
            "size": 5,
            "alpha": 1.0,
            "beta": 0.75,
            "bias": 1.0,
            "type": "VX_NN_NORMALIZATION_ACROSS_MAPS",
            "axis": 2,
        }
    },
)
one(
    "batch_norm",
    "BATCH_NORM",
    {"batch_norm": {"eps": 1e-5}},
    y=u8(0.04, 120),
    more=lambda f: [
        f.const(v, F32)
        for v in (
            np.linspace(-0.5, 0.5, 8),
            np.linspace(0.5, 1.5, 8),
            np.linspace(0.8, 1.2, 8),
            np.linspace(-0.2, 0.3, 8),
        )
    ],
)
one(
    "instance_norm",
    "INSTANCE_NORM",
    {"instancenorm": {"eps": 1e-5}},
    y=u8(0.03, 128),
    more=lambda f: [f.const(np.linspace(-0.2, 0.3, 8), F32), f.const(np.linspace(0.8, 1.2, 8), F32)],
)
one(
    "layer_norm",
    "LAYER_NORM",
    {"layernorm": {"eps": 1e-5, "axis": 0}},
    y=u8(0.03, 128),
    shape=(1, 1, 9, 16),
    more=lambda f: [f.const(np.linspace(-0.2, 0.3, 16), F32), f.const(np.linspace(0.8, 1.2, 16), F32)],
)


def lstm(name: str, float_: bool = False) -> None:
    """A sequence of 9 steps, 12 features, 10 hidden."""

    def make() -> File:
        file = File(name)
        x = F16 if float_ else u8(0.02, 120)
        given = file.input((9, 1, 12), x)
        unit = F16 if float_ else u8(0.006, 128)
        bias = F32 if float_ else i32(0.02 * 0.006)

        def part(rows: int, columns: int) -> Any:
            if float_:
                return file.const(file.rng.standard_normal((rows, columns)) * 0.3, unit)
            return file.random((rows, columns), unit)

        reads: list[Any] = [
            given,
            None,
            None,
            *(part(10, 12) for _ in range(4)),
            *(part(10, 10) for _ in range(4)),
            None,
            None,
            None,
        ]
        reads += [
            file.const(file.rng.standard_normal(10) * 0.2, bias)
            if float_
            else file.random((10,), bias, -3000, 3000)
            for _ in range(4)
        ]
        nn = {
            "lstm": {
                "weights": 10,
                "activation": "VSI_NN_LSTMUNIT_ACT_TANH",
                "cell_clip": 0.0,
                "proj_clip": 0.0,
                "forget_bias": 0.0,
            }
        }
        y = F16 if float_ else u8(2 / 255, 128)
        file.output(file.node("LSTM", reads, y, F16, F16, nn=nn), (9, 1, 10))
        return file

    CASES[name] = make


lstm("lstm")
lstm("lstm_f16", True)
for _version in ("1.1.12", "1.1.24"):
    _label = f"deconv_one_{_version[-2:]}"
    one(
        _label,
        "DECONVOLUTION",
        deconv(2, 2, weights_=1),
        y=u8(0.05, 100),
        out=(1, 1, 22, 26),
        more=lambda f: [f.random((8, 1, 2, 2), W), f.random((1,), i32(0.02 * 0.004), -3000, 3000)],
        vx=VX,
        ovxlib_version=_version,
    )
    _label = f"deconv_square_{_version[-2:]}"
    one(
        _label,
        "DECONVOLUTION",
        deconv(3, 2, (1, 1, 1, 1), 8),
        y=u8(0.05, 100),
        out=(1, 8, 21, 25),
        more=lambda f: [f.random((8, 8, 3, 3), W), f.random((8,), i32(0.02 * 0.004), -3000, 3000)],
        vx=VX,
        ovxlib_version=_version,
    )
