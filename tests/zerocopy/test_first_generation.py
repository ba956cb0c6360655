"""Bound memory for files of the first toolkit: elements lie as the graph has them, NCHW for most pictures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

import rknnlite
from tests.support.rknn1_files import File, u8


def test_elements_of_nchw_memory_pass_through(tmp_path: Path) -> None:
    file = File()
    picture = file.input((1, 3, 8, 16), u8(1 / 255))
    file.output(file.node("RELU", [picture], u8(1 / 128, 3)), (1, 3, 8, 16))
    path = tmp_path / "model.rknn"
    path.write_bytes(file.data)
    elements = np.random.default_rng(1).integers(0, 256, (1, 3, 8, 16)).astype(np.uint8)
    with rknnlite.open(path, backend="cpu") as context:
        (expected,) = context.infer([elements], pass_through=True, raw=True)
    with rknnlite.open(path, backend="cpu") as context:
        (native,), (output,) = context.native_inputs, context.outputs
        source, target = context.create_mem(native.size), context.create_mem(output.size)
        source.ndarray[:] = elements.ravel()
        context.bind(replace(native, pass_through=True), source)
        context.bind(output, target)
        context.run()
        assert np.array_equal(target.ndarray, expected.data.ravel())
