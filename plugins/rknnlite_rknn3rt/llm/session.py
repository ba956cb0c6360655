"""A session on librknn3_api: guarded against misuse, its callbacks bridged, its object given back once."""

from __future__ import annotations

import ctypes as ct
import os
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rknnlite.errors import ContextInvalid, ModelInvalid, ParamInvalid
from rknnlite.llm.callbacks import CheckedCallbacks
from rknnlite.llm.template import parse_tools
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

from ..errors import call_error
from ..tensors import TensorSet
from .callbacks import CallbackStructs, RunWatch
from .inputs import RunInputs
from .lora import lora_struct
from .native_session import NativeSession
from .params import checked_params, infer_struct, param_structs

if TYPE_CHECKING:
    from .context import Rknn3LlmContext

__all__ = ["Rknn3LlmSession"]

_INFER = InferParams()
_LOOK = 0.02  # seconds between attempts to get hold of a session that is to be closed


class Rknn3LlmSession(LlmSession):
    """See ``LlmSession``. Whoever holds ``_free`` uses the session; runs go on in a thread of their own."""

    def __init__(self, context: Rknn3LlmContext, params: list[LlmParams], callbacks: LlmCallbacks) -> None:
        self._context = context
        self._config = context.config
        self._free = threading.Lock()
        self._stop = threading.Event()
        self._closed = False
        self._thread: threading.Thread | None = None
        self._params = params
        self._installed: tuple[bool, tuple[int, ...]] | None = None
        self.set_callbacks(callbacks)
        handle = context.need()
        self._structs = CallbackStructs(
            handle, self._config.vocab_size, self._config.embedding_dim, context.inside
        )
        self._native = NativeSession(handle, param_structs(params, self._config), self._structs)

    # -- settings -----------------------------------------------------------------------------------------

    @property
    def callbacks(self) -> LlmCallbacks:
        return self._calls.given

    def set_callbacks(self, callbacks: LlmCallbacks) -> None:
        known = len(self._context.outputs)
        if any(not 0 <= index < known for index in callbacks.outputs):
            raise ParamInvalid(
                f"output callback wants outputs {callbacks.outputs}, the model has 0..{known - 1}"
            )
        self._calls = CheckedCallbacks(callbacks, self._config.vocab_size, self._config.embedding_dim)

    def set_chat_template(self, system_prompt: str, prompt_prefix: str, prompt_postfix: str) -> None:
        texts = [part.encode() for part in (system_prompt, prompt_prefix, prompt_postfix)]
        with self._using("set_chat_template"):
            self._native.do("rknn3_session_set_chat_template", *texts)

    def set_function_tools(self, tools: str) -> None:
        parse_tools(tools)
        with self._using("set_function_tools"):
            self._native.do("rknn3_session_set_function_tools", tools.encode())

    def set_kvcache_policy(self, policy: KvPolicy, n_keep: int = 0, n_keep_aligned: int = 0) -> None:
        try:
            chosen = KvPolicy(policy)
        except ValueError:
            raise ParamInvalid(f"KV cache policy {policy!r}; use KvPolicy") from None
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
        try:
            chosen = KvClear(clear)
        except ValueError:
            raise ParamInvalid(f"clear_kvcache({clear!r}): use KvClear") from None
        with self._using("clear_kvcache"):
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
            self._native.do("rknn3_session_load_kvcache_from_data", data, len(data))

    def state(self) -> LlmState:
        return self._native.state()

    # -- runs ---------------------------------------------------------------------------------------------

    def run(self, inputs: LlmInput | Sequence[LlmInput], params: InferParams = _INFER) -> RunSummary:
        future = None
        try:
            future = self._begin("run", inputs, params)
            return future.result()
        except BaseException:
            if future is not None and not future.done():  # this thread was interrupted, the run goes on
                self._stop_and_wait(future)
            raise
        finally:
            del future  # or its exception would keep this frame, and the frame the future

    def _stop_and_wait(self, future: Future[RunSummary]) -> None:
        self.stop()
        future.exception()

    def run_async(
        self, inputs: LlmInput | Sequence[LlmInput], params: InferParams = _INFER
    ) -> Future[RunSummary]:
        return self._begin("run_async", inputs, params)

    def stop(self) -> None:
        self._stop.set()
        self._native.stop()

    def pause(self) -> None:
        """Let a run under way wait where it is (runtime 1.0.4 and after)."""
        self._native.quick("rknn3_session_pause")

    def resume(self) -> None:
        """Let a paused run go on."""
        self._native.quick("rknn3_session_resume")

    def _begin(
        self, call: str, inputs: LlmInput | Sequence[LlmInput], params: InferParams
    ) -> Future[RunSummary]:
        """Start the run in a thread, which holds the session until the end."""
        calls = self._calls.fresh()
        self._take(call)
        claim = threading.Lock()  # whoever gets it first gives the session back: the thread, or this call
        future: Future[RunSummary] = Future()
        try:
            given = RunInputs(self._context.need(), self._context.input_tensors, inputs, calls)
            infer = infer_struct(params, given.continues, self._native.abi, self._native.version)
            future.set_running_or_notify_cancel()
            self._stop.clear()
            self._thread = threading.Thread(
                target=self._work, args=(claim, future, given, infer, calls), name="rknnlite-llm", daemon=True
            )
            self._thread.start()
        except BaseException as error:
            if claim.acquire(False):
                self._free.release()
            else:  # an interrupt while the thread was starting
                self._stop_and_wait(future)
            if isinstance(error, RuntimeError):
                raise ContextInvalid(f"no thread for the run: {error}") from None
            raise
        return future

    def _work(
        self,
        claim: threading.Lock,
        future: Future[RunSummary],
        given: RunInputs,
        infer: Any,
        calls: CheckedCallbacks,
    ) -> None:
        if not claim.acquire(False):
            given.release()
            return
        try:
            summary = self._run(given, infer, calls)
        except BaseException as error:
            self._free.release()
            future.set_exception(error)
        else:
            self._free.release()
            future.set_result(summary)
        finally:
            del future

    def _run(self, given: RunInputs, infer: Any, calls: CheckedCallbacks) -> RunSummary:
        try:
            with self._context.turn(self._stop.is_set) as mine:
                if mine and not self._stop.is_set():
                    return self._in_library(given, infer, calls)
            calls.result(LlmResult(), CallState.STOP)
            now = time.perf_counter()
            return RunSummary(CallState.STOP, 0, 0, now, now, now)
        except BaseException:
            calls.error()
            raise
        finally:
            given.release()

    def _in_library(self, given: RunInputs, infer: Any, calls: CheckedCallbacks) -> RunSummary:
        self._install(calls.given)
        watch = RunWatch(calls, self._stop.is_set, self._native.stop)
        start = time.perf_counter()
        self._structs.calls.run = watch
        try:
            ended = watch.ended if self._context.native_async else None
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
            known = self._context.output_tensors
            outputs = TensorSet(self._context.need(), [known[i] for i in shown], False, None)
        struct = self._structs.struct(callbacks, outputs)
        self._native.do("rknn3_session_set_callback", ct.byref(struct))
        self._native.use(struct, outputs)
        self._installed = wanted

    # -- life ---------------------------------------------------------------------------------------------

    def _take(self, call: str) -> None:
        """Hold the session, or say why not."""
        if threading.get_ident() in self._context.inside:
            raise ContextInvalid(
                f"{call} was called from inside a callback; there only stop and state are allowed"
            )
        if not self._free.acquire(False):
            raise ContextInvalid(
                f"{call}: the session is in use by another thread; wait for its run or stop it"
            )
        if self._closed:
            self._free.release()
            raise ContextInvalid(f"{call}: the session is closed; open another one")

    @contextmanager
    def _using(self, call: str) -> Iterator[None]:
        self._take(call)
        try:
            yield
        finally:
            self._free.release()

    def abandon(self) -> None:
        """After a fork, in the child: the parent owns the session, and its threads are not here."""
        self._free = threading.Lock()
        self._closed, self._thread = True, None
        self._native.abandon()

    def close(self) -> None:
        if threading.get_ident() in self._context.inside:
            raise ContextInvalid(
                "close was called from inside a callback; call stop, and close after the run"
            )
        held = self._free.acquire(False)
        while not held:
            self.stop()
            held = self._free.acquire(timeout=_LOOK)
        self._closed = True
        self._native.release()
        self._structs.forget()
        self._free.release()
        thread, self._thread = self._thread, None
        if thread is not None and thread is not threading.current_thread():
            thread.join()
