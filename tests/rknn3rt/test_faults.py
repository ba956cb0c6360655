"""Any function of the library may answer any error: it is raised with its type, and nothing is left behind."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_backend.library import FunctionMissing
from rknnlite_llm import open_llm

import rknnlite
from rknnlite.abi.rknn3_v104 import RKNN3Error
from rknnlite.errors import (
    ContextInvalid,
    DeviceUnavailable,
    DeviceUnmatch,
    InputInvalid,
    ModelInvalid,
    OutOfMemory,
    OutputInvalid,
    ParamInvalid,
    RknnError,
    RunTimeout,
    TargetPlatformUnmatch,
)
from rknnlite.spi import Input
from rknnlite.spi.llm import CallState, InferParams, KvPolicy, LlmParams, TokenInput
from tests.doubles.rknn3.double3 import Double3, model

from .conftest import CNN, LLM, Heard, callbacks

IMAGE = np.zeros((1, 4, 6, 3), np.uint8)
FEW = InferParams(max_new_tokens=3)
TYPES = {
    -1: RknnError, -2: ParamInvalid, -3: ModelInvalid, -4: ContextInvalid, -5: RknnError, -6: OutOfMemory,
    -7: RunTimeout, -8: InputInvalid, -9: OutputInvalid, -10: DeviceUnavailable, -11: DeviceUnmatch,
    -12: TargetPlatformUnmatch, -13: DeviceUnavailable, -14: RknnError, -15: ParamInvalid, -16: ModelInvalid,
    -17: ContextInvalid, -18: DeviceUnmatch, -99: RknnError,
}  # fmt: skip


@pytest.mark.parametrize("code", sorted(TYPES))
def test_every_code_has_its_type(start: Callable[..., Any], double: Double3, code: int) -> None:
    context = start(*CNN)
    double.fault("rknn3_run", code)
    with pytest.raises(TYPES[code]) as caught:
        context.infer(IMAGE)
    name = RKNN3Error(code).name if code != -99 else "unknown code -99"
    assert type(caught.value) is TYPES[code] and caught.value.native_code == code
    assert f"rknn3_run failed. error code: {name} ({code}); " in str(caught.value)
    assert context.infer(IMAGE)[0].shape == (1, 72)


OPENING = ("rknn3_init", "rknn3_load_model_from_data", "rknn3_model_init")


@pytest.mark.parametrize("function", OPENING)
@pytest.mark.parametrize("code", [-1, -6, -13])
def test_opening_fails(double: Double3, function: str, code: int) -> None:
    for opening in (lambda: rknnlite.open(model(*CNN)), lambda: open_llm(model(*LLM))):
        double.fault(function, code)
        with pytest.raises(TYPES[code], match=f"{function} failed") as caught:
            opening()
        del caught
        assert double.live() == {}
        opening().close()


@pytest.mark.parametrize("content", [CNN, LLM], ids=["network", "llm"])
def test_any_query_fails(double: Double3, content: tuple[str, ...]) -> None:
    def opening() -> Any:
        return rknnlite.open(model(*content)) if content is CNN else open_llm(model(*content))

    before = double.count("rknn3_query")
    opening().close()
    queries = double.count("rknn3_query") - before
    assert queries >= 5
    for nth in range(1, queries + 1):
        double.fault("rknn3_query", -13, nth)
        with pytest.raises(DeviceUnavailable, match=r"rknn3_query\([A-Z_]+\) failed"):
            opening()
        assert double.live() == {}


def test_nonsense_answers(double: Double3) -> None:
    double.short("rknn3_query")
    with pytest.raises(RknnError, match="answers 1073741824 inputs"):
        rknnlite.open(model(*CNN))
    with pytest.raises(RknnError, match="a vocabulary of 5 and embeddings of 0"):
        open_llm(model(*LLM, "vocab 5", "hidden 0"))


def test_memory_fails(start: Callable[..., Any], double: Double3) -> None:
    context = start(*CNN)
    for nth in (1, 2):
        double.fault("rknn3_create_mem", -1, nth)
        with pytest.raises(OutOfMemory, match="rknn3_create_mem gave no memory"):
            context.infer(IMAGE)
        context.infer(IMAGE)
        context._read_tensors()  # memory is made anew
    double.short("rknn3_create_mem")
    with pytest.raises(OutOfMemory, match="gave 32 of 64 bytes"):
        context.create_mem(64)
    for nth in (1, 2):
        double.fault("rknn3_mem_sync", -14, nth)
        with pytest.raises(RknnError, match="MEM_SYNC_FAILED"):
            context.infer(IMAGE)
    assert context.infer(IMAGE)[0].shape == (1, 72)


@pytest.mark.parametrize(
    ("function", "call"),
    [
        ("rknn3_set_internal_mem", lambda c: c.set_internal_mem(c.create_mem(64))),
        ("rknn3_set_kvcache_mem", lambda c: c.set_kvcache_mem(c.create_mem(64))),
        ("rknn3_profile_ops", lambda c: c.profile_ops()),
        ("rknn3_profile_mem", lambda c: c.profile_mem()),
        ("rknn3_dump_features", lambda c: c.dump_features("/proc/self/fd")),
        ("rknn3_dup_context", lambda c: c.dup()),
        ("rknn3_run_async", lambda c: c.start()),
        ("rknn3_wait", lambda c: c.wait(c.start())),
        ("rknn3_mem_sync_range", lambda c: c.sync(c.create_mem(64), "both", 8, 8)),
        ("rknn3_set_weight_mem", lambda c: c.set_weight_mem(c.create_mem(64))),
        ("rknn3_query", lambda c: c.core_memory()),
        ("rknn3_query", lambda c: c.allocation()),
        ("rknn3_query", lambda c: c.device_memory()),
        ("rknn3_query", lambda c: c.core_num),
    ],
)
def test_a_call_on_a_network_fails(
    start: Callable[..., Any], double: Double3, function: str, call: Callable[[Any], Any]
) -> None:
    context = start(*CNN, user_internal=True)
    context.set_internal_mem(context.create_mem(64))
    context.set_inputs([Input(0, IMAGE)])
    if not context.handle.api.has(function):  # of the other revision: this one takes another way, or says so
        with contextlib.suppress(FunctionMissing):
            call(context)
        context.run()
        return
    double.fault(function, -13)
    with pytest.raises(DeviceUnavailable, match=f"{function}.* failed"):
        call(context)
    context.run()


def test_shapes_and_plugins_fail(start: Callable[..., Any], double: Double3, tmp_path: Path) -> None:
    lines = ("input x float32 undefined 1 4", "output y float32 undefined 1 4", "shape 4 4", "shape 8 8")
    context = start(*lines, "post z float32 undefined 1 2")
    double.fault("rknn3_set_shape", -13)
    with pytest.raises(DeviceUnavailable, match="rknn3_set_shape failed"):
        context.infer(np.zeros(8, np.float32))
    assert context.infer(np.zeros(8, np.float32))[0].shape == (8,)
    plugin = tmp_path / "plugin.so"
    plugin.write_bytes(b"x")
    double.fault("rknn3_register_custom_ops_plugins", -13)
    with pytest.raises(DeviceUnavailable):
        context.register_postprocess(plugin)
    context.register_postprocess(plugin)


def test_giving_back_fails(double: Double3, caplog: pytest.LogCaptureFixture) -> None:
    context = open_llm(model(*LLM))
    session = context.session(callbacks=callbacks())
    mem = context.create_mem(64)
    double.fault("rknn3_destroy_mem", -1)
    double.fault("rknn3_session_destroy", -5)
    double.fault("rknn3_destroy", -13)
    mem.close()
    session.close()
    context.close()
    assert [r.message.split(" failed")[0] for r in caplog.records] == [
        *("rknn3_destroy_mem", "rknn3_session_destroy", "rknn3_destroy")
    ]


# -- sessions ---------------------------------------------------------------------------------------------

SESSION_CALLS = {
    "rknn3_session_set_chat_template": lambda s, p: s.set_chat_template("a", "b", "c"),
    "rknn3_session_set_function_tools": lambda s, p: s.set_function_tools("[]"),
    "rknn3_session_set_kvcache_policy": lambda s, p: s.set_kvcache_policy(KvPolicy.NORMAL),
    "rknn3_session_clear_kvcache": lambda s, p: s.clear_kvcache(),
    "rknn3_session_save_kvcache": lambda s, p: s.save_kvcache(str(p / "kv")),
    "rknn3_session_load_kvcache": lambda s, p: s.load_kvcache(str(p / "there")),
    "rknn3_session_load_kvcache_from_path": lambda s, p: s.load_kvcache(str(p / "there")),
    "rknn3_session_set_llm_param": lambda s, p: s.set_llm_param(LlmParams()),
    "rknn3_session_query_state": lambda s, p: s.state(),
    "rknn3_session_set_callback": lambda s, p: s.run(TokenInput([1]), FEW),
    "rknn3_session_run": lambda s, p: s.run(TokenInput([1]), FEW),
    "rknn3_session_enable_lora": lambda s, p: s.enable_lora("x"),
    "rknn3_session_disable_lora": lambda s, p: s.disable_lora("x"),
    "rknn3_session_query_lora": lambda s, p: s.loras(),
    "rknn3_session_pause": lambda s, p: s.pause(),
    "rknn3_session_resume": lambda s, p: s.resume(),
}


@pytest.mark.parametrize("function", sorted(SESSION_CALLS))
def test_a_call_on_a_session_fails(
    chat: Callable[..., Any], double: Double3, function: str, tmp_path: Path
) -> None:
    (tmp_path / "there").write_bytes(b"RKKV 300 8 5\n")
    context = chat()
    heard = Heard()
    if not context.handle.api.has(function):  # of the other revision: this one takes another way, or says so
        with context.session(callbacks=callbacks(result=heard)) as session:
            with contextlib.suppress(FunctionMissing):
                SESSION_CALLS[function](session, tmp_path)
            assert session.run(TokenInput([1])).state is not CallState.ERROR
        return
    with context.session(callbacks=callbacks(result=heard)) as session:
        double.fault(function, -13)
        with pytest.raises(DeviceUnavailable, match=r"rknn3_session_\w+ failed. error code: RKNN3_ERR_COMM"):
            SESSION_CALLS[function](session, tmp_path)
        assert heard.states in ([], [CallState.ERROR])
        session.run(TokenInput([1]), FEW)


def test_a_session_cannot_be_had(chat: Callable[..., Any], double: Double3) -> None:
    context = chat()
    double.fault("rknn3_session_init", -6)
    with pytest.raises(ParamInvalid, match="gave no session"):
        context.session()
    context.session().close()


def test_a_stop_fails(chat: Callable[..., Any], double: Double3) -> None:
    def result(found: Any, state: CallState) -> None:
        if state is CallState.NORMAL and not failed:
            double.fault("rknn3_session_stop", -13)
            with pytest.raises(DeviceUnavailable, match="rknn3_session_stop failed"):
                session.stop()
            failed.append(True)

    failed: list[bool] = []
    with chat().session(callbacks=callbacks(result=result)) as session:
        assert session.run(TokenInput([1]), InferParams(max_new_tokens=1000)).state is CallState.STOP


def test_memory_for_outputs_and_auxiliary_inputs_fails(chat: Callable[..., Any], double: Double3) -> None:
    from rknnlite.spi.llm import AuxInput

    shown = callbacks(output=lambda outputs, state: None, outputs=(0, 1))
    with chat().session(callbacks=shown) as session:
        for nth in (1, 2):
            double.fault("rknn3_create_mem", -1, nth)
            with pytest.raises(OutOfMemory):
                session.run(TokenInput([1]), FEW)
        double.fault("rknn3_mem_sync", -14, 2)
        with pytest.raises(RknnError, match="cannot be read inside the output callback"):
            session.run(TokenInput([1]), FEW)
        double.fault("rknn3_mem_sync", -14)
        with pytest.raises(RknnError, match="MEM_SYNC_FAILED"):
            session.run([TokenInput([1]), AuxInput(1, np.zeros(4, np.float16))], FEW)
        session.run(TokenInput([1]), FEW)
