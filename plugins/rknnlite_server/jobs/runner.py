"""Takes the batches of a key one after the other, and their lines where nobody else waits for a model."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from collections.abc import Iterator
from typing import Optional

from starlette.types import ASGIApp

from rknnlite.errors import shown
from rknnlite.files.json_text import parse_json

from ..app_state import State
from ..rate_limits import Account
from .batch import Batch, Line, lines_of
from .inner_call import ask
from .job_store import Answers, JobStore

__all__ = ["run_batches"]

logger = logging.getLogger("rknnlite.server")
_LOOK_SECONDS = 0.05
_IDLE_SECONDS = 0.25
_AGAIN_SECONDS = 10.0
_TIDY_SECONDS = 600.0
_MOST_CUTS = 3
"""How often a line is given up for others, before it is answered to its end."""
_BUSY = (429, 503, 529)  # others were faster: the line is asked again
_NO_FILE = {"code": "no_file", "message": "the input file was deleted", "param": None, "line": None}
_GONE = {
    "code": "key_removed",
    "message": "the key of this batch was taken away",
    "param": None,
    "line": None,
}


async def run_batches(app: ASGIApp, state: State, store: JobStore) -> None:
    """Until it is cancelled; what was under way then is asked again by the next server."""
    places = asyncio.Semaphore(
        max(1, state.settings.parallel - 1)
    )  # where there are two, one is left for others
    running: dict[str, asyncio.Task[None]] = {}
    tidied = -_TIDY_SECONDS
    try:
        while True:
            for batch in store.open() if state.ready else ():
                task = running.get(batch.owner)
                if task is None or task.done():
                    running[batch.owner] = asyncio.ensure_future(_run(_Run(app, state, store, batch, places)))
            if time.monotonic() > tidied + _TIDY_SECONDS:
                tidied = time.monotonic()
                await asyncio.to_thread(_tidy, store)
            await asyncio.sleep(_IDLE_SECONDS)
    finally:
        for task in running.values():
            task.cancel()
        await asyncio.gather(*running.values(), return_exceptions=True)


def _tidy(store: JobStore) -> None:
    try:
        store.tidy()
    except OSError as error:
        logger.error("batches that ended long ago cannot be removed: %s", error)


async def _run(run: _Run) -> None:
    try:
        await run.run()
    except Exception as error:
        logger.error("batch %s: %s", run.batch.id, error, exc_info=not isinstance(error, OSError))
        await asyncio.sleep(_AGAIN_SECONDS)


class _Run:
    """One batch, from where it is to its end."""

    def __init__(
        self, app: ASGIApp, state: State, store: JobStore, batch: Batch, places: asyncio.Semaphore
    ) -> None:
        self._app, self._state, self._store, self.batch, self._places = app, state, store, batch, places

    async def run(self) -> None:
        batch, files = self.batch, self._store.files
        given = files.get(batch.owner, batch.input_file_id)
        if given is None:
            return await self._failed([_NO_FILE])
        lines, errors = await asyncio.to_thread(lambda: lines_of(files.content(given), batch.endpoint))
        if errors:
            return await self._failed(errors)
        if batch.status == "validating":
            batch.total = len(lines)
            batch.enter("in_progress")
            await asyncio.to_thread(self._store.save, batch)
        answers = await asyncio.to_thread(self._store.answers, batch)
        try:
            await self._ask_all(lines, answers)
            await asyncio.to_thread(self._finish, answers)
        finally:
            answers.close()

    async def _ask_all(self, lines: list[Line], answers: Answers) -> None:
        self._count(answers)
        left = iter([line for line in lines if line.custom_id not in answers.lines])
        workers = max(1, self._state.settings.parallel - 1)
        tasks = [asyncio.ensure_future(self._work(left, answers)) for _ in range(workers)]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _work(self, left: Iterator[Line], answers: Answers) -> None:
        for line in left:
            cuts = 0
            while True:
                account = await self._turn()
                if not self._goes_on():
                    return
                async with self._places:
                    answer = await self._asked(line, account, cuts < _MOST_CUTS)
                if answer is None:
                    cuts += 1
                    continue
                status, body = answer
                if status not in _BUSY:
                    break
                await asyncio.sleep(_IDLE_SECONDS)
            answers.add(line.custom_id, status == 200, _told(line, status, body))
            self._count(answers)

    async def _asked(
        self, line: Line, account: Optional[Account], yields: bool
    ) -> Optional[tuple[int, bytes]]:
        """Status and body of an answer; None where it was given up for somebody who waits for a model."""
        asking = asyncio.ensure_future(ask(self._app, self.batch.endpoint, line.body, account))
        try:
            while not (await asyncio.wait([asking], timeout=_LOOK_SECONDS if yields else None))[0]:
                if self._waited_for():
                    return None
            return asking.result()
        finally:
            asking.cancel()
            await asyncio.wait([asking])

    def _waited_for(self) -> bool:
        return any(model.turnstile.waiting for model in self._state.models.values())

    async def _turn(self) -> Optional[Account]:
        """Whose tokens it takes, once there are some and nobody waits for a model."""
        while self._goes_on():
            account = self._state.keyring.of_identity(self.batch.owner)
            if account is None and not self._state.keyring.open:
                self.batch.errors = [_GONE]
                return None
            turnstiles = [model.turnstile for model in self._state.models.values()]
            busy = any(one.waiting or one.running >= one.size for one in turnstiles)
            wait = account.seconds_without_tokens() if account is not None else 0.0
            if not busy and not wait:
                return account
            await asyncio.sleep(min(max(_LOOK_SECONDS, wait), _IDLE_SECONDS))
        return None

    def _goes_on(self) -> bool:
        batch = self.batch
        return batch.status == "in_progress" and not batch.errors and time.time() < batch.expires_at

    def _count(self, answers: Answers) -> None:
        good = sum(answers.lines.values())
        self.batch.completed, self.batch.failed = good, len(answers.lines) - good

    def _finish(self, answers: Answers) -> None:
        batch = self.batch
        if batch.status == "cancelling":
            end = "cancelled"
        elif batch.errors:
            end = "failed"
        else:
            end = "completed" if len(answers.lines) == batch.total else "expired"
            batch.enter("finalizing")
        for good, field, word in ((True, "output_file_id", "output"), (False, "error_file_id", "error")):
            if good in answers.lines.values():
                name = f"file-{batch.id.partition('_')[2]}-{word}"  # the same where it is made once more
                content = answers.joined(good)
                self._store.files.keep(name, batch.owner, f"{batch.id}_{word}.jsonl", "batch_output", content)
                setattr(batch, field, name)
        self._store.end(batch, end, answers)

    async def _failed(self, errors: list[dict[str, object]]) -> None:
        self.batch.errors = errors
        self.batch.enter("failed")
        await asyncio.to_thread(self._store.save, self.batch)


def _told(line: Line, status: int, body: bytes) -> bytes:
    """A line of the file of answers."""
    try:
        found = parse_json(body)
    except ValueError as error:
        found = {"error": {"message": f"the answer is no JSON: {shown(error)}"}}
    answer = {"status_code": status, "request_id": f"req_{secrets.token_hex(12)}", "body": found}
    told = {
        "id": f"batch_req_{secrets.token_hex(12)}",
        "custom_id": line.custom_id,
        "response": answer,
        "error": None,
    }
    return json.dumps(told).encode()
