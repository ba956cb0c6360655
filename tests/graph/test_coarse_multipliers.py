"""Channels whose multiplier does not hold their scale: which, how many, and what they lose."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from rknnlite_graph.coarse_multipliers import (
    CoarseLayer,
    coarse_data,
    coarse_findings,
    coarse_layers,
    coarse_of,
    coarse_summary,
    worst_of,
)
from rknnlite_graph.graph import Graph, Node, coarse
from rknnlite_graph.read import read_graph

from rknnlite.formats import ModelFile
from rknnlite.spi.finding import Level
from tests.support.corpus import genuine
from tests.support.swept import FLAWED, model


def graph_of(case: str, target: str) -> Graph:
    return read_graph(model(case, target, FLAWED).model)


def convolution(graph: Graph) -> Node:
    return next(n for n in graph.nodes if n.conv is not None and coarse(n.conv.stored_multiplier).any())


def changed(graph: Graph, **fields: Any) -> Graph:
    """The graph with another convolution in the place of the one with coarse multipliers."""
    old = convolution(graph)
    assert old.conv is not None
    new = replace(old, conv=replace(old.conv, **fields))
    return replace(graph, nodes=[new if node is old else node for node in graph.nodes])


def test_what_is_coarse() -> None:
    stored = np.array([0, 1, 24, 25, 16384, 16385, 53402], np.float64)
    assert coarse(stored).tolist() == [True, True, True, False, False, True, True]
    assert not coarse(None).any()
    assert not read_graph(ModelFile(genuine("conv_relu.rk3588.i8")).model).has_coarse
    assert graph_of("lstm_rows", "rk3562.i8").has_coarse


def test_channels_that_a_silent_one_spoils() -> None:
    (layer,) = coarse_layers(graph_of("silent_channels", "rk3588.i8"))
    assert (layer.node, layer.matrix, layer.of) == ('Conv "Conv:/2/Conv"', "", 8)
    assert layer.channels == layer.lost == tuple(range(2, 8)) and 5 < layer.steps < 50
    assert str(layer).startswith('Conv "Conv:/2/Conv": 6 of 8 channels (2-7); all lost: up to ')


def test_weights_that_were_fitted_to_their_multiplier() -> None:
    """rk3566 has no number below 16: few of 256 values are left of a weight, and the simulator knows."""
    (layer,) = coarse_layers(graph_of("silent_channels", "rk3566.i8"))
    assert layer.channels == tuple(range(2, 8)) and layer.lost == () and layer.steps < 2
    assert str(layer).endswith("6 of 8 channels (2-7); none changes what comes out by half a step")


def test_channels_without_weights_are_not_lost() -> None:
    """Of 16 channels 10 have coarse multipliers; the weights of the last two are zero, one by rounding."""
    graph = graph_of("uneven_channels", "rk3588.i8")
    conv = convolution(graph).conv
    assert conv is not None and coarse(conv.stored_multiplier).sum() == 10
    (layer,) = coarse_layers(graph)
    assert layer.channels == tuple(range(6, 14)) and set(layer.lost) < set(layer.channels)
    weight, zero = conv.weight(), conv.zero_point
    assert zero is not None
    silent = np.broadcast_to(zero.reshape(-1, 1, 1, 1), weight.shape)
    assert coarse_layers(changed(graph, weight=lambda: silent)) == []


def test_a_multiplier_of_nothing() -> None:
    graph = graph_of("silent_channels", "rk3588.i8")
    conv = convolution(graph).conv
    assert conv is not None and conv.stored_multiplier is not None and conv.multiplier is not None
    none = conv.stored_multiplier * (np.arange(8) != 5)
    (layer,) = coarse_layers(changed(graph, stored_multiplier=none, multiplier=none * 2.0**-14))
    assert layer.lost == tuple(range(2, 8)) and layer.steps == float("inf")
    assert str(layer).endswith("all lost: their scales are not in the file")
    assert coarse_data([layer])[0]["steps"] is None


def test_layers_that_share_one_multiplier() -> None:
    """Quantised as a whole: there is no scale to lose."""
    graph = changed(graph_of("silent_channels", "rk3588.i8"), stored_multiplier=None)
    assert not graph.has_coarse and coarse_layers(graph) == []


def test_rows_of_an_lstm_that_are_left_to_chance() -> None:
    """The converter wrote the first row of each gate; rows that pad the gates do not count."""
    rows = coarse_layers(graph_of("lstm_rows", "rk3562.i8"))
    assert [(layer.matrix, len(layer.channels), layer.of) for layer in rows] == [("W", 28, 32), ("R", 28, 32)]
    expected = tuple(n for n in range(32) if n % 8)
    assert all(layer.channels == layer.lost == expected for layer in rows)
    assert "28 of 32 rows of W (1-7, 9-15, 17-23, 25-31); all lost" in str(rows[0])


def test_what_is_said_of_all_layers() -> None:
    def layer(node: str, channels: int, lost: int, steps: float) -> CoarseLayer:
        return CoarseLayer(node, "", tuple(range(channels)), tuple(range(lost)), 40, steps)

    none, some, all_lost = layer("a", 3, 0, 0.1), layer("b", 30, 2, 1.5), layer("c", 4, 4, 9.0)
    assert coarse_summary([none]).startswith("3 channels of a have") and "none of which" in coarse_summary(
        [none]
    )
    assert coarse_summary([none, some]).startswith(
        "33 channels of 2 layers"
    ) and "2 of which" in coarse_summary([none, some])
    assert "all of which change" in coarse_summary([all_lost])
    many = [layer(str(n), 1, 1, float(n)) for n in range(5)]
    assert [each.node for each in worst_of([*many, none])] == ["2", "3", "4"]


@pytest.mark.parametrize(
    ("target", "level", "remedy"), [("rk3588.i8", Level.WARN, "float16"), ("rk3566.i8", Level.INFO, "")]
)
def test_what_doctor_is_told(target: str, level: Level, remedy: str) -> None:
    (finding,) = coarse_findings(model("silent_channels", target, FLAWED).model)
    assert finding.level is level and remedy in finding.remedy and bool(finding.remedy) == bool(remedy)


def test_a_graph_that_cannot_be_read() -> None:
    assert coarse_of(ModelFile(genuine("sparse.rk3576.i8")).model) == []
