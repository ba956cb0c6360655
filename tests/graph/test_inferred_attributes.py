"""Attributes that shapes and calibrated ranges tell, and those that they leave open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_graph.graph import Node, Tensor, TensorRole
from rknnlite_graph.read import read_graph
from rknnlite_graph.reading.inferred_attributes import axis_inside, inferred_attributes

import rknnlite
from rknnlite.errors import ModelUnsupported, ParamInvalid
from rknnlite.formats import ModelFile
from rknnlite.tensor import DType, QuantParams
from tests.support.corpus import genuine


def tensor(*shape: int, quant: tuple[float, int] | None = None, dtype: DType | None = None) -> Tensor:
    params = QuantParams(*quant) if quant else None
    dtype = dtype or (DType.INT8 if quant else DType.INT64)
    return Tensor(0, "t", dtype, shape, TensorRole.ACTIVATION, params)


def infer(op: str, inputs: list[Tensor], *outputs: Tensor) -> dict[str, Any]:
    return inferred_attributes(Node(0, op, "n", [], []), inputs, list(outputs))


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ((0.01413, -118), {"axis": 3, "largest": 1}),  # -0.14 to 3.46 of -3.49 to 3.47
        ((0.01600, 91), {"axis": 3, "largest": 0}),
        ((0.0273, 0), {}),  # both ends stay
        ((0.0100, 0), {}),  # neither
    ],
)
def test_top_k(result: tuple[float, int], expected: dict[str, int]) -> None:
    assert (
        infer("TopK", [tensor(1, 12, 8, 20, quant=(0.0273, 0))], tensor(1, 12, 8, 4, quant=result))
        == expected
    )


def test_top_k_of_a_whole_axis() -> None:
    x = tensor(1, 12, quant=(0.02, 0))
    assert infer("TopK", [x], tensor(1, 12, quant=(0.01, -118))) == {}


def test_gather_nd() -> None:
    x = tensor(1, 16, 12, 10)
    assert infer("GatherND", [x, tensor(3, 2)], tensor(3, 12, 10)) == {"batch_dims": 0}
    assert infer("GatherND", [x, tensor(1, 3, 1)], tensor(1, 3, 12, 10)) == {"batch_dims": 1}
    assert infer("GatherND", [tensor(3, 3, 3), tensor(3, 1)], tensor(3, 3, 3)) == {"batch_dims": 0}
    assert infer("GatherND", [tensor(2, 2), tensor(2, 5)], tensor(7)) == {}


def test_one_hot() -> None:
    assert infer("OneHot", [tensor(1, 6), tensor(1), tensor(2)], tensor(1, 6, 8)) == {"axis": 2}
    assert infer("OneHot", [tensor(6, 6), tensor(1), tensor(2)], tensor(6, 6, 6)) == {}


def test_cast() -> None:
    x = tensor(4, quant=(0.07, 3))
    assert infer("Cast", [x], tensor(4, quant=(1.0, 0))) == {"to": 9}
    assert infer("Cast", [x], tensor(4, quant=(0.07, 3))) == {}
    assert infer("Cast", [x], tensor(4)) == {}


def test_mod_of_real_numbers() -> None:
    assert infer("Mod", [tensor(4, quant=(0.07, 3)), tensor(4)], tensor(4, quant=(0.07, 3))) == {"fmod": 1}
    assert infer("Mod", [tensor(4), tensor(4)], tensor(4)) == {}


def test_other_operators_are_left_alone() -> None:
    assert infer("Trilu", [tensor(4, 4)], tensor(4, 4)) == {}


# -- attributes that the caller gives ------------------------------------------------------------------------

DATA = Path(__file__).parent / "data"
SAMPLING = {"mode": "bilinear", "padding_mode": "border", "align_corners": 1}


def test_what_the_file_leaves_out_is_refused_with_the_remedy() -> None:
    with pytest.raises(
        ModelUnsupported, match=r'GridSample "(.+)": container .* attributes=\{"\1": \{\.\.\.\}\}'
    ):
        rknnlite.open(DATA / "grid_sample.rv1106.i8.rknn", backend="cpu")


@pytest.mark.parametrize("key", ["GridSample", "GridSample:GridSample_0"])
def test_given_attributes_make_it_run(key: str) -> None:
    with (
        np.load(DATA / "grid_sample.rv1106.i8.npz") as golden,
        rknnlite.open(
            DATA / "grid_sample.rv1106.i8.rknn", backend="cpu", attributes={key: SAMPLING}
        ) as context,
    ):
        (found,) = context.infer([golden["in0"], golden["in1"]])
        assert np.array_equal(found, golden["out0"])


def test_other_attributes_give_another_result() -> None:
    with (
        np.load(DATA / "grid_sample.rv1106.i8.npz") as golden,
        rknnlite.open(
            DATA / "grid_sample.rv1106.i8.rknn",
            backend="cpu",
            attributes={"GridSample": {}},  # ONNX defaults
        ) as context,
    ):
        (found,) = context.infer([golden["in0"], golden["in1"]])
        assert not np.array_equal(found, golden["out0"])


@pytest.mark.parametrize(
    ("name", "attributes", "complaint"),
    [
        (
            "grid_sample.rv1106.i8",
            {"GridSample": SAMPLING, "Trilu": {}},
            "'Trilu': no node has that name or type",
        ),
        ("grid_sample.rv1106.i8", {"GridSample": 3}, r"must be \{node or type: \{name: value\}\}"),
        ("grid_sample.rv1106.i8", ["GridSample"], r"must be \{node or type: \{name: value\}\}"),
    ],
)
def test_attributes_for_nobody(name: str, attributes: Any, complaint: str) -> None:
    with pytest.raises(ParamInvalid, match=complaint):
        rknnlite.open(DATA / f"{name}.rknn", backend="cpu", attributes=attributes)


def test_stored_attributes_stay() -> None:
    with pytest.raises(ParamInvalid, match="'MaxPool': the model stores its own"):
        read_graph(ModelFile(genuine("pooling.rk3588.i8")).model, 0, {"MaxPool": {"kernel_shape": [9, 9]}})


def test_a_told_axis_counts_the_dimensions_of_the_network() -> None:
    """The converter puts dimensions of one between those of vectors and sequences."""
    assert axis_inside(2, (1, 9, 4), (1, 9, 1, 4)) == 3
    assert axis_inside(1, (1, 13), (1, 1, 1, 13)) == 3
    assert axis_inside(-1, (1, 9, 4), (1, 9, 4, 1)) == 2


def test_an_axis_of_the_file_stays() -> None:
    assert axis_inside(1, (1, 9, 4), (1, 9, 1, 4)) == 1
    assert axis_inside(3, (1, 9, 4), (1, 9, 1, 4)) == 3
    assert axis_inside(2, (1, 36, 4), (1, 4, 1, 36)) == 2
    assert axis_inside("no axis", (1, 9, 4), (1, 9, 1, 4)) == "no axis"
