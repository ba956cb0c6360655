"""Callbacks in every style, and what happens when they misbehave."""

from __future__ import annotations

import ctypes as ct
import threading
import traceback
from typing import Any

import numpy as np
import pytest

from rknn3lite.api import (
    LLMGetEmbedCallback,
    LLMResultCallback,
    LLMTokenizerCallback,
    RKLLMCallback,
    RKLLMResult,
    RKNN3Lite,
)
from rknnlite.spi.llm import CallState, LlmCallbacks, LlmResult
from tests.rknn3.conftest import Opener, Talk

Captured = pytest.CaptureFixture[str]


def test_ctypes_objects_with_userdata(opened: Opener, talk: Talk) -> None:
    seen: list[Any] = []

    def result(userdata: int, result_ptr: Any, state: int) -> int:
        seen.append(ct.cast(userdata, ct.POINTER(ct.py_object)).contents.value)
        assert isinstance(state, int)
        return 0

    def tokenizer(userdata: Any, text: bytes, length: int, tokens: Any, room: int) -> int:
        assert isinstance(text, bytes) and userdata is None and room == length + 2
        return talk.tokenizer(userdata, text, length, tokens, room)

    callback = RKLLMCallback()
    callback.result_callback = LLMResultCallback(result)
    userdata = ct.py_object(talk)
    callback.result_userdata = ct.cast(ct.pointer(userdata), ct.c_void_p)
    callback.tokenizer_callback = LLMTokenizerCallback(tokenizer)
    callback.embed_callback = LLMGetEmbedCallback(talk.embed)
    rknn = opened(callback=callback)
    assert rknn.session_run(prompt="hello")[0] == 0
    assert seen and set(map(id, seen)) == {id(talk)}


def test_types_that_a_program_made_itself(opened: Opener, talk: Talk) -> None:
    kind = ct.CFUNCTYPE(ct.c_int, ct.c_void_p, ct.POINTER(RKLLMResult), ct.c_int)
    states: list[int] = []
    own = kind(lambda userdata, result, state: states.append(state) or 0)
    assert opened(callback=talk.callback(result=own)).session_run(prompt="hello")[0] == 0
    assert states[-1] == 4


def test_nobody_else_need_keep_the_functions(opened: Opener, talk: Talk) -> None:
    import gc

    rknn = opened()  # its callback structure has no other owner
    gc.collect()
    for _ in range(3):
        assert rknn.session_run(prompt="hello")[0] == 0
        gc.collect()
    assert talk.states.count(4) == 3


def test_callbacks_of_the_core(opened: Opener, talk: Talk) -> None:
    states: list[CallState] = []

    def result(tokens: LlmResult, state: CallState) -> None:
        assert isinstance(tokens.token_ids, tuple)
        states.append(state)

    calls = LlmCallbacks(result, lambda text: list(text.encode()), lambda ids: talk.table[ids])
    assert opened(callback=calls).session_run(prompt="hello")[0] == 0
    assert states[-1] is CallState.MAX_NEW_TOKEN_REACHED


@pytest.mark.parametrize("what", [7, "function", print, RKLLMResult(), [1]])
def test_things_that_are_no_callbacks(what: Any, opened: Opener, capsys: Captured) -> None:
    rknn = opened()
    assert rknn.init_llm_session([{}], what) == -1
    assert "llm_callback must be an RKLLMCallback" in capsys.readouterr().err
    with pytest.raises(TypeError, match="must be a function or a LLMResultCallback"):
        RKLLMCallback().result_callback = 7


