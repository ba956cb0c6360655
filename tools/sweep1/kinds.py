"""Kinds of network as people convert them, each small: with ``networks.NETWORKS`` those of the table in docs/rknn1.md."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.support.rknn1_files import F16, F32, i32, u8

from .cases import NEAREST, VX, deconv, resize
from .networks import Net, Shape, Value, network

__all__ = ["KINDS"]

_RELU = ("RELU", None, 3.0, 0.0)
_LEAKY = ("LEAKY_RELU", {"activation": {"leaky_ratio": 0.1}}, 4.0, 0.1)


def _conv(net: Net, x: Value, count: int, size: int = 3, stride: int = 1, act: Any = _RELU) -> Value:
    return net.function(net.conv(x, count, size, stride), *act)


def _larger(net: Net, x: Value, kind: str = "nearest") -> Value:
    n, c, h, w = x.shape
    return net.node("RESIZE", [x.ref], x.dtype, (n, c, 2 * h, 2 * w), resize(kind, [2 * w, 2 * h]))


def _deconv(net: Net, x: Value, count: int) -> Value:
    """Weights as (O, I), which the simulator takes."""
    n, c, h, w = x.shape
    reads = net.weights(x, (count, c, 2, 2), count, net.gain / float(np.sqrt(4 * c)))
    return net.node(
        "DECONVOLUTION",
        [x.ref, *reads],
        net.type_of(5.0),
        (n, count, 2 * h, 2 * w),
        deconv(2, 2, weights_=count),
        VX,
    )


def _prelu(net: Net, x: Value) -> Value:
    c = x.shape[1]
    slopes = net.file.const(np.linspace(0.02, 0.6, c).reshape(1, c, 1, 1), F16)
    return net.node("PRELU", [x.ref, slopes], net.type_of(4.0, 0.3), x.shape, {"prelu": {"axis": 2}})


def _dense(net: Net, x: Value, count: int, width: float = 6.0) -> Value:
    features = int(np.prod(x.shape[1:]))
    reads = net.weights(x, (count, features), count, net.gain / float(np.sqrt(features)))
    return net.node("FCL", [x.ref, *reads], net.type_of(width), (1, count), {"fcl": {"weights": count}}, VX)


def _softmax(net: Net, x: Value) -> Value:
    return net.node("SOFTMAX", [x.ref], F16, x.shape, {"softmax": {"beta": 1.0, "axis": 0}})


def _shaped(net: Net, x: Value, shape: Shape) -> Value:
    nn = {"reshape": {"size": list(reversed(shape)), "dim_num": len(shape)}}
    return net.node("RESHAPE", [x.ref], x.dtype, shape, nn)


def _turned(net: Net, x: Value, perm: tuple[int, ...]) -> Value:
    """``perm`` in numpy's order."""
    rank = len(perm)
    inner = [rank - 1 - perm[rank - 1 - place] for place in range(rank)]
    nn = {"permute": {"perm": inner, "dim_num": rank}}
    return net.node("PERMUTE", [x.ref], x.dtype, tuple(x.shape[p] for p in perm), nn)


def _vgg(net: Net) -> None:
    x = _conv(net, _conv(net, net.value, 8), 8)
    x = net.largest(x, 2, 2)
    x = net.largest(_conv(net, _conv(net, x, 12), 12), 2, 2)
    x = net.function(_dense(net, x, 16), *_RELU)
    _dense(net, x, 10)


def _blocks(net: Net) -> None:
    """A ResNet's blocks in another type."""
    x = _conv(net, net.value, 8, 3, 2)
    for _ in range(3):
        x = net.function(net.joined(x, net.conv(_conv(net, x, 8), 8)), "RELU", None, 4.0, 0.0)
    net.mean(x, 8)


def _segmentation(net: Net) -> None:
    """Deconvolutions, the last to one channel behind a sigmoid."""
    x = _conv(net, _conv(net, net.value, 8, 3, 2), 12, 3, 2)
    x = net.function(_deconv(net, x, 8), *_RELU)
    net.gate(_deconv(net, x, 1), "SIGMOID")


