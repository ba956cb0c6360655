"""A ``tokenizer.json`` without its model, which stays text: reading a vocabulary takes longer than all the rest of it.

The package ``tokenizers`` reads the model anyway. What decides whether a tokenizer may compute in this process, its
regular expressions and replacements, is in the other members.
"""

from __future__ import annotations

import json
import re
from typing import Any

__all__ = ["steps_and_model"]

_BEGIN = re.compile(r"\s*\{")
_KEY = re.compile(r'\s*"([a-z_]+)"\s*:\s*')
_NEXT = re.compile(r"\s*,")
_END = re.compile(r"\}\s*\Z")


def steps_and_model(text: str) -> tuple[dict[str, Any], str]:
    """The members before the member ``model``, and all that stands behind its colon but the last brace.

    That is the text of the model where the model is the last member, as the package writes it; whoever uses it makes sure
    that it is one value and no more. Empty where the text is written in another way. Raises ValueError for broken members.
    """
    decoder = json.JSONDecoder()
    members: dict[str, Any] = {}
    at = _BEGIN.match(text)
    while at is not None:
        key = _KEY.match(text, at.end())
        if key is None:
            break
        if key[1] == "model":
            end = _END.search(text, max(key.end(), len(text) - 64))
            return (members, text[key.end() : end.start()]) if end is not None else ({}, "")
        members[key[1]], place = decoder.raw_decode(text, key.end())
        at = _NEXT.match(text, place)
    return {}, ""