STAGES = ("result", "tokenizer", "embed", "sampling")


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("plain", [True, False], ids=["plain", "core"])
def test_an_exception_stops_the_run_and_is_raised_with_its_traceback(
    stage: str, plain: bool, opened: Opener, talk: Talk, capsys: Captured
) -> None:
    class Boom(Exception):
        pass

    def bursting(*_: Any) -> int:
        raise Boom(stage)

    if plain:
        callback: Any = talk.callback(**{stage: bursting})
    else:
        core: dict[str, Any] = {
            "tokenizer": lambda t: [1],
            "embed": lambda ids: talk.table[ids],
            stage: bursting,
        }
        callback = LlmCallbacks(**core)
    rknn = opened(callback=callback)
    with pytest.raises(Boom, match=stage) as caught:
        rknn.session_run(prompt="hello")
    assert "bursting" in [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert "ignored" not in capsys.readouterr().err
    if plain and stage != "result":
        assert talk.states == [5]
    assert rknn.init_llm_session([{}], talk.callback()) == 0
    assert rknn.session_run(prompt="hello", max_new_tokens=1)[0] == 0


def test_the_first_exception_counts_whatever_follows(opened: Opener, talk: Talk) -> None:
    def bursting(*_: Any) -> int:
        raise LookupError("the first")

    def told(userdata: Any, result_ptr: Any, state: int) -> int:
        raise ZeroDivisionError(f"told of state {state}")

    with pytest.raises(LookupError, match="the first"):
        opened(callback=talk.callback(embed=bursting, result=told)).session_run(prompt="hello")


def test_keyboard_interrupt_passes_through(opened: Opener, talk: Talk) -> None:
    def interrupted(*_: Any) -> int:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        opened(callback=talk.callback(result=interrupted)).session_run(prompt="hello")


@pytest.mark.parametrize(
    ("stage", "answer", "text"),
    [
        ("result", "go on", "the result callback returned 'go on' (str); it must return an int"),
        ("result", 1, "the result callback returned 1"),
        ("result", 0.5, "must return an int"),
        ("tokenizer", None, "the tokenizer callback returned None"),
        ("tokenizer", 0, "the tokenizer callback returned 0 for a text of"),
        ("tokenizer", -1, "the tokenizer callback returned -1"),
        ("tokenizer", 10**6, "the tokenizer callback returned 1000000"),
        ("tokenizer", [1, 2], "must return an int"),
        ("embed", -1, "the embed callback returned -1"),
        ("embed", object(), "must return an int"),
        ("sampling", -5, "the sampling callback returned -5"),
        ("sampling", 10**6, "chose token 1000000"),
        ("sampling", None, "the sampling callback returned None"),
    ],
)
def test_wrong_answers(
    stage: str, answer: Any, text: str, opened: Opener, talk: Talk, capsys: Captured
) -> None:
    rknn = opened(callback=talk.callback(**{stage: lambda *_: answer}))
    rknn.set_chat_template("", "", "")
    assert rknn.session_run(prompt="hello") == (-1, [])
    printed = capsys.readouterr().err
    assert (
        text in printed
        and "Catch exception when running LLM model." in printed
        and "Traceback" not in printed
    )


def test_none_means_well(opened: Opener, talk: Talk) -> None:
    def embed(*args: Any) -> None:
        talk.embed(*args)

    rknn = opened(callback=talk.callback(result=lambda *_: None, embed=embed))
    assert rknn.session_run(prompt="hello")[0] == 0


def test_token_ids_outside_the_vocabulary(opened: Opener, talk: Talk, capsys: Captured) -> None:
    def tokenizer(userdata: Any, text: bytes, length: int, tokens: Any, room: int) -> int:
        tokens[0] = 320
        return 1

    assert opened(callback=talk.callback(tokenizer=tokenizer)).session_run(prompt="x") == (-1, [])
    assert "token id 320, the vocabulary is 0..319" in capsys.readouterr().err


def test_a_tokenizer_that_writes_too_much_breaks_nothing(
    opened: Opener, talk: Talk, capsys: Captured
) -> None:
    def tokenizer(userdata: Any, text: bytes, length: int, tokens: Any, room: int) -> int:
        for i in range(room + 100):
            tokens[i] = 1
        return room + 100

    assert opened(callback=talk.callback(tokenizer=tokenizer)).session_run(prompt="x") == (-1, [])
    assert "it must return the number of ids, 1 to" in capsys.readouterr().err


def test_embeddings_that_are_not_finite(opened: Opener, talk: Talk, capsys: Captured) -> None:
    def embed(userdata: Any, tokens: Any, count: int, out: Any, length: int) -> int:
        ct.memmove(out, np.full(length // 2, np.nan, np.float16).tobytes(), length)
        return 0

    assert opened(callback=talk.callback(embed=embed)).session_run(prompt="x") == (-1, [])
    assert "not finite" in capsys.readouterr().err


def test_without_a_tokenizer_there_is_no_text(
    opened: Opener, talk: Talk, tmp_path: Any, package: Any
) -> None:
    import shutil

    for path in (package.model, package.weight):
        shutil.copy(path, tmp_path)
    rknn = RKNN3Lite(llm_mode=True)
    rknn.load_rknn(tmp_path / package.model.name, tmp_path / package.weight.name)
    assert rknn.init_runtime("rk1820", 0xFF, [{}], talk.callback(tokenizer=None)) == 0
    assert rknn.session_run(prompt="hello") == (-1, [])
    assert rknn.session_run(tokens=[1, 2], max_new_tokens=1)[0] == 0
    assert rknn.init_runtime("rk1820", 0xFF, [{}], talk.callback(embed=None)) == 0
    assert rknn.session_run(tokens=[1, 2]) == (-1, [])
    assert rknn.session_run(embeds=talk.table[:3], max_new_tokens=1)[0] == 0
    # the answer's tokens need it too
    assert rknn.session_run(embeds=talk.table[:3], max_new_tokens=2)[0] == -1
    rknn.release()


CALLS = {
    "session_run": lambda rknn: rknn.session_run(prompt="again"),
    "session_run_async": lambda rknn: rknn.session_run_async(prompt="again"),
    "session_wait": lambda rknn: rknn.session_wait(),
    "clear_kvcache": lambda rknn: rknn.clear_kvcache(),
    "save_kvcache": lambda rknn: rknn.save_kvcache("nowhere"),
    "set_chat_template": lambda rknn: rknn.set_chat_template("", "", ""),
    "set_llm_param": lambda rknn: rknn.set_llm_param({}),
    "set_kvcache_policy": lambda rknn: rknn.set_kvcache_policy(2),
    "set_function_tools": lambda rknn: rknn.set_function_tools("[]"),
    "init_llm_session": lambda rknn: rknn.init_llm_session({}),
    "release": lambda rknn: rknn.release() or -1,
    "init_runtime": lambda rknn: rknn.init_runtime("rk1820", 0xFF),
}


@pytest.mark.parametrize("call", CALLS)
def test_calling_back_into_the_session_is_refused(
    call: str, opened: Opener, talk: Talk, capsys: Captured
) -> None:
    answers: list[Any] = []

    def result(userdata: Any, result_ptr: Any, state: int) -> int:
        if not answers:
            answers.append(CALLS[call](rknn))
        return talk.result(userdata, result_ptr, state)

    rknn = opened(callback=talk.callback(result=result))
    code, figures = rknn.session_run(prompt="hello")
    assert code == 0 and figures[0] == 5
    assert answers in ([-1], [(-1, [])])
    assert "inside a callback" in capsys.readouterr().err
    assert rknn.session_run(prompt="hello")[0] == 0


def test_state_and_stop_from_a_callback(opened: Opener, talk: Talk) -> None:
    decoded: list[int] = []

    def result(userdata: Any, result_ptr: Any, state: int) -> int:
        talk.result(userdata, result_ptr, state)
        decoded.append(rknn.session_query_state().n_decode_tokens)
        if len(talk.tokens) >= 3:
            assert rknn.session_stop() == 0
        return 0

    rknn = opened({"max_new_tokens": 200}, talk.callback(result=result))
    code, [n_decode, *_] = rknn.session_run(prompt="hello")
    assert code == 0 and talk.states[-1] == 3
    assert 3 <= n_decode < 10 and decoded == sorted(decoded)


def test_stop_from_another_thread_and_before_a_run(opened: Opener, talk: Talk) -> None:
    begun = threading.Event()

    def result(userdata: Any, result_ptr: Any, state: int) -> int:
        begun.set()
        return talk.result(userdata, result_ptr, state)

    rknn = opened({"max_new_tokens": 10**9}, talk.callback(result=result))
    assert rknn.session_stop() == 0  # before a run: it does nothing
    stopper = threading.Thread(target=lambda: (begun.wait(60), rknn.session_stop()))
    stopper.start()
    code, _ = rknn.session_run(prompt="hello")
    stopper.join()
    assert code == 0 and talk.states[-1] == 3


def test_two_threads_on_one_session(opened: Opener, talk: Talk, capsys: Captured) -> None:
    begun, second = threading.Event(), []

    def result(userdata: Any, result_ptr: Any, state: int) -> int:
        begun.set()
        return 0

    rknn = opened({"max_new_tokens": 10**9}, talk.callback(result=result))
    first: list[Any] = []
    thread = threading.Thread(target=lambda: first.append(rknn.session_run(prompt="one")))
    thread.start()
    assert begun.wait(60)
    second.append(rknn.session_run(prompt="two"))
    assert second == [(-1, [])] and "in use by another thread" in capsys.readouterr().err
    rknn.session_stop()
    thread.join()
    assert first[0][0] == 0


def test_output_tensors_that_do_not_fit(opened: Opener, talk: Talk, capsys: Captured) -> None:
    from rknn3lite.api import RKNN3Tensor

    rknn = opened()
    callback = talk.callback(output=lambda *_: 0)
    callback.n_output_tensors = 1
    assert rknn.init_llm_session([{}], callback) == -1
    callback.output_tensors = ct.pointer(RKNN3Tensor())
    assert rknn.init_llm_session([{}], callback) == -1
    assert "see create_output_tensors" in capsys.readouterr().err
