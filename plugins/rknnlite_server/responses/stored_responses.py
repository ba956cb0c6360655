"""Responses that a conversation may go on from, in bounded memory."""

from __future__ import annotations

import json
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Optional

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


class StoredResponses:
    """The least recently used ones leave. Owners, who are told by their keys, do not see what is not their own."""

    def __init__(self, limit: int) -> None:
        """``limit`` in bytes of JSON; 0 keeps nothing. Items that responses share count for each of them."""
        self._limit, self._used = limit, 0
        self._kept: OrderedDict[str, tuple[StoredResponse, int]] = OrderedDict()
        self._items: dict[tuple[str, str], tuple[str, Item]] = {}  # of owner and id: last response, and item

    def put(self, stored: StoredResponse) -> bool:
        """Keep a response as long as there is room; False where it is larger than all of that."""
        size = len(json.dumps([stored.response, stored.input]))
        if size > self._limit:
            return False
        self._kept[stored.response["id"]] = stored, size
        self._items.update({(stored.owner, item["id"]): (stored.response["id"], item) for item in stored.new})
        self._used += size
        while self._used > self._limit:
            self._drop(next(iter(self._kept)))
        return True

    def get(self, owner: str, name: str) -> Optional[StoredResponse]:
        """The response of that id; None for one that is not there, or somebody else's."""
        stored, _ = self._kept.get(name, (None, 0))
        if stored is None or stored.owner != owner:
            return None
        self._kept.move_to_end(name)
        return stored

    def item(self, owner: str, name: str) -> Optional[Item]:
        """The item of that id, of any response that is kept."""
        _, item = self._items.get((owner, name), ("", None))
        return item

    def delete(self, owner: str, name: str) -> bool:
        """Forget a response; those that go on from it keep what was said. Whether there was one."""
        found = self.get(owner, name) is not None
        if found:
            self._drop(name)
        return found

    def _drop(self, name: str) -> None:
        stored, size = self._kept.pop(name)
        self._used -= size
        for item in stored.new:
            key = (stored.owner, item["id"])
            if self._items.get(key, ("", None))[0] == name:
                del self._items[key]
