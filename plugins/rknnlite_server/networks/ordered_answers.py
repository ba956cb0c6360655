"""Answers in the order of their questions, several of which are under way at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Optional, TypeVar

__all__ = ["in_order"]

Q = TypeVar("Q")
A = TypeVar("A")


async def in_order(
    questions: AsyncIterator[Q], answer: Callable[[Q], Awaitable[A]], most: int, ending: asyncio.Event
) -> AsyncIterator[A]:
    """The answers, in order. ``most`` questions at a time are under way or have answers that nobody has taken yet.

    The next question is not even read before there is room for it; none is after ``ending``. An error of the questions
    comes behind the answers to those before it. Left early, it cancels what is under way and waits for that.
    """
    room = asyncio.Semaphore(most)
    line: asyncio.Queue[Optional[asyncio.Future[A]]] = asyncio.Queue()
    tasks: set[asyncio.Future[Any]] = set()

    async def read() -> None:
        try:
            await room.acquire()
            async for question in questions:
                task = asyncio.ensure_future(answer(question))
                tasks.add(task)
                line.put_nowait(task)
                await room.acquire()
        finally:
            line.put_nowait(None)

    reader = asyncio.ensure_future(read())
    ender = asyncio.ensure_future(ending.wait())
    ender.add_done_callback(lambda _: reader.cancel())
    try:
        while True:
            task = await line.get()
            if task is None:
                break
            yield await task
            tasks.discard(task)
            room.release()
        if not (reader.cancelled() or ending.is_set()):
            await reader  # raises what the questions raised
    finally:
        ender.cancel()
        for left in (reader, *tasks):
            left.cancel()
        await asyncio.gather(reader, ender, *tasks, return_exceptions=True)
