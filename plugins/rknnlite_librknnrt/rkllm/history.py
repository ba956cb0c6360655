"""What is kept between runs: whether the cache holds a conversation; with tools, its messages."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Optional

from rknnlite_llm.chat_template import parse_tools

from rknnlite.errors import ModelUnsupported, ParamInvalid
from rknnlite.files.json_text import parse_json
from rknnlite.spi.llm import InputKind, MessagesInput

from .inputs import Given

__all__ = ["History"]


class History:
    """Empty at first, and without tools."""

    def __init__(self) -> None:
        self.kept = False
        self._system = ""
        self._tools: list[Any] = []
        self._messages: list[dict[str, Any]] = []

    def offer(self, system: str, tools: str) -> None:
        """Tools from now on: a JSON list; ``system`` replaces the system prompt. Raises ParamInvalid."""
        self._tools, self._system = parse_tools(tools), system

    def clear(self) -> None:
        """Forget the conversation."""
        self.kept, self._messages = False, []

    def message(self, given: Given) -> Optional[MessagesInput]:
        """With tools: the whole conversation with this input at its end; else None."""
        if not self._tools and not self._system:
            return None
        if given.kind is not InputKind.PROMPT:
            raise ModelUnsupported("function tools go with text only")
        if not self.kept and given.role != "tool":
            self._messages = []
        if not self._messages and self._system:
            self._messages.append({"role": "system", "content": self._system})
        self._messages += _said(given)
        return MessagesInput(self._messages, self._tools or None, given.thinking)

    def ended(self, ids: Sequence[int], spoken: Callable[[Sequence[int]], str], keep: bool) -> None:
        """A run has ended well with these tokens."""
        if self._messages:
            self._messages.append({"role": "assistant", "content": spoken(ids)})
        self.kept = keep


def _said(given: Given) -> list[dict[str, Any]]:
    """One message; of role ``tool`` one for each result of the JSON list."""
    if given.role != "tool":
        return [{"role": "user", "content": given.text}]
    try:
        results = parse_json(given.text)
    except (ValueError, ParamInvalid):
        results = None
    if not isinstance(results, list) or not results:
        return [{"role": "tool", "content": given.text}]
    return [
        {"role": "tool", "content": one if isinstance(one, str) else json.dumps(one, ensure_ascii=False)}
        for one in results
    ]
