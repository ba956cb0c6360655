"""What goes into and comes out of a language model beside its inputs: enumerations, parameters, results.

The contracts that use them are in ``rknnlite.spi.llm``, which also hands these names on. Numbers of the
enumerations are those of the RKNN3 C API 1.0.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, Optional

from numpy.typing import NDArray

from ..tensor import TensorAttr

__all__ = [
    "CallState",
    "InferParams",
    "KvClear",
    "KvPolicy",
    "KvStore",
    "LlmOutput",
    "LlmParams",
    "LlmResult",
    "LlmState",
    "LlmTraits",
    "OutputState",
    "RunSummary",
    "SamplingParams",
    "TaskType",
    "VocabInfo",
]

Array = NDArray[Any]


class CallState(enum.IntEnum):
    """State that comes with a result (``LLMCallState``); exactly one of FINISH to ERROR ends a run."""

    NORMAL = 0
    WAITING = 1
    FINISH = 2
    STOP = 3
    MAX_NEW_TOKEN_REACHED = 4
    ERROR = 5


class OutputState(enum.IntEnum):
    """Where in a run the output callback is called (``LLMOutputCallbackState``)."""

    PREFILL_PROCESSING = 0
    PREFILL_FINISHED = 1
    DECODE_PROCESSING = 2
    DECODE_FINISHED = 3


class KvPolicy(enum.IntEnum):
    """What happens when the KV cache is full; DEFAULT is RECURRENT (``rknn3_kvcache_policy``).

    Examples:
        >>> from rknnlite import Chat
        >>> with Chat("examples/llm_chat/models/tiny") as chat:
        ...     chat.session.set_kvcache_policy(KvPolicy.NORMAL)
    """

    DEFAULT = 0
    RECURRENT = 1
    NORMAL = 2


class KvClear(enum.IntEnum):
    """How much ``clear_kvcache`` drops (``rknn3_kvcache_clear_policy``).

    Examples:
        >>> from rknnlite import Chat
        >>> with Chat("examples/llm_chat/models/tiny") as chat:
        ...     chat.session.clear_kvcache(KvClear.ALL)
    """

    ALL = 0
    KEEP_SYSTEM_PROMPT = 1


class KvStore(enum.IntEnum):
    """Plain or quantised in groups (``rknn3_kvcache_store_method``)."""

    UNDEFINED = 0
    NORMAL = 1
    GROUP_QUANT = 2


class TaskType(enum.IntEnum):
    """What the model was converted for (``rknn3_llm_task_type``)."""

    GENERATE = 0
    EMBEDDING = 1


@dataclass(frozen=True)
class SamplingParams:
    """How the next token is chosen; the defaults are greedy.

    ``top_k`` 0 or less and ``top_p`` 1.0 switch the filter off. ``repeat_penalty`` counts every token of the
    context, ``frequency_penalty`` and ``presence_penalty`` those generated in this run. ``min_p`` leaves out tokens less
    likely than that share of the likeliest one, ``logit_bias`` is added to the logits of its token ids. ``seed`` None
    draws a fresh one per session. The C API has none of these three: on a device ``HostSampling`` does it.

    Examples:
        >>> SamplingParams(top_k=40, top_p=0.9, temperature=0.7, seed=1).top_k
        40
    """

    top_k: int = 1
    top_p: float = 1.0
    temperature: float = 1.0
    repeat_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    seed: Optional[int] = None
    min_p: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True)
class VocabInfo:
    """What the caller says about the vocabulary; ``vocab_size`` 0 and empty ids mean: as the model says."""

    vocab_size: int = 0
    special_bos_ids: tuple[int, ...] = ()
    special_eos_ids: tuple[int, ...] = ()
    linefeed_id: int = 0
    skip_special_token: bool = False
    ignore_eos_token: bool = False


@dataclass(frozen=True)
class LlmParams:
    """Parameters of a session, for one logits output; ``logits_name`` is empty where there is one only.

    ``max_context_len`` in tokens; 0 takes the model's. ``speculate``: so many tokens (0 to 15) are guessed at most and checked
    in one pass through the weights, on the CPU reference; other backends compute one by one. None: 4 where the model was
    opened with a ``draft``, else 0. Answers are the same, see ``RunSummary.n_accepted_tokens`` for what it brings.

    Examples:
        >>> LlmParams(max_context_len=512, sampling=SamplingParams(top_k=1)).max_context_len
        512
    """

    max_context_len: int = 0
    sampling: SamplingParams = SamplingParams()
    vocab: VocabInfo = VocabInfo()
    logits_name: str = ""
    speculate: Optional[int] = None


@dataclass(frozen=True)
class InferParams:
    """Parameters of one run.

    Without ``keep_history`` the KV cache of earlier turns is dropped before the run, the system prompt stays;
    a run with role ``tool`` always continues the turn before it. ``prefill_only`` fills the cache and stops,
    ``disable_sampling`` evaluates the model once and leaves the choice to the output callback.

    Examples:
        >>> InferParams(keep_history=True, max_new_tokens=64).max_new_tokens
        64
    """

    keep_history: bool = False
    max_new_tokens: int = 1024
    prefill_only: bool = False
    disable_sampling: bool = False


@dataclass(frozen=True)
class LlmResult:
    """Tokens of one call of the result callback; empty unless the state is NORMAL.

    ``text`` is theirs, complete characters only, where the runtime turns tokens into text itself
    (``LlmTraits.own_text``); else None. A runtime that tells no ids leaves ``token_ids`` empty.
    """

    token_ids: tuple[int, ...] = ()
    text: Optional[str] = None


@dataclass(frozen=True)
class LlmOutput:
    """One model output for the output callback: its attribute and its values, valid only inside the call."""

    attr: TensorAttr
    data: Array


@dataclass(frozen=True)
class LlmState:
    """Counters of a session (``RKLLMRunState``): tokens in the cache, its size, and those of the last run.

    Examples:
        >>> from rknnlite import Chat
        >>> with Chat("examples/llm_chat/models/tiny") as chat:
        ...     chat.session.state().n_total_tokens
        0
    """

    n_total_tokens: int
    n_max_tokens: int
    n_decode_tokens: int
    n_prefill_tokens: int
    kvcache_policy: KvPolicy
    loras_enabled: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class RunSummary:
    """How a run went; times are ``time.perf_counter`` seconds, ``first_token`` is when prefill was done.

    ``n_cached_tokens`` of the conversation were in the KV cache already and are not among ``n_prefill_tokens``.
    ``n_guessed_tokens`` were computed ahead, and ``n_accepted_tokens`` of them were chosen (``LlmParams.speculate``).

    Examples:
        >>> from rknnlite import Chat
        >>> with Chat("examples/llm_chat/models/tiny") as chat:
        ...     answer = chat.ask("What is 1 + 2?", max_new_tokens=4)
        ...     chat.last.first_token <= chat.last.end
        True
    """

    state: CallState
    n_prefill_tokens: int
    n_decode_tokens: int
    start: float
    first_token: float
    end: float
    n_cached_tokens: int = 0
    n_guessed_tokens: int = 0
    n_accepted_tokens: int = 0

    @property
    def acceptance(self) -> float:
        """Share of the guesses that were chosen, 0 to 1; 0 without guesses."""
        return self.n_accepted_tokens / self.n_guessed_tokens if self.n_guessed_tokens else 0.0

    @property
    def tokens_per_second(self) -> float:
        """Tokens per second behind the first; 0 for fewer than two."""
        seconds = self.end - self.first_token
        return (self.n_decode_tokens - 1) / seconds if self.n_decode_tokens > 1 and seconds > 0 else 0.0


@dataclass(frozen=True)
class LlmTraits:
    """What the callers of a backend need not bring, and what they cannot have.

    Attributes:
        own_embeddings: the runtime has the embedding table; tokens need no embed callback.
        own_text: the runtime has a tokenizer; text needs no tokenizer callback, and results come with their text.
        host_sampling: the sampling callback is called; without it answers cannot be bound by rules or seeds.
        media_beside_tokens: images go with tokens that hold their places; else with a text that has their tags.
        sessions: the most sessions at a time, 0: any number.
        tokens: tokens are taken; else text alone.
        endless: ``ignore_eos_token`` is known; else an answer ends where the model ends it.
        separate_processes: sessions are processes of their own, whose memory is not this one's.
        kvcache_policies: what ``set_kvcache_policy`` takes.
        speculation: tokens are guessed ahead (``LlmParams.speculate``, the option ``draft``); else both are without effect.

    Examples:
        >>> with rknnlite.open_llm("examples/llm_chat/models/tiny.rknn") as model:
        ...     model.traits.own_text
        False
    """

    own_embeddings: bool = False
    own_text: bool = False
    host_sampling: bool = True
    media_beside_tokens: bool = True
    sessions: int = 0
    kvcache_policies: tuple[KvPolicy, ...] = tuple(KvPolicy)
    speculation: bool = False
    tokens: bool = True
    endless: bool = True
    separate_processes: bool = False
