"""A session on librknn3_api: settings, cache and runs of one conversation; its object is given back once."""

from __future__ import annotations

import ctypes as ct
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

from rknnlite_llm.callbacks import CheckedCallbacks
from rknnlite_llm.chat_template import parse_tools
from rknnlite_llm.guarded_session import GuardedSession, kv_clear, kv_policy
from rknnlite_llm.inputs import is_whole, split_inputs

from rknnlite.errors import ContextInvalid, InputInvalid, ModelInvalid, ParamInvalid
from rknnlite.spi.llm import (
    CallState,
    InferParams,
    KvClear,
    KvPolicy,
    LlmCallbacks,
    LlmInput,
    LlmParams,
    LlmState,
    MessagesInput,
    RunSummary,
)

from ..errors import call_error
from ..tensors import TensorSet
from .callbacks import CallbackStructs, RunWatch
from .conversation import DeviceConversation, Handover
from .engine import Rknn3Engine
from .inputs import RunInputs
from .lora import lora_struct
from .native_session import NativeSession
from .params import checked_params, infer_struct, param_structs

__all__ = ["Rknn3LlmSession"]

_INFER = InferParams()


class Rknn3LlmSession(GuardedSession):
    """See ``LlmSession``. All runs go on in a thread of the session's own, so that an interrupt can stop them."""

    _engine: Rknn3Engine

    def __init__(self, engine: Rknn3Engine, params: list[LlmParams], callbacks: LlmCallbacks) -> None:
        super().__init__(engine, callbacks, engine.inside)
        self._config = engine.config
        self._params = params
        self._installed: tuple[bool, tuple[int, ...]] | None = None
        handle = engine.need()
        self._structs = CallbackStructs(
            handle, self._config.vocab_size, self._config.embedding_dim, engine.inside
        )
        self._talk = DeviceConversation(self._config.chat_template, self._stop.is_set)
        self._native = NativeSession(handle, param_structs(params, self._config), self._structs)

    # -- settings -----------------------------------------------------------------------------------------

    def set_chat_template(self, system_prompt: str, prompt_prefix: str, prompt_postfix: str) -> None:
        texts = [part.encode() for part in (system_prompt, prompt_prefix, prompt_postfix)]
        with self._using("set_chat_template"):
            self._native.do("rknn3_session_set_chat_template", *texts)
            self._talk.set_template(system_prompt, prompt_prefix, prompt_postfix)

    def set_function_tools(self, tools: str) -> None:
        parse_tools(tools)
        with self._using("set_function_tools"):
            self._native.do("rknn3_session_set_function_tools", tools.encode())
            self._talk.set_tools(tools)

    def set_kvcache_policy(self, policy: KvPolicy, n_keep: int = 0, n_keep_aligned: int = 0) -> None:
        chosen = kv_policy(policy)
        if n_keep < 0 or n_keep_aligned < 0:
            raise ParamInvalid(f"n_keep is {n_keep}, n_keep_aligned {n_keep_aligned}; both must be 0 or more")
        struct = self._native.abi.RKNN3KVCachePolicyParam()
        struct.recurrent.n_keep, struct.recurrent.n_keep_aligned = n_keep, n_keep_aligned
        with self._using("set_kvcache_policy"):
            given = ct.byref(struct) if n_keep or n_keep_aligned else None
            self._native.do("rknn3_session_set_kvcache_policy", chosen, given)

    def set_llm_param(self, params: LlmParams | Sequence[LlmParams]) -> None:
        checked = checked_params(params, self._config)
        with self._using("set_llm_param"):
            used, size = self.state().n_total_tokens, checked[0].max_context_len
            if used and size != self._params[0].max_context_len:
                raise ContextInvalid(
                    f"max_context_len cannot change to {size} while the cache holds {used} tokens; clear it first"
                )
            structs = param_structs(checked, self._config)
            self._native.do("rknn3_session_set_llm_param", structs, len(structs))
            self._params = checked

    def enable_lora(self, name: str, scale: float = 1.0) -> None:
        """Use an adapter; runtime 1.0.0 refuses all of them."""
        self._lora("rknn3_session_enable_lora", name, scale)

    def disable_lora(self, name: str) -> None:
        """Use an adapter no more."""
        self._lora("rknn3_session_disable_lora", name, 1.0)

    def _lora(self, function: str, name: str, scale: float) -> None:
        struct = lora_struct(name, scale)
        with self._using(function):
            self._native.do(function, ct.byref(struct))

    def loras(self) -> tuple[tuple[str, float], ...]:
        """All adapters of the model (runtime 1.0.0 only); those in use are in ``state``."""
        with self._using("query_lora"):
            return self._native.query_loras()

    # -- cache --------------------------------------------------------------------------------------------

    def clear_kvcache(self, clear: KvClear = KvClear.ALL) -> None:
        chosen = kv_clear(clear)
        with self._using("clear_kvcache"):
            self._talk.forget()
            self._native.do("rknn3_session_clear_kvcache", chosen)

    def save_kvcache(self, path: str) -> None:
        with self._using("save_kvcache"):
            code = self._native.call("rknn3_session_save_kvcache", os.fsencode(path))
            if code:
                raise call_error("rknn3_session_save_kvcache", code, f"can {path} be written?")

    def load_kvcache(self, path: str) -> None:
        if not Path(path).is_file():
            raise ModelInvalid(f"there is no KV cache file {path}")
        with self._using("load_kvcache"):
            self._talk.forget()
            code = self._native.load_kvcache(os.fsencode(path))
            if code in (-1, -2, -3):
                error = ModelInvalid(
                    f"{path} is no KV cache of this model and runtime {self._native.version} (error code {code})"
                )
                error.native_code = code
                raise error
            if code:
                raise call_error("rknn3_session_load_kvcache", code)

    def load_kvcache_data(self, data: bytes) -> None:
        """``load_kvcache`` from the bytes of such a file (runtime 1.0.4 and after)."""
        with self._using("load_kvcache_data"):
            self._talk.forget()
            self._native.do("rknn3_session_load_kvcache_from_data", data, len(data))

    def state(self) -> LlmState:
        return self._native.state()

    def cached(self, tokens: Sequence[int]) -> int:
        with self._using("cached"):
            return self._talk.cached(tokens, self.state().n_total_tokens)

    def rendered(self, messages: MessagesInput) -> list[int]:
        with self._using("rendered"):
            self._stop.clear()  # what ended an earlier run does not end this
            return self._talk.tokens(messages, self._calls)

    # -- runs ---------------------------------------------------------------------------------------------

    def run(self, inputs: LlmInput | Sequence[LlmInput], params: InferParams = _INFER) -> RunSummary:
        future = None
        try:
            future = self._begin("run", self._preparing(inputs, params))
            return future.result()
        except BaseException:
            if future is not None and not future.done():  # this thread was interrupted, the run goes on
                self._stop_and_wait(future)
            raise
        finally:
            del future  # or its exception would keep this frame, and the frame the future

    def run_async(
        self, inputs: LlmInput | Sequence[LlmInput], params: InferParams = _INFER
    ) -> Future[RunSummary]:
        return self._begin("run_async", self._preparing(inputs, params))

    def stop(self) -> None:
        super().stop()
        self._native.stop()

    def pause(self) -> None:
        """Let a run under way wait where it is (runtime 1.0.4 and after)."""
        self._native.quick("rknn3_session_pause")

    def resume(self) -> None:
        """Let a paused run go on."""
        self._native.quick("rknn3_session_resume")

    def _preparing(
        self, inputs: LlmInput | Sequence[LlmInput], params: InferParams
    ) -> Callable[[], Callable[[], RunSummary]]:
        """What puts a run into C's form when the session is held, and returns how it is computed."""
        calls = self._calls.fresh()

        def prepare() -> Callable[[], RunSummary]:
            whole = self._whole(inputs, params, calls)
            spoken = self._talk.spoken(inputs, calls)
            main, infer = (spoken, params) if whole is None else (whole.main, whole.params)
            given = RunInputs(self._engine.need(), self._engine.input_tensors, main, calls)
            struct = infer_struct(infer, given.continues, self._native.abi, self._native.version)
            return lambda: self._run(given, struct, calls, whole)

        return prepare

    def _whole(
        self, inputs: LlmInput | Sequence[LlmInput], params: InferParams, calls: CheckedCallbacks
    ) -> Handover | None:
        """What to hand over for a whole conversation; None for other inputs, after which nothing is known of the cache."""
        main, aux = split_inputs(inputs)
        if not is_whole(main):
            self._talk.forget()
            return None
        if aux:
            raise InputInvalid("a whole conversation goes without auxiliary inputs; use a prompt or tokens")
        total = self.state().n_total_tokens
        whole = self._talk.handover(main, params, total, calls)
        if total and not whole.cached:
            self._native.do("rknn3_session_clear_kvcache", KvClear.ALL)
        self._talk.forget()
        return whole

    def _run(
        self, given: RunInputs, infer: Any, calls: CheckedCallbacks, whole: Handover | None
    ) -> RunSummary:
        try:
            summary = self._in_turn(calls, lambda: self._in_library(given, infer, calls))
        finally:
            given.release()
        if whole is None:
            return summary
        self._talk.ran(whole, calls.generated, self.state().n_total_tokens, self._params[0])
        return replace(summary, n_cached_tokens=whole.cached)

    def _in_library(self, given: RunInputs, infer: Any, calls: CheckedCallbacks) -> RunSummary:
        if self._stop.is_set():
            return self._stopped(calls)
        self._install(calls.unchecked)
        watch = RunWatch(calls, self._stop.is_set, self._native.stop)
        start = time.perf_counter()
        self._structs.calls.run = watch
        try:
            ended = watch.ended if self._engine.native_async else None
            code = self._native.run(given.structs, len(given), infer, ended)
        finally:
            self._structs.calls.run = None
        end = time.perf_counter()
        failure = watch.take_failure()
        if failure is not None:
            try:
                raise failure
            finally:
                del failure
        if watch.state is not CallState.STOP and (code or watch.state is CallState.ERROR):
            raise call_error("rknn3_session_run", code or -5)
        state = self.state()
        return RunSummary(
            watch.state or CallState.FINISH,
            state.n_prefill_tokens,
            state.n_decode_tokens,
            start,
            watch.first_token or end,
            end,
        )

    def _install(self, callbacks: LlmCallbacks) -> None:
        """Tell C which callbacks there are, when that has changed."""
        shown = callbacks.outputs if callbacks.output is not None else ()
        wanted = (callbacks.sampling is not None, shown)
        if wanted == self._installed:
            return
        outputs = None
        if shown:
            known = self._engine.output_tensors
            outputs = TensorSet(self._engine.need(), [known[i] for i in shown], False, None)
        struct = self._structs.struct(callbacks, outputs)
        self._native.do("rknn3_session_set_callback", ct.byref(struct))
        self._native.use(struct, outputs)
        self._installed = wanted

    # -- life ---------------------------------------------------------------------------------------------

    def abandon(self) -> None:
        super().abandon()
        self._native.abandon()

    def _release(self) -> None:
        self._native.release()
        self._structs.forget()
