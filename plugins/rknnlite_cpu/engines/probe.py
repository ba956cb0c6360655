"""Whether an engine adds products of 8 bits exactly: not all versions on all processors do."""

from __future__ import annotations

import numpy as np

from ..values import Array
from .engine import Engine

__all__ = ["exact_in_bytes"]

_CHANNELS, _SIZE = 32, 6


def exact_in_bytes(engine: Engine) -> bool:
    """Run a convolution with the largest products, a zero point per channel, padding and ties; False for any doubt."""
    try:
        import onnx
        from onnx import helper, numpy_helper

        data, weight, zeros, bias, factor = _operands()
        stored = {
            "one": np.float32(1), "x0": np.uint8(7), "w": weight, "f": factor, "w0": zeros, "y0": np.uint8(120),
            "b": bias,
        }  # fmt: skip
        node = helper.make_node(
            "QLinearConv", ["x", "one", "x0", "w", "f", "w0", "one", "y0", "b"], ["y"], pads=[1, 1, 1, 1]
        )
        entry, result = (
            helper.make_tensor_value_info(name, onnx.TensorProto.UINT8, [1, _CHANNELS, _SIZE, _SIZE])
            for name in "xy"
        )
        constants = [numpy_helper.from_array(np.asarray(v), k) for k, v in stored.items()]
        graph = helper.make_graph([node], "probe", [entry], [result], constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        (found,) = engine.compile(model.SerializeToString(), ["y"], 1).run([data])
    except Exception:  # an engine without the operator, or with fewer forms of it
        return False
    return bool(np.array_equal(found, _expected(data, weight, zeros, bias, factor)))


def _operands() -> tuple[Array, ...]:
    random = np.random.default_rng(0)
    data = random.choice(np.array([0, 1, 128, 254, 255], np.uint8), (1, _CHANNELS, _SIZE, _SIZE))
    weight = random.choice(np.array([-128, -127, 126, 127], np.int8), (_CHANNELS, _CHANNELS, 3, 3))
    zeros = random.integers(-128, 128, _CHANNELS).astype(np.int8)
    bias = random.integers(-100000, 100000, _CHANNELS).astype(np.int32)
    return data, weight, zeros, bias, (2.0 ** random.integers(-16, -12, _CHANNELS)).astype(np.float32)


def _expected(data: Array, weight: Array, zeros: Array, bias: Array, factor: Array) -> Array:
    padded = np.pad(data.astype(np.int64) - 7, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    centred = weight.astype(np.int64) - zeros.reshape(-1, 1, 1, 1)
    sums = np.einsum("nchwij,ocij->nohw", windows, centred) + bias.reshape(1, -1, 1, 1)
    scaled = np.rint(sums.astype(np.float32) * factor.reshape(1, -1, 1, 1)) + 120
    return np.clip(scaled, 0, 255).astype(np.uint8)
