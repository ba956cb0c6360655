"""Pictures and sound in messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Optional

from rknnlite.llm.messages import media_parts
from rknnlite.spi.llm import MessagesInput, MultimodalInput

from .errors import bad_request

__all__ = ["NoMedia"]


class NoMedia:
    """For models without encoders."""

    async def attached(self, said: MessagesInput, messages: Sequence[Mapping[str, Any]]) -> MessagesInput:
        """The conversation with the embeddings of its pictures and sounds; raises ApiError where it has any."""
        plain = all(isinstance(message, Mapping) for message in messages)
        if plain and media_parts(messages):
            raise bad_request(
                "this model takes text only: it was loaded without encoders for images or audio", "messages"
            )
        return said

    def input_of(self, said: MessagesInput, tokens: Sequence[int]) -> Optional[MultimodalInput]:
        """The input of a run where tokens alone do not do."""
        return None
