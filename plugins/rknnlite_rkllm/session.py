"""A session on librkllmrt: one handle with one KV cache, its settings and its runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, Optional

from rknnlite_llm.callbacks import CheckedCallbacks
from rknnlite_llm.guarded_session import kv_clear, kv_policy
from rknnlite_llm.inputs import expanded

from rknnlite.errors import ContextInvalid, ModelUnsupported, ParamInvalid, RknnError
from rknnlite.spi.llm import (
    CallState,
    InferParams,
    KvClear,
    KvPolicy,
    LlmCallbacks,
    LlmInput,
    LlmParams,
    LlmResult,
    LlmState,
    MessagesInput,
    RunSummary,
)

from .adapters import Adapters
from .conversation import Conversation, Step
from .engine import RkllmEngine
from .log_errors import error_in_log
from .model_process import RkllmCrashed
from .requests import Mode, Run, RunEnd
from .run_listener import RunListener, summarised
from .structs import one_of, sampling_values

__all__ = ["RkllmSession"]

_INFER = InferParams()
_UNKNOWN = -1
_OUTPUTS = {(): Mode.GENERATE, (0,): Mode.LOGITS, (1,): Mode.HIDDEN}


class RkllmSession(Adapters):
    """See ``LlmSession``. All runs go on in a thread of the session's own, by the library's blocking call."""

    _engine: RkllmEngine

    def __init__(self, engine: RkllmEngine, params: LlmParams, callbacks: LlmCallbacks) -> None:
        """Load the model, which takes seconds; raises what the checks and the library say."""
        super().__init__(engine, callbacks, engine.inside)
        self._settings, self._abi = engine.settings, engine.identity.abi
        self._conversation = Conversation(
            self._abi, engine.template(self._stop.is_set), self._settings.tool_tag, self._settings.image_tags
        )
        self._loaded = engine.load(params)
        self._model = self._loaded.model
        self._params = replace(params, max_context_len=self._loaded.start.max_context_len)
        self._counts = (0, 0)
        self._total = 0
        try:
            self._call_each(self._conversation.opening)
        except BaseException:
            self._loaded.close()
            raise

    # -- callbacks and settings ---------------------------------------------------------------------------

    def set_callbacks(self, callbacks: LlmCallbacks) -> None:
        if callbacks.sampling is not None:
            raise ParamInvalid(
                "librkllmrt draws tokens by itself and calls no sampling callback; leave it out, or take another backend"
            )
        if callbacks.output is not None and tuple(callbacks.outputs) not in _OUTPUTS:
            raise ParamInvalid(
                f"a run of librkllmrt gives logits or hidden states, not outputs {callbacks.outputs}; ask for (0,) or (1,)"
            )
        super().set_callbacks(callbacks)

    @property
    def usable(self) -> bool:
        return not self._closed and self._crashed is None

    _crashed: Optional[RkllmCrashed] = None

    def set_chat_template(self, system_prompt: str, prompt_prefix: str, prompt_postfix: str) -> None:
        with self._using("set_chat_template"):
            self._call_each(self._conversation.set_template(system_prompt, prompt_prefix, prompt_postfix))
            self._clear(False)

    def set_function_tools(self, tools: str) -> None:
        with self._using("set_function_tools"):
            self._call_each(self._conversation.set_tools(tools))

    def set_kvcache_policy(self, policy: KvPolicy, n_keep: int = 0, n_keep_aligned: int = 0) -> None:
        if kv_policy(policy) is KvPolicy.NORMAL:
            raise ParamInvalid(
                "librkllmrt goes on when the context is full (RECURRENT); it cannot be told to stop there"
            )
        if n_keep or n_keep_aligned:
            raise ParamInvalid("librkllmrt takes n_keep when the model is opened; open it with n_keep=...")

    def set_llm_param(self, params: LlmParams | Sequence[LlmParams]) -> None:
        given = one_of(params)
        with self._using("set_llm_param"):
            context = given.max_context_len or self._params.max_context_len
            if context != self._params.max_context_len or given.vocab != self._params.vocab:
                raise ContextInvalid(
                    f"max_context_len ({self._params.max_context_len}, wanted {context}) and vocabulary are fixed when the model "
                    "is loaded; open another session"
                )
            sampling_values(given.sampling)
            if given.sampling != self._params.sampling and not self._engine.per_run:
                raise ParamInvalid(
                    f"librkllmrt {self._engine.version} fixes sampling when the model is loaded ({self._params.sampling}); open "
                    "another session with the new one, or use 1.3.0"
                )
            self._params = replace(given, max_context_len=context)

    # -- cache --------------------------------------------------------------------------------------------

    def clear_kvcache(self, clear: KvClear = KvClear.ALL) -> None:
        keep = kv_clear(clear) is KvClear.KEEP_SYSTEM_PROMPT
        with self._using("clear_kvcache"):
            self._clear(keep)

    def _clear(self, keep_system: bool) -> None:
        keep_system = keep_system and self._conversation.keeps_system
        self._conversation.forget(keep_system)
        if "rkllm_clear_kv_cache" in self._abi.exports:
            self._call_each([("clear_kvcache", keep_system)])
        self._count()

    def save_kvcache(self, path: str) -> None:
        raise ModelUnsupported(
            "librkllmrt saves a cache with a run only; call save_prompt_cache(path) before the run whose cache is wanted"
        )

    def load_kvcache(self, path: str) -> None:
        raise ModelUnsupported(
            "librkllmrt goes on from no saved conversation; load_prompt_cache(path) spares the beginning of a prompt that was "
            "computed before"
        )

    def state(self) -> LlmState:
        """Counters of the last run; the number of tokens in the cache is -1 before version 1.2.1, which does not tell it."""
        prefill, decode = self._counts
        size = self._params.max_context_len
        return LlmState(self._total, size, decode, prefill, KvPolicy.RECURRENT)

    def _count(self) -> None:
        """Ask how many tokens the cache holds; nobody uses the session meanwhile."""
        known = "rkllm_get_kv_cache_size" in self._abi.exports
        self._total = int(self._call("kvcache_size")[0]) if known else _UNKNOWN

    def rendered(self, messages: MessagesInput) -> list[int]:
        with self._using("rendered"):
            self._stop.clear()  # what ended an earlier run does not end this
            text = expanded(self._conversation.text(messages, self._calls), messages)
            return [int(token) for token in self._calls.tokens(text)]

    # -- runs ---------------------------------------------------------------------------------------------

    def run(self, inputs: LlmInput | Sequence[LlmInput], params: InferParams = _INFER) -> RunSummary:
        return self._waiting(self._preparing(inputs, params))

    def run_async(
        self, inputs: LlmInput | Sequence[LlmInput], params: InferParams = _INFER
    ) -> Future[RunSummary]:
        return self._begin("run_async", self._preparing(inputs, params))

    def run_batch(
        self,
        inputs: Sequence[LlmInput],
        params: InferParams = _INFER,
        result: Optional[Callable[[int, LlmResult], None]] = None,
    ) -> list[LlmResult]:
        """Several inputs at once, as many as ``n_batch`` (1.2.1 and later): the answers, in the order of the inputs.

        ``result`` hears them piece by piece, with the number of the input. Nothing is kept of earlier runs. Raises
        ParamInvalid, InputInvalid, and what ``result`` raises.
        """
        n_batch = self._settings.n_batch
        if n_batch < 2 or len(inputs) != n_batch:
            raise ParamInvalid(
                f"run_batch of {len(inputs)} inputs, the model was opened with n_batch={n_batch}"
            )
        parts: list[list[LlmResult]] = [[] for _ in inputs]

        def tell(index: int, piece: LlmResult) -> None:
            parts[index].append(piece)
            if result is not None:
                result(index, piece)

        self._waiting(self._preparing_batch(inputs, params, tell))
        return [
            LlmResult(
                tuple(i for piece in part for i in piece.token_ids),
                "".join(piece.text or "" for piece in part),
            )
            for part in parts
        ]

    def _waiting(self, prepare: Callable[[], Callable[[], RunSummary]]) -> RunSummary:
        future = None
        try:
            future = self._begin("run", prepare)
            return future.result()
        except BaseException:
            if future is not None and not future.done():  # this thread was interrupted, the run goes on
                self._stop_and_wait(future)
            raise
        finally:
            del future  # or its exception would keep this frame, and the frame the future

    def stop(self) -> None:
        super().stop()
        self._model.abort()

    def _preparing(
        self, inputs: LlmInput | Sequence[LlmInput], params: InferParams
    ) -> Callable[[], Callable[[], RunSummary]]:
        """What makes a request when the session is held, and returns how it is computed."""
        calls = self._calls.fresh()

        def prepare() -> Callable[[], RunSummary]:
            if self._settings.n_batch > 1:
                raise ParamInvalid(
                    f"the model was opened with n_batch={self._settings.n_batch}; use run_batch"
                )
            mode = self._mode(params, calls)
            step = self._conversation.step(inputs, params.keep_history, calls, self._params.max_context_len)
            if mode is Mode.HIDDEN and not params.keep_history:
                self._conversation.alone(step)
            request = self._request([step], params, mode)
            listener = self._listener(calls, params, mode)
            return lambda: self._in_turn(
                calls, lambda: self._in_library(step, request, listener, calls, params)
            )

        return prepare

    def _preparing_batch(
        self, inputs: Sequence[LlmInput], params: InferParams, tell: Callable[[int, LlmResult], None]
    ) -> Callable[[], Callable[[], RunSummary]]:
        calls = CheckedCallbacks(
            LlmCallbacks(tokenizer=self.callbacks.tokenizer), self._engine.config.vocab_size, 0
        )

        def prepare() -> Callable[[], RunSummary]:
            context = self._params.max_context_len
            steps = [self._conversation.step(one, False, calls, context) for one in inputs]
            self._conversation.forget()
            request = self._request(steps, params, Mode.GENERATE)
            request = replace(request, keep_history=False)
            listener = self._listener(calls, params, Mode.GENERATE, tell, len(steps))
            first = replace(steps[0], done=lambda text: None, keeps=False)
            return lambda: self._in_turn(
                calls, lambda: self._in_library(first, request, listener, calls, params)
            )

        return prepare

    def _mode(self, params: InferParams, calls: CheckedCallbacks) -> Mode:
        if params.disable_sampling:
            raise ParamInvalid(
                "librkllmrt cannot leave the choice of a token to the caller (disable_sampling)"
            )
        if params.max_new_tokens < 1 and not params.prefill_only:
            raise ParamInvalid(f"max_new_tokens is {params.max_new_tokens}, must be 1 or more")
        wanted = calls.unchecked.outputs if calls.unchecked.output is not None else ()
        mode = _OUTPUTS[tuple(wanted)]
        if wanted and self._abi.RKLLMInferMode is None:
            needed = "hidden states need 1.1.0, logits 1.2.0 or later"
            raise ParamInvalid(f"librkllmrt {self._engine.version} gives neither; {needed}")
        if params.prefill_only and (mode is Mode.GENERATE or not self._abi.callback_returns):
            raise ParamInvalid(
                "prefill_only needs an output callback for logits or hidden states, and librkllmrt 1.2.1 or later; to compute a "
                "prompt ahead, use save_prompt_cache"
            )
        return mode

    def _request(self, steps: list[Step], params: InferParams, mode: Mode) -> Run:
        save, self._save = self._save, ""
        return Run(
            inputs=tuple(step.input for step in steps),
            mode=mode,
            keep_history=steps[0].keeps and not params.prefill_only,
            max_new_tokens=params.max_new_tokens,
            sampling=self._params.sampling if self._engine.per_run else None,
            mirostat=tuple(self._settings.mirostat),  # type: ignore[arg-type]
            lora=self._lora,
            save=save,
            once=params.prefill_only,
        )

    def _listener(
        self,
        calls: CheckedCallbacks,
        params: InferParams,
        mode: Mode,
        batch: Optional[Callable[[int, LlmResult], None]] = None,
        inputs: int = 1,
    ) -> RunListener:
        limit = 0 if self._engine.per_run else params.max_new_tokens
        return RunListener(
            calls, mode, limit, self._engine.outputs, self._model.abort, self._stop.is_set, batch, inputs
        )

    def _in_library(
        self, step: Step, request: Run, listener: RunListener, calls: CheckedCallbacks, params: InferParams
    ) -> RunSummary:
        if self._stop.is_set():
            step.undo()
            return self._stopped(calls)
        try:
            self._call_each(step.before)
            start = time.perf_counter()
            ended: RunEnd = self._guarded(lambda: self._model.run(request, listener.on_result))
        except BaseException:
            self._conversation.run_failed()
            raise
        end = time.perf_counter()
        if request.once:  # the library waits for the run to go on
            self._call_each([("clear_kvcache", False)])
        state = self._ending(ended, listener, request)
        listener.finish()
        step.done(listener.answers[0].text)
        self._count()
        given = request.inputs[0].array
        summary = summarised(state, ended, listener, 0 if given is None else len(given), start, end)
        self._counts = (summary.n_prefill_tokens, summary.n_decode_tokens)
        calls.result(LlmResult(), state)
        return summary

    def _ending(self, ended: RunEnd, listener: RunListener, request: Run) -> CallState:
        """How the run ended; raises what went wrong, also where the library says that all is well."""
        failure, listener.failure = listener.failure, None
        if failure is not None:
            self._conversation.run_failed()
            try:
                raise failure
            finally:
                del failure
        spoiled = error_in_log(self._what, self._model.log, spoiled=True)
        stopped = self._stop.is_set()
        if spoiled is not None or not (stopped or listener.full or ended.is_complete(request.once)):
            self._conversation.run_failed()
            raise spoiled or self._failure(ended)
        if stopped:
            return CallState.STOP
        full = listener.full or listener.count >= request.max_new_tokens > 0
        return CallState.MAX_NEW_TOKEN_REACHED if full else CallState.FINISH

    # -- asking the library -------------------------------------------------------------------------------

    @property
    def _what(self) -> str:
        return f"librkllmrt {self._engine.version} with {self._engine.file.path}"

    def _failure(self, ended: RunEnd) -> RknnError:
        known = error_in_log(self._what, self._model.log)
        return known or RknnError(f"{self._what}: rkllm_run {ended.outcome}; the library's log says why")

    def _call_each(self, calls: Sequence[tuple[Any, ...]]) -> None:
        for name, *args in calls:
            self._call(name, *args)
            self._conversation.called(name, *args)

    def _call(self, name: str, *args: Any) -> Any:
        """One call of the library; raises the error that its log tells of, where it fails."""
        try:
            return self._guarded(lambda: self._model.call(name, *args))
        except RknnError as error:
            raise error_in_log(self._what, self._model.log) or error from None

    def _guarded(self, call: Callable[[], Any]) -> Any:
        """A call, unless the library's process has crashed before; if it does now, the room is another session's."""
        if self._crashed is not None:
            raise self._crashed
        try:
            return call()
        except RkllmCrashed as error:
            self._crashed = error
            self._loaded.close()
            raise

    # -- life ---------------------------------------------------------------------------------------------

    def _release(self) -> None:
        self._loaded.close()

    def abandon(self) -> None:
        super().abandon()
        self._model.abandon()
