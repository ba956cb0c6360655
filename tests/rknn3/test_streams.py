"""Answers as streams, sync and async, and runs that are not waited for."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
import rknnlite_llm
from rknnlite_llm import Package
from rknnlite_llm.tokenizer import Tokenizer

from rknn3lite.api import RKNN3Lite
from rknnlite.errors import ContextInvalid, InputInvalid, ParamInvalid
from tests.rknn3.conftest import ARGS, Opener, Talk

TEXT = "light \u4e2d\u6587 is \U0001f600 waves"


@pytest.fixture
def speaking(opened: Opener, talk: Talk) -> RKNN3Lite:
    """A model that says ``TEXT``, byte by byte, and stops at 300."""
    talk.plan = [*TEXT.encode(), 300]
    args = {"special_eos_id": 300, "ignore_eos_token": False, "max_new_tokens": 200}
    return opened(args, talk.callback(sampling=talk.sampling))


def test_pieces_are_complete_characters(speaking: RKNN3Lite, talk: Talk) -> None:
    pieces = list(speaking.stream("What is light?"))
    assert "".join(pieces) == TEXT
    assert "\u4e2d" in pieces and not any("\ufffd" in piece for piece in pieces)
    assert talk.states[-1] == 2 and 1 in talk.states  # the program's own callback is told as well


def test_a_model_reads_its_tokenizer_once(
    package: Package, talk: Talk, opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often and in whichever session it is needed; another opening reads it anew."""
    read: list[Path] = []

    class Counted(Tokenizer):
        def __init__(self, path: Path) -> None:
            read.append(path)
            super().__init__(path)

    monkeypatch.setattr(rknnlite_llm, "Tokenizer", Counted, raising=False)
    callback = talk.callback(tokenizer=None)
    rknn = opened(callback=callback)
    assert rknn.init_llm_session([ARGS], callback, session_index=1) == 0
    assert read == []

    async def pieces() -> list[str]:
        return [piece async for piece in rknn.astream("b", session_index=1)]

    for _ in range(2):
        assert list(rknn.stream("a"))
        assert asyncio.run(pieces())
        assert rknn.session_run(prompt="c")[0] == 0
    assert read == [package.tokenizer]
    rknn.release()
    assert rknn.init_runtime("rk1820", 0xFF, [ARGS], callback) == 0
    assert list(rknn.stream("a"))
    assert read == [package.tokenizer] * 2


def test_a_decoder_of_the_program(speaking: RKNN3Lite) -> None:
    assert "".join(speaking.stream("x", decode=lambda ids: bytes(ids).decode("utf-8", "replace"))) == TEXT


def test_leaving_the_loop_stops_the_run(opened: Opener, talk: Talk) -> None:
    rknn = opened({"max_new_tokens": 10**9})
    for _ in rknn.stream("hello", decode=lambda ids: "." * len(ids)):
        break
    assert talk.states[-1] == 3
    assert rknn.session_run(prompt="x", max_new_tokens=1)[0] == 0


def test_limits_of_a_stream(rknn: RKNN3Lite) -> None:
    pieces = rknn.stream(tokens=[1, 2], decode=lambda ids: "." * len(ids), max_new_tokens=7)
    assert len("".join(pieces)) == 7


def test_a_stream_raises_what_goes_wrong(opened: Opener, talk: Talk, tmp_path: Any) -> None:
    rknn = opened()
    with pytest.raises(InputInvalid, match="nothing was given"):
        list(rknn.stream(None))
    with pytest.raises(InputInvalid, match="prompt and tokens were given together"):
        list(rknn.stream("x", tokens=[1]))
    with pytest.raises(ParamInvalid, match="max_new_tokens is 0"):
        list(rknn.stream("x", max_new_tokens=0))

    def bursting(*_: Any) -> int:
        raise ZeroDivisionError("mine")

    assert rknn.init_llm_session([{}], talk.callback(embed=bursting)) == 0
    with pytest.raises(ZeroDivisionError, match="mine"):
        list(rknn.stream("x"))
    rknn.release()
    with pytest.raises(ContextInvalid, match="please call init_runtime"):
        rknn.stream("x")
    with pytest.raises(ContextInvalid, match="please use inference interface"):
        RKNN3Lite().stream("x")


