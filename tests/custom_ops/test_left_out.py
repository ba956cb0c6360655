"""Custom operators in the mini format, which holds no attributes of theirs: the caller gives them, or is told."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

import rknnlite
from rknnlite.api.custom_op import get_node_attr
from rknnlite.spi import CustomOp, CustomOpFailed
from tests.support.corpus import ROOT

DATA = ROOT / "tests" / "graph" / "data"
NODE = "GridSample:GridSample_0"


@pytest.fixture(scope="module")
def model() -> bytes:
    """A genuine file for RV1106 whose node of type GridSample is of the type cstSampled instead."""
    data = (DATA / "grid_sample.rv1106.i8.rknn").read_bytes()
    asked = b"\x0a\x00\x00\x00GridSample\x00"  # a text of ten letters; the names are longer
    assert data.count(asked) == 1
    return data.replace(asked, asked.replace(b"GridSample", b"cstSampled"))


class Plain:
    """The PC toolkit's class."""

    op_type = "cstSampled"

    def compute(self, node: Any, inputs: list[np.ndarray]) -> list[np.ndarray]:
        return [np.full((1, 1), get_node_attr(node, "level") + 0.0) + 0 * self.shaped]

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shaped = np.zeros(shape, np.float32)


class Full(CustomOp):
    op_type = "cstSampled"

    def compute(self, ctx: Any, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> None:
        outputs[0][...] = ctx.attr("level")


def arrays() -> list[np.ndarray]:
    with np.load(DATA / "grid_sample.rv1106.i8.npz") as golden:
        return [golden["in0"], golden["in1"]]


def shape() -> tuple[int, ...]:
    with np.load(DATA / "grid_sample.rv1106.i8.npz") as golden:
        return tuple(golden["out0"].shape)


@pytest.mark.parametrize("key", ["cstSampled", NODE])
@pytest.mark.parametrize("op", [Plain(shape()), Full()], ids=["plain", "full"])
def test_given_attributes_reach_the_operator(
    op: Any, key: str, model: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with rknnlite.open(model, backend="cpu", custom_ops=[op], attributes={key: {"level": 0.25}}) as context:
        (found,) = context.infer(arrays())
    assert np.ptp(found) == 0 and abs(found.mean() - 0.25) < 0.02
    assert "attributes" not in caplog.text


@pytest.mark.parametrize("op", [Plain(shape()), Full()], ids=["plain", "full"])
def test_their_absence_is_named(op: Any, model: bytes, caplog: pytest.LogCaptureFixture) -> None:
    told = r'the file does not hold the attributes of this node.* attributes=\{"cstSampled": \{\.\.\.\}\}'
    with (
        caplog.at_level(logging.WARNING, "rknnlite"),
        rknnlite.open(model, backend="cpu", custom_ops=[op]) as context,
    ):
        # an operator with a default would compute in silence
        assert "does not hold the attributes" in caplog.text
        with pytest.raises(CustomOpFailed, match=told):
            context.infer(arrays())


def test_an_operator_without_any_is_left_in_peace(model: bytes, caplog: pytest.LogCaptureFixture) -> None:
    with rknnlite.open(model, backend="cpu", custom_ops=[Full()], attributes={"cstSampled": {}}) as context:
        assert "attributes" not in caplog.text
        with pytest.raises(CustomOpFailed, match=r"no attribute 'level'; there are: none$"):
            context.infer(arrays())
