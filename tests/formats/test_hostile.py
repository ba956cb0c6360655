"""Damaged genuine files: a typed error or a result; never another exception, a hang, or a flood of memory."""

from __future__ import annotations

from math import prod
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rknnlite.errors import ModelInvalid, ModelUnsupported, RknnError
from tests.support import damage, patches
from tests.support.corpus import genuine, open_cpu

# one small file per way of storing something
VICTIMS = [
    "act_silu.rk3588.i8",  # activation table in the register commands
    "acts_alone.rk3588.i8",
    "arithmetic.rk3588.i8",  # constants in NC1HWC2
    "attention.rk3588.i8",
    "conv_grey.rk3588.i8",
    "conv_relu.rv1126b.i8",  # first layer in its own order, parameter tensors
    "deconv_k5_s3.rk3588.i8",
    "depthwise_3x3.rk3576.i8",  # pairs of lanes
    "dynamic_three.rk3562.fp16",  # several graphs, shared weights
    "embedding.rk3588.fp16",
    "gru.rk3568.fp16",
    "lstm_bidirectional.rk3562.i8",
    "norms.rk3588.i8",
    "pooling.rk3576.i8",
    "ranking.rk3588.fp16",
    "reductions.rk3588.i8",
    "resize.rk3568.fp16",
    "sampling.rk3588.fp16",
    "shapes.rk3562.fp16",
    "batch_three.rk3576.i8",
]
SECONDS = 20.0
ALLOWANCE = 24 << 20
FUZZ_CORPUS = Path(__file__).parent / "data" / "fuzz.json"
RUNNABLE = 1 << 20  # elements: models that claim more are opened, but not run


def open_and_run(data: bytes) -> None:
    """What a caller does with a file, within the limits."""
    with damage.limits(SECONDS, ALLOWANCE + 40 * len(data)):
        try:
            with open_cpu(data) as context:
                if declared(context) > RUNNABLE:
                    return
                context.infer([np.zeros(attr.dims, np.float32) for attr in context.inputs])
        except RknnError as error:
            assert str(error)


def declared(context: object) -> int:
    """Elements of the largest tensor of the current graph."""
    graph = context._shapes.current.plan.graph  # type: ignore[attr-defined]
    return context.batch * max(prod(tensor.shape) for tensor in graph.tensors)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", VICTIMS)
def test_damaged(name: str) -> None:
    data = genuine(name).read_bytes()

    @given(damage.mixed(data))
    def check(damaged: bytes) -> None:
        open_and_run(damaged)

    check()


@pytest.mark.slow
@pytest.mark.parametrize("kind", damage.KINDS)
@pytest.mark.parametrize("name", VICTIMS)
def test_damaged_thoroughly(name: str, kind: str) -> None:
    data = genuine(name).read_bytes()

    @given(getattr(damage, kind)(data))
    def check(damaged: bytes) -> None:
        open_and_run(damaged)

    check()


@given(st.binary(max_size=400), st.booleans())
def test_random_bytes(data: bytes, headed: bool) -> None:
    open_and_run(b"RKNN\0\0\0\0\x06" + bytes(7) + data if headed else data)


@given(st.sampled_from(VICTIMS), st.sampled_from(VICTIMS), st.data())
def test_two_files_spliced(first: str, second: str, data: st.DataObject) -> None:
    a, b = genuine(first).read_bytes(), genuine(second).read_bytes()
    cut = data.draw(st.integers(0, min(len(a), len(b))))
    open_and_run(a[:cut] + b[cut:])


@pytest.mark.parametrize("patch", patches.load(FUZZ_CORPUS), ids=lambda patch: patch.victim)
def test_corpus_of_the_fuzzer(patch: patches.Patch) -> None:
    """One damaged file per kind of refusal that ``make fuzz`` has met: each is still refused in that way."""
    damaged = patch.apply()
    with (
        damage.limits(SECONDS, ALLOWANCE + 40 * len(damaged)),
        pytest.raises(RknnError) as caught,
        open_cpu(damaged) as context,
    ):
        context.infer([np.zeros(attr.dims, np.float32) for attr in context.inputs])
    assert patches.refusal(caught.value) == patch.answer


@pytest.mark.parametrize("kind", [ModelInvalid, ModelUnsupported])
def test_names_as_long_as_the_file_do_not_fill_the_message(kind: type[ModelInvalid]) -> None:
    text = str(kind(f"node {'x' * 40_000}: no such form; copy the file again"))
    assert len(text) < 2000 and text.startswith("node xxx") and text.endswith("copy the file again")
