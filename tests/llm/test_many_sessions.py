"""Sessions come and go: memory stays flat, no thread stays behind, nothing is called after closing."""

from __future__ import annotations

import gc
import random
import threading
import time
import weakref

import psutil
import pytest
from rknnlite_llm import open_llm, stream

from rknnlite.errors import ParamInvalid
from rknnlite.spi.llm import InferParams, LlmCallbacks, LlmParams, TokenInput, VocabInfo
from tests.llm.conftest import Maker, embed_of


def test_errors_leave_no_reference_cycles(package: Maker) -> None:
    """The future of a run holds its error, the error its frames: none of these may hold the future."""
    gc.collect()
    gc.disable()
    try:
        context = open_llm(package().model)
        session = context.session()
        watched = [weakref.ref(context), weakref.ref(session)]
        with pytest.raises(ParamInvalid):
            session.run_async(TokenInput([1])).result()  # without an embed callback
        with pytest.raises(ParamInvalid):
            list(stream(session, TokenInput([1]), str))
        del context, session
        for thread in threading.enumerate():  # one that has told the end of a run may still be on its way out
            if thread.name == "rknnlite-llm":
                thread.join()
        assert [ref() for ref in watched] == [None, None]
    finally:
        gc.enable()


@pytest.mark.slow
def test_five_hundred_sessions_leave_nothing_behind(package: Maker) -> None:
    rng, embed, late = random.Random(0), embed_of(package()), []
    threads = threading.active_count()

    def once(context) -> None:
        closed = threading.Event()
        calls = LlmCallbacks(
            lambda tokens, state: late.append(state) if closed.is_set() else None, embed=embed
        )
        session = context.session(LlmParams(vocab=VocabInfo(ignore_eos_token=True)), calls)
        run = session.run_async(TokenInput([1, 2, 3]), InferParams(max_new_tokens=10**9))
        time.sleep(rng.random() * 0.01)
        if rng.random() < 0.7:
            session.stop()
            run.result(60)
        session.close()
        closed.set()
        assert run.done()

    process = psutil.Process()
    with open_llm(package().model) as context:
        for _ in range(100):
            once(context)
        before = process.memory_info().rss
        for _ in range(400):
            once(context)
        grown = process.memory_info().rss - before
    assert grown < 4e6
    assert threading.active_count() <= threads
    assert not late
