"""What ``session_run`` is given, as inputs of the core."""

from __future__ import annotations

import ctypes as ct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..abi.rknn3_llm import RKNN3Audio, RKNN3Image, RKNN3Video
from ..abi.rknn3_types import RKNN3Tensor
from ..errors import InputInvalid
from ..spi.llm import (
    AudioBlock,
    AuxInput,
    EmbedInput,
    ImageBlock,
    LlmConfig,
    LlmInput,
    MediaBlock,
    MultimodalInput,
    PromptInput,
    TokenInput,
    VideoBlock,
)
from .rknn3_types import RKNN3AuxTensorWrapper, rknn_dtype_to_numpy_dtype

__all__ = ["RunArguments"]

Array = NDArray[Any]
_NONE: Array = np.empty(0, np.float16)
_BLOCKS = {
    (RKNN3Image, ImageBlock): "image",
    (RKNN3Audio, AudioBlock): "audio",
    (RKNN3Video, VideoBlock): "video",
}


@dataclass(frozen=True)
class RunArguments:
    """The arguments of one run that say what the model is fed with; see ``RKNN3Lite.session_run``."""

    inputs: Any = None
    prompt: Any = None
    embeds: Any = None
    tokens: Any = None
    role: str = "user"
    enable_thinking: bool = False

    def read(self, config: LlmConfig) -> list[LlmInput]:
        """One main input, auxiliary ones behind it.

        Raises:
            InputInvalid: none or several of prompt, tokens and embeddings, or structures that do not fit.
        """
        given = [name for name in ("prompt", "embeds", "tokens") if getattr(self, name) is not None]
        if len(given) != 1:
            raise InputInvalid(
                f"{' and '.join(given)} were given together; a run takes one of them"
                if given
                else "nothing was given; a run takes a prompt, tokens or embeds"
            )
        media, aux = _split(self.inputs, config)
        return [self._main(media), *aux]

    def _main(self, media: dict[str, Any]) -> LlmInput:
        prompt = self.prompt.decode("utf-8", "replace") if isinstance(self.prompt, bytes) else self.prompt
        role, thinking = self.role, bool(self.enable_thinking)
        if self.embeds is not None:
            if media:
                raise InputInvalid(
                    "embeds cannot go with images, audio or video; place them in embeds yourself"
                )
            return EmbedInput(np.asarray(self.embeds), role=role)
        if media:
            return MultimodalInput(prompt, self.tokens, role=role, enable_thinking=thinking, **media)
        if self.tokens is not None:
            return TokenInput(self.tokens, role=role, enable_thinking=thinking)
        return PromptInput(prompt, role=role, enable_thinking=thinking)


def _split(inputs: Any, config: LlmConfig) -> tuple[dict[str, Any], list[AuxInput]]:
    """Media blocks by kind, and auxiliary inputs."""
    media: dict[str, Any] = {}
    aux: list[AuxInput] = []
    for item in _items(inputs):
        kind = next((word for types, word in _BLOCKS.items() if isinstance(item, types)), None)
        if kind is not None:
            if kind in media:
                raise InputInvalid(f"two {kind} blocks were given; one block holds all of them (n_{kind})")
            media[kind] = (
                item if isinstance(item, (ImageBlock, AudioBlock, VideoBlock)) else _block(item, kind, config)
            )
        elif isinstance(item, RKNN3AuxTensorWrapper):
            aux.append(AuxInput(item.index, _array(item)))
        elif isinstance(item, RKNN3Tensor):
            aux.append(_from_tensor(item))
        else:
            raise InputInvalid(
                f"inputs holds a {type(item).__name__}; possible are RKNN3Image, RKNN3Audio, RKNN3Video and "
                "RKNN3AuxTensorWrapper"
            )
    return media, aux


def _items(inputs: Any) -> Sequence[Any]:
    if inputs is None:
        return []
    return inputs if isinstance(inputs, (list, tuple)) else [inputs]


def _array(wrapper: RKNN3AuxTensorWrapper) -> Array:
    """The data; padding to ``align_size`` is the backend's business, which knows the size of its buffer."""
    if wrapper.aux_data is None:
        raise InputInvalid(f"the auxiliary input {wrapper.index} has no aux_data")
    return np.ascontiguousarray(wrapper.aux_data)


def _from_tensor(tensor: RKNN3Tensor) -> AuxInput:
    if not tensor.attr or not tensor.mem or not tensor.mem.contents.virt_addr:
        raise InputInvalid("an RKNN3Tensor needs attr and mem; RKNN3AuxTensorWrapper is the simpler way")
    attr, mem = tensor.attr.contents, tensor.mem.contents
    dtype = np.dtype(rknn_dtype_to_numpy_dtype(attr.dtype))
    size = min(attr.n_elems * dtype.itemsize, mem.size)
    data = np.frombuffer(ct.string_at(mem.virt_addr, size), dtype)
    return AuxInput(attr.index, data, attr.name.decode("utf-8", "replace"))


def _block(item: Any, kind: str, config: LlmConfig) -> MediaBlock:
    """A media block with a copy of its embeddings."""
    start, end, content = (
        (getattr(item, f"{kind}_{part}") or b"").decode("utf-8", "replace")
        for part in ("start", "end", "content")
    )
    block: MediaBlock
    if kind == "image":
        block = ImageBlock(_NONE, item.n_image_tokens, item.n_image, start, end, content)
        block = replace(block, width=item.image_width, height=item.image_height)
    elif kind == "audio":
        block = AudioBlock(_NONE, item.n_audio_tokens, item.n_audio, start, end, content)
    else:
        frames = item.n_frame_per_video
        block = VideoBlock(_NONE, item.n_frame_tokens, frames, item.n_video, start, end, content)
        block = replace(block, width=item.frame_width, height=item.frame_height)
    count = block.items * block.tokens_each
    return replace(block, embeds=_embeds(getattr(item, f"{kind}_embed"), count, kind, config))


def _embeds(pointer: Any, count: int, kind: str, config: LlmConfig) -> Array:
    """float16 (count, hidden) from behind a pointer; no more than a context can hold is ever read."""
    if not pointer:
        raise InputInvalid(f"{kind}: {kind}_embed is not set")
    if not config.embedding_dim:
        raise InputInvalid(
            f"{kind}: {kind}_embed is a pointer, and nobody tells how wide the embeddings of this model are; give a "
            f"rknnlite.spi.llm.{kind.title()}Block, whose array says it"
        )
    if not 0 < count <= config.max_position_embeddings:
        raise InputInvalid(
            f"{kind}: {count} embeddings, the model takes 1..{config.max_position_embeddings} tokens in all"
        )
    size = count * config.embedding_dim * 2
    address = ct.cast(pointer, ct.c_void_p).value or 0
    return np.frombuffer(ct.string_at(address, size), np.float16).reshape(count, config.embedding_dim)
