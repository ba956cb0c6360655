"""Ends of asynchronous things that come when they are due, also when the task is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

__all__ = ["closing", "settled"]

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
