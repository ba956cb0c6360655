"""A session on the CPU: guards the conversation against misuse and runs generations, one at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from rknnlite.errors import ContextInvalid, InputInvalid, ParamInvalid
from rknnlite.llm.callbacks import CheckedCallbacks
from rknnlite.llm.inputs import split_inputs
from rknnlite.llm.sampling import Sampler
from rknnlite.llm.template import ChatTemplate, LiteralTemplate, parse_tools
from rknnlite.spi.llm import (
    CallState,
    InferParams,
    KvClear,
    KvPolicy,
    LlmCallbacks,
    LlmInput,
    LlmParams,
    LlmResult,
    LlmSession,
    LlmState,
    RunSummary,
)

from . import kvfile
from .conversation import Conversation
from .generation import Counters, Generation

if TYPE_CHECKING:
    from .context import CpuLlmContext

__all__ = ["CpuLlmSession"]

_INFER = InferParams()
_LOOK = 0.02  # seconds between attempts to get hold of a session that is to be closed


class CpuLlmSession(LlmSession):
    """See ``LlmSession``. All state is guarded by ``_free``: whoever holds it uses the session."""

    def __init__(self, context: CpuLlmContext, params: LlmParams, callbacks: LlmCallbacks) -> None:
        self._context = context
        self._free = threading.Lock()
        self._user: int | None = None
        self._stop = threading.Event()
        self._closed = False
        self._thread: threading.Thread | None = None
        self._counters = Counters()
        self._literal: LiteralTemplate | None = None
        self._template: ChatTemplate | None = None
        self._params = params
        self._sampler = Sampler(self._params.sampling)
        self._talk = Conversation(context.model, self._params.max_context_len)
        self.set_callbacks(callbacks)

    # -- settings -----------------------------------------------------------------------------------------

    @property
    def callbacks(self) -> LlmCallbacks:
        return self._calls.given

    def set_callbacks(self, callbacks: LlmCallbacks) -> None:
        arch = self._context.model.arch
        known = len(self._context.outputs)
        if any(not 0 <= index < known for index in callbacks.outputs):
            raise ParamInvalid(
                f"output callback wants outputs {callbacks.outputs}, the model has 0..{known - 1}"
            )
        self._calls = CheckedCallbacks(callbacks, arch.vocab_size, arch.hidden)

    def set_chat_template(self, system_prompt: str, prompt_prefix: str, prompt_postfix: str) -> None:
        with self._using("set_chat_template"):
            self._literal = LiteralTemplate(system_prompt, prompt_prefix, prompt_postfix)

    def set_function_tools(self, tools: str) -> None:
        parsed = parse_tools(tools)
        with self._using("set_function_tools"):
            self._talk.tools = parsed

    def set_kvcache_policy(self, policy: KvPolicy, n_keep: int = 0, n_keep_aligned: int = 0) -> None:
        with self._using("set_kvcache_policy"):
            self._talk.set_policy(_policy(policy), max(n_keep, n_keep_aligned))

    def set_llm_param(self, params: LlmParams | Sequence[LlmParams]) -> None:
        checked = self._context.checked(params)
        with self._using("set_llm_param"):
            self._talk.resize(checked.max_context_len)
            if checked.sampling != self._params.sampling:
                self._sampler = Sampler(checked.sampling)
            self._params = checked

    # -- cache --------------------------------------------------------------------------------------------

    def clear_kvcache(self, clear: KvClear = KvClear.ALL) -> None:
        with self._using("clear_kvcache"):
            try:
                self._talk.forget(KvClear(clear))
            except ValueError:
                raise ParamInvalid(f"clear_kvcache({clear!r}): use KvClear") from None

    def save_kvcache(self, path: str) -> None:
        with self._using("save_kvcache"):
            kvfile.save(self._talk, path)

    def load_kvcache(self, path: str) -> None:
        with self._using("load_kvcache"):
            kvfile.load(self._talk, path)

    def state(self) -> LlmState:
        talk, counters = self._talk, self._counters
        return LlmState(talk.used, talk.size, counters.decode, counters.prefill, talk.policy)

    # -- runs ---------------------------------------------------------------------------------------------

    def run(self, inputs: LlmInput | Sequence[LlmInput], params: InferParams = _INFER) -> RunSummary:
        main = self._checked(inputs, params)
        with self._using("run"):
            self._stop.clear()
            return self._run(main, params, self._calls)

    def run_async(
        self, inputs: LlmInput | Sequence[LlmInput], params: InferParams = _INFER
    ) -> Future[RunSummary]:
        main, calls = self._checked(inputs, params), self._calls
        self._take("run_async")
        self._user = None  # the thread below will be
        self._stop.clear()
        future: Future[RunSummary] = Future()
        future.set_running_or_notify_cancel()
        self._thread = threading.Thread(
            target=self._run_for, args=(future, main, params, calls), name="rknnlite-llm", daemon=True
        )
        try:
            self._thread.start()
        except RuntimeError as error:
            self._give_back()
            raise ContextInvalid(f"no thread for the run: {error}") from None
        return future

    def stop(self) -> None:
        self._stop.set()

    def _checked(self, inputs: LlmInput | Sequence[LlmInput], params: InferParams) -> Any:
        limit = params.max_new_tokens
        if not isinstance(limit, (int, np.integer)) or limit < 1:
            raise ParamInvalid(
                f"max_new_tokens is {limit!r}, must be 1 or more; prefill_only generates nothing"
            )
        main, aux = split_inputs(inputs)
        if aux:
            raise InputInvalid(
                f"model {self._context.model.name} has no auxiliary input {aux[0].index}; its inputs are "
                + ", ".join(f"{attr.index} {attr.name}" for attr in self._context.inputs)
            )
        return main

    def _run_for(
        self, future: Future[RunSummary], main: Any, params: InferParams, calls: CheckedCallbacks
    ) -> None:
        self._user = threading.get_ident()
        try:
            summary = self._run(main, params, calls)
        except BaseException as error:
            self._give_back()
            future.set_exception(error)
        else:
            self._give_back()
            future.set_result(summary)
        finally:
            del future  # or its error would keep this frame, and the frame the future

    def _run(self, main: Any, params: InferParams, calls: CheckedCallbacks) -> RunSummary:
        calls = calls.fresh()
        try:
            with self._context.turn(self._stop.is_set) as mine:
                if not mine:
                    calls.result(LlmResult(), CallState.STOP)
                    now = time.perf_counter()
                    return RunSummary(CallState.STOP, 0, 0, now, now, now)
                return self._generate(main, params, calls)
        except BaseException:
            calls.error()
            raise

    def _generate(self, main: Any, params: InferParams, calls: CheckedCallbacks) -> RunSummary:
        talk, context = self._talk, self._context
        if not params.keep_history:
            talk.begin(main)
        feed = talk.feed(main, self._chat_template(), calls)
        generation = Generation(
            context.decoder,
            talk,
            self._params,
            self._sampler,
            calls,
            context.outputs,
            self._stop.is_set,
            context.chunk,
        )
        return generation.run(feed, params, self._counters)

    def _chat_template(self) -> ChatTemplate:
        if self._literal is not None:
            return self._literal
        if self._template is None:
            self._template = self._context.chat_template()
        return self._template

    # -- life ---------------------------------------------------------------------------------------------

    def _take(self, call: str) -> None:
        """Hold the session, or say why not."""
        if self._user == threading.get_ident():
            raise ContextInvalid(
                f"{call} was called from inside a callback; there only stop and state are allowed"
            )
        if not self._free.acquire(False):
            raise ContextInvalid(
                f"{call}: the session is in use by another thread; wait for its run or stop it"
            )
        self._user = threading.get_ident()
        if self._closed:
            self._give_back()
            raise ContextInvalid(f"{call}: the session is closed; open another one")

    def _give_back(self) -> None:
        self._user = None
        self._free.release()

    @contextmanager
    def _using(self, call: str) -> Iterator[None]:
        self._take(call)
        try:
            yield
        finally:
            self._give_back()

    def close(self) -> None:
        if self._user == threading.get_ident():
            raise ContextInvalid(
                "close was called from inside a callback; call stop, and close after the run"
            )
        while not self._free.acquire(timeout=_LOOK):
            self._stop.set()
        self._closed = True
        self._talk.free()
        self._free.release()
        thread, self._thread = self._thread, None
        if thread is not None and thread is not threading.current_thread():
            thread.join()


def _policy(policy: KvPolicy) -> KvPolicy:
    try:
        return KvPolicy(policy)
    except ValueError:
        raise ParamInvalid(f"KV cache policy {policy!r}; use KvPolicy") from None
