"""Rows of several requests in one run: what waits for what, and whose error is whose."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

pytest.importorskip("grpc")
pytest.importorskip("tritonclient.http")

import tritonclient.http as client
from rknnlite_protocol.requests import InferRequest, InferResponse
from rknnlite_server.networks.batches import Joinable
from rknnlite_server.networks.batching import Batching

from rknnlite.errors import RknnError

from .conftest import BATCH, Networks, inputs_of, local

SOON, NEVER = 0.01, 60.0


class Model:
    """Answers after a moment; remembers who shared a run."""

    def __init__(self, *poison: str, error: Exception | None = None) -> None:
        self.runs: list[list[str]] = []
        self._poison, self._error = poison, error or RknnError("a bad row")
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self, requests: Sequence[InferRequest], rows: int) -> list[InferResponse]:
        self.runs.append([request.id for request in requests])
        await self.gate.wait()
        await asyncio.sleep(0)
        if any(request.id in self._poison for request in requests):
            raise self._error
        return [InferResponse("m", [], request.id) for request in requests]


def ask(batching: Batching, name: str, rows: int = 1, key: str = "k") -> asyncio.Task[InferResponse]:
    request = InferRequest("m", [], id=name)
    return asyncio.ensure_future(batching.infer(request, Joinable(key, rows)))


def runs(window: float, *asked: tuple[Any, ...], poison: str = "") -> tuple[list[list[str]], list[Any]]:
    """Who shared runs of four rows at most, and what everybody got."""

    async def go() -> tuple[list[list[str]], list[Any]]:
        model = Model(*poison)
        batching = Batching(4, window, model)
        waiting = asyncio.gather(*(ask(batching, *each) for each in asked), return_exceptions=True)
        found = await asyncio.wait_for(waiting, 20)
        return model.runs, [answer if isinstance(answer, Exception) else answer.id for answer in found]

    return asyncio.run(go())


def test_a_full_batch_starts_at_once() -> None:
    assert runs(NEVER, ("a",), ("b", 2), ("c",)) == ([["a", "b", "c"]], ["a", "b", "c"])


def test_a_batch_that_is_not_full_starts_when_its_time_is_over() -> None:
    assert runs(SOON, ("a",), ("b",)) == ([["a", "b"]], ["a", "b"])


def test_a_batch_that_the_next_does_not_fit_into_starts() -> None:
    assert runs(SOON, ("a", 3), ("b", 2), ("c", 2)) == ([["a"], ["b", "c"]], ["a", "b", "c"])


def test_unlike_requests_wait_apart() -> None:
    found, _ = runs(SOON, ("a", 1, "x"), ("b", 1, "y"), ("c", 3, "x"), ("d", 1, "y"))
    assert found == [["a", "c"], ["b", "d"]]


def test_an_error_reaches_only_the_request_that_it_is_about() -> None:
    found, answers = runs(NEVER, ("a",), ("b",), ("c",), ("d",), poison="c")
    assert found == [["a", "b", "c", "d"], ["a"], ["b"], ["c"], ["d"]]
    assert [str(answer) for answer in answers] == ["a", "b", "a bad row", "d"]


def test_what_nobody_foresaw_reaches_all_of_its_run_and_no_other() -> None:
    async def go() -> None:
        batching = Batching(2, NEVER, Model("b", error=ZeroDivisionError("no")))
        found = await asyncio.gather(*(ask(batching, name) for name in "abcd"), return_exceptions=True)
        assert [type(answer) for answer in found[:2]] == [ZeroDivisionError] * 2
        assert [answer.id for answer in found[2:]] == ["c", "d"]

    asyncio.run(go())


def test_whoever_leaves_while_he_waits_takes_no_room() -> None:
    async def go() -> None:
        model = Model()
        batching = Batching(2, NEVER, model)
        left, first = ask(batching, "left"), None
        await asyncio.sleep(0)
        left.cancel()
        first = ask(batching, "a")
        with pytest.raises(asyncio.CancelledError):
            await left
        assert not model.runs
        second = ask(batching, "b")
        assert [answer.id for answer in await asyncio.gather(first, second)] == ["a", "b"]
        assert model.runs == [["a", "b"]]

    asyncio.run(go())


def test_whoever_leaves_while_it_runs_does_so_when_his_arrays_are_free() -> None:
    async def go() -> None:
        model = Model()
        model.gate.clear()
        batching = Batching(2, NEVER, model)
        left, stays = ask(batching, "left"), ask(batching, "stays")
        await asyncio.sleep(0.01)
        left.cancel()
        await asyncio.sleep(0.01)
        assert model.runs and not left.done()
        model.gate.set()
        with pytest.raises(asyncio.CancelledError):
            await left
        assert (await stays).id == "stays"

    asyncio.run(go())


# -- on a server ----------------------------------------------------------------------------------------------


def triton(networks: Networks, rows: Any, **options: Any) -> Any:
    with client.InferenceServerClient(networks.url[7:]) as made:
        given = client.InferInput("image", list(rows.shape), "FP32")
        given.set_data_from_numpy(rows)
        found = made.infer(BATCH, [given], **options)
        return found.as_numpy(found.get_response()["outputs"][0]["name"])


def test_each_gets_his_rows_whatever_the_grouping(networks: Networks) -> None:
    draw = random.Random(5)
    images, wanted = rows_and_answers()
    before = networks.state.repository.network(BATCH).statistics.execution_count
    picks = [[draw.randrange(4) for _ in range(draw.randint(1, 4))] for _ in range(40)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda rows: triton(networks, images[rows]), picks))
    for rows, output in zip(picks, found):
        assert np.array_equal(output, wanted[rows])
    assert networks.state.repository.network(BATCH).statistics.execution_count - before < len(picks)


def rows_and_answers() -> tuple[Any, Any]:
    given = inputs_of(BATCH)
    return (*given.values(), *local(BATCH, given).values())


def test_a_wrong_row_is_its_senders_own(networks: Networks) -> None:
    images, wanted = rows_and_answers()
    bad = images[:1].copy()
    bad[0, 0, 0, 0] = np.nan

    def one(number: int) -> Any:
        if number % 3:
            return triton(networks, images[number % 4 :][:1])
        with pytest.raises(Exception, match="NaN"):
            triton(networks, bad)
        return None

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(one, range(24)))
    for number, output in enumerate(found):
        assert number % 3 == 0 or np.array_equal(output, wanted[number % 4 :][:1])


def test_more_rows_than_there_are_is_said(networks: Networks) -> None:
    images, _ = rows_and_answers()
    with pytest.raises(Exception, match=r"1 to 4 rows of it, got \[8, 20, 24, 3\]"):
        triton(networks, np.concatenate([images, images]))
