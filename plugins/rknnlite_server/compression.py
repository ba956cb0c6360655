"""Compressed bodies: those of requests within a bound, those of answers where the client asks for them."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Sequence
from typing import Union

from .errors import ApiError, bad_request

__all__ = ["chosen", "decoded", "encoded"]

_GZIP, _ZLIB, _RAW = 16 + zlib.MAX_WBITS, zlib.MAX_WBITS, -zlib.MAX_WBITS
_WINDOWS = {"gzip": _GZIP, "deflate": _ZLIB}
_QUICK = 1  # of zlib's levels: the network beside is faster than the others
_KNOWN = ", ".join(_WINDOWS)


async def decoded(data: bytes, encoding: str, limit: int) -> bytes:
    """The body behind a ``Content-Encoding``, of at most ``limit`` bytes, which are all that is ever made of it.

    Raises ApiError: 415 for another encoding, 413 for more bytes, 400 for damaged ones.
    """
    word = encoding.strip().lower()
    if word in ("", "identity"):
        return data
    if word not in _WINDOWS:
        raise ApiError(
            415, "invalid_request_error", f"Content-Encoding is {encoding[:80]!r}, known are {_KNOWN}"
        )
    return await asyncio.to_thread(_inflated, data, word, limit)


def chosen(accepted: str) -> str:
    """The encoding of an answer by the client's ``Accept-Encoding``; empty where it is to stay as it is.

    What asks for one encoding and nothing else is a client that means it; browsers and libraries that merely list what
    they could read are better served without, since tensors hardly become smaller.
    """
    word = accepted.strip().lower()
    return word if word in _WINDOWS else ""


async def encoded(parts: Sequence[Union[bytes, memoryview]], encoding: str) -> bytes:
    """The parts of a body as one, compressed where there is an encoding."""
    return await asyncio.to_thread(_deflated, parts, encoding) if encoding else b"".join(parts)


def _inflated(data: bytes, word: str, limit: int) -> bytes:
    found = bytearray()
    window = _WINDOWS[word]
    if word == "deflate" and not _has_header(data):
        window = _RAW  # what some clients understand by deflate
    while True:
        decoder = zlib.decompressobj(window)
        try:
            found += decoder.decompress(data, limit + 1 - len(found))
        except zlib.error as error:
            raise bad_request(f"the body is no {word}: {str(error)[:80]}") from None
        if len(found) > limit:
            raise ApiError(
                413,
                "invalid_request_error",
                f"the body is larger than {limit} bytes once decompressed",
                code="body_too_large",
            )
        if not decoder.eof:
            raise bad_request(f"the body is no complete {word}")
        data = decoder.unused_data  # gzip may have several members
        if data and word != "gzip":
            raise bad_request(f"{len(data)} bytes follow the end of the {word} body")
        if not data:
            return bytes(found)


def _has_header(data: bytes) -> bool:
    """Whether zlib's header is there: deflate as its method, and a checksum of two bytes (RFC 1950)."""
    return len(data) >= 2 and data[0] & 15 == 8 and int.from_bytes(data[:2], "big") % 31 == 0


def _deflated(parts: Sequence[Union[bytes, memoryview]], encoding: str) -> bytes:
    encoder = zlib.compressobj(_QUICK, zlib.DEFLATED, _WINDOWS[encoding])
    return b"".join([*(encoder.compress(part) for part in parts), encoder.flush()])
