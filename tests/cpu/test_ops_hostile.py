"""Any node with any operands and attributes: refused with a typed error, or run; never anything else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rknnlite_cpu.ops import load_rare
from rknnlite_cpu.registry import _BUILDERS
from rknnlite_cpu.values import encode
from rknnlite_graph.graph import RecurrentParams, Stage, Tensor

from rknnlite.errors import RknnError
from rknnlite.tensor import DType, QuantParams
from tests.support.damage import limits
from tests.support.graphs import one_node, tensor

load_rare()
NAMES = (
    "axis", "axes", "perm", "kernel_shape", "strides", "pads", "dilations", "alpha", "beta", "epsilon", "mode", "size",
    "p", "blocksize", "to", "batch_dims", "time_axis", "batch_axis", "num_groups", "bias", "count_include_pad",
    "coordinate_transformation_mode", "nearest_mode", "align_corners", "padding_mode", "scale", "c_type", "starts",
    "ends", "steps", "repeats", "value", "largest", "keepdims", "select_last_index", "fmod", "upper", "split",
    "transA", "transB", "min", "max", "gamma", "lambd",
)  # fmt: skip
WORDS = ("", "linear", "nearest", "constant", "reflect", "edge", "layer", "rms", "asymmetric", "align_corners", "CRD",
         "bicubic", "reflection", "mul", "x")  # fmt: skip

number = st.integers(-3, 6) | st.sampled_from([1 << 16, (1 << 31) - 1, -(1 << 31), 1 << 62])
plain = number | st.floats() | st.sampled_from(WORDS) | st.booleans() | st.none()
attributes = st.dictionaries(
    st.sampled_from(NAMES),
    plain | st.lists(number, max_size=8) | st.lists(plain, max_size=4) | st.dictionaries(st.just("a"), plain),
    max_size=6,
)
shapes = st.lists(st.integers(0, 5), max_size=5).map(tuple) | st.tuples(*[st.integers(1, 6)] * 4)
dtypes = st.sampled_from(
    [DType.FLOAT32, DType.FLOAT16, DType.INT8, DType.INT64, DType.INT32, DType.BOOL, DType.INT16]
)
quants = st.none() | st.builds(QuantParams, st.sampled_from([0.1, 1e-30, 1e30]), st.integers(-200, 200))


@st.composite
def tensors(draw: st.DrawFn, name: str, alike: tuple[int, ...] | None = None) -> Tensor:
    """An operand; now and then of the first one's shape, else most nodes would be refused at once."""
    shape = alike if alike is not None and draw(st.booleans()) else draw(shapes)
    dtype = draw(dtypes)
    quant = draw(quants) if dtype in (DType.INT8, DType.INT16) else None
    value = None
    if draw(st.booleans()) and name != "x0":
        values = draw(st.lists(number, min_size=1, max_size=8))
        info = np.iinfo(dtype.numpy) if dtype.numpy.kind == "i" else None
        clipped = np.clip(values, info.min, info.max) if info else np.array(values, np.float64)
        with np.errstate(over="ignore"):
            value = np.resize(clipped, shape).astype(dtype.numpy)
    return tensor(name, shape, dtype, quant, value)


def stage() -> Stage:
    return Stage()


def recurrent(gates: int) -> RecurrentParams:
    ones = np.ones
    f = np.float32
    return RecurrentParams(gates, 2, 1, ones((1, gates, 2, 3), f), ones((1, gates, 2, 2), f), ones((1, gates, 2), f),
                           ones((1, gates, 2), f))  # fmt: skip


@pytest.mark.parametrize("op", sorted(op for op in _BUILDERS if not op.startswith("Conv")))
@settings(max_examples=max(5, settings.default.max_examples // 3))
@given(data=st.data())
def test_any_node(op: str, data: st.DataObject) -> None:
    first = data.draw(tensors("x0"))
    rest = [
        data.draw(st.none() | tensors(f"x{i}", first.shape)) for i in range(1, data.draw(st.integers(1, 4)))
    ]
    results = [data.draw(tensors("y", first.shape)) for _ in range(data.draw(st.integers(1, 2)))]
    for result in results:
        result.load, result.role = None, first.role
    attrs: dict[str, Any] = data.draw(attributes)
    params = recurrent(3 if "GRU" in op else 4) if "LSTM" in op or "GRU" in op else None
    with limits(20, 64 << 20), np.errstate(all="ignore"):
        try:
            plan = one_node(op, [first, *rest], results, attrs, stage=stage(), recurrent=params)
            graph = plan.graph
            feeds = {i: encode(np.zeros(graph.tensors[i].shape), graph.tensors[i]) for i in graph.inputs}
            outputs = plan.run(feeds)
        except RknnError as error:
            assert str(error)
            return
    for index in graph.outputs:
        assert outputs[index].shape == graph.tensors[index].shape
