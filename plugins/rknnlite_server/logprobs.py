"""Probabilities of tokens in OpenAI's two forms."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Optional

from .generation import Piece
from .served_model import ServedModel

__all__ = ["chat_logprobs", "plain_logprobs"]

_LEAST = -9999.0  # JSON has no infinity


def chat_logprobs(
    pieces: Iterable[Piece], model: ServedModel, top: Optional[int]
) -> Optional[dict[str, Any]]:
    """Of a chat; None when nobody asked, or there is nothing to tell."""
    if top is None:
        return None
    content = [
        {
            **_token(model, chance.token, chance.logprob),
            "top_logprobs": [_token(model, *pair) for pair in chance.top],
        }
        for piece in pieces
        for chance in piece.chances
    ]
    return {"content": content, "refusal": None} if content else None


def plain_logprobs(
    pieces: Iterable[Piece], model: ServedModel, top: Optional[int], offset: int
) -> Optional[dict[str, Any]]:
    """Of a plain completion; ``offset`` is the number of characters before."""
    if top is None:
        return None
    tokens: list[str] = []
    found: dict[str, list[Any]] = {
        "tokens": tokens,
        "token_logprobs": [],
        "top_logprobs": [],
        "text_offset": [],
    }
    for chance in (chance for piece in pieces for chance in piece.chances):
        text = model.token_text(chance.token)
        tokens.append(text)
        found["token_logprobs"].append(max(chance.logprob, _LEAST))
        found["top_logprobs"].append(
            {model.token_text(token): max(value, _LEAST) for token, value in chance.top}
        )
        found["text_offset"].append(offset)
        offset += len(text)
    return found if tokens else None


def _token(model: ServedModel, token: int, logprob: float) -> dict[str, Any]:
    raw = model.token_bytes(token)
    return {"token": model.token_text(token), "logprob": max(logprob, _LEAST), "bytes": list(raw)}
