"""Figures of a tensor, channel by channel."""

from __future__ import annotations

import numpy as np
import pytest
from rknnlite_insight.causes.edge import Edge, channels_of
from rknnlite_insight.dumps import DumpedTensor

INT8 = DumpedTensor("t", "n", "Conv", "INT8", (1, 2, 1, 2), "t.npy", scale=1.0, zero_point=0)


def test_channels() -> None:
    assert channels_of(np.zeros((2, 3, 4, 5))).shape == (3, 40)
    assert channels_of(np.zeros((2, 7))).shape == (7, 2)
    assert channels_of(np.zeros((1, 6, 9))).shape == (9, 6)
    assert channels_of(np.zeros(5)).shape == (1, 5)


def test_what_storing_takes() -> None:
    golden = np.array([[100.0, 300.0], [0.4, 0.4]], np.float32).reshape(1, 2, 1, 2)
    edge = Edge(INT8)
    for _ in range(2):
        edge.add(golden, golden, golden + 1, golden)
    assert edge.clipped.tolist() == [2, 0] and edge.clipped_share == 0.25
    assert edge.lost == pytest.approx([2 * 173.0**2, 2 * 2 * 0.16])
    assert edge.beyond == pytest.approx([2 * 173.0**2, 0]) and edge.saturates
    assert edge.errors("lost")[1] == pytest.approx(1.0)
    assert edge.errors("alone")[1] == pytest.approx(2.5)
    assert edge.error("entire") == 0 and edge.cosine == pytest.approx(1)
    assert edge.levels.tolist() == [127, pytest.approx(0.4)]
    assert edge.decibels("entire") == (np.inf, np.inf)


def test_float16_rounds_and_ends() -> None:
    about = DumpedTensor("t", "n", "Conv", "FP16", (1, 1, 1, 2), "t.npy")
    edge = Edge(about)
    golden = np.array([1.0002, 70000.0], np.float32).reshape(1, 1, 1, 2)
    edge.add(golden, golden, golden, golden)
    assert edge.clipped.tolist() == [1] and edge.large is None
