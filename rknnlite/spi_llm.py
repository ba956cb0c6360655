"""The LLM half of the contracts: contexts that hold a language model and sessions that talk to it.

A backend of generation rknpu3 (or the CPU reference) opens an LLM package as an ``LlmContext``; a context owns
any number of ``LlmSession``: weights are shared, the KV cache is private, one session runs at a time. Callbacks
are plain Python callables here; the C shapes of the vendor's callbacks belong to faces and to the plugin that
speaks the C ABI. Numbers of the enumerations are those of the RKNN3 C API 1.0.
"""

from __future__ import annotations

import abc
import enum
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Callable, Optional, Union

from numpy.typing import NDArray

from .tensor import TensorAttr

__all__ = [
    "AudioBlock",
    "AuxInput",
    "CallState",
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


class InputKind(enum.IntEnum):
    """What a run is fed with (``rknn3_llm_input_type``)."""

    PROMPT = 0
    TOKEN = 1
    EMBED = 2
    MULTIMODAL = 3
    AUX = 4


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
    """What happens when the KV cache is full; DEFAULT is RECURRENT (``rknn3_kvcache_policy``)."""

    DEFAULT = 0
    RECURRENT = 1
    NORMAL = 2


class KvClear(enum.IntEnum):
    """How much ``clear_kvcache`` drops (``rknn3_kvcache_clear_policy``)."""

    ALL = 0
    KEEP_SYSTEM_PROMPT = 1


class KvDtype(enum.IntEnum):
    """How the KV cache is stored and computed (``rknn3_kvcache_dtype``); UNDEFINED: float32, never on a device."""

    UNDEFINED = 0
    INT4_TO_F16 = 1
    INT4_TO_F8 = 2
    INT8_TO_F16 = 3
    FLOAT4_TO_F16 = 4
    FLOAT4_TO_F8 = 5
    FLOAT8_TO_F16 = 6
    FLOAT8_TO_F8 = 7
    FLOAT16 = 8


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
    context, ``frequency_penalty`` and ``presence_penalty`` those generated in this run. ``seed`` None draws a
    fresh one per session (the C API has no seed).
    """

    top_k: int = 1
    top_p: float = 1.0
    temperature: float = 1.0
    repeat_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    seed: Optional[int] = None


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

    ``max_context_len`` in tokens; 0 takes the model's.
    """

    max_context_len: int = 0
    sampling: SamplingParams = SamplingParams()
    vocab: VocabInfo = VocabInfo()
    logits_name: str = ""


@dataclass(frozen=True)
class InferParams:
    """Parameters of one run.

    Without ``keep_history`` the KV cache of earlier turns is dropped before the run, the system prompt stays;
    a run with role ``tool`` always continues the turn before it. ``prefill_only`` fills the cache and stops,
    ``disable_sampling`` evaluates the model once and leaves the choice to the output callback.
    """

    keep_history: bool = False
    max_new_tokens: int = 1024
    prefill_only: bool = False
    disable_sampling: bool = False


@dataclass(frozen=True)
class PromptInput:
    """Text of one turn; ``role`` is ``user``, or ``tool`` for the result of a function call."""

    prompt: str
    role: str = "user"
    enable_thinking: bool = False
    kind = InputKind.PROMPT


@dataclass(frozen=True)
class TokenInput:
    """Token ids, int32; no chat template is applied."""

    tokens: Union[Sequence[int], Array]
    role: str = "user"
    enable_thinking: bool = False
    kind = InputKind.TOKEN


@dataclass(frozen=True)
class EmbedInput:
    """Embeddings, float16 or float32, (n_tokens, hidden) or (1, n_tokens, hidden)."""

    embeds: Array
    role: str = "user"
    kind = InputKind.EMBED


@dataclass(frozen=True)
class ImageBlock:
    """Embedded images: ``embeds`` (n_image * n_image_tokens, hidden) in any shape of that size.

    Each tag ``<image>`` of the prompt becomes ``start``, ``n_image_tokens`` times ``content``, ``end``; the
    embeddings take the places of ``content``, which must be one token of the vocabulary.
    """

    embeds: Array
    n_image_tokens: int
    n_image: int = 1
    start: str = ""
    end: str = ""
    content: str = ""
    width: int = 0
    height: int = 0
    tag = "<image>"

    @property
    def items(self) -> int:
        """Number of tags that belong to the block."""
        return self.n_image

    @property
    def tokens_each(self) -> int:
        """Embeddings per tag."""
        return self.n_image_tokens


@dataclass(frozen=True)
class AudioBlock:
    """Embedded audio, see ``ImageBlock``; the tag is ``<audio>``."""

    embeds: Array
    n_audio_tokens: int
    n_audio: int = 1
    start: str = ""
    end: str = ""
    content: str = ""
    tag = "<audio>"

    @property
    def items(self) -> int:
        """Number of tags that belong to the block."""
        return self.n_audio

    @property
    def tokens_each(self) -> int:
        """Embeddings per tag."""
        return self.n_audio_tokens


@dataclass(frozen=True)
class VideoBlock:
    """Embedded videos, see ``ImageBlock``; the tag is ``<video>``, one per video of several frames."""

    embeds: Array
    n_frame_tokens: int
    n_frame_per_video: int
    n_video: int = 1
    start: str = ""
    end: str = ""
    content: str = ""
    width: int = 0
    height: int = 0
    tag = "<video>"

    @property
    def items(self) -> int:
        """Number of tags that belong to the block."""
        return self.n_video

    @property
    def tokens_each(self) -> int:
        """Embeddings per tag."""
        return self.n_frame_tokens * self.n_frame_per_video


MediaBlock = Union[ImageBlock, AudioBlock, VideoBlock]


@dataclass(frozen=True)
class MultimodalInput:
    """A turn with images, audio or video; ``prompt`` wins over ``tokens`` when both are given."""

    prompt: Optional[str] = None
    tokens: Optional[Union[Sequence[int], Array]] = None
    image: Optional[ImageBlock] = None
    audio: Optional[AudioBlock] = None
    video: Optional[VideoBlock] = None
    role: str = "user"
    enable_thinking: bool = False
    kind = InputKind.MULTIMODAL

    @property
    def blocks(self) -> list[MediaBlock]:
        """The blocks that are there."""
        return [block for block in (self.image, self.audio, self.video) if block is not None]


@dataclass(frozen=True)
class AuxInput:
    """Data for a further model input (``index`` of the model's inputs); goes along with one of the others."""

    index: int
    data: Array
    name: str = ""
    kind = InputKind.AUX


LlmInput = Union[PromptInput, TokenInput, EmbedInput, MultimodalInput, AuxInput]


@dataclass(frozen=True)
class LlmResult:
    """Tokens of one call of the result callback; empty unless the state is NORMAL."""

    token_ids: tuple[int, ...] = ()


@dataclass(frozen=True)
class LlmOutput:
    """One model output for the output callback: its attribute and its values, valid only inside the call."""

    attr: TensorAttr
    data: Array


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
    """

    result: Optional[ResultCallback] = None
    tokenizer: Optional[TokenizerCallback] = None
    embed: Optional[EmbedCallback] = None
    sampling: Optional[SamplingCallback] = None
    output: Optional[OutputCallback] = None
    outputs: tuple[int, ...] = ()


@dataclass(frozen=True)
class LlmConfig:
    """What the model says about itself (``rknn3_llm_config``)."""

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


@dataclass(frozen=True)
class LlmState:
    """Counters of a session (``RKLLMRunState``): tokens in the cache, its size, and those of the last run."""

    n_total_tokens: int
    n_max_tokens: int
    n_decode_tokens: int
    n_prefill_tokens: int
    kvcache_policy: KvPolicy
    loras_enabled: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class RunSummary:
    """How a run went; times are ``time.perf_counter`` seconds, ``first_token`` is when prefill was done."""

    state: CallState
    n_prefill_tokens: int
    n_decode_tokens: int
    start: float
    first_token: float
    end: float


@dataclass
class LlmOptions:
    """How an LLM is opened. ``core_mask`` None or 0 leaves the choice; ``extra`` are options of the backend."""

    core_mask: Optional[int] = None
    device_id: Optional[str] = None
    extra: Mapping[str, Any] = field(default_factory=dict)


class LlmSession(abc.ABC):
    """A conversation: parameters, callbacks, a chat template and a private KV cache on a shared model."""

    @abc.abstractmethod
    def set_callbacks(self, callbacks: LlmCallbacks) -> None:
        """Install callbacks for the following runs."""

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

    @abc.abstractmethod
    def close(self) -> None:
        """Stop a run under way, wait for its end and free the cache; may be called again. No callback follows."""

    def __enter__(self) -> LlmSession:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class LlmContext(abc.ABC):
    """A language model, loaded once. Close its sessions first; closing it closes those that are left."""

    @property
    @abc.abstractmethod
    def backend_name(self) -> str:
        """Name of the backend that runs the model."""

    @property
    @abc.abstractmethod
    def config(self) -> LlmConfig:
        """What the model says about itself."""

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

    @abc.abstractmethod
    def close(self) -> None:
        """Release everything; may be called again."""

    def __enter__(self) -> LlmContext:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
