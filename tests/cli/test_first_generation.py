"""What the doctor says on boards of the first NPU generation, whose driver, library and rules are others."""

from __future__ import annotations

from typing import Any, Callable

import pytest

from rknnlite.cli import health
from rknnlite.cli.health.finding import Level
from rknnlite.cli.health.models import pairing
from rknnlite.formats import ModelFile
from rknnlite.native.board import Board
from tests.doubles.rknn1.double1 import model

OLD_BOARD = {
    "proc/device-tree/compatible": "rockchip,rv1126-evb\0rockchip,rv1126\0",
    "proc/device-tree/model": "Old Board\0",
}
Machine = Callable[..., Any]


@pytest.mark.parametrize("there", [True, False])
def test_its_driver_is_another_one(machine: Machine, there: bool) -> None:
    board = Board(machine({**OLD_BOARD, **({"dev/galcore": ""} if there else {})}), lambda _: True)
    first, second = health.kernel(board)
    assert first.text.startswith("Old Board: RV1126")
    assert second.level is (Level.OK if there else Level.WARN) and "/dev/galcore" in second.text
    assert "rknpu" not in second.remedy


def test_rules_of_librknnrt_are_not_applied() -> None:
    """Toolkit 1.4.0 would need a librknnrt of 1.4.0 to 1.5.0."""
    old = ModelFile(model(version="1.4.0")).model
    found = pairing("model", "rknn1rt", old, "1.7.3 (abcdef0 build: 2022-07-07)")
    assert found.level is Level.INFO and "no rule is known" in found.text and not found.remedy
