"""Requests that wait for each other, for a short time, to share a run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Optional

from rknnlite_protocol.requests import InferRequest, InferResponse

from rknnlite.errors import RknnError

from ..async_helpers import settled
from .batches import Joinable

__all__ = ["Batching"]

Run = Callable[[Sequence[InferRequest], int], Awaitable[list[InferResponse]]]


@dataclass(eq=False)
class _Member:
    """A request, and who waits for its answer."""

    request: InferRequest
    rows: int
    answer: asyncio.Future[InferResponse]


@dataclass(eq=False)
class _Group:
    """Requests that will share a run."""

    members: list[_Member] = field(default_factory=list)
    timer: Optional[asyncio.TimerHandle] = None

    @property
    def rows(self) -> int:
        return sum(member.rows for member in self.members)


class Batching:
    """For one network and one event loop.

    The first request of a group waits ``window`` seconds at most; a group that is full, or that the next one does not
    fit into, starts at once.
    """

    def __init__(self, size: int, window: float, run: Run) -> None:
        """``run(requests, rows)`` answers requests by one run for all of them."""
        self._size, self._window, self._run = size, window, run
        self._groups: dict[Hashable, _Group] = {}
        self._flights: set[asyncio.Task[None]] = set()

    async def infer(self, request: InferRequest, joinable: Joinable) -> InferResponse:
        """The answer to one request; raises what is about it. Whoever is cancelled is so when his arrays are free."""
        loop = asyncio.get_running_loop()
        member = _Member(request, joinable.rows, loop.create_future())
        group = self._groups.get(joinable.key)
        if group is not None and group.rows + member.rows > self._size:
            self._start(joinable.key)
            group = None
        if group is None:
            group = self._groups[joinable.key] = _Group()
            group.timer = loop.call_later(self._window, self._start, joinable.key)
        group.members.append(member)
        if group.rows == self._size:
            self._start(joinable.key)
        return await self._waited(member, group, joinable.key)

    async def _waited(self, member: _Member, group: _Group, key: Hashable) -> InferResponse:
        try:
            return await asyncio.shield(member.answer)
        except asyncio.CancelledError:
            if self._groups.get(key) is group:
                group.members.remove(member)
                if not group.members:
                    self._forget(key)
            else:
                await settled(member.answer)
            raise

    def _start(self, key: Hashable) -> None:
        group = self._forget(key)
        flight = asyncio.ensure_future(self._fly(group.members))
        self._flights.add(flight)  # the event loop itself would let it be collected
        flight.add_done_callback(self._flights.discard)

    def _forget(self, key: Hashable) -> _Group:
        group = self._groups.pop(key)
        if group.timer is not None:
            group.timer.cancel()
        return group

    async def _fly(self, members: Sequence[_Member]) -> None:
        """One run for all. Where it fails, one for each: an error reaches only the request that it is about."""
        requests = [member.request for member in members]
        try:
            answers = await self._run(requests, sum(member.rows for member in members))
        except RknnError as error:
            if len(members) > 1:
                await asyncio.gather(*(self._fly([member]) for member in members))
            else:
                _fail(members, error)
        except BaseException as error:  # whatever it is, those who wait must hear of it
            _fail(members, error)
            if not isinstance(error, Exception):
                raise
        else:
            for member, answer in zip(members, answers):
                member.answer.set_result(answer)


def _fail(members: Sequence[_Member], error: BaseException) -> None:
    for member in members:
        member.answer.set_exception(error)
        member.answer.exception()  # whoever was cancelled does not ask for it
