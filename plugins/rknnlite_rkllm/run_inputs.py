"""The contract's inputs as what goes to C: text, ids, embeddings, media; checked before anything is asked of the library."""

from __future__ import annotations

from typing import Any

import numpy as np
from rknnlite_llm.callbacks import CheckedCallbacks

from rknnlite.errors import InputInvalid
from rknnlite.spi.llm import AudioBlock, ImageBlock, InputKind, MediaBlock, VideoBlock

from .requests import Media, RunInput

__all__ = ["embedded", "multimodal", "prompt", "tokens"]

Tags = tuple[str, str, str]


def prompt(text: str, role: str = "user", thinking: bool = False) -> RunInput:
    """Text."""
    if not text:
        raise InputInvalid("the prompt is empty; what librkllmrt does then is not documented")
    return RunInput(InputKind.PROMPT, text, role=role, thinking=thinking)


def tokens(ids: Any, calls: CheckedCallbacks, context: int) -> RunInput:
    """Token ids; raises InputInvalid for what are none, or more than the context holds."""
    array = calls.checked_ids(ids, "the input")
    if len(array) > context:  # the library crashes in some versions
        raise InputInvalid(
            f"the input has {len(array)} tokens, the context holds {context}; shorten it, or open the session with a larger "
            "max_context_len"
        )
    return RunInput(InputKind.TOKEN, array=array)


def embedded(embeds: Any, calls: CheckedCallbacks, context: int) -> RunInput:
    """Embeddings as float32 (n, hidden)."""
    array = calls.checked_embeddings(embeds, None, "the input")
    if len(array) > context:
        raise InputInvalid(f"the input has {len(array)} embeddings, the context holds {context}; shorten it")
    return RunInput(InputKind.EMBED, array=array)


def multimodal(
    text: str, blocks: list[MediaBlock], calls: CheckedCallbacks, opened: Tags, per_run: bool
) -> RunInput:
    """Text with images or videos, whose tags the library replaces.

    ``opened`` are the tags that the model was opened with, ``per_run`` says whether this version takes those of the input.
    """
    media: dict[str, Media] = {}
    for block in blocks:
        found = text.count(block.tag)
        if found != block.items:
            raise InputInvalid(
                f"the prompt has {found} tags {block.tag}, the input {block.items}; each needs its own data"
            )
        if isinstance(block, AudioBlock):
            raise InputInvalid("librkllmrt takes images and videos, no audio")
        _check_tags(block, opened, per_run)
        kind = "image" if isinstance(block, ImageBlock) else "video"
        media[kind] = _media(block, calls)
    return RunInput(InputKind.MULTIMODAL, text, image=media.get("image"), video=media.get("video"))


def _check_tags(block: ImageBlock | VideoBlock, opened: Tags, per_run: bool) -> None:
    tags = (block.start, block.end, block.content)
    if not per_run and any(tags) and tags != opened:
        raise InputInvalid(
            f"the image has the tags {tags}, the model was opened with {opened}; before 1.3.0 librkllmrt fixes them: open the "
            f"model with image_tags={tags!r}"
        )
    if not (block.content if per_run else opened[2]):
        raise InputInvalid(
            f"{block.tag}: without a content marker there is no place for the embeddings; set content"
        )


def _media(block: ImageBlock | VideoBlock, calls: CheckedCallbacks) -> Media:
    frames = block.n_frame_per_video if isinstance(block, VideoBlock) else 0
    each = block.n_frame_tokens if isinstance(block, VideoBlock) else block.n_image_tokens
    count = block.items * block.tokens_each
    values = np.asarray(block.embeds)
    if count < 1 or values.size == 0 or values.size % count:
        raise InputInvalid(
            f"{block.tag}: {values.size} values are no {block.items} x {block.tokens_each} = {count} embeddings"
        )
    rows = calls.checked_embeddings(values.reshape(count, -1), None, f"{block.tag} data")
    return Media(
        rows, each, block.items, frames, block.start, block.end, block.content, block.width, block.height
    )
