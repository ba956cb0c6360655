"""Inputs of a run, as ``client/rkllm/inputs.c`` packs them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import InputInvalid
from rknnlite.spi.llm import AuxInput, ImageBlock, InputKind, MultimodalInput, VideoBlock

from ..packed import Packed

__all__ = ["Given", "read_inputs"]

Array = NDArray[Any]
_PROMPT, _TOKEN, _EMBED = range(3)
_WITH_ROLES, _WITH_MEDIA = 10203, 10300
_FIRST_AUX = 2  # inputs of a model: embeddings, positions, then these


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
    aux: tuple[AuxInput, ...] = ()

    def multimodal(self) -> MultimodalInput:
        """As the core takes it."""
        return MultimodalInput(self.text, None, self.image, None, self.video, self.role, self.thinking)


def read_inputs(
    packed: Packed, count: int, version: int, widths: tuple[int, int], tags: tuple[str, str, str]
) -> list[Given]:
    """All inputs; ``widths``: values per embedding, and per row of an image; ``tags``: those of images before 1.3.0.

    Raises InputInvalid.
    """
    return [_one(packed, version, widths, tags) for _ in range(count)]


def _one(packed: Packed, version: int, widths: tuple[int, int], tags: tuple[str, str, str]) -> Given:
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
        return Given(InputKind.EMBED, role, thinking, rows=_rows(packed, widths[0]))
    text = packed.text() or ""
    each, images, width, height = (packed.number() for _ in range(4))
    start, end, content = _tags(packed) if version >= _WITH_MEDIA else tags
    rows, aux = _outputs(packed, widths)
    image = ImageBlock(rows, each, images, start, end, content, width, height) if len(rows) else None
    video = None
    if version >= _WITH_MEDIA:
        each, frames, count, width, height = (packed.number() for _ in range(5))
        start, end, content = _tags(packed)
        rows, more = _outputs(packed, widths)
        aux += more
        if len(rows):
            video = VideoBlock(rows, each, frames, count, start, end, content, width, height)
    if image is None and video is None:
        raise InputInvalid("a multimodal input without an image and without a video")
    return Given(InputKind.MULTIMODAL, role, thinking, text, image=image, video=video, aux=aux)


def _outputs(packed: Packed, widths: tuple[int, int]) -> tuple[Array, tuple[AuxInput, ...]]:
    """Rows of an encoder's first output, and those of its further ones."""
    hidden, whole = widths
    rows = _rows(packed, whole)
    further = range(1, whole // hidden if len(rows) else 1)
    return rows[:, :hidden], tuple(
        AuxInput(
            _FIRST_AUX + number - 1, np.ascontiguousarray(rows[:, number * hidden : (number + 1) * hidden])
        )
        for number in further
    )


def _tags(packed: Packed) -> tuple[str, str, str]:
    return packed.text() or "", packed.text() or "", packed.text() or ""


def _rows(packed: Packed, hidden: int) -> Array:
    return np.frombuffer(packed.data() or b"", np.float32).reshape(-1, hidden)
