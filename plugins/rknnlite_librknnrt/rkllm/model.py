"""A model that a program has open: its settings, its caches, and what each call does."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Optional, Union

import numpy as np
from numpy.typing import NDArray
from rknnlite_llm.tokenizer import Tokenizer

from rknnlite.errors import ContextInvalid, ModelUnsupported, ParamInvalid
from rknnlite.log import logger
from rknnlite.spi.llm import (
    EmbedCallback,
    EmbedInput,
    InferParams,
    InputKind,
    KvClear,
    KvPolicy,
    LlmCallbacks,
    LlmContext,
    LlmInput,
    LlmParams,
    MessagesInput,
    PromptInput,
    SamplingParams,
    TokenInput,
)

from ..calls import Handler, Reply
from ..packed import Packed
from ..protocol import Call, Request
from .callbacks import ProgramCallbacks
from .history import History
from .inputs import Given, read_inputs
from .runs import Run, Stream
from .stand_in import adapter_folder

__all__ = ["Engine", "Model", "Settings", "read_sampling", "real"]

Array = NDArray[Any]
_GENERATE, _HIDDEN, _LOGITS = range(3)
_MOST_LOGITS = 1 << 29  # values


@dataclass(frozen=True)
class Engine:
    """A model with its tokenizer and its embeddings; ``decoder`` None: the program has the tokenizer."""

    context: LlmContext
    decoder: Optional[Tokenizer]
    tokenizer: Callable[[str], Sequence[int]]
    embed: EmbedCallback

    @property
    def hidden(self) -> int:
        """Values per embedding."""
        return self.context.config.embedding_dim

    @property
    def media_width(self) -> int:
        """Values per row of an image: those of further outputs of an encoder lie beside the first one's."""
        deep = sum(attr.name.startswith("deepstack_") for attr in self.context.inputs)
        return self.hidden * (1 + deep)


@dataclass(frozen=True)
class Settings:
    """What the program opened it with; ``version`` is that of its header."""

    version: int
    params: LlmParams
    most: int
    skip_special: bool
    tags: tuple[str, str, str]
    n_keep: int
    n_batch: int


