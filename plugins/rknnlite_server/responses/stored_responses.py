"""Responses that a conversation may go on from, in bounded memory."""

from __future__ import annotations

import json
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Optional

from rknnlite.files.json_text import parse_json

from .input_items import Item

__all__ = ["StoredResponse", "StoredResponses"]


@dataclass(frozen=True)
class StoredResponse:
    """``response`` as its client got it; ``input``: all items before its output, those of earlier responses too.
    ``new`` items are this response's own, its output among them."""

    owner: str
    response: dict[str, Any]
    input: tuple[Item, ...]
    new: tuple[Item, ...]

    @property
    def items(self) -> tuple[Item, ...]:
        """The conversation up to the end of the answer."""
        return (*self.input, *self.response["output"])


@dataclass(frozen=True)
class _Kept:
    """A response as JSON, which takes a tenth of what Python makes of it: itself, what was before it, and its own items.

    Each is nested no deeper than the request that it came from. ``items`` are the ids of its own ones.
    """

    owner: str
    parts: tuple[bytes, bytes, bytes]
    items: tuple[str, ...]

    @classmethod
    def of(cls, stored: StoredResponse) -> _Kept:
        """What is kept of a response."""
        response, given, new = map(_json, (stored.response, stored.input, stored.new))
        return cls(stored.owner, (response, given, new), tuple(item["id"] for item in stored.new))

    @property
    def stored(self) -> StoredResponse:
        """The response again."""
        response, given, new = map(parse_json, self.parts)
        return StoredResponse(self.owner, response, tuple(given), tuple(new))

    @property
    def size(self) -> int:
        """In bytes."""
        return sum(map(len, self.parts)) + sum(map(len, self.items))


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


class StoredResponses:
    """The least recently used ones leave. Owners, who are told by their keys, do not see what is not their own."""

    def __init__(self, limit: int) -> None:
        """``limit`` in bytes of JSON; 0 keeps nothing. Items that responses share count for each of them."""
        self._limit, self._used = limit, 0
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._holders: dict[tuple[str, str], str] = {}  # of owner and item: the last response that has it

    def put(self, stored: StoredResponse) -> bool:
        """Keep a response as long as there is room; False where it is larger than all of that."""
        name, kept = stored.response["id"], _Kept.of(stored)
        if kept.size > self._limit:
            return False
        self._kept[name] = kept
        self._holders.update({(stored.owner, item): name for item in kept.items})
        self._used += kept.size
        while self._used > self._limit:
            self._drop(next(iter(self._kept)))
        return True

    def get(self, owner: str, name: str) -> Optional[StoredResponse]:
        """The response of that id; None for one that is not there, or somebody else's."""
        kept = self._kept.get(name)
        if kept is None or kept.owner != owner:
            return None
        self._kept.move_to_end(name)
        return kept.stored

    def item(self, owner: str, name: str) -> Optional[Item]:
        """The item of that id, of any response that is kept."""
        holder = self._holders.get((owner, name))
        if holder is None:
            return None
        return next(item for item in self._kept[holder].stored.new if item["id"] == name)

    def delete(self, owner: str, name: str) -> bool:
        """Forget a response; those that go on from it keep what was said. Whether there was one."""
        kept = self._kept.get(name)
        if kept is None or kept.owner != owner:
            return False
        self._drop(name)
        return True

    def _drop(self, name: str) -> None:
        kept = self._kept.pop(name)
        self._used -= kept.size
        for item in kept.items:
            if self._holders.get((kept.owner, item)) == name:
                del self._holders[kept.owner, item]
