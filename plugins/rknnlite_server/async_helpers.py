"""Ends of asynchronous things that come when they are due, also when the task is cancelled."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, Optional, TypeVar

__all__ = ["closing", "in_thread", "in_thread_of", "settled", "within"]

T = TypeVar("T")


@asynccontextmanager
async def closing(generator: AsyncGenerator[T, None]) -> AsyncIterator[AsyncGenerator[T, None]]:
    """Close a generator on leaving. Without it, one that is left in the middle goes on until somebody collects it."""
    try:
        yield generator
    finally:
        await generator.aclose()


async def settled(future: asyncio.Future[Any]) -> None:
    """Wait until a future has its result; whoever is cancelled meanwhile is so afterwards."""
    cancelled = False
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError


async def within(work: Awaitable[T], seconds: float) -> T:
    """The result of ``work``, which ends when its caller is cancelled or the time is over. Raises ``asyncio.TimeoutError``.

    ``asyncio.wait_for`` before Python 3.12 loses a cancellation that comes as the work ends: answers went on for clients that
    were gone.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait([task], timeout=seconds)
        if not task.done():
            raise asyncio.TimeoutError
    except BaseException:
        task.cancel()
        await settled(task)
        if not task.cancelled():
            task.exception()  # nobody else asks for it
        raise
    return task.result()


async def in_thread(function: Callable[..., T], *arguments: Any, **options: Any) -> T:
    """``function`` in a thread; whoever is cancelled meanwhile is so when it has ended, not before."""
    return await in_thread_of(None, function, *arguments, **options)


async def in_thread_of(
    threads: Optional[ThreadPoolExecutor], function: Callable[..., T], *arguments: Any, **options: Any
) -> T:
    """The same in one of these threads."""
    call = functools.partial(function, *arguments, **options)
    future = asyncio.get_running_loop().run_in_executor(threads, call)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        await settled(future)
        if not future.cancelled():
            future.exception()  # nobody else asks for it
        raise
