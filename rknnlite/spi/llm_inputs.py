"""What a run of a language model is fed with: text, conversations, tokens, embeddings, and media beside them.

``rknnlite.spi.llm`` hands these names on.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional, Union

from numpy.typing import NDArray

__all__ = [
    "AudioBlock",
    "AuxInput",
    "EmbedInput",
    "ImageBlock",
    "InputKind",
    "LlmInput",
    "MediaBlock",
    "MessagesInput",
    "MultimodalInput",
    "PromptInput",
    "TokenInput",
    "VideoBlock",
]

Array = NDArray[Any]


class InputKind(enum.IntEnum):
    """What a run is fed with (``rknn3_llm_input_type``)."""

    PROMPT = 0
    TOKEN = 1
    EMBED = 2
    MULTIMODAL = 3
    AUX = 4


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
    embeddings take the places of ``content``, which must be one token of the vocabulary. ``width`` and ``height`` are those of
    what the encoder was given, in pixels; models that count rows and columns (M-RoPE) need them.

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
    """Embedded videos, see ``ImageBlock``; the tag is ``<video>``, one per video of several frames.

    ``n_frame_per_video`` counts pictures as embedded (an encoder may make one of two frames), ``seconds`` lie between two of them
    (Qwen2.5-VL and Qwen2.5-Omni count them).
    """

    embeds: Array
    n_frame_tokens: int
    n_frame_per_video: int
    n_video: int = 1
    start: str = ""
    end: str = ""
    content: str = ""
    width: int = 0
    height: int = 0
    seconds: float = 1.0
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
