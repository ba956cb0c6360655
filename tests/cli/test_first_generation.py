"""What the doctor says on boards of the first NPU generation, whose driver is another one."""

from __future__ import annotations

from typing import Any, Callable

import pytest
from rknnlite_insight import health

from rknnlite.native.board import Board
from rknnlite.spi.finding import Level

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
