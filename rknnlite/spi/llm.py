"""The LLM half of the contracts: contexts that hold a language model and sessions that talk to it.

A backend of generation rknpu3 (or the CPU reference) opens an LLM package as an ``LlmContext``; a context owns
any number of ``LlmSession``: weights are shared, the KV cache is private. On a coprocessor one session runs at a
time, on the CPU several step through the weights together. Callbacks are plain Python callables here; the C shapes
of the vendor's callbacks belong to faces and to the plugin that speaks the C ABI. Numbers of the enumerations are
those of the RKNN3 C API 1.0.
"""

from __future__ import annotations

import abc
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Callable, Optional

from numpy.typing import NDArray

from .._version import __version__
from ..errors import ModelUnsupported
from ..tensor import KvDtype, TensorAttr
from .arguments import Typed
from .llm_inputs import (
    AudioBlock,
    AuxInput,
    EmbedInput,
    ImageBlock,
    InputKind,
    LlmInput,
    MediaBlock,
    MessagesInput,
    MultimodalInput,
    PromptInput,
    TokenInput,
    VideoBlock,
)
from .llm_types import (
    CallState,
    InferParams,
    KvClear,
    KvPolicy,
    KvStore,
    LlmOutput,
    LlmParams,
    LlmResult,
    LlmState,
    LlmTraits,
    OutputState,
    RunSummary,
    SamplingParams,
    TaskType,
    VocabInfo,
)
from .types import Options, Versions

__all__ = [
    "AudioBlock",
    "AuxInput",
    "CallState",
    "EmbedCallback",
    "EmbedInput",
    "ImageBlock",
    "InferParams",
    "InputKind",
    "KvClear",
    "KvDtype",
    "KvPolicy",
    "KvStore",
    "LlmCallbacks",
    "LlmConfig",
    "LlmContext",
    "LlmInput",
    "LlmOptions",
    "LlmOutput",
    "LlmParams",
    "LlmResult",
    "LlmSession",
    "LlmState",
    "LlmTraits",
    "MediaBlock",
    "MessagesInput",
    "MultimodalInput",
    "OutputState",
    "PromptInput",
    "RunSummary",
    "SamplingParams",
    "TaskType",
    "TokenInput",
    "VideoBlock",
    "VocabInfo",
]

Array = NDArray[Any]


ResultCallback = Callable[[LlmResult, CallState], Optional[int]]
TokenizerCallback = Callable[[str], Sequence[int]]
EmbedCallback = Callable[[Array], Array]
SamplingCallback = Callable[[Array, str], int]
OutputCallback = Callable[[Sequence[LlmOutput], OutputState], Optional[int]]


@dataclass(frozen=True)
class LlmCallbacks:
    """What a session calls, in this order: tokenizer, embed, (model), output, sampling, result.

    Attributes:
        result: ``(LlmResult, CallState)``; returns None or 0, anything else stops the run with an error.
        tokenizer: text -> token ids; needed for text.
        embed: int32 (n,) -> float16 or float32 (n, hidden); needed by every run that has tokens.
        sampling: ``(logits, logits_name)`` -> token id; logits floating point (vocab,). None: by parameters.
        output: ``(outputs, OutputState)`` for the outputs whose indices are in ``outputs``.

    An exception in a callback stops the run and reaches the caller of ``run``. Callbacks may call ``stop`` and
    ``state`` of their session, nothing else.

    Examples:
        >>> words = []
        >>> callbacks = LlmCallbacks(result=lambda tokens, state: words.extend(tokens.token_ids))
    """

    result: Optional[ResultCallback] = None
    tokenizer: Optional[TokenizerCallback] = None
    embed: Optional[EmbedCallback] = None
    sampling: Optional[SamplingCallback] = None
    output: Optional[OutputCallback] = None
    outputs: tuple[int, ...] = ()


@dataclass(frozen=True)
class LlmConfig:
    """What the model says about itself (``rknn3_llm_config``).

    Examples:
        >>> with rknnlite.open_llm("examples/llm_chat/models/tiny.rknn") as model:
        ...     model.config.task_type.name
        'GENERATE'
    """

    chat_template: str
    vocab_size: int
    embedding_dim: int
    max_ctx_len: int
    max_position_embeddings: int
    kvcache_store_method: KvStore
    kvcache_dtype: KvDtype
    kvcache_group_size: int
    kvcache_residual_depth: int
    model_type: str
    task_type: TaskType = TaskType.GENERATE
    core_num: int = 8