def test_a_stream_needs_a_decoder(rknn: RKNN3Lite, tmp_path: Any) -> None:
    rknn.rknn_runtime.package = Package.of(tmp_path / "none")
    with pytest.raises(ParamInvalid, match="give decode="):
        rknn.stream("x")


def test_an_async_stream(speaking: RKNN3Lite) -> None:
    async def main() -> tuple[str, int]:
        ticks = 0

        async def clock() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        ticking = asyncio.create_task(clock())
        pieces = [piece async for piece in speaking.astream("What is light?")]
        ticking.cancel()
        return "".join(pieces), ticks

    text, ticks = asyncio.run(main())
    assert text == TEXT and ticks > 1


def test_async_runs_queue_up(opened: Opener, talk: Talk) -> None:
    rknn = opened({"keep_history": 1})
    rknn.set_chat_template("", "", "")
    for number in range(3):
        code, figures = rknn.session_run_async(tokens=[65 + number], max_new_tokens=2)
        assert code == 0 and figures[:2] == [0, 0]
    code, [n_decode, n_prefill, start, end] = rknn.session_wait(60)
    assert (code, n_decode, n_prefill) == (0, 2, 2) and start < end
    assert talk.states.count(4) == 3
    assert rknn.session_query_state().n_total_tokens == 1 + 1 + 2 + 1 + 2 + 1
    assert rknn.session_wait(0)[0] == 0


def test_async_runs_and_mistakes(opened: Opener, talk: Talk, capsys: pytest.CaptureFixture[str]) -> None:
    rknn = opened()
    assert rknn.session_run_async() == (-1, [])
    assert rknn.session_run_async(prompt="a", tokens=[1]) == (-1, [])
    assert rknn.session_run_async(tokens=[-1])[0] == 0  # told by the run itself
    assert rknn.session_wait(60) == (-1, [])
    assert "token id -1" in capsys.readouterr().err and talk.states == [5]

    def bursting(*_: Any) -> int:
        raise ZeroDivisionError("mine")

    rknn.init_llm_session([{}], talk.callback(embed=bursting))
    assert rknn.session_run_async(tokens=[1])[0] == 0
    with pytest.raises(ZeroDivisionError, match="mine"):
        rknn.session_wait(60)
    assert "bursting" in capsys.readouterr().err


def test_waiting_has_a_limit_and_release_ends_what_waits(opened: Opener, talk: Talk) -> None:
    begun = threading.Event()

    def result(userdata: Any, result_ptr: Any, state: int) -> int:
        begun.set()
        return talk.result(userdata, result_ptr, state)

    rknn = opened({"max_new_tokens": 10**9}, talk.callback(result=result))
    for _ in range(3):
        assert rknn.session_run_async(tokens=[1])[0] == 0
    assert begun.wait(60)
    assert rknn.session_wait(0.01) == (-1, [])
    rknn.release()
    count = len(talk.calls)
    assert talk.states[-1] == 3
    assert rknn.session_run_async(tokens=[1]) == (-1, []) and len(talk.calls) == count


def test_waiting_for_a_run_inside_its_callback_is_refused(opened: Opener, talk: Talk) -> None:
    answers: list[Any] = []

    def result(userdata: Any, result_ptr: Any, state: int) -> int:
        if not answers:
            answers.append(rknn.session_wait())
        return 0

    rknn = opened(callback=talk.callback(result=result))
    rknn.session_run_async(tokens=[1])
    assert rknn.session_wait(60)[0] == 0 and answers == [(-1, [])]
