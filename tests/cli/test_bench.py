"""bench: every row is a pool, so that what it measures is what a program with ``rknnlite.Pool`` gets."""

from __future__ import annotations

from typing import Any

import pytest
from rknnlite_insight.commands import bench

from tests.support.corpus import genuine

from .conftest import Call


@pytest.fixture
def pools(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, Any]]:
    """Size and cores of the pools that are made."""
    made: list[tuple[int, Any]] = []

    class Pool(bench.Pool):
        def __init__(self, model: Any, size: int, cores: Any, **options: Any) -> None:
            made.append((size, cores))
            super().__init__(model, size, cores, **options)

    monkeypatch.setattr(bench, "Pool", Pool)
    return made


@pytest.mark.parametrize("zero_copy", ["off", "on"])
def test_a_row_is_a_pool(call: Call, pools: list[tuple[int, Any]], zero_copy: str) -> None:
    words = ("--runs", 3, "--workers", "1,3", "--zero-copy", zero_copy, "--json")
    rows = call("bench", genuine("conv_1x1.rk3588.i8"), *words).data["rows"]
    assert pools == [(1, "spread"), (3, "spread")]
    assert [row["runs"] for row in rows] == [3, 9]


def test_masks_are_those_of_the_workers(call: Call, pools: list[tuple[int, Any]]) -> None:
    done = call(
        "bench", genuine("conv_1x1.rk3588.i8"), "--runs", 1, "--workers", 2, "--core-masks", "auto,core_0_1"
    )
    assert pools == [(2, "auto"), (2, 3)]
    assert [line.split()[1] for line in done.out.splitlines()[1:]] == [
        "NPU_CORE_AUTO",
        "NPU_CORE_0_1",
    ]


@pytest.mark.parametrize("name", ["ranking.rk3588.fp16", "sampling.rk3588.fp16", "dynamic_three.rk3588.i8"])
@pytest.mark.filterwarnings("error")
def test_buffers_hold_numbers(call: Call, name: str) -> None:
    done = call("bench", genuine(name), "--runs", 2, "--warmup", 0, "--workers", 2, "--zero-copy", "on")
    assert done.code == 0, done.err
