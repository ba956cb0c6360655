"""More of ``CASES``: one dimension, sequences and regions, that is CONV1D, GRU, RNN, UPSAMPLE, ROI_POOL."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.support.rknn1_files import F16, F32, RAW8, File, dfp, i32, u8

from .cases import CASES, I8, I16, VX, U, W, one

__all__ = ["CASES"]

_STATE = u8(2 / 255, 128)
_RANGES = {"UINT8": (0, 256), "INT8": (-128, 128), "INT16": (-4000, 4000), "INT32": (-3000, 3000)}


def _drawn(file: File, shape: tuple[int, ...], dtype: Any) -> Any:
    word = dtype["vx_type"][12:]
    if word in _RANGES:
        return file.random(shape, dtype, *_RANGES[word])
    return file.const(file.rng.standard_normal(shape) * 0.3, dtype)


def _row(
    name: str,
    x: Any,
    y: Any,
    w: Any,
    bias: Any,
    shape: tuple[int, ...] = (6, 8, 3),
    op: str = "CONV1D",
    relu: Any = None,
    **attrs: Any,
) -> None:
    """A convolution of rows of 8 channels and 13 columns, a RELU behind it where ``relu`` is its type."""

    def make() -> File:
        file, count = File(name), shape[1] if attrs.get("multiplier") else shape[0]
        parts = [_drawn(file, shape, w), *([_drawn(file, (count,), bias)] if bias else [])]
        given = {
            "ksize": 3,
            "stride": 1,
            "pad": [1, 1],
            "weights": count,
            "group": 1,
            "dilation": 1,
            "multiplier": 0,
            **attrs,
        }
        columns = (13 + sum(given["pad"]) - given["dilation"] * 2 - 1) // given["stride"] + 1
        made = file.node(op, [file.input((1, 8, 13), x), *parts], y, nn={op.lower(): given}, vx=VX)
        file.output(file.node("RELU", [made], relu) if relu else made, (1, count, columns))
        return file

    CASES[name] = make


_BIAS, _OUT = i32(0.02 * 0.004), u8(0.05, 100)
_row("conv1d", U, _OUT, W, _BIAS)
_row("conv1d_uneven", U, _OUT, W, _BIAS, stride=2, pad=[2, 1], dilation=2)
_row("conv1d_relu", U, u8(0.05, 128), W, _BIAS, relu=u8(0.02, 0))
_row("conv1d_depthwise", U, u8(0.02, 100), W, _BIAS, (1, 8, 3), group=8, multiplier=1)
_row("grouped_conv1d", U, _OUT, W, _BIAS, (6, 4, 3), "GROUPED_CONV1D", group=2)
_row("conv1d_i8", I8, dfp("INT8", 3), dfp("INT8", 6), dfp("INT32", 11))
_row("conv1d_i16", I16, dfp("INT16", 12), dfp("INT16", 14), None)
_row("conv1d_f16", F16, F16, F16, F32)


def _gru(name: str, x: Any, w: Any, biases: tuple[Any, Any], y: Any, before: int, every: int = 1) -> None:
    """9 steps, 12 features, 10 hidden; ``biases``: of the input's sums and of the state's."""

    def make() -> File:
        file = File(name)
        given = file.input((9, 1, 12), x)
        wide, square, first, second = (10, 12), (10, 10), *biases
        slots = [
            (wide, w), (wide, w), (square, w), (square, w), ((10,), first), ((10,), first), ((10,), second), ((10,), second),
            (wide, w), (square, w), ((10,), first), ((10,), second),
        ]  # fmt: skip
        nn = {
            "num_units": 10, "time_major": 1, "activation": "VSI_NN_ACT_TANH", "recurrent_activation": "VSI_NN_ACT_SIGMOID",
            "return_sequences": every, "linear_before_reset": before, "use_cudnn_implementation": 0,
        }  # fmt: skip
        reads = [given, None, *(_drawn(file, *slot) for slot in slots)]
        made = file.node("GRU_OVXLIB", reads, y, y, nn={"gru_ovxlib": nn})
        file.output(made, (9, 1, 10) if every else (1, 10))
        return file

    CASES[name] = make


for _before in (0, 1):
    _word = ("gru", "gru_before")[_before]
    _w8 = u8(0.006, 128)
    _gru(_word, u8(0.02, 120), _w8, (i32(0.02 * 0.006), i32(2 / 255 * 0.006)), _STATE, _before)
    _gru(f"{_word}_last", u8(0.02, 120), _w8, (i32(0.02 * 0.006), i32(2 / 255 * 0.006)), _STATE, _before, 0)
    _gru(f"{_word}_i8", I8, dfp("INT8", 7), (dfp("INT32", 12), dfp("INT32", 14)), dfp("INT8", 7), _before)
    _gru(
        f"{_word}_i16", I16, dfp("INT16", 14), (dfp("INT32", 24), dfp("INT32", 28)), dfp("INT16", 14), _before
    )
    _gru(f"{_word}_f16", F16, F16, (F32, F32), F16, _before)


def _cell(name: str, dtype: Any, function: str) -> None:
    def make() -> File:
        file = File(name)
        x, state = file.input((1, 12), dtype), file.input((1, 10), dtype)
        parts = [_drawn(file, shape, dtype) for shape in ((10, 12), (10, 10), (10,))]
        file.node(
            "RNN", [x, *parts, state], dtype, dtype, nn={"rnn": {"activation": f"VSI_NN_ACT_{function}"}}
        )
        for port in range(2):
            file.output(file.port(-1, port), (1, 10))
        return file

    CASES[name] = make


for _function in ("NONE", "RELU", "TANH"):
    _cell(f"rnn_{_function.lower()}_f16", F16, _function)

_BOXES = np.array(
    [[0, 0, 0, 40, 30], [0, 16, 8, 100, 90], [0, 32, 64, 120, 80], [0, 100, 60, 120, 90], [0, 13, 17, 13, 17]]
)
for _label, _type in (("", U), ("_i8", I8), ("_i16", I16), ("_f16", F16)):
    for _scale in ((2, 2), (3, 2)):
        one(
            f"upsample_{_scale[0]}{_label}", "UPSAMPLE", {"upsample": {"scale": list(_scale)}}, _type, _type, (1, 4, 5, 6),
            (1, 4, 5 * _scale[1], 6 * _scale[0]),
            lambda f, n=_scale[0] * _scale[1]: [f.random((1, 4, 5, 6), RAW8, 0, n)],
        )  # fmt: skip
    one(
        f"roi_pool{_label}", "ROI_POOL", {"roi_pool": {"type": 0, "size": [3, 2], "scale": 0.125}}, _type, _type, (1, 4, 12, 16),
        (5, 4, 2, 3), lambda f: [f.const(_BOXES, F16)],
    )  # fmt: skip
