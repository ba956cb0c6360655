"""Faces: each published formula, place by place, beside the decoders."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_vision.heads.head import Limits
from rknnlite_vision.heads.recognise import recognise
from rknnlite_vision.heads.stored import Stored

from rknnlite.tensor import DType, Layout, QuantParams, TensorAttr
from tools.vision.face_goldens import SCORE, tables

IMAGE = [TensorAttr(0, "images", (1, 64, 96, 3), DType.UINT8, Layout.NHWC)]
CELLS = [8 * 12, 4 * 6, 2 * 3]


def zeros(*shapes: tuple[int, ...], hint: str = "") -> tuple[Any, list[Any]]:
    """The head for outputs of such shapes, and the outputs."""
    attrs = [TensorAttr(n, f"o{n}", s, DType.FLOAT32, Layout.UNDEFINED) for n, s in enumerate(shapes)]
    return recognise(IMAGE, attrs, hint), [np.zeros(s, np.float32) for s in shapes]


def test_retinaface_moves_its_priors() -> None:
    n = 2 * sum(CELLS)
    head, (boxes, scores, points) = zeros((1, n, 4), (1, n, 2), (1, n, 10), hint="retinaface-logits")
    assert head.family == "RetinaFace, 3 outputs, faces with 5 points, softmax to come"
    scores[..., 0] = 9
    place = 2 * CELLS[0] + 2 * (6 * 1 + 3) + 1  # stride 16, row 1, column 3, the prior of 128 pixels
    scores[0, place] = 0, 2
    boxes[0, place], points[0, place] = (1, -1, 2, -2), 0.5
    found = head.decode([boxes, scores, points])[0]
    x, y, w, h = 56 + 12.8, 24 - 12.8, 128 * math.exp(0.4), 128 * math.exp(-0.4)
    assert found.boxes[0] == pytest.approx([x - w / 2, y - h / 2, x + w / 2, y + h / 2], abs=1e-4)
    assert found.scores == pytest.approx([1 / (1 + math.exp(-2))], abs=1e-6)
    assert found.keypoints[0, 4, :2] == pytest.approx([56 + 6.4, 24 + 6.4], abs=1e-4)


def test_retinaface_takes_probabilities_as_they_are() -> None:
    n = 2 * sum(CELLS)
    head, (boxes, scores, points) = zeros((1, n, 4), (1, n, 2), (1, n, 10))
    scores[..., 0], scores[0, 5] = 1, (0.25, 0.75)
    assert head.decode([boxes, scores, points])[0].scores.tolist() == [0.75]


@pytest.mark.parametrize("batch", [(1,), ()])
def test_scrfd_measures_from_the_corner_of_a_cell(batch: tuple[int, ...]) -> None:
    head, outputs = zeros(*((*batch, 2 * c, k) for k in (1, 4, 10) for c in CELLS))
    assert head.family == "SCRFD, 9 outputs, faces with 5 points"
    place = 2 * (6 * 2 + 4)  # stride 16, row 2, column 4
    outputs[1][..., place, 0] = 0.5
    outputs[4][..., place, :], outputs[7][..., place, :] = (1, 0.5, 2, 1), 0.25
    found = head.decode(outputs)[0]
    assert found.boxes.tolist() == [[48, 24, 96, 48]]
    assert found.keypoints[0, 0].tolist() == [68, 36, 0.5]


def test_scrfd_without_points() -> None:
    head, outputs = zeros(*((1, 2 * c, k) for k in (1, 4) for c in CELLS))
    found = head.decode(outputs)[0]
    assert head.family == "SCRFD, 6 outputs, faces" and found.keypoints is None and len(found) == 0


def test_yunet_multiplies_class_and_objectness() -> None:
    head, outputs = zeros(*((1, c, k) for k in (1, 1, 4, 10) for c in CELLS))
    assert head.family == "YuNet, 12 outputs, faces with 5 points"
    outputs[2][0, 4], outputs[5][0, 4] = 0.64, 2.0  # stride 32, row 1, column 1; objectness is cut at 1
    outputs[8][0, 4] = 0.5, 0.25, 0, math.log(2)
    found = head.decode(outputs)[0]
    assert found.scores == pytest.approx([0.8], abs=1e-6)
    assert found.boxes[0] == pytest.approx([32, 8, 64, 72], abs=1e-4)


def test_faces_of_numbers_that_are_none_are_left_out() -> None:
    head, outputs = zeros(*((1, 2 * c, k) for k in (1, 4) for c in CELLS))
    outputs[0][0, :3, 0] = 0.9, 0.9, np.nan
    outputs[3][0, 1, 0] = np.nan
    assert len(head.decode(outputs, Limits(overlap=1.0))[0]) == 1


STORED = {
    DType.INT8: QuantParams(1 / 24, 3),
    DType.UINT8: QuantParams(1 / 24, 131),
    DType.FLOAT16: None,
    DType.FLOAT32: None,
}
SHARES = {DType.INT8: QuantParams(1 / 256, -128), DType.UINT8: QuantParams(1 / 256, 0)}


def stored(family: str, dtype: DType, logits: bool = False) -> tuple[list[TensorAttr], list[Any]]:
    """The outputs of a family as a file of that type stores them; scores as shares, or behind the inverse of the activation."""
    attrs, arrays = [], []
    for n, (name, array) in enumerate(tables(family).items()):
        is_score = name.startswith(("conf", "score", "cls", "obj"))
        if is_score and logits:
            array = np.log(array) if family == "retinaface" else np.log(array / (1 - array))
        quant = SHARES.get(dtype) if is_score and not logits else STORED[dtype]
        attrs.append(TensorAttr(n, name, array.shape, dtype, Layout.UNDEFINED, quant))
        if quant:
            limits = np.iinfo(dtype.numpy.str)
            array = np.rint(array / quant.scale + quant.zero_point).clip(limits.min, limits.max)
        arrays.append(array.astype(dtype.numpy))
    return attrs, arrays


def boxes_of(found: Any) -> tuple[Any, Any, Any]:
    order = np.lexsort((found.boxes[:, 0], -found.scores))
    return found.scores[order], found.boxes[order], found.keypoints[order, :, :2].reshape(-1, 10)


@pytest.mark.parametrize("family", ["retinaface", "scrfd"])
def test_faces_are_those_of_uniface(family: str) -> None:
    goldens = np.load(Path(__file__).parent / "data" / "faces.npz")
    attrs, arrays = stored(family, DType.FLOAT32)
    found = recognise(IMAGE, attrs, family).decode(arrays, Limits(score=SCORE, overlap=1.0, most=1000))[0]
    scores, boxes, points = boxes_of(found)
    order = np.argsort(-goldens[f"{family}.scores"], kind="stable")
    assert len(scores) == len(order) > 20
    assert scores == pytest.approx(goldens[f"{family}.scores"][order], abs=1e-6)
    if family == "scrfd":
        boxes = boxes.clip(0)  # uniface cuts them at the left and upper border
    assert boxes == pytest.approx(goldens[f"{family}.boxes"][order], abs=0.01)
    assert points == pytest.approx(goldens[f"{family}.points"][order], abs=0.01)


def constants(arrays: dict[str, Any]) -> bytes:
    """An ONNX network that gives these outputs, whatever its picture is."""
    onnx = pytest.importorskip("onnx")
    make, floats = onnx.helper, onnx.TensorProto.FLOAT
    kept = [onnx.numpy_helper.from_array(np.zeros(1, np.float32), "nothing")]
    nodes = [
        make.make_node("ReduceMean", ["input"], ["mean"], axes=[1, 2, 3], keepdims=0),
        make.make_node("Mul", ["mean", "nothing"], ["zero"]),
    ]
    for name, array in arrays.items():
        kept.append(onnx.numpy_helper.from_array(array, f"{name}.numbers"))
        nodes.append(make.make_node("Add", [f"{name}.numbers", "zero"], [name]))
    inputs = [make.make_tensor_value_info("input", floats, (1, 3, 64, 96))]
    outputs = [make.make_tensor_value_info(name, floats, array.shape) for name, array in arrays.items()]
    graph = make.make_graph(nodes, "constants", inputs, outputs, kept)
    model = make.make_model(graph, opset_imports=[make.make_opsetid("", 13)], ir_version=8)
    return bytes(model.SerializeToString())


def test_yunet_is_opencv_s_own() -> None:
    cv2 = pytest.importorskip("cv2")
    made = tables("yunet")
    network = np.frombuffer(constants(made), np.uint8)
    detector = cv2.FaceDetectorYN.create("onnx", network, np.empty(0, np.uint8), (96, 64), SCORE, 1.0, 5000)
    _, wanted = detector.detect(np.zeros((64, 96, 3), np.uint8))
    attrs, arrays = stored("yunet", DType.FLOAT32)
    found = recognise(IMAGE, attrs).decode(arrays, Limits(score=SCORE, overlap=1.0, most=1000))[0]
    scores, boxes, points = boxes_of(found)
    wanted = wanted[np.argsort(-wanted[:, 14], kind="stable")]
    assert len(wanted) == len(scores) > 20
    assert scores == pytest.approx(wanted[:, 14], abs=1e-6)
    assert boxes[:, :2] == pytest.approx(wanted[:, :2], abs=0.01)
    assert boxes[:, 2:] - boxes[:, :2] == pytest.approx(wanted[:, 2:4], abs=0.01)
    assert points == pytest.approx(wanted[:, 4:14], abs=0.01)


@pytest.mark.parametrize("logits", [False, True])
@pytest.mark.parametrize("dtype", STORED)
@pytest.mark.parametrize("family", ["retinaface", "scrfd", "yunet"])
def test_faces_in_each_type_are_those_of_its_real_numbers(family: str, dtype: DType, logits: bool) -> None:
    attrs, arrays = stored(family, dtype, logits)
    limits = Limits(score=0.6, overlap=1.0, most=1000)  # its logit is not 0
    hint = f"{family}-logits" if logits and dtype.is_float else family
    found = boxes_of(recognise(IMAGE, attrs, hint).decode(arrays, limits)[0])
    real = [Stored(attr).real(array) for attr, array in zip(attrs, arrays)]
    plain = [TensorAttr(a.index, a.name, a.dims, DType.FLOAT32, Layout.UNDEFINED) for a in attrs]
    head = recognise(IMAGE, plain, f"{family}-logits" if logits else family)
    for ours, wanted in zip(found, boxes_of(head.decode(real, limits)[0])):
        assert len(ours) > 20 and np.array_equal(ours, wanted)


@pytest.mark.parametrize("family", ["retinaface", "scrfd", "yunet"])
def test_only_what_passes_becomes_float(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    attrs, arrays = stored(family, DType.INT8)
    head = recognise(IMAGE, attrs)
    head.decode(arrays, Limits(score=0.999))  # thresholds are looked up once
    sizes: list[int] = []
    real = Stored.real

    def counted(self: Stored, values: Any) -> Any:
        sizes.append(values.size)
        return real(self, values)

    monkeypatch.setattr(
        Stored, "real", lambda self, values: (sizes.append(values.size), real(self, values))[1]
    )
    head.decode(arrays, Limits(score=0.999))
    assert sum(sizes) < sum(array.size for array in arrays) / 10
