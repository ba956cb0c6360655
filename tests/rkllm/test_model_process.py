"""The process that has the library: crashes, hangs and ends of it, and of the program that it belongs to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from rknnlite_rkllm.model_process import ModelProcess, RkllmCrashed
from rknnlite_rkllm.requests import CallbackResult, Media, Mode, Perf, Run, RunEnd, RunInput, Start
from rknnlite_rkllm.wire import Channel, Message
from rknnlite_server.session_pool import SessionPool

from rknnlite.errors import ContextInvalid, RknnError
from rknnlite.spi.llm import (
    CallState,
    InferParams,
    InputKind,
    LlmCallbacks,
    LlmParams,
    PromptInput,
    SamplingParams,
    TokenInput,
)
from tests.doubles.double import compiler
from tests.doubles.rkllm.standin import build, model
from tests.rkllm.conftest import Heard, Opener, talking

pytestmark = pytest.mark.slow

Modes = Callable[..., None]


def process_of(session: Any) -> psutil.Process:
    assert isinstance(session._model, ModelProcess)
    return psutil.Process(session._model.pid)


@pytest.mark.parametrize(
    ("strike", "words"),
    [
        ("crash@3", r"signal 11 \(SIGSEGV\)"),
        ("assert@3", r"signal 6 \(SIGABRT\).*GGML_ASSERT: double\.c: token 3"),
        ("exit@3", "status 3"),
    ],
)
def test_a_crash_is_an_error_and_the_next_session_works(
    opened: Opener, heard: Heard, modes: Modes, strike: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes("1.2.3", strike=strike)
    context = opened("1.2.3", "op count")
    session = talking(context, heard)
    with pytest.raises(RkllmCrashed, match=rf"librkllmrt 1\.2\.3 with .*model\.rkllm.*{words}"):
        session.run(PromptInput("x"))
    assert heard.text == "1 2"[: len(heard.text)] and heard.states[-1] is CallState.ERROR
    assert not session.usable
    with pytest.raises(RkllmCrashed):
        session.run(PromptInput("x"))
    monkeypatch.setenv("RKLLM_DOUBLE", "quiet=0")
    again = talking(context)  # there is room for it although nobody closed the first
    assert again.run(PromptInput("x"), InferParams(max_new_tokens=9)).n_decode_tokens == 9
    session.close()


def test_how_a_process_ended_is_not_read_from_a_message_with_names_in_it(
    opened: Opener, modes: Modes
) -> None:
    modes("1.2.3", strike="exit@1")
    session = talking(opened("1.2.3", "op count", name="it\x07 ended; open the model.rkllm"))
    with pytest.raises(RkllmCrashed) as crashed:
        session.run(PromptInput("x"))
    text = crashed.value.args[0].partition(". The library's last words")[0]
    assert text.endswith("its process ended in rkllm_run: status 3; the session is lost, open another one")


def test_a_crash_while_the_model_is_loaded(
    opened: Opener, modes: Modes, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = opened("1.1.4")
    (context._engine.file.path).write_bytes(b"\x01" * 100)  # type: ignore[attr-defined]
    session = talking(context)  # 1.1 takes anything, and dies in the first run
    with pytest.raises(RkllmCrashed, match=r"librkllmrt 1\.1\.4 .*SIGABRT.*GGML_ASSERT"):
        session.run(PromptInput("x"))


def test_a_run_that_does_not_stop_loses_its_process(opened: Opener, heard: Heard, modes: Modes) -> None:
    modes("1.2.3", strike="hang@2")
    session = talking(opened("1.2.3", "op count", patience=0.3), heard)
    run = session.run_async(PromptInput("x"))
    while len(heard.tokens) < 2:
        time.sleep(0.001)
    session.stop()
    with pytest.raises(RkllmCrashed, match=r"did not stop within 0\.3 s \(option patience\) and was ended"):
        run.result(20)


@pytest.mark.parametrize("in_process", [False, True])
def test_a_stop_that_comes_before_the_library_has_begun(opened: Opener, in_process: bool) -> None:
    session = talking(opened("1.3.0", "op count", "token_us 100", in_process=in_process, patience=5))
    for delay in range(150):
        run = session.run_async(PromptInput("x"), InferParams(max_new_tokens=10**6))
        time.sleep(delay * 5e-6)
        session.stop()
        assert run.result(20).state is CallState.STOP


def test_a_process_that_is_killed(opened: Opener, heard: Heard) -> None:
    session = talking(opened("1.3.0", "op count", "token_us 1000"), heard)
    run = session.run_async(PromptInput("x"))
    while not heard.tokens:
        time.sleep(0.001)
    process_of(session).kill()
    with pytest.raises(RkllmCrashed, match=r"signal 9 \(SIGKILL\)"):
        run.result(20)


def test_the_process_ends_with_its_session_and_with_what_is_dropped(opened: Opener) -> None:
    context = opened("1.2.3", sessions=2)
    first, second = talking(context), talking(context)
    processes = [process_of(first), process_of(second)]
    first.close()
    del second
    for process in processes:
        process.wait(60)


@pytest.mark.parametrize("end", ["os._exit(0)", "os.kill(os.getpid(), 9)", "sys.exit()", "raise ValueError"])
def test_the_process_ends_with_the_program(tmp_path: Path, end: str) -> None:
    if compiler() is None:
        pytest.skip("no C compiler is installed")
    path = tmp_path / "model.rkllm"
    path.write_bytes(model("op count", "token_us 1000"))
    script = (
        "import os, sys, time; from rknnlite_llm import open_llm; from rknnlite.spi.llm import PromptInput\n"
        f"context = open_llm({str(path)!r}, backend='rkllm', library={str(build('1.2.3'))!r})\n"
        "session = context.session(); run = session.run_async(PromptInput('x')); time.sleep(0.2)\n"
        f"print(session._model.pid, flush=True); {end}"
    )
    given = [sys.executable, "-c", script]
    done = subprocess.run(given, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    pid = int(done.stdout)
    stop = time.monotonic() + 10
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < stop
        time.sleep(0.02)


def test_a_fork_owns_nothing(opened: Opener) -> None:
    context = opened("1.2.3")
    session = talking(context)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            session.run(PromptInput("x"))
        except ContextInvalid:
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert session.run(PromptInput("abc")).n_decode_tokens == 3


def test_ctrl_c_is_for_the_program(opened: Opener, heard: Heard) -> None:
    session = talking(opened("1.2.3", "op count", "token_us 500"), heard)

    def interrupt() -> None:
        while len(heard.tokens) < 5:
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        session.run(PromptInput("x"))
    assert session.run(PromptInput("x"), InferParams(max_new_tokens=3)).n_decode_tokens == 3


def test_what_the_library_prints_does_not_come_to_stdout(
    opened: Opener, capfd: pytest.CaptureFixture[str]
) -> None:
    context = opened("1.2.3", "op echo")
    talking(context).run(PromptInput("x"))
    assert capfd.readouterr() == ("", "")
    assert context.model_facts["soc"] == "RK3588"  # type: ignore[attr-defined]


def test_a_pool_gives_no_crashed_session(
    opened: Opener, modes: Modes, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes("1.2.3", strike="crash@1")
    context = opened("1.2.3", "op count")
    pool = SessionPool(context.session, 1)
    session = pool.take()
    with pytest.raises(RknnError):
        session.run(PromptInput("x"))
    pool.give(session)
    monkeypatch.setenv("RKLLM_DOUBLE", "quiet=0")
    assert pool.take().run(PromptInput("x"), InferParams(max_new_tokens=2)).n_decode_tokens == 2
    pool.close()


def test_messages_keep_what_they_carry() -> None:
    import socket

    ours, theirs = socket.socketpair()
    embeds = np.arange(12, dtype=np.float32).reshape(3, 4)
    media = Media(embeds, 3, 1, start="<s>", content="日")
    given = RunInput(InputKind.MULTIMODAL, "a\0b", np.array([1, 2], np.int32), media)
    run = Run((given,), Mode.LOGITS, True, 7, SamplingParams(logit_bias=((1, 0.5),)))
    with ours, theirs:
        one, other = Channel(ours), Channel(theirs)
        one.send(Message.REQUEST, (1, "run", run, Start("m", 1, 2, SamplingParams())))
        kind, (number, name, got, start) = other.receive()
        assert (kind, number, name, start.model) == (Message.REQUEST, 1, "run", "m")
        np.testing.assert_array_equal(got.inputs[0].image.embeds, embeds)
        assert (got.inputs[0].text, got.inputs[0].image.content, got.mode, got.sampling) == (
            "a\0b",
            "日",
            Mode.LOGITS,
            run.sampling,
        )
        one.send_token(CallbackResult(CallState.WAITING, 2, 7, b"\xf0\x9f"))
        assert other.receive() == (Message.TOKEN, CallbackResult(CallState.WAITING, 2, 7, b"\xf0\x9f"))
        one.send(Message.ANSWER, RunEnd(-1, CallState.ERROR, Perf(1.0, 2, 3.0, 4, 5.0)))
        assert other.receive()[1] == RunEnd(-1, CallState.ERROR, Perf(1.0, 2, 3.0, 4, 5.0))
        ours.sendall(b"\x09" + b"\x01\0\0\0\0\0\0\0" + b"x")
        with pytest.raises(RknnError, match="cannot be read"):
            other.receive()


def test_long_inputs_and_large_outputs_pass(opened: Opener) -> None:
    seen: list[tuple[int, ...]] = []
    calls = LlmCallbacks(output=lambda outs, state: seen.append(outs[0].data.shape), outputs=(1,))
    session = opened("1.3.0", "op echo", "hidden 2048", "limit 16384").session(LlmParams(8192), calls)
    session.run(TokenInput([65] * 4000), InferParams(max_new_tokens=1))
    assert seen[0] == (4000, 2048)


def test_a_fork_does_not_keep_the_process_alive(tmp_path: Path) -> None:
    """A program that is killed takes its models along, also where a fork of it lives on."""
    if compiler() is None:
        pytest.skip("no C compiler is installed")
    (tmp_path / "m.rkllm").write_bytes(model("op count"))
    script = (
        "import os, signal, time\n"
        "from rknnlite_llm import open_llm\n"
        f"session = open_llm({str(tmp_path / 'm.rkllm')!r}, backend='rkllm', library={str(build('1.2.3'))!r}).session()\n"
        "child = os.fork()\n"
        "if child == 0: time.sleep(60); os._exit(0)\n"
        "time.sleep(0.3); print(session._model.pid, child, flush=True); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid, child = map(int, parent.stdout.readline().split())
        parent.wait()
        try:
            wait_for_end(pid)
        finally:
            os.kill(child, signal.SIGKILL)


def wait_for_end(pid: int) -> None:
    """Raise AssertionError when a process does not end within 10 s."""
    stop = time.monotonic() + 10
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < stop
        time.sleep(0.02)
