"""Inputs of a session's run, as ``client/common/pack.c`` packs them."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import InputInvalid
from rknnlite.spi.llm import (
    AudioBlock,
    AuxInput,
    EmbedInput,
    ImageBlock,
    InputKind,
    LlmInput,
    MultimodalInput,
    PromptInput,
    TokenInput,
    VideoBlock,
)
from rknnlite.tensor import DType

from ..packed import Packed

__all__ = ["read_inputs", "stored"]

Array = NDArray[Any]
_USER = "user"


def stored(number: int) -> np.dtype[Any]:
    """The numpy type of an ``rknn3_tensor_type``; raises InputInvalid where there is none."""
    from rknnlite.abi.rknn3_v104 import RKNN3TensorType

    try:
        return DType[RKNN3TensorType(number).name.partition("TENSOR_")[2]].numpy
    except (KeyError, ValueError):
        raise InputInvalid(f"a tensor has dtype {number}, which no numpy type carries") from None


def read_inputs(data: bytes, count: int, hidden: int) -> list[LlmInput]:
    """All inputs of a run; ``hidden``: values per embedding. Raises InputInvalid, ParamInvalid."""
    packed = Packed(data)
    return [_input(packed, hidden) for _ in range(count)]


def _input(packed: Packed, hidden: int) -> LlmInput:
    kind, role = InputKind(packed.number()), packed.text() or _USER
    if kind is InputKind.AUX:
        return _auxiliary(packed)
    thinking, prompt = bool(packed.number()), packed.text()
    if kind is InputKind.MULTIMODAL:
        return _multimodal(packed, hidden, role, thinking, prompt)
    if kind is InputKind.PROMPT:
        return PromptInput(prompt or "", role, thinking)
    if kind is InputKind.TOKEN:
        return TokenInput(_ids(packed.data()), role, thinking)
    return EmbedInput(_rows(packed.data(), hidden), role)


def _ids(data: Optional[bytes]) -> Array:
    if data is None:
        raise InputInvalid("the input's tokens are NULL")
    return np.frombuffer(data, np.int32)


def _rows(data: Optional[bytes], hidden: int) -> Array:
    return np.frombuffer(data or b"", np.float16).reshape(-1, hidden)


def _auxiliary(packed: Packed) -> AuxInput:
    index, count, dtype, data = packed.number(), packed.number(), packed.number(), packed.data() or b""
    kind = stored(dtype)
    size = min(count * kind.itemsize, len(data))
    return AuxInput(index, np.frombuffer(data[: size - size % kind.itemsize], kind))


def _multimodal(
    packed: Packed, hidden: int, role: str, thinking: bool, prompt: Optional[str]
) -> MultimodalInput:
    ids = packed.data()
    tokens = None if ids is None else np.frombuffer(ids, np.int32)
    each, count, width, height = (packed.number() for _ in range(4))
    start, end, content = _marks(packed)
    image = ImageBlock(_rows(packed.data(), hidden), each, count, start, end, content, width, height)
    each, count = packed.number(), packed.number()
    start, end, content = _marks(packed)
    audio = AudioBlock(_rows(packed.data(), hidden), each, count, start, end, content)
    each, frames, count, width, height = (packed.number() for _ in range(5))
    start, end, content = _marks(packed)
    video = VideoBlock(_rows(packed.data(), hidden), each, frames, count, start, end, content, width, height)
    return MultimodalInput(
        prompt,
        tokens,
        image if len(image.embeds) else None,
        audio if len(audio.embeds) else None,
        video if len(video.embeds) else None,
        role,
        thinking,
    )


def _marks(packed: Packed) -> tuple[str, str, str]:
    return packed.text() or "", packed.text() or "", packed.text() or ""
