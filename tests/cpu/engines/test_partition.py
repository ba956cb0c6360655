"""Which runs of nodes a faster engine should have."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from rknnlite_cpu.engines.partition import pays
from rknnlite_graph.graph import Graph, Node

from tests.cpu.engines import native


def chain(channels: int, others: int) -> tuple[Graph, Node]:
    """A 1x1 convolution of as many channels in and out, and nodes behind it that other engines have."""
    graph = native.convolution(np.random.default_rng(0), (1, channels, 4, 4), channels, (1, 1))
    tensors = [
        graph.tensors[0],
        graph.tensors[1],
        *(native.tensor(2 + i, (1, channels, 4, 4)) for i in range(others)),
    ]
    nodes = [graph.nodes[0], *(Node(1 + i, "exSoftmax13", "s", [1 + i], [2 + i]) for i in range(others))]
    return native.graph_of(tensors, nodes), graph.nodes[0]


@pytest.mark.parametrize(
    ("channels", "others", "wanted"), [(4, 1, True), (4, 9, False), (2048, 9, True)], ids=str
)
def test_half_of_a_graph_or_much_work(channels: int, others: int, wanted: bool) -> None:
    graph, convolution = chain(channels, others)
    assert pays(replace(graph), [convolution]) is wanted
