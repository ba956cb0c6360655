"""What goes into and comes out of a language model: enumerations, parameters, inputs, results.

The contracts that use them are in ``rknnlite.spi.llm``, which also hands these names on. Numbers of the
enumerations are those of the RKNN3 C API 1.0.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional, Union

from numpy.typing import NDArray

from ..tensor import TensorAttr

__all__ = [
    "AudioBlock",
    "AuxInput",
    "CallState",
    "EmbedInput",
    "ImageBlock",
    "InferParams",
    "InputKind",
    "KvClear",
    "KvPolicy",
    "KvStore",
    "LlmInput",
    "LlmOutput",
    "LlmParams",
    "LlmResult",
    "MediaBlock",
    "MessagesInput",
    "MultimodalInput",
    "OutputState",
    "PromptInput",
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
    """What happens when the KV cache is full; DEFAULT is RECURRENT (``rknn3_kvcache_policy``).

    Examples:
        >>> from rknnlite.llm import Chat
        >>> with Chat("examples/llm_chat/models/tiny") as chat:
        ...     chat.session.set_kvcache_policy(KvPolicy.NORMAL)
    """

    DEFAULT = 0
    RECURRENT = 1
    NORMAL = 2


class KvClear(enum.IntEnum):
    """How much ``clear_kvcache`` drops (``rknn3_kvcache_clear_policy``).

    Examples:
        >>> from rknnlite.llm import Chat
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

    ``max_context_len`` in tokens; 0 takes the model's.

    Examples:
        >>> LlmParams(max_context_len=512, sampling=SamplingParams(top_k=1)).max_context_len
        512
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

    Examples:
        >>> InferParams(keep_history=True, max_new_tokens=64).max_new_tokens
        64
    """

    keep_history: bool = False
    max_new_tokens: int = 1024
    prefill_only: bool = False
    disable_sampling: bool = False


@dataclass(frozen=True)
class PromptInput:
    """Text of one turn; ``role`` is ``user``, or ``tool`` for the result of a function call.

    Examples:
        >>> PromptInput("What is 12 + 30?").role
        'user'
    """

    prompt: str
    role: str = "user"
    enable_thinking: bool = False
    kind = InputKind.PROMPT


@dataclass(frozen=True)
class TokenInput:
    """Token ids, int32; no chat template is applied.

    ``whole``: they are all that the model is to see, and what the KV cache holds of their beginning is not computed again.

    Examples:
        >>> TokenInput([1, 2, 3]).kind.name
        'TOKEN'
    """

    tokens: Union[Sequence[int], Array]
    role: str = "user"
    enable_thinking: bool = False
    whole: bool = False
    kind = InputKind.TOKEN


@dataclass(frozen=True)
class EmbedInput:
    """Embeddings, float16 or float32, (n_tokens, hidden) or (1, n_tokens, hidden).

    Examples:
        >>> EmbedInput(np.zeros((3, 64), np.float16)).embeds.shape
        (3, 64)
    """

    embeds: Array
    role: str = "user"
    kind = InputKind.EMBED


@dataclass(frozen=True)
class ImageBlock:
    """Embedded images: ``embeds`` (n_image * n_image_tokens, hidden) in any shape of that size.

    Each tag ``<image>`` of the prompt becomes ``start``, ``n_image_tokens`` times ``content``, ``end``; the
    embeddings take the places of ``content``, which must be one token of the vocabulary.

    Examples:
        >>> block = ImageBlock(np.zeros((196, 64), np.float16), 196, start="<start>", end="<end>", content="<pad>")
        >>> block.items, block.tokens_each
        (1, 196)
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
    """A turn with images, audio or video; ``prompt`` wins over ``tokens`` when both are given.

    Examples:
        >>> image = ImageBlock(np.zeros((196, 64), np.float16), 196, content="<pad>")
        >>> len(MultimodalInput("<image>What is this?", image=image).blocks)
        1
    """

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
class MessagesInput:
    """A whole conversation, as OpenAI's API has it; what the KV cache holds of its beginning is not computed again.

    ``messages`` are objects with ``role`` (system, user, assistant, tool), ``content`` (text, or a list of parts) and
    ``tool_calls``. ``tools`` None offers those of the session, ``arguments`` go to the model's template, which without
    ``generate`` ends behind the last message. Each part that is no text needs its data in the block of its kind.
    """

    messages: Sequence[Mapping[str, Any]]
    tools: Optional[Sequence[Mapping[str, Any]]] = None
    enable_thinking: bool = False
    arguments: Mapping[str, Any] = field(default_factory=dict)
    generate: bool = True
    image: Optional[ImageBlock] = None
    audio: Optional[AudioBlock] = None
    video: Optional[VideoBlock] = None
    role = "user"
    kind = InputKind.PROMPT

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


LlmInput = Union[PromptInput, MessagesInput, TokenInput, EmbedInput, MultimodalInput, AuxInput]


@dataclass(frozen=True)
class LlmResult:
    """Tokens of one call of the result callback; empty unless the state is NORMAL."""

    token_ids: tuple[int, ...] = ()


@dataclass(frozen=True)
class LlmOutput:
    """One model output for the output callback: its attribute and its values, valid only inside the call."""

    attr: TensorAttr
    data: Array
