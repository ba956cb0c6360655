"""The inputs of a run: one main input, its media blocks, and what they come to in tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import InputInvalid
from rknnlite.log import logger
from rknnlite.spi.llm import (
    AuxInput,
    EmbedInput,
    LlmInput,
    MediaBlock,
    MessagesInput,
    MultimodalInput,
    PromptInput,
    TokenInput,
)

from .callbacks import CheckedCallbacks
from .messages import media_parts

__all__ = ["MainInput", "expand_tags", "expanded", "is_whole", "place_media", "split_inputs"]

Array = NDArray[Any]
MainInput = (PromptInput, MessagesInput, TokenInput, EmbedInput, MultimodalInput)
_TAGS = ("<image>", "<audio>", "<video>")


def split_inputs(inputs: LlmInput | Sequence[LlmInput]) -> tuple[Any, list[AuxInput]]:
    """The main input and the auxiliary ones; raises InputInvalid unless there is exactly one main input."""
    given: list[Any] = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    wrong = [i for i in given if not isinstance(i, (*MainInput, AuxInput))]
    if wrong:
        raise InputInvalid(
            f"{type(wrong[0]).__name__} is no LLM input; use PromptInput, TokenInput, EmbedInput, ..."
        )
    main = [i for i in given if not isinstance(i, AuxInput)]
    if len(main) != 1:
        kinds = ", ".join(i.kind.name for i in main) or "none"
        raise InputInvalid(
            f"a run takes one of prompt, tokens, embeddings or multimodal; this one has {kinds}"
        )
    _check_main(main[0])
    return main[0], [i for i in given if isinstance(i, AuxInput)]


def is_whole(main: Any) -> bool:
    """Whether a main input is all that the model is to see, whatever was said before."""
    return isinstance(main, MessagesInput) or (isinstance(main, TokenInput) and main.whole)


def _check_main(main: Any) -> None:
    if isinstance(main, PromptInput) and not isinstance(main.prompt, str):
        raise InputInvalid(f"the prompt is {type(main.prompt).__name__}, not str")
    if isinstance(main, MultimodalInput):
        if main.prompt is None and main.tokens is None:
            raise InputInvalid("a multimodal input needs a prompt or tokens beside its media")
        if not main.blocks:
            raise InputInvalid("a multimodal input without image, audio or video; use a prompt input")
    if isinstance(main, (MessagesInput, MultimodalInput)):
        for block in main.blocks:
            _check_block(block)
    if isinstance(main, PromptInput) and any(tag in main.prompt for tag in _TAGS):
        logger.warning(
            "the prompt holds a tag (%s) but no data go with it: it is taken as text", ", ".join(_TAGS)
        )


def _check_block(block: MediaBlock) -> None:
    if block.items < 1 or block.tokens_each < 1:
        raise InputInvalid(f"{block.tag}: {block.items} items of {block.tokens_each} tokens")
    if not block.content:
        raise InputInvalid(
            f"{block.tag}: without a content marker there is no place for the embeddings; set content"
        )


def expand_tags(text: str, given: Sequence[MediaBlock]) -> str:
    """The text with every tag replaced by start marker, content markers and end marker.

    Raises InputInvalid when the numbers of tags and of media differ, in either direction.
    """
    blocks = {block.tag: block for block in given}
    for tag in _TAGS:
        block = blocks.get(tag)
        found, wanted = text.count(tag), block.items if block else 0
        if found != wanted:
            raise InputInvalid(
                f"the prompt has {found} tags {tag}, the input {wanted}; each needs its own data"
            )
        if block is not None:
            text = text.replace(tag, block.start + block.content * block.tokens_each + block.end)
    return text


def expanded(text: str, main: MessagesInput) -> str:
    """A rendered conversation with the tags of its media replaced; one without media stays as it is, tags and all."""
    return expand_tags(text, main.blocks) if main.blocks or media_parts(main.messages) else text


def place_media(
    blocks: Sequence[MediaBlock], tokens: Array, embeds: Array, calls: CheckedCallbacks, first: int = 0
) -> list[tuple[MediaBlock, Array]]:
    """Overwrite the embeddings of the content tokens by those of the media, in order; ``embeds`` changes in place.

    Returns the places that were overwritten, block by block; tokens before ``first`` are none of them.
    """
    overwritten: list[tuple[MediaBlock, Array]] = []
    for block in blocks:
        kind = block.tag.strip("<>")
        marker = calls.tokens(block.content)
        if len(marker) != 1:
            raise InputInvalid(
                f"{kind}: the content marker {block.content!r} is {len(marker)} tokens, must be one"
            )
        places = first + np.flatnonzero(tokens[first:] == marker[0])
        wanted = block.items * block.tokens_each
        if len(places) != wanted:
            raise InputInvalid(
                f"{kind}: the input holds the content marker {block.content!r} {len(places)} times, the data are "
                f"{block.items} x {block.tokens_each} = {wanted} embeddings"
            )
        values = np.asarray(block.embeds)
        if values.size == wanted * embeds.shape[1]:
            values = values.reshape(wanted, embeds.shape[1])
        embeds[places] = calls.checked_embeddings(values, wanted, f"{kind} data")
        overwritten.append((block, places))
    return overwritten
