"""Whether an engine adds products of 8 bits exactly: not all versions on all processors do."""

from __future__ import annotations

import numpy as np

from ..values import Array
from .engine import Engine

__all__ = ["exact_in_bytes"]

_CHANNELS, _SIZE = 32, 6
_ZERO_IN, _ZERO_OUT = 7, 120


def exact_in_bytes(engine: Engine) -> bool:
    """Run a convolution and a matrix product; False for any doubt.

    They have the largest products, a zero point per channel, padding and sums that lie between two steps.
    """
    data, weight, zeros, bias, factor = _operands()
    rows = data.transpose(0, 2, 3, 1)
    try:
        found, sums = engine.compile(_network(weight, zeros, bias, factor), ["y", "s"], 1).run([data, rows])
    except Exception:  # an engine without one of the operators, or with fewer forms of it
        return False
    expected = _expected(data, weight, zeros, bias, factor)
    products = (rows.astype(np.int64) - _ZERO_IN) @ (weight[:, :, 0, 0].T.astype(np.int64) - zeros)
    return bool(np.array_equal(found, expected) and np.array_equal(sums, products))


def _operands() -> tuple[Array, ...]:
    random = np.random.default_rng(0)
    data = random.choice(np.array([0, 1, 128, 254, 255], np.uint8), (1, _CHANNELS, _SIZE, _SIZE))
    weight = random.choice(np.array([-128, -127, 126, 127], np.int8), (_CHANNELS, _CHANNELS, 3, 3))
    zeros = random.integers(-128, 128, _CHANNELS).astype(np.int8)
    bias = random.integers(-100000, 100000, _CHANNELS).astype(np.int32)
    return data, weight, zeros, bias, (2.0 ** random.integers(-16, -12, _CHANNELS)).astype(np.float32)


def _network(weight: Array, zeros: Array, bias: Array, factor: Array) -> bytes:
    from onnx import TensorProto, helper, numpy_helper

    stored = {
        "one": np.float32(1),
        "x0": np.uint8(_ZERO_IN),
        "w": weight,
        "f": factor,
        "w0": zeros,
        "y0": np.uint8(_ZERO_OUT),
        "b": bias,
        "m0": zeros,
        "m": np.ascontiguousarray(weight[:, :, 0, 0].T),
    }
    operands = ["x", "one", "x0", "w", "f", "w0", "one", "y0", "b"]
    nodes = [
        helper.make_node("QLinearConv", operands, ["y"], pads=[1, 1, 1, 1]),
        helper.make_node("MatMulInteger", ["r", "m", "x0", "m0"], ["s"]),
    ]
    planes, last = [1, _CHANNELS, _SIZE, _SIZE], [1, _SIZE, _SIZE, _CHANNELS]
    info = helper.make_tensor_value_info
    entries = [info("x", TensorProto.UINT8, planes), info("r", TensorProto.UINT8, last)]
    results = [info("y", TensorProto.UINT8, planes), info("s", TensorProto.INT32, last)]
    constants = [numpy_helper.from_array(np.asarray(value), name) for name, value in stored.items()]
    graph = helper.make_graph(nodes, "probe", entries, results, constants)
    opsets = [helper.make_opsetid("", 17)]
    model: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    return model


def _expected(data: Array, weight: Array, zeros: Array, bias: Array, factor: Array) -> Array:
    padded = np.pad(data.astype(np.int64) - _ZERO_IN, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    centred = weight.astype(np.int64) - zeros.reshape(-1, 1, 1, 1).astype(np.int64)
    sums = np.einsum("nchwij,ocij->nohw", windows, centred) + bias.reshape(1, -1, 1, 1)
    scaled = np.rint(sums.astype(np.float32) * factor.reshape(1, -1, 1, 1)) + _ZERO_OUT
    return np.clip(scaled, 0, 255).astype(np.uint8)
