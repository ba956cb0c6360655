"""What a file leaves out is not damage: constants without data, operands that are not given, remarks for humans."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rknnlite.errors import ModelInvalid
from rknnlite.formats import ModelFile
from rknnlite.formats.slots import ClassicRootSlot, CommandSlot, RootSlot
from tests.support import classic
from tests.support.corpus import genuine, golden_of, open_cpu
from tests.support.flat import build
from tests.support.handmade import CONST, FLOAT32, INPUT, OUTPUT, container, graph, node, root, tensor

X = tensor("x", (1, 1, 2, 2), INPUT)
LARGE = tensor("y", (1, 1, 4, 4), OUTPUT)
SAME = tensor("y", (1, 1, 2, 2), OUTPUT)
PICTURE = np.arange(4, dtype=np.float32).reshape(1, 2, 2, 1)


def model(
    tensors: list[Any], nodes: list[Any], version: int = 6, notes: str = "{}", blobs: Any = None
) -> bytes:
    """A file with input 0 and output 1; containers 1 to 5 keep their blobs in another place."""
    fields = root([graph(tensors, [node("InputOperator", [], [0]), *nodes], [0], [1])], notes, blobs)
    if version < 6:
        fields = {ClassicRootSlot.OLD_BLOBS if k == RootSlot.BLOBS else k: v for k, v in fields.items()}
    return container(build(fields), version)


def run(data: bytes) -> np.ndarray:
    with open_cpu(data) as context:
        return np.asarray(context.infer([PICTURE])[0])


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("shape", [(0,), (8,), ()])
def test_empty_roi_and_scales_of_resize(version: int, shape: tuple[int, ...]) -> None:
    """Toolkit 1.5 gives them the blob number -1."""
    empty = [tensor(name, shape, CONST, FLOAT32, s18=-1) for name in ("roi", "scales")]
    found = run(model([X, LARGE, *empty], [node("Resize", [0, 2, 3], [1])], version))
    assert np.array_equal(found, PICTURE.reshape(1, 1, 2, 2).repeat(2, axis=2).repeat(2, axis=3))


def test_a_limit_of_clip_without_data() -> None:
    blobs = [b"", np.float32(2).tobytes()]
    limits = [tensor("low", (), CONST, FLOAT32, s18=-1), tensor("high", (), CONST, FLOAT32, s18=1)]
    found = run(model([X, SAME, *limits], [node("Clip", [0, 2, 3], [1])], blobs=blobs))
    assert np.array_equal(found.reshape(-1), [0, 1, 2, 2])


def test_an_operand_number_of_minus_one() -> None:
    high = tensor("high", (), CONST, FLOAT32, s18=1)
    data = model([X, SAME, high], [node("Clip", [0, -1, 2], [1])], blobs=[b"", np.float32(2).tobytes()])
    assert np.array_equal(run(data).reshape(-1), [0, 1, 2, 2])


def test_what_may_not_be_absent() -> None:
    for operands in ([-1], [-1, 0]):
        with pytest.raises(ModelInvalid, match='node Relu "relu": its operand 0 is missing'):
            run(model([X, SAME], [node("Relu", operands, [1])]))
    other = tensor("other", (1, 1, 2, 2), CONST, s18=-1)
    with pytest.raises(ModelInvalid, match='node Add "add": operand 1 is missing'):
        run(model([X, SAME, other], [node("Add", [0, 2], [1])]))
    with pytest.raises(ModelInvalid, match="other: blob -2 does not exist"):
        run(model([X, SAME, tensor("other", (1, 1, 2, 2), CONST, s18=-2)], [node("Add", [0, 2], [1])]))
    with pytest.raises(ModelInvalid, match=r"tensor numbers \[-1\]"):
        run(model([X, SAME], [node("Relu", [0], [-1])]))


def test_a_remark_in_place_of_the_attributes() -> None:
    """Container 1 has one; others are no less readable with it."""
    for version in (4, 6):
        found = run(
            model([X, SAME], [node("Relu", [0], [1])], version, "Generated from compiler version: 1.1")
        )
        assert np.array_equal(found.reshape(-1), PICTURE.reshape(-1))


def test_means_that_are_none() -> None:
    file = ModelFile(model([X, SAME], [node("Relu", [0], [1])], notes="{'attrs': {'x': {'mean': [None]}}}"))
    assert file.model.inputs[0].mean == ()


def test_a_command_without_activation_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """0 says so, -1 does no less."""
    name, plain = "conv_relu.rk3588.i8", classic._commands

    def commands(*args: Any) -> list[Any]:
        return [{**c, CommandSlot.TABLE: c.get(CommandSlot.TABLE) or -1} for c in plain(*args)]

    monkeypatch.setattr(classic, "_commands", commands)
    golden = golden_of(name)
    expected = open_cpu(genuine(name)).infer(golden.inputs)
    for ours, reference in zip(open_cpu(classic.downgrade(genuine(name), 4)).infer(golden.inputs), expected):
        assert np.array_equal(ours, reference)


def test_a_recurrent_node_without_bias() -> None:
    """ONNX lets B out; on the CPU the file does, too."""
    steps, width, hidden = 3, 4, 2
    rng = np.random.default_rng(1)
    w, r = (rng.normal(size=(1, 4 * hidden, n)).astype(np.float32) for n in (width, hidden))
    tensors = [
        tensor("x", (steps, 1, width), INPUT, FLOAT32),
        tensor("y", (steps, 1, 1, hidden), OUTPUT, FLOAT32),
        tensor("W", w.shape, CONST, FLOAT32, s18=1),
        tensor("R", r.shape, CONST, FLOAT32, s18=2),
        tensor("B", (1, 8 * hidden), CONST, FLOAT32, s18=3),
    ]
    blobs = [b"", w.tobytes(), r.tobytes(), np.zeros(8 * hidden, np.float32).tobytes()]
    x = rng.normal(size=(steps, 1, width)).astype(np.float32)
    results = []
    for operands in ([0, 2, 3, 4], [0, 2, 3], [0, 2, 3, -1]):
        with open_cpu(model(tensors, [node("LSTM", operands, [1])], blobs=blobs)) as context:
            results.append(context.infer([x])[0])
    assert np.array_equal(results[0], results[1]) and np.array_equal(results[0], results[2])
    assert np.abs(results[0]).max() > 0
