"""Whole conversations on the coprocessor: rendered here, handed over as tokens, and no more of them than are new.

The C API renders one turn at a time and cannot forget part of a KV cache. So the tokens of a conversation are handed over
behind those that the cache is known to hold, if it holds nothing else; otherwise all of them, into an empty cache. What it
holds is what was handed over and what the result callback reported, as long as the runtime counts as many tokens. That the
runtime keeps tokens in this order has not been verified on a device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rknnlite_llm.callbacks import CheckedCallbacks
from rknnlite_llm.chat_template import CHATML, ChatTemplate, JinjaTemplate, LiteralTemplate, parse_tools
from rknnlite_llm.inputs import expanded

from rknnlite.errors import ParamInvalid
from rknnlite.spi.llm import (
    InferParams,
    LlmInput,
    LlmParams,
    MessagesInput,
    MultimodalInput,
    PromptInput,
    TokenInput,
)

__all__ = ["DeviceConversation", "Handover"]


@dataclass(frozen=True)
class Handover:
    """What C is given for a whole conversation: ``tokens`` in all, ``cached`` of them in the KV cache already."""

    main: LlmInput
    params: InferParams
    tokens: tuple[int, ...] = ()
    cached: int = 0


class DeviceConversation:
    """What a session remembers to render conversations and to know what the cache holds."""

    def __init__(self, source: str, stopping: Callable[[], bool]) -> None:
        """``source`` is the model's chat template, or the word for one; ``stopping`` ends a rendering."""
        self._source, self._stopping = source, stopping
        self._template: ChatTemplate | None = None
        self._tools: list[Any] = []
        self._held: tuple[int, ...] | None = ()

    def set_template(self, system: str, prefix: str, postfix: str) -> None:
        """Literal text instead of the model's template."""
        self._template = LiteralTemplate(system, prefix, postfix)

    def set_tools(self, tools: str) -> None:
        """Tools for conversations that bring none; raises ParamInvalid."""
        self._tools = parse_tools(tools)

    def forget(self) -> None:
        """Nothing is known of the cache any more."""
        self._held = None

    def cached(self, tokens: Sequence[int], total: int) -> int:
        """How many of the tokens are in a cache of ``total`` tokens and need not be handed over."""
        held = self._held
        known = held is not None and len(held) == total and 0 < total < len(tokens)
        return total if known and tuple(tokens[:total]) == held else 0

    def tokens(self, main: MessagesInput, calls: CheckedCallbacks) -> list[int]:
        """A conversation's tokens."""
        plain = calls.plain_text
        text = self._chosen(calls).conversation(plain.conversation(main), plain.within(self._tools)).text
        tokens: list[int] = calls.tokens(expanded(text, main)).tolist()
        return tokens

    def spoken(self, inputs: Any, calls: CheckedCallbacks) -> Any:
        """Inputs without control tokens in the prompts that the library puts into a template."""
        as_given = self._template.as_given if self._template is not None else not self._source
        if as_given:
            return inputs
        if isinstance(inputs, (list, tuple)):
            return [self.spoken(one, calls) for one in inputs]
        if isinstance(inputs, (PromptInput, MultimodalInput)) and isinstance(inputs.prompt, str):
            return replace(inputs, prompt=calls.plain_text.marked(inputs.prompt))
        return inputs

    def handover(self, main: LlmInput, params: InferParams, total: int, calls: CheckedCallbacks) -> Handover:
        """What goes to C for a whole conversation when the cache holds ``total`` tokens."""
        anew = replace(params, keep_history=False)
        if isinstance(main, MessagesInput):
            tokens = self.tokens(main, calls)
            if main.blocks:
                media = MultimodalInput(None, tokens, main.image, main.audio, main.video)
                return Handover(media, anew)
            main = TokenInput(tokens, whole=True)
        if not isinstance(main, TokenInput):
            raise ParamInvalid(f"{type(main).__name__} is no whole conversation")
        whole = tuple(calls.checked_ids(main.tokens, "the input").tolist())
        cached = self.cached(whole, total)
        if not cached:
            return Handover(replace(main, tokens=whole), anew, whole)
        return Handover(
            replace(main, tokens=whole[cached:]), replace(params, keep_history=True), whole, cached
        )

    def ran(self, given: Handover, said: Sequence[int], total: int, params: LlmParams) -> None:
        """After a run in which the model ``said`` tokens, and the cache holds ``total``."""
        eos = params.vocab.special_eos_ids
        both = (*given.tokens, *said)
        ended = (*both, *eos[:1]) if len(eos) == 1 else both
        self._held = next((held for held in (both, ended) if given.tokens and len(held) == total), None)

    def _chosen(self, calls: CheckedCallbacks) -> ChatTemplate:
        if self._template is None:
            self._template = self._of_model(_end_mark(calls))
        return self._template

    def _of_model(self, end: str) -> ChatTemplate:
        source = CHATML if self._source.strip().lower() == "chatml" else self._source
        if "{" in source:
            return JinjaTemplate.of_model("on the device", source, eos=end, stopping=self._stopping)
        if source:
            raise ParamInvalid(
                f"the model names a chat template {source[:60]!r} that is not known here; give the session one with "
                "set_chat_template"
            )
        return LiteralTemplate(end=end)


def _end_mark(calls: CheckedCallbacks) -> str:
    """Text of the token that ends an answer, where the tokenizer callback is one of ours; else nothing."""
    tokenizer = calls.unchecked.tokenizer
    tokens, eos = getattr(tokenizer, "tokens", None), getattr(tokenizer, "eos_id", -1)
    return str(tokens[eos]) if isinstance(tokens, list) and 0 <= eos < len(tokens) else ""
