"""Biases and scales of 8-bit weights on float16 data."""

from __future__ import annotations

import numpy as np
from rknnlite_graph.reading.weights import parse_scaled_bias


def test_layers_without_a_bias_have_scales_alone() -> None:
    scales = np.linspace(0.001, 0.004, 8).astype("<f2")
    bias, scale = parse_scaled_bias(memoryview(scales.tobytes()), 8, "conv")
    np.testing.assert_array_equal(bias, np.zeros(8, np.float32))
    np.testing.assert_array_equal(scale, scales.astype(np.float32))
