"""Waiting that ends when it is due."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from rknnlite_server.async_helpers import within


def test_the_result_or_the_end_of_the_time() -> None:
    left: list[str] = []

    async def work(seconds: float) -> str:
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            left.append("cancelled")
            raise
        return "done"

    async def fails() -> str:
        raise KeyError("mine")

    async def both() -> None:
        assert await within(work(0), 10) == "done"
        with pytest.raises(KeyError, match="mine"):
            await within(fails(), 10)
        with pytest.raises(asyncio.TimeoutError):
            await within(work(10), 0.01)

    asyncio.run(both())
    assert left == ["cancelled"]


@pytest.mark.parametrize("steps", range(5))
def test_a_cancellation_that_comes_as_the_work_ends_is_not_lost(steps: int) -> None:
    """So many turns of the loop after the end of the work; ``asyncio.wait_for`` of Python 3.11 loses the first two."""

    async def run() -> tuple[bool, bool]:
        ready: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        waiting = asyncio.ensure_future(within(ready, 10))
        await asyncio.sleep(0.001)
        ready.set_result(None)
        for _ in range(steps):
            await asyncio.sleep(0)
        over = waiting.done()
        waiting.cancel()
        await asyncio.wait([waiting])
        return over, waiting.cancelled()

    over, cancelled = asyncio.run(run())
    assert cancelled is not over