def _hourglass(net: Net) -> None:
    x = _conv(net, net.value, 8)
    for _ in range(2):
        low = _conv(net, net.largest(x, 2, 2), 8)
        lower = _conv(net, net.largest(low, 2, 2), 8)
        low = net.joined(_larger(net, lower), _conv(net, low, 8))
        x = net.joined(_larger(net, low), _conv(net, x, 8))
    net.conv(x, 4, 1)


def _unet(net: Net) -> None:
    first = _conv(net, net.value, 6)
    second = _conv(net, net.largest(first, 2, 2), 8)
    x = _conv(net, net.largest(second, 2, 2), 12)
    x = _conv(net, net.concat(_deconv(net, x, 8), second), 8)
    x = _conv(net, net.concat(_larger(net, x), first), 6)
    net.gate(net.conv(x, 2, 1), "SIGMOID")


def _shuffle(net: Net) -> None:
    x = _conv(net, net.value, 8, 3, 2)
    for _ in range(3):
        n, c, h, w = x.shape
        parts = []
        for start in (0, c // 2):
            nn = {"slice": {"dims": 4, "start": [0, 0, start, 0], "length": [w, h, c // 2, n]}}
            parts.append(net.node("SLICE", [x.ref], x.dtype, (n, c // 2, h, w), nn))
        y = _conv(net, net.depthwise(_conv(net, parts[1], c // 2, 1)), c // 2, 1)
        x = net.concat(parts[0], y)
        x = net.node("SHUFFLECHANNEL", [x.ref], x.dtype, x.shape, {"shufflechannel": {"group_number": 2}})
    _dense(net, net.mean(x, 8), 10)


def _fire(net: Net) -> None:
    """SqueezeNet."""
    x = net.largest(_conv(net, net.value, 8), 2, 2)
    for count in (4, 6):
        y = _conv(net, x, count, 1)
        x = net.concat(_conv(net, y, 8, 1), _conv(net, y, 8))
    net.mean(_conv(net, x, 10, 1), 8)


def _growing(net: Net) -> None:
    """DenseNet."""
    x = net.conv(net.value, 8)
    for _ in range(4):
        y = _conv(net, net.function(x, *_RELU), 8, 1)
        x = net.concat(x, net.conv(y, 4))
    net.mean(net.conv(net.function(x, *_RELU), 8, 1), 2, 2)


def _inception(net: Net) -> None:
    x = _conv(net, net.value, 8, 3, 2)
    for _ in range(2):
        x = net.concat(
            _conv(net, x, 4, 1),
            _conv(net, _conv(net, x, 4, 1), 6),
            _conv(net, _conv(net, x, 4, 1), 4, 5),
            _conv(net, net.mean(x, 3, 1, 1), 4, 1),
        )
    net.mean(x, 8)


def _ssd(net: Net) -> None:
    """Heads: PERMUTE, RESHAPE, CONCAT, SOFTMAX."""
    x = _conv(net, _conv(net, net.value, 8, 3, 2), 8)
    flat = []
    for _ in range(2):
        head = _turned(net, net.conv(x, 12), (0, 2, 3, 1))
        flat.append(_shaped(net, head, (1, int(np.prod(head.shape)) // 3, 3)))
        x = _conv(net, x, 8, 3, 2)
    shape = (1, sum(each.shape[1] for each in flat), 3)
    x = net.node("CONCAT", [each.ref for each in flat], net.type_of(6.0), shape, {"concat": {"axis": 1}})
    _softmax(net, _shaped(net, x, shape[1:]))


def _face(net: Net) -> None:
    """RetinaFace: LEAKY_RELU, a pyramid of two levels, a head."""
    first = _conv(net, net.value, 8, 3, 2, _LEAKY)
    second = _conv(net, first, 8, 3, 2, _LEAKY)
    x = net.joined(_larger(net, _conv(net, second, 8, 1, 1, _LEAKY)), _conv(net, first, 8, 1, 1, _LEAKY))
    x = _conv(net, x, 8, 3, 1, _LEAKY)
    net.conv(
        net.function(net.concat(net.conv(x, 4), net.conv(_conv(net, x, 4, 3, 1, _LEAKY), 4)), *_RELU), 6, 1
    )


def _lstm(net: Net, op: str = "LSTM") -> None:
    """Rows of a picture as a sequence, a recurrent layer, a dense one; in float16 for the state."""
    x = _conv(net, net.value, 4, 3, 2)  # (1, 4, 8, 8)
    x = _shaped(net, _turned(net, x, (3, 0, 1, 2)), (8, 1, 32))
    unit = u8(0.004, 128)
    bias = i32(x.dtype["scale"] * 0.004)
    w, r, b = (
        [net.file.random(shape, dtype, *limits) for _ in range(4)]
        for shape, dtype, limits in (
            ((8, 32), unit, (0, 256)),
            ((8, 8), unit, (0, 256)),
            ((8,), bias, (-900, 900)),
        )
    )
    nn: Any = {
        "weights": 8,
        "activation": "VSI_NN_LSTMUNIT_ACT_TANH",
        "cell_clip": 0.0,
        "proj_clip": 0.0,
        "forget_bias": 0.0,
    }
    state = u8(2 / 255, 128)
    made = net.file.node(
        "LSTM", [x.ref, None, None, *w, *r, None, None, None, *b], state, F16, F16, nn={"lstm": nn}
    )
    _dense(net, _shaped(net, Value(made, state, (8, 1, 8)), (1, 64)), 10, 4.0)


def _gru(net: Net) -> None:
    """A sequence in float16."""
    x = _shaped(net, _turned(net, net.conv(net.value, 4, 3, 2), (3, 0, 1, 2)), (8, 1, 32))
    shapes = [(8, 32), (8, 32), (8, 8), (8, 8), *[(8,)] * 4, (8, 32), (8, 8), (8,), (8,)]
    parts = [
        net.file.const(net.file.rng.standard_normal(s) * 0.2, F16 if len(s) == 2 else F32) for s in shapes
    ]
    nn = {
        "num_units": 8, "time_major": 1, "activation": "VSI_NN_ACT_TANH", "recurrent_activation": "VSI_NN_ACT_SIGMOID",
        "return_sequences": 1, "linear_before_reset": 1, "use_cudnn_implementation": 0,
    }  # fmt: skip
    made = net.file.node("GRU_OVXLIB", [x.ref, None, *parts], F16, F16, nn={"gru_ovxlib": nn})
    _dense(net, _shaped(net, Value(made, F16, (8, 1, 8)), (1, 64)), 10)


def _keyword(net: Net) -> None:
    """Convolutions of rows over a spectrogram."""
    x = _shaped(net, net.value, (1, 8, 32))
    for count, stride in ((12, 2), (12, 1), (16, 2)):
        n, c, w = x.shape
        nn = {
            "ksize": 3,
            "stride": stride,
            "pad": [1, 1],
            "weights": count,
            "group": 1,
            "dilation": 1,
            "multiplier": 0,
        }
        reads = net.weights(x, (count, c, 3), count, net.gain / float(np.sqrt(3 * c)))
        x = net.node(
            "CONV1D", [x.ref, *reads], net.type_of(6.0), (n, count, (w - 1) // stride + 1), {"conv1d": nn}, VX
        )
        x = net.function(x, *_RELU)
    _dense(net, _shaped(net, x, (1, 128)), 10)


def _finer(net: Net) -> None:
    """Super resolution: convolutions, DEPTH2SPACE, a sum with the enlarged picture."""
    picture = net.value
    x = net.conv(_conv(net, _conv(net, picture, 8), 8), 12)
    n, c, h, w = x.shape
    x = net.node(
        "DEPTH2SPACE",
        [x.ref],
        x.dtype,
        (n, c // 4, 2 * h, 2 * w),
        {"depth2space": {"block_size": 2, "mode": "VSI_NN_DEPTH2SPACE_CRD"}},
    )
    net.joined(x, _larger(net, net.conv(picture, 3, 1), "bilinear"))


def _excited(net: Net) -> None:
    """Squeeze and excitation with dense layers."""
    x = _conv(net, net.value, 8, 3, 2)
    for _ in range(2):
        y = net.conv(_conv(net, x, 8), 8)
        gate = net.function(_dense(net, net.mean(y, 8), 4), "RELU", None, 2.0, 0.0)
        gate = _shaped(net, net.gate(_dense(net, gate, 8), "SIGMOID"), (1, 8, 1, 1))
        y = net.node(
            "MULTIPLY", [y.ref, gate.ref], net.type_of(5.0), y.shape, {"multiply": {"scale": 1.0}}, NEAREST
        )
        x = net.function(net.joined(x, y), "RELU", None, 4.0, 0.0)


def _identity(net: Net) -> None:
    """MobileFaceNet: PRELU, depthwise convolutions, an embedding of length 1."""
    x = _prelu(net, net.conv(net.value, 8, 3, 2))
    x = _prelu(net, net.depthwise(x))
    for _ in range(2):
        y = _prelu(net, net.conv(x, 16, 1))
        y = net.conv(_prelu(net, net.depthwise(y)), 8, 1)
        x = net.joined(x, y)
    x = _shaped(net, _dense(net, x, 16), (1, 16, 1, 1))
    net.node("L2_NORMALIZE", [x.ref], u8(1 / 128, 128), x.shape, {"l2_normalize": {"axis": 2}})


def _separable(net: Net) -> None:
    """MobileNetV1: depthwise layers, a mean, a dense layer, SOFTMAX."""
    x = _conv(net, net.value, 8, 3, 2)
    for stride in (1, 2, 1):
        x = net.function(net.depthwise(x, stride=stride), *_RELU)
        x = _conv(net, x, 12, 1)
    _softmax(net, _dense(net, net.mean(x, 4), 10))


def _darknet(net: Net) -> None:
    """A YOLO of the second version: LEAKY_RELU, pools, REORG."""
    x = _conv(net, net.value, 8, 3, 1, _LEAKY)
    early = _conv(net, net.largest(x, 2, 2), 8, 3, 1, _LEAKY)
    x = _conv(net, net.largest(early, 2, 2), 12, 3, 1, _LEAKY)
    n, c, h, w = early.shape
    passed = net.node("REORG", [early.ref], early.dtype, (n, 4 * c, h // 2, w // 2), {"reorg": {"stride": 2}})
    net.conv(net.concat(passed, x), 6, 1)


_PICTURE = (1, 3, 16, 16)
KINDS = {
    f"net_{name}": network(f"net_{name}", build, kind, shape, 5.0)
    for name, build, kind, shape in (
        ("vgg", _vgg, "u8", _PICTURE), ("segmentation", _segmentation, "u8", _PICTURE), ("hourglass", _hourglass, "u8", _PICTURE),
        ("unet", _unet, "u8", _PICTURE), ("shuffle", _shuffle, "u8", _PICTURE), ("squeeze", _fire, "u8", _PICTURE),
        ("dense", _growing, "u8", _PICTURE), ("inception", _inception, "u8", _PICTURE), ("ssd", _ssd, "u8", _PICTURE),
        ("face", _face, "u8", _PICTURE), ("lstm", _lstm, "u8", _PICTURE), ("gru", _gru, "f16", _PICTURE),
        ("keyword", _keyword, "u8", (1, 1, 8, 32)), ("finer", _finer, "u8", _PICTURE), ("excited", _excited, "u8", _PICTURE),
        ("identity", _identity, "u8", _PICTURE), ("separable", _separable, "u8", _PICTURE), ("darknet", _darknet, "u8", _PICTURE),
        ("vgg_i8", _vgg, "i8", _PICTURE), ("blocks_i8", _blocks, "i8", _PICTURE), ("vgg_i16", _vgg, "i16", _PICTURE),
        ("blocks_i16", _blocks, "i16", _PICTURE), ("blocks_f16", _blocks, "f16", _PICTURE),
    )
}  # fmt: skip
"""Names -> functions that write the file."""
