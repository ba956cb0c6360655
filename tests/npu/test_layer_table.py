"""An estimate for every layer, in the table of layers."""

from __future__ import annotations

import pytest
from rknnlite_insight.commands.perf_text import estimate_parts
from rknnlite_npu.counts import count
from rknnlite_npu.cycles import WIDTHS, node_cycles
from rknnlite_npu.layer_table import layer_table

from rknnlite.spi.terminal import render

from .plans import SOCS, planned, plans_of


def test_a_row_for_each_node_that_somebody_computes() -> None:
    found = planned("resize.rk3588.i8")
    table = layer_table(found)
    busy = {str(node.node) for node in count(found) if node.tasks}
    assert (
        busy <= {row.id for row in table}
        and [row.op for row in table if row.target == "CPU"] == ["Resize"] * 2
    )
    assert all(row.time_us is None and row.cell("TaskNumber") == "\\" for row in table if row.target == "CPU")


def test_sums_are_those_of_the_counts() -> None:
    found = planned("resnet18_for_RK3588")
    for mask in (1, 3, 7):
        counts, table = count(found, mask), layer_table(found, mask)
        widths = WIDTHS[found.program.family]
        cycles = sum(node_cycles(node, widths).total for node in counts)
        assert table.total_us == pytest.approx(cycles / 1000)
        assert table.total_kb == pytest.approx(sum(node.fetched + node.written for node in counts) / 1024)
        assert table.cores == bin(mask).count("1") == len(table[0].cell(table.columns[11]).split("/"))


@pytest.mark.parametrize("soc", SOCS)
def test_multipliers_are_never_used_beyond_their_number(soc: str) -> None:
    for name, found in plans_of(soc):
        for row in layer_table(found):
            usage = row.cell("MacUsage(%)")
            assert usage == "\\" or 0 <= float(usage) <= 100, (name, row.name)


def test_a_terminal_shows_it_in_its_width() -> None:
    table = layer_table(planned("resnet18_for_RK3588"), 7)
    text = render(estimate_parts(table), 80, None)
    assert "an estimate from counts at 1 GHz" in text and "operators" in text and "read and written: " in text
    assert max(map(len, text.splitlines())) <= 80
    assert "ConvAddRelu" in text