class LlmOptions(Options):
    """How a language model is opened; ``core_mask`` 0 leaves the choice too, ``soc`` is the coprocessor that is meant.

    Examples:
        >>> LlmOptions(core_mask=0xFF, soc="rk1820").soc
        'rk1820'
    """


_TRAITS = LlmTraits()


class LlmSession(Typed, abc.ABC):
    """A conversation: parameters, callbacks, a chat template and a private KV cache on a shared model.

    Examples:
        >>> from rknnlite import Chat
        >>> with Chat("examples/llm_chat/models/tiny") as chat:
        ...     summary = chat.session.run(PromptInput("What is 1 + 2?"), InferParams(max_new_tokens=16))
        ...     summary.n_decode_tokens == chat.session.state().n_decode_tokens
        True
    """

    @abc.abstractmethod
    def set_callbacks(self, callbacks: LlmCallbacks) -> None:
        """Install callbacks for the following runs; a run under way keeps those that it began with."""

    @property
    @abc.abstractmethod
    def callbacks(self) -> LlmCallbacks:
        """The callbacks in force."""

    @abc.abstractmethod
    def run(self, inputs: LlmInput | Sequence[LlmInput], params: InferParams = InferParams()) -> RunSummary:
        """Prefill with ``inputs`` (one main input, AUX inputs beside it) and generate; blocks until the end.

        Raises:
            InputInvalid: the inputs do not fit each other, the model or the context.
            ParamInvalid: illegal parameters, or a callback is missing or returned something unusable.
            ContextInvalid: closed, already running, or called from inside a callback.
            Exception: whatever a callback raised.
        """

    @abc.abstractmethod
    def run_async(
        self, inputs: LlmInput | Sequence[LlmInput], params: InferParams = InferParams()
    ) -> Future[RunSummary]:
        """As ``run`` in a thread of its own; what ``run`` returns or raises is in the future."""

    @abc.abstractmethod
    def stop(self) -> None:
        """End the current run, from a callback or any thread; without a run it does nothing."""

    @abc.abstractmethod
    def state(self) -> LlmState:
        """Counters, at any time and from any thread."""

    @property
    def usable(self) -> bool:
        """False once the session can never run again: closed, or what computes for it has crashed."""
        return True

    def cached(self, tokens: Sequence[int]) -> int:
        """How many of these tokens a run of ``TokenInput(tokens, whole=True)`` would find in the KV cache."""
        return 0

    def rendered(self, messages: MessagesInput) -> list[int]:
        """The tokens that a conversation without media comes to; a run of them as ``whole`` does the same.

        Raises ParamInvalid for messages that the chat template refuses, ContextInvalid while a run goes on.
        """
        raise NotImplementedError(f"{type(self).__name__} renders no conversations")

    @abc.abstractmethod
    def set_chat_template(self, system_prompt: str, prompt_prefix: str, prompt_postfix: str) -> None:
        """Replace the model's template by literal text: ``system``, then ``prefix + prompt + postfix`` per turn."""

    @abc.abstractmethod
    def set_function_tools(self, tools: str) -> None:
        """Offer tools to the model: a JSON list of descriptions as OpenAI's API has them; empty takes them away."""

    @abc.abstractmethod
    def set_kvcache_policy(self, policy: KvPolicy, n_keep: int = 0, n_keep_aligned: int = 0) -> None:
        """What happens when the cache is full; ``n_keep`` tokens stay (a system prompt goes before it)."""

    @abc.abstractmethod
    def clear_kvcache(self, clear: KvClear = KvClear.ALL) -> None:
        """Forget the conversation, or all of it but the system prompt."""

    @abc.abstractmethod
    def save_kvcache(self, path: str) -> None:
        """Write the conversation's cache to a file."""

    @abc.abstractmethod
    def load_kvcache(self, path: str) -> None:
        """Continue from a file of ``save_kvcache``; raises ModelInvalid when it belongs to something else."""

    @abc.abstractmethod
    def set_llm_param(self, params: LlmParams | Sequence[LlmParams]) -> None:
        """Replace the parameters; ``max_context_len`` may not change while the cache holds tokens."""

    def enable_lora(self, name: str, scale: float = 1.0) -> None:
        """Use an adapter that ``LlmContext.init_loras`` made known, times ``scale``; on the CPU the KV cache is cleared.

        Several may be in use; ``state`` tells which. Raises ParamInvalid for an unknown one.
        """
        raise ModelUnsupported(f"{type(self).__name__} has no adapters; choose the backend cpu")

    def disable_lora(self, name: str) -> None:
        """Use an adapter no more; the KV cache is cleared as by ``enable_lora``."""
        raise ModelUnsupported(f"{type(self).__name__} has no adapters; choose the backend cpu")

    def loras(self) -> tuple[tuple[str, float], ...]:
        """All adapters of the model with their scales; those in use are in ``state``."""
        return ()

    @abc.abstractmethod
    def close(self) -> None:
        """Stop a run under way, wait for its end and free the cache; may be called again. No callback follows."""

    def __enter__(self) -> LlmSession:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class LlmContext(Typed, abc.ABC):
    """A language model, loaded once. Close its sessions first; closing it closes those that are left.

    Examples:
        >>> with rknnlite.open_llm("examples/llm_chat/models/tiny.rknn") as model:
        ...     model.config.vocab_size > 0
        True
    """

    @property
    @abc.abstractmethod
    def backend_name(self) -> str:
        """Name of the backend that runs the model."""

    @property
    @abc.abstractmethod
    def config(self) -> LlmConfig:
        """What the model says about itself."""

    @property
    def versions(self) -> Versions:
        """Runtime and driver versions."""
        return Versions(api=f"rknnlite {__version__}, backend {self.backend_name}", driver="none")

    @property
    def traits(self) -> LlmTraits:
        """In what the backend differs from others."""
        return _TRAITS

    @property
    @abc.abstractmethod
    def inputs(self) -> list[TensorAttr]:
        """Attributes of the model's inputs."""

    @property
    @abc.abstractmethod
    def outputs(self) -> list[TensorAttr]:
        """Attributes of the model's outputs, logits first."""

    @abc.abstractmethod
    def session(
        self,
        params: LlmParams | Sequence[LlmParams] = LlmParams(),
        callbacks: LlmCallbacks = LlmCallbacks(),
    ) -> LlmSession:
        """Open a session; one ``LlmParams`` per logits output. Raises ParamInvalid when they do not fit."""

    def embed(self, texts: Sequence[Sequence[int]], embed: EmbedCallback) -> Array:
        """Embeddings of texts in token ids: float32 (texts, embedding_dim), pooled and normalised as the model says.

        Any thread may call; texts of any length go together, and none has a say in another. ``embed`` as in
        ``LlmCallbacks``.

        Raises:
            InputInvalid: a text that is empty, longer than ``max_ctx_len`` or has ids outside the vocabulary.
            ContextInvalid: the model is closed.
            ModelUnsupported: the backend computes none.
        """
        raise ModelUnsupported(f"backend {self.backend_name} computes no embeddings; choose the backend cpu")

    def score(self, texts: Sequence[Sequence[int]], seconds: Sequence[int], embed: EmbedCallback) -> Array:
        """What a model "for sequence classification" makes of texts: float32 (texts, labels), neither bounded nor normalised.

        ``seconds`` tells where the second of two texts begins in each (its length where there is one text), for models that tell
        them apart. Otherwise as ``embed``, with its errors; ModelUnsupported too for a model that gives no scores.
        """
        raise ModelUnsupported(f"backend {self.backend_name} computes no scores; choose the backend cpu")

    def logits(self, text: Sequence[int], embed: EmbedCallback) -> Iterator[Array]:
        """What the model expects behind each token of a text: pieces of float32 (n, vocab), one row per token, in order.

        Keys and values are stored as in a session. ``embed`` and errors as in ``embed``.
        """
        raise ModelUnsupported(
            f"backend {self.backend_name} gives no logits of whole texts; a session gives one at a time"
        )

    def init_loras(self, source: str | os.PathLike[str] | bytes) -> None:
        """Make adapters known, which sessions then enable by name.

        On the CPU ``source`` is a folder as PEFT saves it, or a folder of such folders, whose names are those of the adapters;
        on a device a file of the vendor's. Raises ModelInvalid or ModelUnsupported for what does not fit or is not computed.
        """
        raise ModelUnsupported(f"backend {self.backend_name} computes no adapters; choose the backend cpu")

    @abc.abstractmethod
    def close(self) -> None:
        """Release everything; may be called again."""

    def __enter__(self) -> LlmContext:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
