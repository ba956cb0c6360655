"""Answers in the order of their questions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

pytest.importorskip("starlette")

from rknnlite_server.async_helpers import closing
from rknnlite_server.networks.ordered_answers import in_order


class Asked:
    """Questions by number, each told when it was read; ``fails`` behind them, or waits."""

    def __init__(self, count: int, fails: bool = False, waits: bool = False) -> None:
        self.count, self.fails, self.waits, self.read = count, fails, waits, 0

    async def all(self) -> AsyncIterator[int]:
        for number in range(self.count):
            self.read += 1
            yield number
        if self.fails:
            raise KeyError("no more")
        if self.waits:
            await asyncio.Event().wait()


def test_order_is_kept_and_so_many_are_under_way() -> None:
    async def run() -> None:
        now = most = 0

        async def answer(number: int) -> int:
            nonlocal now, most
            now += 1
            most = max(most, now)
            await asyncio.sleep(0.003 if number % 3 else 0.01)
            now -= 1
            return number

        found = [number async for number in in_order(Asked(30).all(), answer, 4, asyncio.Event())]
        assert found == list(range(30)) and most == 4

    asyncio.run(run())


def test_nothing_more_is_read_while_nobody_takes_the_answers() -> None:
    async def run() -> None:
        asked = Asked(1000)
        async with closing(in_order(asked.all(), _same, 5, asyncio.Event())) as answers:
            assert await answers.__anext__() == 0
            await asyncio.sleep(0.05)
            assert asked.read == 5
            assert await answers.__anext__() == 1
            await asyncio.sleep(0.05)
            assert asked.read == 6

    asyncio.run(run())


def test_an_error_of_the_questions_comes_behind_their_answers() -> None:
    async def run() -> None:
        found = []
        with pytest.raises(KeyError):
            async for number in in_order(Asked(3, fails=True).all(), _same, 2, asyncio.Event()):
                found.append(number)  # noqa: PERF401  (what came before the error)
        assert found == [0, 1, 2]

    asyncio.run(run())


def test_who_leaves_early_leaves_nothing_behind() -> None:
    async def run() -> None:
        ended: list[int] = []

        async def answer(number: int) -> int:
            try:
                await asyncio.sleep(0 if number == 0 else 60)
            finally:
                ended.append(number)
            return number

        async with closing(in_order(Asked(9, waits=True).all(), answer, 4, asyncio.Event())) as answers:
            assert await answers.__anext__() == 0
            await asyncio.sleep(0.01)
        assert sorted(ended) == [0, 1, 2, 3] and len(asyncio.all_tasks()) == 1

    asyncio.run(run())


@pytest.mark.parametrize("count", [0, 2])
def test_the_end_answers_what_was_read_and_reads_no_more(count: int) -> None:
    async def run() -> None:
        ending, asked = asyncio.Event(), Asked(count, waits=True)
        asyncio.get_running_loop().call_later(0.02, ending.set)

        async def answer(number: int) -> int:
            await asyncio.sleep(0.05)
            return number

        assert [number async for number in in_order(asked.all(), answer, 4, ending)] == list(range(count))

    asyncio.run(run())


async def _same(number: Any) -> Any:
    return number
