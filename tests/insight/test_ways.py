"""One file in float, as the simulator, as a chip and by the machine, side by side."""

from __future__ import annotations

import pytest
from rknnlite_insight import Parted, Ways, WaysRow, compare_ways
from rknnlite_insight.commands.compare_ways import ways_data

from rknnlite.errors import ModelUnsupported
from tests.support.corpus import genuine, golden_of

NAME = "residual_silu_add.rk3588.i8"


@pytest.fixture(scope="module")
def found() -> Ways:
    return compare_ways(genuine(NAME), golden_of(NAME).inputs)


def test_all_ways_are_gone(found: Ways) -> None:
    assert found.absent == {} and found.model == f"{NAME}.rknn"
    assert [row.op for row in found.rows] == ["InputOperator", "ConvRelu", "ConvExSwish", "Add"]
    assert all(row.floating is not None and row.alone is not None for row in found.rows)


def test_a_layer_alone_parts_by_one_step_at_most(found: Ways) -> None:
    size, count, most = found.totals("alone")
    assert 0 < count <= 0.005 * size and 0.9 < most < 1.1


def test_the_machine_computes_what_silicon_does(found: Ways) -> None:
    size, count, most = found.totals("machine")
    assert size >= 4320 and count == 0 and most == 0


def test_pixels_are_what_moves_most(found: Ways) -> None:
    """The input's offset is a whole number on a board."""
    size, moved, most = found.totals("silicon", "input")
    assert 0.1 < moved / size < 0.5 and 0.9 < most < 1.1


def test_a_way_that_is_not_there_says_why() -> None:
    other = "arithmetic.rv1103b.i8"
    found = compare_ways(genuine(other), golden_of(other).inputs)
    assert set(found.absent) == {"machine"} and "DPU 0x" in found.absent["machine"]
    assert all(row.machine is None for row in found.rows)


def test_the_simulator_must_be_there() -> None:
    with pytest.raises(ModelUnsupported):
        compare_ways(genuine("sparse.rk3576.i8"), golden_of("conv_1x1.rk3576.i8").inputs)


def test_progress_is_told() -> None:
    told: list[tuple[int, int, str]] = []
    compare_ways(
        genuine("conv_1x1.rk3588.i8"),
        golden_of("conv_1x1.rk3588.i8").inputs,
        progress=lambda *a: told.append(a),
    )
    assert [word for *_, word in told] == ["simulator", "float", "alone", "silicon", "machine"]


def test_programs_get_counts() -> None:
    rows = [
        WaysRow("x", "InputOperator", "input", 100, Parted(0, 0.4), Parted(0, 0), Parted(28, 1), None),
        WaysRow("y", "Conv", "output", 100_000, Parted(900, 2), Parted(1, 1), Parted(1200, 2), None),
    ]
    found = Ways("m.rknn", rows, {"machine": "no such family"})
    data = ways_data(found)
    assert (
        data["tensors"][1]["silicon"] == {"differ": 1200, "most": 2} and data["tensors"][0]["machine"] is None
    )
    assert data["absent"] == {"machine": "no such family"}
    assert found.totals("silicon") == (100_100, 1228, 2) and found.totals("silicon", "output") == (
        100_000,
        1200,
        2,
    )
