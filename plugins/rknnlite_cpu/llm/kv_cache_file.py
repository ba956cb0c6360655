"""Saving and loading a conversation: for the same model and the same version of this program only.

``RKLITKVC``, four bytes CRC-32 of the rest, eight bytes length of a JSON header, the header, then the arrays of
all layers one after another.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rknnlite_llm.package import file_bytes

from rknnlite._version import __version__
from rknnlite.errors import ModelInvalid, ParamInvalid, shown
from rknnlite.files.json_text import parse_json
from rknnlite.files.writing import writing

from .conversation import Conversation

__all__ = ["load", "save"]

Array = NDArray[Any]
_MAGIC = b"RKLITKVC"
_HEAD = struct.Struct("<8sIQ")
_DAMAGE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def save(talk: Conversation, path: str) -> None:
    """Write the file in one go: it is there complete or not at all. Raises ParamInvalid when it cannot be."""
    header = {
        **_identity(talk),
        "total": talk.cache.total,
        "keep": talk.cache.keep,
        "reach": talk.cache.reach,
        "position": talk.cache.position,
    }
    header.update(
        system=talk.system,
        unfed=talk.unfed,
        ended=talk.ended,
        seen=np.flatnonzero(talk.seen).tolist(),
        keys=talk.keys,
    )
    text = json.dumps(header).encode()
    body = b"".join([text, *(array.tobytes() for array in _arrays(talk))])
    try:
        with writing(path) as file:
            file.write(_HEAD.pack(_MAGIC, zlib.crc32(body), len(text)))
            file.write(body)
    except (OSError, ValueError) as error:  # ValueError: a path that no system takes
        error = error if isinstance(error, OSError) else OSError(None, str(error))
        raise ParamInvalid(f"{path}: the KV cache cannot be written: {error.strerror or error}") from None


def load(talk: Conversation, path: str) -> None:
    """Replace the conversation by the one in the file. Raises ModelInvalid, and then nothing has changed."""
    try:
        data = memoryview(file_bytes(path))
    except ModelInvalid as error:
        raise ParamInvalid(f"KV cache {error}") from None
    if len(data) < _HEAD.size or bytes(data[:8]) != _MAGIC:
        raise ModelInvalid(f"{path}: not a KV cache of rknnlite")
    _, crc, length = _HEAD.unpack_from(data)
    body = data[_HEAD.size :]
    if length > len(body) or zlib.crc32(body) != crc:
        raise ModelInvalid(f"{path}: the KV cache is cut or damaged; save it again")
    try:
        _restore(talk, parse_json(bytes(body[:length])), body[length:], path)
    except _DAMAGE as error:
        raise ModelInvalid(f"{path}: the KV cache is damaged: {shown(error)}; save it again") from None


def _identity(talk: Conversation) -> dict[str, Any]:
    """What must be the same when the file is loaded."""
    return {
        "version": __version__,
        "model": talk.model.package_id,
        "kvcache": talk.model.kv.dtype.name,
        "max_context_len": talk.size,
        "loras": [[adapter.name, scale, adapter.digest] for adapter, scale in talk.adapters],
    }


def _restore(talk: Conversation, header: dict[str, Any], data: memoryview, path: str) -> None:
    """Check all there is, then take it over; raises before anything of the conversation has changed."""
    for key, mine in _identity(talk).items():
        if header.get(key, [] if key == "loras" else None) != mine:
            raise ModelInvalid(
                f"{path}: the KV cache has {key} {shown(header.get(key))}, this session {mine!r}"
            )
    keep, total = _checked_counts(talk, header["keep"], header["total"])
    reach = _checked_reach(header.get("reach", 0), talk.size)
    next_position = _checked_position(header.get("position", total))
    system, unfed, seen = (_ids(talk, header[key]) for key in ("system", "unfed", "seen"))
    keys = _keys(header.get("keys", []), total)
    ended = header["ended"] is True
    stores, states = list(talk.cache.layers.values()), talk.cache.states
    places = [store.arrays(min(total, talk.size)) for store in stores]
    running = [] if states is None else states.arrays()
    if sum(array.nbytes for arrays in (*places, running) for array in arrays) != len(data):
        raise ModelInvalid(f"{path}: the KV cache is cut or damaged; save it again")
    position, layers = 0, []
    for arrays in (*places, running):
        layers.append([])
        for array in arrays:
            piece = data[position : position + array.nbytes]
            layers[-1].append(np.frombuffer(piece, array.dtype).reshape(array.shape))
            position += array.nbytes
    for store, pieces in zip(stores, layers):
        store.check(pieces)
    talk.reset()
    talk.cache.keep, talk.cache.total, talk.cache.reach = keep, total, reach
    if next_position != total:
        talk.cache.resume(next_position)
    for arrays, pieces in zip(places, layers):
        for array, values in zip(arrays, pieces):
            array[...] = values
    if states is not None:
        states.load(total, [array.copy() for array in layers[-1]])
    talk.system, talk.unfed, talk.ended = system, unfed, ended
    talk.seen[seen] = True
    talk.keys = keys


def _checked_counts(talk: Conversation, keep: Any, total: Any) -> tuple[int, int]:
    """Tokens kept and tokens in all; raises ValueError when a cache of this size has no such numbers."""
    kept_all = type(keep) is int and keep == talk.size
    if type(total) is not int or not 0 <= total <= (talk.size if kept_all else 1 << 48):
        raise ValueError(f"{shown(total)} tokens in a cache of {talk.size}, {shown(keep)} kept")
    if not kept_all and (
        type(keep) is not int or not 0 <= keep < talk.size or keep % max(1, talk.model.kv.group)
    ):
        raise ValueError(f"{shown(keep)} tokens kept in a cache of {talk.size}")
    return keep, total


def _checked_reach(reach: Any, size: int) -> int:
    """Tokens that rotary embeddings go by, see ``KvCache``; raises ValueError."""
    if type(reach) is not int or not 0 <= reach <= size:
        raise ValueError(f"{shown(reach)} tokens known to come in a cache of {size}")
    return reach


def _checked_position(position: Any) -> int:
    """Where the next token stands, see ``KvCache``; raises ValueError."""
    if type(position) is not int or not 0 <= position <= 1 << 48:
        raise ValueError(f"the next token stands at {shown(position)}")
    return position


def _ids(talk: Conversation, ids: list[int]) -> list[int]:
    if not isinstance(ids, list) or not all(type(i) is int and 0 <= i < len(talk.seen) for i in ids):
        raise ValueError("token ids outside the vocabulary")
    return ids


def _keys(keys: Any, total: int) -> list[int]:
    """What stands at each place, for conversations that go on from there; files without it have none."""
    if not isinstance(keys, list) or not all(type(key) is int for key in keys) or len(keys) not in (0, total):
        raise ValueError("what stands in the cache is not told place by place")
    return keys


def _arrays(talk: Conversation) -> Iterator[Array]:
    used = talk.cache.used
    for store in talk.cache.layers.values():
        yield from store.arrays(used)
    if talk.cache.states is not None:
        yield from talk.cache.states.arrays()
