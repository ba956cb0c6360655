"""The outer frame of a file: header, payload, and a JSON part behind it (docs/rknn-format.md, section 1).

And by which words and numbers a header tells what the file is.
"""

from __future__ import annotations

import struct
from typing import Any

from ..errors import ModelInvalid

__all__ = [
    "CLASSIC",
    "CURRENT",
    "FIRST_HEADER",
    "HEADER",
    "LLM_PACKAGE",
    "MINI",
    "RKLLM_SUFFIX",
    "RKLLM_VERSION",
    "trailer",
]

CLASSIC = range(1, 6)
"""Container versions of toolkits 1.1 to 1.5."""

CURRENT = 6
"""Container version of toolkits 1.6 and later."""

MINI = 0x1004
"""Container version of the mini format."""

LLM_PACKAGE = b"RKLITLLM"
"""First bytes of a language model package of our own."""

RKLLM_SUFFIX = ".rkllm"
"""How the names of the vendor's language models end."""

RKLLM_VERSION = 3
"""Of the directory that those begin with: u32 at byte 4, behind a magic that is masked."""

HEADER = 64
"""Bytes before the payload."""

FIRST_HEADER = 24
"""Bytes before the payload of container version 1."""


def trailer(data: memoryview, start: int) -> tuple[memoryview, dict[str, Any]]:
    """(payload from byte ``start`` on, the JSON part behind it). Raises ModelInvalid for a cut file."""
    size = struct.unpack_from("<Q", data, 16)[0]
    if start + size + 8 > len(data):
        raise ModelInvalid(
            f"the file is truncated: its header promises {start + size + 8} bytes or more, there are {len(data)}; "
            "copy it again"
        )
    (json_size,) = struct.unpack_from("<Q", data, start + size)
    if start + size + 8 + json_size > len(data):
        raise ModelInvalid(f"the file is truncated: its JSON part of {json_size} bytes is cut; copy it again")
    text = bytes(data[start + size + 8 : start + size + 8 + json_size])
    return data[start : start + size], _json(text)


def _json(text: bytes) -> dict[str, Any]:
    from ..files.json_text import parse_json

    words = text.decode("utf-8", "replace").rstrip("\0 \n")
    if text and not words:
        raise ModelInvalid(
            f"damaged file: its JSON part of {len(text)} bytes is empty, as after a loss of power; copy it again"
        )
    try:
        value = parse_json(words or "{}")
    except ValueError as error:
        raise ModelInvalid(f"damaged file: its JSON part cannot be read ({type(error).__name__})") from None
    return value if isinstance(value, dict) else {}