class Model:
    """Serves one ``LLMHandle``."""

    def __init__(self, engine: Engine, program: ProgramCallbacks, settings: Settings) -> None:
        self._engine, self._program, self._settings = engine, program, settings
        callbacks = LlmCallbacks(tokenizer=engine.tokenizer, embed=engine.embed)
        self._sessions = [engine.context.session(settings.params, callbacks) for _ in range(settings.n_batch)]
        if settings.n_keep > 0:
            for session in self._sessions:
                session.set_kvcache_policy(KvPolicy.RECURRENT, settings.n_keep)
        self._sampling = settings.params.sampling
        self._history = History()
        self._adapters: dict[str, tuple[str, float]] = {}  # name in the program -> name here, scale
        self._adapter = ""
        self._loaded = False  # a prompt cache, whose beginning a run may share
        self._literal = self._as_given = False
        self._paused: Optional[Run] = None
        self._pending: list[int] = []  # what a paused run goes on with, where its cache was cut
        self._told: Optional[Given] = None  # the input of the paused run

    def handlers(self) -> dict[int, Handler]:
        """What answers which call."""
        return {
            Call.LLM_RUN: self._run,
            Call.LLM_TEMPLATE: self._template,
            Call.LLM_TOOLS: self._tools,
            Call.LLM_CLEAR: self._clear,
            Call.LLM_CUT: self._cut,
            Call.LLM_SIZES: self._sizes,
            Call.LLM_LORA: self._lora,
            Call.LLM_LOAD: self._load,
            Call.LLM_RELEASE: self._release,
        }

    def close(self) -> None:
        """Close the model."""
        self._end_pause()
        for session in self._sessions:
            session.set_callbacks(LlmCallbacks())  # they refer to what refers to the session
        self._engine.context.close()
        self._program.close()

    # -- settings -----------------------------------------------------------------------------------------

    def set_template(self, system: str, prefix: str, postfix: str) -> None:
        """Literal text around prompts; the cache is cleared."""
        self._forget()
        for session in self._sessions:
            session.set_chat_template(system, prefix, postfix)
            session.clear_kvcache(KvClear.ALL)
        self._literal, self._as_given = True, not (system or prefix or postfix)

    def _template(self, request: Request) -> None:
        packed = Packed(request.payload)
        self.set_template(packed.text() or "", packed.text() or "", packed.text() or "")

    def _tools(self, request: Request) -> None:
        packed = Packed(request.payload)
        system, tools, _ = packed.text() or "", packed.text() or "", packed.text()
        if self._literal:
            logger.warning(
                "rkllm_set_function_tools behind rkllm_set_chat_template: the tools are not told to the model"
            )
            return
        self._forget()
        self._history.offer(system, tools)

    def _lora(self, request: Request) -> None:
        packed = Packed(request.payload)
        folder, name, scale = adapter_folder(packed.path() or ""), packed.text() or "", real(packed.number())
        before = {known for known, _ in self._sessions[0].loras()}
        self._engine.context.init_loras(folder)
        names = [
            known for known, _ in self._sessions[0].loras() if known not in before or known == folder.name
        ]
        if len(names) != 1:
            raise ParamInvalid(f"{folder}: {len(names)} adapters there; name the folder of one")
        self._adapters[name] = names[0], scale

    def _adapt(self, name: Optional[str]) -> None:
        """Use the adapter of a run, or none."""
        wanted = name or ""
        if wanted == self._adapter:
            return
        if wanted and wanted not in self._adapters:
            raise ParamInvalid(f"there is no adapter {wanted!r}; rkllm_load_lora makes one known")
        self._forget()
        for session in self._sessions:
            if self._adapter:
                session.disable_lora(self._adapters[self._adapter][0])
            if wanted:
                session.enable_lora(*self._adapters[wanted])
        self._adapter = wanted

    # -- caches -------------------------------------------------------------------------------------------

    def _forget(self) -> None:
        self._end_pause()
        self._history.clear()

    def _end_pause(self) -> None:
        run, self._paused, self._pending, self._told = self._paused, None, [], None
        if run is not None:
            run.stop()

    def _clear(self, request: Request) -> None:
        self._forget()
        for session in self._sessions:
            session.clear_kvcache(KvClear.KEEP_SYSTEM_PROMPT if request.args[0] else KvClear.ALL)

    def _sizes(self, _: Request) -> Reply:
        kept = self._history.kept or self._paused is not None
        counts = [session.state().n_total_tokens if kept else 0 for session in self._sessions]
        if self._pending:
            counts = [len(self._pending)]
        return Reply(struct.pack(f"={len(counts)}i", *counts))

    def _cut(self, request: Request) -> None:
        """Take a part out of the cache of a paused run, which goes on with what is left, read anew from there."""
        packed, run, told = Packed(request.payload), self._paused, self._told
        if run is None or told is None:
            raise ParamInvalid(
                "start_pos and end_pos are only valid when keep_history is 0 and the run is paused by a callback"
            )
        if len(run.streams) > 1 or self._history.kept or told.kind not in (InputKind.PROMPT, InputKind.TOKEN):
            raise ModelUnsupported(
                "a part of the cache can be cleared for one prompt of text or tokens without a history"
            )
        start, end = packed.signed(), packed.signed()
        run.stop()
        tokens = self._pending or [*self._tokens(told), *run.streams[0].ids]
        if not 0 <= start <= end <= len(tokens) or end - start == len(tokens):
            raise ParamInvalid(f"start_pos {start} and end_pos {end} of {len(tokens)} tokens in the cache")
        self._pending = tokens[:start] + tokens[end:]

    def _load(self, request: Request) -> None:
        self._forget()
        self._sessions[0].load_kvcache(Packed(request.payload).path() or "")
        self._loaded = True

    def _release(self, _: Request) -> None:
        self._loaded = False
        if not self._history.kept:
            self._sessions[0].clear_kvcache(KvClear.ALL)

    # -- runs ---------------------------------------------------------------------------------------------

    def _run(self, request: Request) -> None:
        count, mode, keep, most = request.args[:4]
        packed = Packed(request.payload)
        adapter, save = packed.text(), packed.path()
        sampling = read_sampling(packed) if packed.number() else self._settings.params.sampling
        if self._paused is not None and not keep:
            self._go_on(most)
            return
        engine, settings = self._engine, self._settings
        given = read_inputs(
            packed, count, settings.version, (engine.hidden, engine.media_width), settings.tags
        )
        self._end_pause()
        self._adapt(adapter)
        self._set_sampling(sampling)
        if mode != _GENERATE and count > 1:
            raise ParamInvalid("hidden states and logits are told with n_batch 1")
        logits = self._logits(given[0]) if mode == _LOGITS else None
        run = self._started(given, bool(keep), most, mode == _HIDDEN)
        self._told = given[0]
        self._finish(run, bool(keep), logits)
        if save and self._paused is None:
            self._sessions[0].save_kvcache(save)

    def _started(self, given: Sequence[Given], keep: bool, most: int, hidden: bool) -> Run:
        streams = [self._stream(session, hidden) for session in self._sessions]
        run = Run(streams, self._program, self._settings.version)
        try:
            for number, (stream, one) in enumerate(zip(streams, given)):
                message = self._history.message(one) if not number else None
                made = self._input(one, message)
                stream.start(made, InferParams(self._history.kept, self._most(most)))
        except BaseException:
            run.stop()
            raise
        return run

    def _finish(self, run: Run, keep: bool, logits: Optional[Array] = None) -> None:
        try:
            outcome = run.go(logits)
        except BaseException:
            self._history.clear()
            raise
        self._paused = run if outcome.paused and not keep else None
        if outcome.paused and keep:
            run.stop()
        self._history.ended(run.streams[0].ids, self._spoken, keep)
        self._loaded = False

    def _go_on(self, most: int) -> None:
        """The paused run; its cache may have been cut."""
        run, self._paused = self._paused, None
        assert run is not None
        if self._pending:
            rest, self._pending = self._pending, []
            stream = self._stream(self._sessions[0], hidden=False)
            stream.start(TokenInput(rest, whole=True), InferParams(False, self._most(most)))
            run = Run([stream], self._program, self._settings.version)
        self._finish(run, keep=False)

    def _stream(self, session: Any, hidden: bool) -> Stream:
        index = None
        if hidden:
            names = [attr.name for attr in self._engine.context.outputs]
            if "last_hidden_state" not in names:
                raise ModelUnsupported("the backend does not tell the last hidden layer")
            index = names.index("last_hidden_state")
        decoder = self._engine.decoder
        skip = self._settings.skip_special
        return Stream(
            session, (lambda ids: decoder.decode(ids, skip)) if decoder is not None else None, index
        )

    def _spoken(self, ids: Sequence[int]) -> str:
        decoder = self._engine.decoder
        return decoder.decode(ids) if decoder is not None else ""

    def _most(self, most: int) -> int:
        limit = most or self._settings.most
        return limit if limit > 0 else self._sessions[0].state().n_max_tokens

    def _set_sampling(self, sampling: SamplingParams) -> None:
        if sampling != self._sampling:
            for session in self._sessions:
                session.set_llm_param(replace(self._settings.params, sampling=sampling))
            self._sampling = sampling

    # -- inputs -------------------------------------------------------------------------------------------

    def _input(self, one: Given, message: Optional[MessagesInput]) -> Union[LlmInput, Sequence[LlmInput]]:
        """As a session takes it: whole texts share what is in the cache already."""
        if message is not None:
            return message
        thinking = one.thinking and not self._literal
        if one.kind is InputKind.TOKEN:
            return TokenInput(one.tokens, whole=not self._history.kept)
        if one.kind is InputKind.EMBED:
            return EmbedInput(one.rows if one.rows is not None else np.empty((0, 0), np.float32))
        if one.kind is InputKind.MULTIMODAL:
            return [replace(one.multimodal(), enable_thinking=thinking), *one.aux]
        if self._loaded:
            return TokenInput(self._tokens(one), whole=True)
        return PromptInput(one.text, one.role, thinking)

    def _tokens(self, one: Given) -> list[int]:
        """Of a prompt without a history; raises ModelUnsupported for what is no text."""
        if one.kind is InputKind.TOKEN:
            return list(one.tokens)
        if one.kind is not InputKind.PROMPT:
            raise ModelUnsupported("of embeddings and images there are no tokens; give text or tokens")
        if self._as_given and self._engine.decoder is not None:
            return list(self._engine.decoder.encode(one.text, special=True))
        message = {"role": one.role, "content": one.text}
        return self._sessions[0].rendered(
            MessagesInput([message], enable_thinking=one.thinking and not self._literal)
        )

    def _logits(self, one: Given) -> Array:
        """Behind each token of a prompt: float32 (n, vocab)."""
        if self._history.kept:
            raise ContextInvalid(
                "logits are told of a prompt without a history; call rkllm_clear_kv_cache before it"
            )
        tokens = self._tokens(one)
        context = self._engine.context
        if len(tokens) * context.config.vocab_size > _MOST_LOGITS:
            raise ParamInvalid(
                f"logits of {len(tokens)} tokens are more than is told at once; give a shorter prompt"
            )
        return np.concatenate(list(context.logits(tokens, self._engine.embed)))


def read_sampling(packed: Packed) -> SamplingParams:
    """Six values and ``mirostat``. A temperature of 0 or less is greedy. Raises ParamInvalid for mirostat."""
    top_k = packed.signed()
    top_p, temperature, repeat, frequency, presence = (real(packed.number()) for _ in range(5))
    mirostat = packed.signed()
    if mirostat:
        raise ParamInvalid(f"mirostat is {mirostat}; there is none here, only 0")
    if temperature <= 0:
        top_k, temperature = 1, 1.0
    return SamplingParams(top_k, top_p, temperature, repeat, frequency, presence)


def real(bits: int) -> float:
    """A float whose bits were packed as a number."""
    return float(struct.unpack("=f", struct.pack("=I", bits))[0])
