"""What a genuine librknnrt computes on the rig, beside the backend npu-machine; ``test_genuine_library`` runs it.

RIG_EXPECTED is a folder of ``NAME.npz``: ``model`` (path below the repository), ``in0`` ..., and ``out0`` ... as stored elements.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rknnlite
from rknnlite.spi import AttrKind, Context, Input
from tests.support.corpus import ROOT
from tests.zerocopy.memories import bound, fill, plain

FOLDER = Path(os.environ["RIG_EXPECTED"])
NAMES = sorted(path.stem for path in FOLDER.glob("*.npz"))


class Expected:
    """One file of the folder."""

    def __init__(self, name: str) -> None:
        with np.load(FOLDER / f"{name}.npz") as stored:
            self.path = ROOT / str(stored["model"])
            self.inputs = [stored[key] for key in sorted(stored) if key.startswith("in")]
            self.outputs = [stored[key] for key in sorted(stored) if key.startswith("out")]

    def open(self, **options: Any) -> Context:
        """The model on the vendor's library, with its operators."""
        if "dual" in self.path.name:
            from tests.custom_ops.models import FullDual

            options["custom_ops"] = [FullDual()]
        return rknnlite.open(self.path, backend="rknnrt", **options)

    def check(self, outputs: list[Any]) -> None:
        """Byte for byte: the same words on the same machine, and the same bytes of inputs."""
        for ours, theirs in zip(outputs, self.outputs):
            assert np.array_equal(np.asarray(ours).reshape(theirs.shape), theirs)


@pytest.fixture(params=NAMES)
def expected(request: pytest.FixtureRequest) -> Iterator[Expected]:
    yield Expected(request.param)


def raws(context: Context, inputs: list[np.ndarray]) -> list[np.ndarray]:
    return [output.data for output in context.infer(inputs, raw=True)]


def test_inputs_set(expected: Expected) -> None:
    with expected.open() as context:
        for _ in range(2):
            expected.check(raws(context, expected.inputs))


def test_native_memory(expected: Expected) -> None:
    with expected.open() as context:
        for attr, data in zip(context.attrs(AttrKind.NATIVE_NHWC_INPUT), expected.inputs):
            fill(
                *bound(
                    context, attr, dtype=rknnlite.tensor.DType.from_numpy(data.dtype), w_stride=attr.w_stride
                ),
                data,
            )
        results = [bound(context, attr) for attr in context.native_outputs]
        context.run()
        expected.check([plain(attr, mem, out.shape) for (attr, mem), out in zip(results, expected.outputs)])


@pytest.mark.parametrize("mask", [1, 2, 4, 3, 7])
def test_core_masks(expected: Expected, mask: int) -> None:
    with expected.open(core_mask=mask) as context:
        expected.check(raws(context, expected.inputs))


def test_frames_that_were_begun(expected: Expected) -> None:
    with expected.open() as context:
        context.set_inputs([Input(i, data) for i, data in enumerate(expected.inputs)])
        context.wait(context.start())
        expected.check(context.get_outputs(want_float=False))


def test_a_duplicate(expected: Expected) -> None:
    with expected.open() as context, context.dup() as twin:
        expected.check(raws(twin, expected.inputs))


def test_figures(expected: Expected) -> None:
    with expected.open(collect_perf=True) as context:
        raws(context, expected.inputs)
        assert len(context.perf_table()) > 0 and context.memory().weight > 0
