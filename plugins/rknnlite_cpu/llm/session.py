"""A session on the CPU: settings, cache and runs of one conversation."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

import numpy as np
from rknnlite_llm.callbacks import CheckedCallbacks
from rknnlite_llm.chat_template import ChatTemplate, LiteralTemplate, parse_tools
from rknnlite_llm.guarded_session import GuardedSession, kv_clear, kv_policy
from rknnlite_llm.inputs import split_inputs
from rknnlite_llm.sampling import Sampler
from rknnlite_llm.template_budget import RenderStopped

from rknnlite.errors import ParamInvalid
from rknnlite.spi.llm import (
    AuxInput,
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

from . import kv_cache_file
from .conversation import Conversation
from .draft_model import Draft, DraftGuesser
from .engine import CpuEngine
from .generation import Counters, Generation
from .prefill_input import check_aux
from .speculation import Guesser, Lookup

__all__ = ["CpuLlmSession"]

_INFER = InferParams()


class CpuLlmSession(GuardedSession):
    """See ``LlmSession``. A run goes on in the thread that asks for it; ``run_async`` has one of its own."""

    _engine: CpuEngine

    def __init__(
        self, engine: CpuEngine, params: LlmParams, callbacks: LlmCallbacks, draft: Draft | None = None
    ) -> None:
        super().__init__(engine, callbacks)
        self._draft = draft
        self._drafting: DraftGuesser | None = None
        self._counters = Counters()
        self._literal: LiteralTemplate | None = None
        self._template: ChatTemplate | None = None
        self._params = params
        self._sampler = Sampler(params.sampling)
        self._talk = Conversation(engine.model, params.max_context_len)

    # -- settings -----------------------------------------------------------------------------------------

    def set_chat_template(self, system_prompt: str, prompt_prefix: str, prompt_postfix: str) -> None:
        with self._using("set_chat_template"):
            self._literal = LiteralTemplate(
                system_prompt, prompt_prefix, prompt_postfix, self._engine.end_mark
            )

    def set_function_tools(self, tools: str) -> None:
        parsed = parse_tools(tools)
        with self._using("set_function_tools"):
            self._talk.tools = parsed

    def set_kvcache_policy(self, policy: KvPolicy, n_keep: int = 0, n_keep_aligned: int = 0) -> None:
        with self._using("set_kvcache_policy"):
            self._talk.set_policy(kv_policy(policy), max(n_keep, n_keep_aligned))

    def set_llm_param(self, params: LlmParams | Sequence[LlmParams]) -> None:
        checked = self._engine.checked(params)
        with self._using("set_llm_param"):
            self._talk.resize(checked.max_context_len)
            if checked.max_context_len != self._params.max_context_len:
                self._drafting = None
            if checked.sampling != self._params.sampling:
                self._sampler = Sampler(checked.sampling)
            self._params = checked

    def enable_lora(self, name: str, scale: float = 1.0) -> None:
        with self._using("enable_lora"):
            others = [one for one in self._talk.adapters if one[0].name != name]
            if not isinstance(scale, (int, float, np.number)) or not np.isfinite(scale):
                raise ParamInvalid(f"scale of adapter {name!r} is {scale!r}, must be a finite number")
            self._talk.adapt((*others, (self._engine.adapter(name), float(scale))))

    def disable_lora(self, name: str) -> None:
        with self._using("disable_lora"):
            self._engine.adapter(name)
            self._talk.adapt(tuple(one for one in self._talk.adapters if one[0].name != name))

    def loras(self) -> tuple[tuple[str, float], ...]:
        return tuple((name, 1.0) for name in sorted(self._engine.adapters))

    # -- cache --------------------------------------------------------------------------------------------

    def clear_kvcache(self, clear: KvClear = KvClear.ALL) -> None:
        with self._using("clear_kvcache"):
            self._talk.forget(kv_clear(clear))

    def save_kvcache(self, path: str) -> None:
        with self._using("save_kvcache"):
            kv_cache_file.save(self._talk, path)

    def load_kvcache(self, path: str) -> None:
        with self._using("load_kvcache"):
            kv_cache_file.load(self._talk, path)

    def state(self) -> LlmState:
        talk, counters = self._talk, self._counters
        loras = tuple((adapter.name, scale) for adapter, scale in talk.adapters)
        return LlmState(talk.used, talk.size, counters.decode, counters.prefill, talk.policy, loras)

    def cached(self, tokens: Sequence[int]) -> int:
        with self._using("cached"):
            return self._talk.cached(list(tokens))

    def rendered(self, messages: MessagesInput) -> list[int]:
        with self._using("rendered"):
            self._stop.clear()  # what ended an earlier run does not end this
            tokens: list[int] = self._talk.tokens_of(messages, self._chat_template(), self._calls).tolist()
            return tokens

    # -- runs ---------------------------------------------------------------------------------------------

    def run(self, inputs: LlmInput | Sequence[LlmInput], params: InferParams = _INFER) -> RunSummary:
        main, aux = self._checked(inputs, params)
        with self._using("run"):
            self._stop.clear()
            return self._run(main, aux, params, self._calls)

    def run_async(
        self, inputs: LlmInput | Sequence[LlmInput], params: InferParams = _INFER
    ) -> Future[RunSummary]:
        run = partial(self._run, *self._checked(inputs, params), params, self._calls)
        return self._begin("run_async", lambda: run)

    def _checked(
        self, inputs: LlmInput | Sequence[LlmInput], params: InferParams
    ) -> tuple[Any, list[AuxInput]]:
        limit = params.max_new_tokens
        if not isinstance(limit, (int, np.integer)) or limit < 1:
            raise ParamInvalid(
                f"max_new_tokens is {limit!r}, must be 1 or more; prefill_only generates nothing"
            )
        main, aux = split_inputs(inputs)
        check_aux(self._engine.model, getattr(main, "blocks", ()), aux)
        return main, aux

    def _run(
        self, main: Any, aux: list[AuxInput], params: InferParams, calls: CheckedCallbacks
    ) -> RunSummary:
        calls = calls.fresh()
        return self._in_turn(calls, lambda: self._generate(main, aux, params, calls))

    def _generate(
        self, main: Any, aux: list[AuxInput], params: InferParams, calls: CheckedCallbacks
    ) -> RunSummary:
        talk, engine = self._talk, self._engine
        engine.check_weights()
        if not params.keep_history:
            talk.begin(main)
        try:
            feed = talk.feed(main, self._chat_template(), calls, aux)
        except RenderStopped:
            return self._stopped(calls)
        generation = Generation(
            engine.steps,
            talk,
            self._params,
            self._sampler,
            calls,
            engine.outputs,
            self._stop.is_set,
            engine.chunk,
            self._guesser() if self._params.speculate else None,
        )
        return generation.run(feed, params, self._counters)

    def _guesser(self) -> Guesser:
        """The draft, which remembers what it has read; without one, what stands in the conversation."""
        if self._draft is None:
            return Lookup()
        self._draft.engine.check_weights()
        if self._drafting is None:
            self._drafting = self._draft.guesser(self._params.max_context_len)
        return self._drafting

    def _chat_template(self) -> ChatTemplate:
        if self._literal is not None:
            return self._literal
        if self._template is None:
            self._template = self._engine.chat_template(self._stop.is_set)
        return self._template

    def _release(self) -> None:
        self._drafting = None
        self._talk.free()
