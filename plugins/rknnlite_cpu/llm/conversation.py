"""What a session remembers between runs: the KV cache, its policy, the system prompt, tokens not yet fed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rknnlite_llm.callbacks import CheckedCallbacks
from rknnlite_llm.chat_template import ChatTemplate, Rendered, Turn
from rknnlite_llm.container.description import LlmModel
from rknnlite_llm.inputs import expand_tags, expanded, is_whole

from rknnlite.errors import ContextInvalid, InputInvalid, OutOfMemory, ParamInvalid
from rknnlite.spi.llm import (
    AuxInput,
    EmbedInput,
    KvClear,
    KvPolicy,
    MessagesInput,
    MultimodalInput,
    PromptInput,
    TokenInput,
)

from .kv_cache import KvCache
from .lora import Enabled
from .prefill_input import UNKNOWN, PrefillInput, media_input

__all__ = ["Conversation", "PrefillInput"]

Array = NDArray[Any]
_LAST = 8
"""Tokens at the end of a prompt that begin an answer, or nearly."""


class Conversation:
    """The state behind a session; it knows nothing of threads."""

    def __init__(self, model: LlmModel, size: int) -> None:
        self.model = model
        self.policy = self._policy(KvPolicy.DEFAULT)
        self.tools: list[Any] = []
        self._n_keep = 0
        self._system_text: tuple[str, Array] | None = None  # the last one, so that it is tokenised once
        self._cache: KvCache | None = None
        self._size = size
        self.adapters: Enabled = ()
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self.system: list[int] = []
        self._kept = 0  # tokens of a system prompt that a run found in the cache
        self.unfed: list[int] = []
        self.ended = False
        self.keys: list[int] = []
        self.seen = np.zeros(self.model.arch.vocab_size, bool)
        if self._cache is not None:
            self._cache.truncate(0)

    @property
    def cache(self) -> KvCache:
        """The KV cache, allocated when it is first needed."""
        if self._cache is None:
            try:
                self._cache = KvCache(self.model.arch, self.model.kv, self._size)
            except (MemoryError, ValueError) as error:
                raise OutOfMemory(
                    f"model {self.model.name}: no memory for a KV cache of {self._size} tokens ({error}); open the session "
                    "with a smaller max_context_len"
                ) from None
            self._cache.adapters = self.adapters
        return self._cache

    @property
    def used(self) -> int:
        """Tokens in the cache."""
        return self._cache.used if self._cache is not None else 0

    @property
    def size(self) -> int:
        """Tokens that the cache holds at most."""
        return self._size

    def resize(self, size: int) -> None:
        """Another size; raises ContextInvalid while tokens are stored."""
        if size == self._size:
            return
        if self.used:
            raise ContextInvalid(
                f"max_context_len cannot change from {self._size} to {size} while the cache holds {self.used} "
                "tokens; clear it first"
            )
        self._size, self._cache = size, None

    def adapt(self, adapters: Enabled) -> None:
        """Use these adapters from now on; what others had a say in is forgotten."""
        if adapters == self.adapters:
            return
        self.reset()
        self.adapters = adapters
        if self._cache is not None:
            self._cache.adapters = adapters

    def free(self) -> None:
        """Give the memory back."""
        self._cache = None

    # -- policy -------------------------------------------------------------------------------------------

    def set_policy(self, policy: KvPolicy, n_keep: int) -> None:
        """Choose what happens when the cache is full; raises ParamInvalid or ContextInvalid."""
        if not 0 <= n_keep < self._size:
            raise ParamInvalid(f"n_keep is {n_keep}, the cache has {self._size} tokens")
        if self._cache is not None and self._cache.wrapped:
            raise ContextInvalid("the cache has dropped tokens already; clear it before changing its policy")
        self.policy = self._policy(policy)
        self._n_keep = n_keep

    def _policy(self, policy: KvPolicy) -> KvPolicy:
        """What is meant; raises ParamInvalid for a ring where positions end with the cache."""
        learnt = self.model.arch.positions
        if learnt and policy == KvPolicy.RECURRENT:
            raise ParamInvalid(
                f"model {self.model.name} has learnt {self.model.arch.max_position} positions and cannot go on behind them; leave "
                "KvPolicy.NORMAL"
            )
        usual = KvPolicy.NORMAL if learnt else KvPolicy.RECURRENT
        return usual if policy == KvPolicy.DEFAULT else policy

    def _settle_ring(self) -> None:
        """Decide how many tokens stay; possible as long as nothing has been dropped."""
        if self.cache.wrapped:
            return
        if self.policy == KvPolicy.NORMAL:
            self.cache.keep = self._size
            return
        group = max(1, self.model.kv.group)
        keep = len(self.system) or self._n_keep
        keep = -(-keep // group) * group
        if keep >= self._size:
            raise InputInvalid(
                f"{keep} tokens are to be kept in a cache of {self._size}; nothing is left for the conversation"
            )
        self.cache.keep = keep

    # -- turns --------------------------------------------------------------------------------------------

    def forget(self, clear: KvClear) -> None:
        """Drop all, or all but the system prompt."""
        if clear == KvClear.ALL or not self.system or self.cache.stretched:
            self.reset()
            return
        self._truncate(len(self.system))

    def _truncate(self, count: int) -> None:
        """Keep the first ``count`` places of the cache."""
        self.cache.truncate(count)
        self.unfed, self.ended = [], False
        self.keys = (self.keys or self.system)[:count]
        self.seen[:] = False
        self.seen[[key for key in self.keys if key >= 0]] = True

    def begin(self, main: Any) -> None:
        """Drop the history before a run that does not want it.

        The result of a tool belongs to the call before it; text comes behind the system prompt; tokens and
        embeddings are all that the model is to see.
        """
        if main.role == "tool" or is_whole(main):
            return
        text = isinstance(main, (PromptInput, MultimodalInput)) and main.prompt is not None
        self.forget(KvClear.KEEP_SYSTEM_PROMPT if text else KvClear.ALL)

    def feed(
        self, main: Any, template: ChatTemplate, calls: CheckedCallbacks, aux: Sequence[AuxInput] = ()
    ) -> PrefillInput:
        """Turn the inputs into embeddings, behind what is in the cache; checks that there is room."""
        self._kept = 0
        feed = self.with_past(self._feed(main, template, calls, aux), calls, turn=True)
        feed.cached = feed.cached or min(self._kept, self.cache.total)
        self._settle_ring()
        count, room = len(feed.embeds), self.cache.size - self.cache.total
        if count > self._size or (self.policy == KvPolicy.NORMAL and count > room):
            raise InputInvalid(
                f"the input is {count} tokens long, the context holds {self._size}"
                + (
                    f" of which {self.used} are taken; clear the cache"
                    if self.used
                    else "; shorten the input"
                )
            )
        return feed

    def with_past(self, feed: PrefillInput, calls: CheckedCallbacks, turn: bool = False) -> PrefillInput:
        """With what is in the cache before it and cannot stay there (``KvCache.usable``).

        Raises InputInvalid when that was no text.
        """
        cache = self._cache
        start = 0 if cache is None else cache.usable(len(feed.embeds), turn)
        if cache is None or start == cache.total:
            return feed
        keys = self.keys[start:]
        if len(self.keys) != cache.total or min(keys) < 0:
            why = (
                "has a running state, which cannot go back"
                if cache.states is not None
                else f"turns keys otherwise beyond {self.model.arch.rope.original_max_position} tokens"
            )
            raise InputInvalid(
                f"model {self.model.name} {why}, and some of the {cache.total} in the cache came as embeddings, which are not "
                "kept; hand in the whole conversation"
            )
        cache.truncate(start)
        self.keys = self.keys[:start]
        past = np.array(keys, np.int32)
        return feed.behind_text(past, calls.embeddings(past), start, cache.position)

    def _feed(
        self, main: Any, template: ChatTemplate, calls: CheckedCallbacks, aux: Sequence[AuxInput]
    ) -> PrefillInput:
        if isinstance(main, MessagesInput):
            return self._messages(main, template, calls, aux)
        if isinstance(main, EmbedInput):
            rows = calls.checked_embeddings(main.embeds, None, "the input")
            pending = self._unfed(drop_end=False)
            if not len(pending):
                return PrefillInput(rows)
            return PrefillInput(np.concatenate([calls.embeddings(pending), rows]), pending)
        if isinstance(main, TokenInput):
            tokens = calls.checked_ids(main.tokens, "the input")
            if main.whole:
                return self._behind_cached(self._embedded(tokens, calls), None)
            return self._embedded(np.concatenate([self._unfed(drop_end=False), tokens]), calls)
        if isinstance(main, MultimodalInput):
            return self._multimodal(main, template, calls, aux)
        prompt = self._spoken(main.prompt, template, calls)
        return self._embedded(self._text(main, prompt, template, calls), calls)

    def _spoken(self, prompt: str, template: ChatTemplate, calls: CheckedCallbacks) -> str:
        return prompt if template.as_given else calls.plain_text.marked(prompt)

    def _embedded(self, tokens: Array, calls: CheckedCallbacks) -> PrefillInput:
        return PrefillInput(calls.embeddings(tokens), tokens)

    def _multimodal(
        self,
        main: MultimodalInput,
        template: ChatTemplate,
        calls: CheckedCallbacks,
        aux: Sequence[AuxInput],
    ) -> PrefillInput:
        if main.prompt is not None:
            prompt = self._spoken(main.prompt, template, calls)
            tokens = self._text(main, expand_tags(prompt, main.blocks), template, calls)
        else:
            ids = calls.checked_ids(main.tokens, "the input")
            tokens = np.concatenate([self._unfed(drop_end=False), ids])
        answered = (
            min(len(self.unfed), len(tokens)) if tokens[: len(self.unfed)].tolist() == self.unfed else 0
        )
        return media_input(self.model, tokens, main.blocks, aux, self.cache.position, calls, answered)

    def tokens_of(self, main: MessagesInput, template: ChatTemplate, calls: CheckedCallbacks) -> Array:
        """A conversation's tokens."""
        return self._rendered(main, template, calls)[1]

    def _messages(
        self,
        main: MessagesInput,
        template: ChatTemplate,
        calls: CheckedCallbacks,
        aux: Sequence[AuxInput],
    ) -> PrefillInput:
        rendered, tokens = self._rendered(main, template, calls)
        system = None if main.blocks else self._system_length(rendered, tokens, calls)
        feed = media_input(self.model, tokens, main.blocks, aux, 0, calls)
        return self._behind_cached(feed, system)

    def _rendered(
        self, main: MessagesInput, template: ChatTemplate, calls: CheckedCallbacks
    ) -> tuple[Rendered, Array]:
        plain = calls.plain_text
        rendered = template.conversation(plain.conversation(main), plain.within(self.tools))
        return rendered, calls.tokens(expanded(rendered.text, main))

    def _behind_cached(self, feed: PrefillInput, system: int | None) -> PrefillInput:
        """All that the model is to see without what the cache holds of its beginning; ``system`` tokens are to stay."""
        cached = self.cached(feed.keys)
        if cached != self.cache.total:
            self._truncate(cached)
        self.unfed, self.ended = [], False
        if system is not None:
            self.system = feed.tokens[:system].tolist()
        return feed.without(cached)

    def cached(self, keys: list[int]) -> int:
        """Places of the cache that begin this conversation too; its last token is always computed.

        In the middle of a group of quantised keys the others of the group would have had a say, so groups stay whole.
        """
        if self._cache is None or len(self.keys) != self._cache.total:
            return 0
        longest = min(len(self.keys), len(keys) - 1)
        same = next((i for i in range(longest) if keys[i] != self.keys[i] or keys[i] == UNKNOWN), longest)
        if same < self._cache.total and self._cache.stretched:
            return 0  # what is left would not be what a shorter conversation has
        return self._cache.nearest(same)

    def _text(
        self,
        main: PromptInput | MultimodalInput,
        prompt: str,
        template: ChatTemplate,
        calls: CheckedCallbacks,
    ) -> Array:
        turn = Turn(prompt, main.role, main.enable_thinking)
        tools = calls.plain_text.within(self.tools)
        if self.used > len(self.system) or self.unfed:
            tokens = calls.tokens(template.following(turn, tools).text)
            return np.concatenate([self._unfed(drop_end=template.closes), tokens])
        rendered = template.opening(turn, tools)
        tokens = calls.tokens(rendered.text)
        return self._behind_system(tokens, self._system_length(rendered, tokens, calls))

    def _system_length(self, rendered: Rendered, tokens: Array, calls: CheckedCallbacks) -> int:
        """Tokens of the system prompt; 0 when they do not stand by themselves."""
        if not rendered.system:
            return 0
        text = rendered.text[: rendered.system]
        if self._system_text is None or self._system_text[0] != text:
            self._system_text = text, calls.tokens(text)
        alone = self._system_text[1]
        return len(alone) if np.array_equal(tokens[: len(alone)], alone) and len(alone) < len(tokens) else 0

    def _behind_system(self, tokens: Array, length: int) -> Array:
        """Leave out a system prompt that is still in the cache; another one replaces it."""
        system = tokens[:length].tolist()
        kept = self.cache.total == len(self.system) > 0
        if kept and system == self.system:
            self._kept = length
            return tokens[length:]
        self.reset()
        self.system = system
        return tokens

    def keep_states(self, count: int) -> None:
        """Before a prefill of ``count`` tokens: where running states are kept.

        That is behind the system prompt, and a little before the end, where conversations part that go on otherwise, or are
        written otherwise as a past.
        """
        if self.cache.states is not None:
            group, end = max(1, self.model.kv.group), self.cache.total + count
            self.cache.states.wanted = {place // group * group for place in (len(self.system), end - _LAST)}

    def _unfed(self, drop_end: bool) -> Array:
        """Tokens of the answer before that the model has not seen: the last one, perhaps an end mark."""
        return np.array([] if drop_end and self.ended else self.unfed, np.int32)

    def fed(self, tokens: Array, keys: list[int]) -> None:
        """These tokens are in the cache now, at places with these keys."""
        self.unfed, self.ended = [], False
        if self.cache.wrapped:  # places have been used again
            self.keys.clear()
        else:
            self.keys += keys
        self.seen[tokens] = True
