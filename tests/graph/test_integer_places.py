"""The integers of output stages: every family keeps the same ones of a network, each in its own places."""

from __future__ import annotations

from typing import Any

import pytest
from rknnlite_graph.output_registers import OutputRegisters
from rknnlite_graph.read import read_graph
from rknnlite_graph.reading.integer_places import integers_of, output_registers, task_registers
from rknnlite_graph.reading.npu_families import FAMILIES, family_of
from rknnlite_graph.reading.register_map import V2A, V2B

from rknnlite.formats import ModelFile
from tests.support.corpus import genuine

SUM = {"bs_shift": 14, "bs_shift_negative": 14}
NODES = {
    ("resnet_like", 7, "rk3562 rk3568 rk3576 rk3588 rv1126b"): {
        **SUM, "out_multiplier": 30522, "out_shift": 22, "out_offset": -128, "ew_offset": 10, "ew_scale": 30876, "ew_shift": 7,
    },
    ("mobilenetv2_like", 9, "rk3562 rk3568 rk3576 rk3588 rv1103b rv1106 rv1126b"): {
        **SUM, "out_multiplier": 22098, "out_shift": 24, "out_offset": 19, "ew_offset": -10, "ew_scale": 16420, "ew_shift": 5,
    },
    ("act_leaky", 1, "rk3588 rv1103b rv1106"): {
        "bs_shift": 2, "bs_shift_negative": 16, "bn_multiplier": 1638, "out_multiplier": 30127, "out_shift": 36,
        "out_offset": -107,
    },
    ("residual_leaky_add", 2, "rk3588 rv1106"): {
        "bs_shift": 2, "bs_shift_negative": 16, "bn_multiplier": 1638, "bn_shift": 8, "bn_shift_negative": 8,
        "ew_offset": 128, "ew_scale": 20071, "ew_shift": 2, "out_multiplier": 23773, "out_shift": 28, "out_offset": -109,
    },
    ("acts_alone", 5, "rk3588 rv1106"): {
        "bs_multiplier": 16384, "bs_shift_negative": 14, "bn_multiplier": 1638, "out_multiplier": 29789, "out_shift": 28,
        "out_offset": -105,
    },
    ("acts_alone", 4, "rk3588 rv1106"): {"bs_limit": 384, "out_multiplier": 16384, "out_shift": 13, "out_offset": -128},
    ("squeeze_excite", 6, "rk3588"): {
        "bs_offset": 128, "ew_offset": 128, "out_multiplier": 19695, "out_shift": 22, "out_offset": -128,
    },
}  # fmt: skip
"""(network, node, SoCs) -> what its registers hold."""
CASES = [(name, node, soc, held) for (name, node, socs), held in NODES.items() for soc in socs.split()]


def registers_of(stem: str, node: int) -> OutputRegisters:
    graph = read_graph(ModelFile(genuine(stem)).model)
    stage = next(each for each in graph.nodes if each.index == node).stage
    assert stage is not None and stage.read_registers is not None
    return stage.read_registers()


@pytest.mark.parametrize(("name", "node", "soc", "held"), CASES)
def test_every_family_has_the_same_integers(name: str, node: int, soc: str, held: dict[str, Any]) -> None:
    found = registers_of(f"{name}.{soc}.i8", node)
    assert {field: getattr(found, field) for field in held} == held
    assert not found.out_round_away and not found.truncation
    assert found.out_offset_first is (soc == "rv1106")


def test_a_second_factor_lies_with_what_is_added() -> None:
    """Nothing else of a layer tells ``bn_multiplier``; where it is off, the stage has no factor."""
    graph = read_graph(ModelFile(genuine("resnet_like.rk3576.i8")).model)
    joined = [node.stage for node in graph.nodes if node.op == "ConvAddRelu"]
    assert all(stage is not None and stage.second_scale == 1 for stage in joined)


def test_every_family_says_where_it_was_measured() -> None:
    assert {word: row.measured_on for word, row in FAMILIES.items()} == {
        "RKNPU v2": "RK3588", "RKNPU lite": "", "RKNPU t4": "", "RKNPU f2": "RK3576", "RKNPU f3": "", "RKNPU t3": "RV1103",
        "RKNPU w1": "",
    }  # fmt: skip
    assert [row.word for row in FAMILIES.values() if row.offset_before_rounding] == ["RKNPU t3"]
    assert read_graph(ModelFile(genuine("conv_1x1.rk3588.i8")).model).measured_on == "RK3588"


def test_every_register_map_has_integers() -> None:
    assert all(integers_of(row.places).operand for row in FAMILIES.values())
    assert integers_of(V2A) != integers_of(V2B)


def test_the_tie_bit() -> None:
    for word, register in (("RKNPU v2", 0x4088), ("RKNPU f2", 0x40B4), ("RKNPU t3", 0x4088)):
        found = output_registers(family_of(word), {register: 1 << 30 | 22}, convolves=True)
        assert found.out_round_away and found.out_shift == 22


def test_tasks_inherit_from_the_last_but_one() -> None:
    """Units have two groups of registers, which take turns."""
    runs = [{0x4080: 5, 0x4084: 7}, {0x4080: 6, 0x4084: 8}, {0x4080: 9}]
    found = task_registers(family_of("RKNPU v2"), runs)
    assert [(each.out_offset, each.out_multiplier) for each in found] == [(5, 7), (6, 8), (9, 7)]


def test_all_tasks_of_a_concatenation() -> None:
    graph = read_graph(ModelFile(genuine("channels.rk3588.i8")).model)
    stage = next(node for node in graph.nodes if node.index == 16).stage
    assert stage is not None and stage.read_tasks is not None
    found = {(each.bs_offset, each.out_multiplier, each.out_shift) for each in stage.read_tasks()}
    assert {(0, 0x5539, 16), (128, 0x5564, 15), (0, 0x5539, 15)} <= found
