"""No payload is copied on the zero-copy path; counted by the test double and by tracemalloc."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np

import rknnlite
from rknnlite import DType
from tests.doubles.double import Double, model
from tests.rknnrt.conftest import double, library  # noqa: F401  fixtures

FRAME = ("input image int8 4 1 108 192 3 1 0", "output scores int8 2 1 1000 0.1 5", "op none")
PAYLOAD = 108 * 192 * 3


def test_the_common_path_copies_the_payload(double: Double) -> None:  # noqa: F811
    with rknnlite.open(model(*FRAME)) as context:
        context.infer(np.zeros((1, 108, 192, 3), np.uint8))
        assert double.copied() >= PAYLOAD


def test_bound_memory_is_not_copied(double: Double) -> None:  # noqa: F811
    with rknnlite.open(model(*FRAME)) as context:
        native = replace(context.native_inputs[0], dtype=DType.UINT8)
        frame, out = context.create_mem(native.size_with_stride), context.native_outputs[0]
        context.bind(native, frame)
        context.bind(out, context.create_mem(out.size_with_stride))
        pixels = frame.ndarray
        context.run()
        double.reset()
        tracemalloc.start()
        pixels[:] = 3
        context.run()
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert double.copied() == 0 and double.count("rknn_inputs_set") == 0
        assert most < PAYLOAD / 10
        del pixels
