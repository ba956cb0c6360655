"""Inputs of a run, as ``client/rkllm/inputs.c`` packs them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import InputInvalid
from rknnlite.spi.llm import ImageBlock, InputKind, MultimodalInput, VideoBlock

from ..packed import Packed

__all__ = ["Given", "read_inputs"]

Array = NDArray[Any]
_PROMPT, _TOKEN, _EMBED = range(3)
_WITH_ROLES, _WITH_MEDIA = 10203, 10300


@dataclass(frozen=True)
class Given:
    """One input of the program."""

    kind: InputKind
    role: str = "user"
    thinking: bool = True
    text: str = ""
    tokens: tuple[int, ...] = ()
    rows: Optional[Array] = None
    image: Optional[ImageBlock] = None
    video: Optional[VideoBlock] = None

    def multimodal(self) -> MultimodalInput:
        """As the core takes it."""
        return MultimodalInput(self.text, None, self.image, None, self.video, self.role, self.thinking)


def read_inputs(
    packed: Packed, count: int, version: int, hidden: int, tags: tuple[str, str, str]
) -> list[Given]:
    """All inputs; ``hidden``: values per embedding, ``tags``: those of images before 1.3.0. Raises InputInvalid."""
    return [_one(packed, version, hidden, tags) for _ in range(count)]


def _one(packed: Packed, version: int, hidden: int, tags: tuple[str, str, str]) -> Given:
    kind, role, thinking = packed.number(), "user", True
    if version >= _WITH_ROLES:
        role, thinking = packed.text() or role, bool(packed.number())
    if role not in ("user", "tool"):
        raise InputInvalid(f"role is {role!r}, must be user or tool")
    if kind == _PROMPT:
        return Given(InputKind.PROMPT, role, thinking, packed.text() or "")
    if kind == _TOKEN:
        ids = np.frombuffer(packed.data() or b"", np.int32)
        return Given(InputKind.TOKEN, role, thinking, tokens=tuple(ids.tolist()))
    if kind == _EMBED:
        return Given(InputKind.EMBED, role, thinking, rows=_rows(packed, hidden))
    text = packed.text() or ""
    each, images, width, height = (packed.number() for _ in range(4))
    start, end, content = _tags(packed) if version >= _WITH_MEDIA else tags
    image = _rows(packed, hidden)
    block = ImageBlock(image, each, images, start, end, content, width, height) if len(image) else None
    video = _video(packed, hidden) if version >= _WITH_MEDIA else None
    if block is None and video is None:
        raise InputInvalid("a multimodal input without an image and without a video")
    return Given(InputKind.MULTIMODAL, role, thinking, text, image=block, video=video)


def _video(packed: Packed, hidden: int) -> Optional[VideoBlock]:
    each, frames, count, width, height = (packed.number() for _ in range(5))
    start, end, content = _tags(packed)
    rows = _rows(packed, hidden)
    return VideoBlock(rows, each, frames, count, start, end, content, width, height) if len(rows) else None


def _tags(packed: Packed) -> tuple[str, str, str]:
    return packed.text() or "", packed.text() or "", packed.text() or ""


def _rows(packed: Packed, hidden: int) -> Array:
    return np.frombuffer(packed.data() or b"", np.float32).reshape(-1, hidden)
