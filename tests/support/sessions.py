"""What is done to sessions of language models of every backend."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any

from rknnlite_server.session_pool import SessionPool

from rknnlite.spi.llm import CallState, InferParams, LlmSession, TokenInput

__all__ = ["crowd", "ends_silently"]


def crowd(pool: SessionPool, clients: Iterable[int], turns: int) -> list[Exception]:
    """Threads that take sessions of a pool, as many at a time as it has, and begin with their number; what they raise."""
    free = threading.Semaphore(pool.size)
    wrong: list[Exception] = []

    def client(number: int) -> None:
        for turn in range(turns):
            with free:
                try:
                    session = pool.take([number, turn])
                    session.run(TokenInput([number, turn], whole=True), InferParams(max_new_tokens=1))
                    pool.give(session)
                except Exception as error:  # whatever it is, the test must hear of it
                    wrong.append(error)

    threads = [threading.Thread(target=client, args=(number,)) for number in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wrong


def ends_silently(session: LlmSession, recorder: Any, tokens: Sequence[int], params: InferParams) -> None:
    """Close a session in a run that does not end by itself: ``recorder``, its result callback, hears STOP and no more."""
    session.run_async(TokenInput(tokens), params)
    while not recorder.calls:
        time.sleep(0.001)
    session.close()
    count = len(recorder.calls)
    time.sleep(0.05)
    assert len(recorder.calls) == count
    assert recorder.states[-1] is CallState.STOP
