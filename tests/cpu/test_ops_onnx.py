"""Float operators against onnxruntime: the same node, once as ONNX and once as a graph of ours."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from rknnlite.tensor import DType
from tests.support.graphs import constant, one_node, run, tensor

onnx = pytest.importorskip("onnx", reason="pip install onnx")
onnxruntime = pytest.importorskip("onnxruntime", reason="pip install onnxruntime")

rng = np.random.default_rng(11)


def real(*shape: int, low: float = -3, high: float = 3) -> np.ndarray:
    return rng.uniform(low, high, shape).astype(np.float32)


def whole(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@dataclass
class Case:
    """One node: operands computed at run time, constant operands after them, attributes by ONNX name."""

    op: str
    arrays: list[np.ndarray]
    constants: list[Any] = field(default_factory=list)
    attrs: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1
    opset: int = 17
    tolerance: float = 2e-6

    def __str__(self) -> str:
        return "-".join([self.op, *(f"{k}={v}" for k, v in self.attrs.items())]).replace(" ", "")


def by_onnxruntime(case: Case) -> list[np.ndarray]:
    """Constant operands become initialisers, absent ones the empty name."""
    helper = onnx.helper
    names = [f"x{i}" for i in range(len(case.arrays))]
    fixed = ["" if c is None else f"k{i}" for i, c in enumerate(case.constants)]
    outputs = [f"y{i}" for i in range(case.outputs)]
    node = helper.make_node(case.op, [*names, *fixed], outputs, **case.attrs)
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in zip(names, case.arrays)
    ]
    kept = [
        onnx.numpy_helper.from_array(np.asarray(c), n) for n, c in zip(fixed, case.constants) if c is not None
    ]
    graph = helper.make_graph([node], "g", infos, [onnx.ValueInfoProto(name=n) for n in outputs], kept)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", case.opset)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, dict(zip(names, case.arrays)))


def check(case: Case) -> None:
    expected = by_onnxruntime(case)
    live = [tensor(f"x{i}", a.shape, DType.from_numpy(a.dtype)) for i, a in enumerate(case.arrays)]
    fixed = [None if c is None else constant(c) for c in case.constants]
    results = [tensor(f"y{i}", e.shape, DType.from_numpy(e.dtype)) for i, e in enumerate(expected)]
    plan = one_node(case.op, [*live, *fixed], results, dict(case.attrs))
    for got, want in zip(run(plan, *case.arrays), expected):
        assert got.shape == want.shape and got.dtype == want.dtype
        if want.dtype.kind == "f":
            assert np.allclose(got, want, rtol=case.tolerance, atol=case.tolerance, equal_nan=True)
        else:
            assert np.array_equal(got, want)


image, batch2 = real(1, 3, 7, 9), real(2, 4, 6, 5)

UNARY = [
    *(Case(op, [image]) for op in
      ("Relu", "Sigmoid", "Tanh", "Softplus", "Softsign", "Exp", "Abs", "Neg", "Floor", "Ceil", "Sign", "Sin", "Cos",
       "Atan", "Sinh", "Cosh", "Asinh", "Round", "HardSwish", "Erf", "Identity", "Elu", "Selu", "Celu",
       "LeakyRelu", "HardSigmoid", "ThresholdedRelu", "Shrink", "Hardmax")),
    *(Case(op, [real(2, 3, 4, low=0.1, high=5)]) for op in ("Log", "Sqrt", "Reciprocal")),
    *(Case(op, [real(2, 3, 4, low=-0.9, high=0.9)]) for op in ("Asin", "Acos", "Atanh", "Tan")),
    Case("Acosh", [real(2, 3, 4, low=1.1, high=5)]),
    Case("Mish", [image], opset=18),
    Case("Elu", [image], attrs={"alpha": 0.3}),
    Case("Celu", [image], attrs={"alpha": 2.0}),
    Case("Selu", [image], attrs={"alpha": 1.5, "gamma": 0.9}),
    Case("LeakyRelu", [image], attrs={"alpha": 0.2}),
    Case("HardSigmoid", [image], attrs={"alpha": 0.25, "beta": 0.4}),
    Case("ThresholdedRelu", [image], attrs={"alpha": 0.5}),
    Case("Shrink", [image], attrs={"lambd": 1.0, "bias": 0.25}),
    Case("Hardmax", [image], attrs={"axis": 1}),
    Case("Clip", [image], [np.float32(-1), np.float32(2)]),
    Case("Clip", [image], [np.float32(0)]),
    Case("Clip", [image], [None, np.float32(1)]),
    Case("IsNaN", [np.array([1, np.nan, -np.inf], np.float32)]),
    Case("Not", [np.array([True, False])]),
    Case("Cast", [image], attrs={"to": 7}),
    Case("Cast", [image], attrs={"to": 9}),
    Case("PRelu", [image], [real(3, 1, 1)]),
    Case("PRelu", [image], [real(1)]),
]  # fmt: skip

BINARY = [
    *(Case(op, [batch2, real(2, 4, 6, 5)]) for op in ("Add", "Sub", "Mul", "Div", "Max", "Min")),
    *(Case(op, [batch2, real(1, 4, 1, 1)]) for op in ("Add", "Sub", "Mul", "Div")),
    *(Case(op, [real(1, 4, 1, 5), real(2, 1, 6, 1)]) for op in ("Add", "Max")),
    *(Case(op, [batch2], [real(4, 1, 1)]) for op in ("Add", "Sub", "Mul")),
    *(Case(op, [batch2, real(4, 1, 1), real(5)]) for op in ("Max", "Min", "Sum", "Mean")),
    *(Case(op, [np.round(batch2), np.round(real(4, 1, 1))]) for op in
      ("Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Equal")),
    *(Case(op, [np.array([True, True, False]), np.array([True, False, False])]) for op in ("And", "Or", "Xor")),
    Case("Pow", [np.abs(batch2)], [np.float32(2.5)]),
    Case("Mod", [batch2, np.abs(real(4, 1, 1)) + 1], attrs={"fmod": 1}),
    Case("Mod", [whole(7, -7, 8), whole(3, 3, -5)]),
    Case("Div", [whole(7, -7, 8, -8), whole(2, 2, -3, 3)]),
    Case("Where", [batch2 > 0, batch2, real(4, 1, 1)]),
]  # fmt: skip

MOVES = [
    Case("Transpose", [batch2], attrs={"perm": [0, 2, 3, 1]}),
    Case("Transpose", [real(2, 3, 4, 5, 2)], attrs={"perm": [4, 0, 3, 1, 2]}),
    Case("Reshape", [batch2], [whole(2, -1, 10)]),
    Case("Flatten", [batch2], attrs={"axis": 2}),
    Case("Squeeze", [real(1, 3, 1)], [whole(2)]),
    Case("Unsqueeze", [real(3, 2)], [whole(0, 3)]),
    Case("Concat", [batch2, real(2, 2, 6, 5)], attrs={"axis": 1}),
    Case("Concat", [batch2, batch2[..., :1], batch2], attrs={"axis": -1}),
    Case("Split", [batch2], [whole(1, 3)], {"axis": 1}, outputs=2),
    Case("Slice", [batch2], [whole(1, 0), whole(3, 5), whole(1, 3), whole(1, 2)]),
    Case("Slice", [batch2], [whole(-1), whole(-100), whole(2), whole(-1)]),
    Case("Slice", [batch2], [whole(4, 3), whole(0, -100), whole(2, 3), whole(-2, -1)]),
    Case("Slice", [batch2], [whole(-3), whole(2**62), whole(-1)]),
    Case("Expand", [real(4, 1, 1)], [whole(2, 4, 3, 5)]),
    Case("Tile", [batch2], [whole(1, 2, 1, 3)]),
    Case("Pad", [batch2], [whole(0, 0, 1, 2, 0, 0, 3, 0)]),
    Case("Pad", [batch2], [whole(0, 1, 0, 0, 0, 0, 2, 1), np.float32(-1.5)]),
    Case("Pad", [batch2], [whole(0, 0, 2, 1, 0, 0, 1, 3)], {"mode": "reflect"}),
    Case("Pad", [batch2], [whole(0, 0, 2, 1, 0, 0, 1, 3)], {"mode": "edge"}),
    Case("Pad", [batch2], [whole(0, 0, -1, 2, 0, -1, 0, -2)]),
    Case("SpaceToDepth", [real(2, 3, 4, 6)], attrs={"blocksize": 2}),
    Case("DepthToSpace", [real(2, 12, 3, 2)], attrs={"blocksize": 2, "mode": "DCR"}),
    Case("DepthToSpace", [real(2, 12, 3, 2)], attrs={"blocksize": 2, "mode": "CRD"}),
    Case("Trilu", [real(2, 4, 5)], [whole(1)[0]], {"upper": 1}),
    Case("Trilu", [real(2, 4, 5)], [whole(-1)[0]], {"upper": 0}),
    Case("Gather", [batch2], [whole(3, 0, -1)], {"axis": 1}),
    Case("Gather", [batch2, np.array([[0, 1], [5, -6]], np.int64)], attrs={"axis": 2}),
    Case("GatherElements", [real(3, 4), np.array([[0, -1, 2, 1]], np.int64)], attrs={"axis": 0}),
    Case("GatherND", [batch2, np.array([[0, 1], [1, -1]], np.int64)]),
    Case("GatherND", [batch2, np.array([[[1, 2]], [[-1, 0]]], np.int64)], attrs={"batch_dims": 1}),
    Case("ScatterND", [real(4, 3), np.array([[1], [3]], np.int64), real(2, 3)]),
    Case("ScatterElements", [real(3, 4), np.array([[0, 2, 1, 1]], np.int64), real(1, 4)], attrs={"axis": 0}),
    Case("ReverseSequence", [real(4, 3, 2)], [whole(1, 4, 2)], {"time_axis": 0, "batch_axis": 1}),
    Case("ReverseSequence", [real(3, 4, 2)], [whole(1, 4, 2)], {"time_axis": 1, "batch_axis": 0}),
    Case("OneHot", [whole(0, 2, -1)], [whole(4)[0], np.array([-1, 5], np.float32)], {"axis": -1}),
    Case("OneHot", [np.array([[0, 3]], np.int64)], [whole(4)[0], np.array([0, 1], np.float32)], {"axis": 1}),
]  # fmt: skip

REDUCTIONS = [
    *(Case(op, [np.abs(batch2) + 0.1], attrs={"axes": [1, 3], "keepdims": keep}, opset=12)
      for op in ("ReduceMax", "ReduceMin", "ReduceMean", "ReduceSum", "ReduceProd", "ReduceL1", "ReduceL2",
                 "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp") for keep in (0, 1)),
    Case("ReduceMean", [batch2], opset=12),
    Case("ReduceSum", [batch2], [whole(-1)]),
    *(Case(op, [np.round(batch2)], attrs={"axis": axis, "keepdims": keep, "select_last_index": last})
      for op in ("ArgMax", "ArgMin") for axis in (1, -1) for keep in (0, 1) for last in (0, 1)),
    Case("TopK", [batch2], [whole(3)], {"axis": 2}, outputs=2),
    Case("TopK", [batch2], [whole(2)], {"axis": -1, "largest": 0}, outputs=2),
]  # fmt: skip

NORMS = [
    *(Case(op, [image], attrs={"axis": axis}) for op in ("Softmax", "LogSoftmax") for axis in (-1, 1)),
    Case("LayerNormalization", [image], [real(9), real(9)], {"axis": -1, "epsilon": 1e-3}),
    Case("BatchNormalization", [image], [real(3), real(3), np.zeros(3, np.float32), np.ones(3, np.float32)],
         {"epsilon": 0.0}),
    Case("LRN", [real(2, 7, 3, 3)], attrs={"size": 3, "alpha": 0.3, "beta": 0.6, "bias": 2.0}),
    Case("LRN", [real(2, 7, 3, 3)], attrs={"size": 5}),
    Case("MeanVarianceNormalization", [batch2], tolerance=1e-4),
]  # fmt: skip

SHAPES = ("kernel_shape", "strides", "pads")
POOLS = [
    *(Case(op, [image], attrs=dict(zip(SHAPES, numbers)))
      for op in ("MaxPool", "AveragePool", "LpPool")
      for numbers in (([2, 2], [2, 2], [0, 0, 0, 0]), ([3, 3], [2, 1], [1, 1, 1, 1]), ([3, 2], [1, 3], [0, 1, 2, 0]))),
    Case("MaxPool", [image], attrs={"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    Case("AveragePool", [image], attrs={"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    Case("MaxPool", [image], attrs={"kernel_shape": [2, 2], "dilations": [2, 3]}),
    Case("MaxPool", [image], attrs={"kernel_shape": [2, 3], "strides": [2, 2], "pads": [1, 1, 0, 1]}, outputs=2),
    Case("AveragePool", [image], attrs={"kernel_shape": [3, 3], "strides": [2, 1], "pads": [1, 1, 1, 1],
                                        "count_include_pad": 1}),
    *(Case(op, [image]) for op in ("GlobalAveragePool", "GlobalMaxPool")),
    Case("GlobalLpPool", [image], attrs={"p": 2}),
]  # fmt: skip

PRODUCTS = [
    Case("MatMul", [real(2, 3, 4), real(2, 4, 5)]),
    Case("MatMul", [real(2, 1, 3, 4), real(3, 4, 5)]),
    Case("MatMul", [real(3, 4)], [real(4, 2)]),
    Case("Gemm", [real(3, 4)], [real(5, 4), real(5)], {"transB": 1}),
    Case("Gemm", [real(4, 3)], [real(4, 5)], {"transA": 1}),
    Case("Gemm", [real(3, 4)], [real(4, 5), real(3, 5)], {"alpha": 0.5, "beta": 2.0}),
]

SCALES = np.array([1, 1, 2, 2], np.float32)
UNEVEN = np.array([1, 1, 1.5, 2.6], np.float32)
SMALLER = np.array([1, 1, 0.6, 0.4], np.float32)
RESIZES = [
    *(Case("Resize", [image], [None, scales], {"mode": "nearest", "coordinate_transformation_mode": where,
                                               "nearest_mode": how})
      for scales in (SCALES, UNEVEN, SMALLER)
      for where in ("asymmetric", "half_pixel", "align_corners", "pytorch_half_pixel", "tf_half_pixel_for_nn")
      for how in ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
      if where != "tf_half_pixel_for_nn"),
    *(Case("Resize", [image], [None, scales], {"mode": "linear", "coordinate_transformation_mode": where},
           tolerance=1e-5)
      for scales in (SCALES, UNEVEN, SMALLER)
      for where in ("asymmetric", "half_pixel", "align_corners", "pytorch_half_pixel")),
    Case("Resize", [image], [None, None, whole(1, 3, 5, 20)], {"mode": "linear"}, tolerance=1e-5),
]  # fmt: skip

grid = real(1, 5, 6, 2, low=-1.3, high=1.3)
SAMPLES = [
    Case("GridSample", [image, grid], attrs={"mode": mode, "padding_mode": padding, "align_corners": align},
         tolerance=2e-5)
    for mode in ("bilinear", "nearest", "bicubic")
    for padding in ("zeros", "border", "reflection")
    for align in (0, 1)
]  # fmt: skip

ALL = [*UNARY, *BINARY, *MOVES, *REDUCTIONS, *NORMS, *POOLS, *PRODUCTS, *RESIZES, *SAMPLES]


@pytest.mark.parametrize("case", ALL, ids=str)
def test_against_onnxruntime(case: Case) -> None:
    check(case)
