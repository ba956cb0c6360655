"""The items of an answer as they grow, and the events by which a stream tells of them."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Any, Optional

from rknnlite_llm.answers import AnswerPart, PartKind

from ..generation import Ended, Piece
from ..tool_choice import call_id
from .input_items import Item

__all__ = ["Event", "OutputItems"]

Event = tuple[str, dict[str, Any]]
"""Its name and fields; numbers are given where it is sent."""


@dataclass(frozen=True)
class _Text:
    """A kind of item that holds one text: where it stands, and the names of what is told of it."""

    item: str
    id: str
    place: str
    part: str
    part_event: str
    text_event: str
    index: str


_SAID = _Text(
    "message",
    "msg",
    "content",
    "output_text",
    "response.content_part",
    "response.output_text",
    "content_index",
)
_THOUGHT = _Text(
    "reasoning",
    "rs",
    "content",
    "reasoning_text",
    "response.content_part",
    "response.reasoning_text",
    "content_index",
)
_SUMMARY = _Text(
    "reasoning",
    "rs",
    "summary",
    "summary_text",
    "response.reasoning_summary_part",
    "response.reasoning_summary_text",
    "summary_index",
)
_ARGUMENTS = "response.function_call_arguments"


@dataclass
class OutputItems:
    """What an answer consists of so far. ``summary``: thoughts are told as summaries, which some clients ask for."""

    summary: bool = False
    items: list[Item] = field(default_factory=list)
    reasoning_tokens: int = 0
    _open: Optional[_Text] = None  # how the last item is told, while more may come; None for calls
    _growing: bool = False
    _uncounted: int = 0
    _logprobs: list[Any] = field(default_factory=list)

    def add(self, found: list[AnswerPart], source: object, logprobs: list[Any]) -> list[Event]:
        """Take parts in, ``source`` is what they came from."""
        if isinstance(source, Piece):
            self._uncounted += len(source.tokens)
        self._logprobs += logprobs
        if found:  # what waited for a decision belongs to what it became
            self.reasoning_tokens += self._uncounted if found[0].kind is PartKind.REASONING else 0
            self._uncounted = 0
        events = [event for part in found for event in self._add(part)]
        if isinstance(source, Ended):
            events += self._end("incomplete" if source.reason == "length" else "completed")
        return events

    def _add(self, part: AnswerPart) -> list[Event]:
        if part.kind is PartKind.CALL:
            return [*self.close(), *self._call(part.text)]
        if part.kind is PartKind.ARGUMENTS:
            self.items[-1]["arguments"] += part.text
            return [(f"{_ARGUMENTS}.delta", {**self._place, "delta": part.text})]
        thought = _SUMMARY if self.summary else _THOUGHT
        form = thought if part.kind is PartKind.REASONING else _SAID
        begun = [] if self._growing and self._open is form else [*self.close(), *self._begin(form)]
        held = self.items[-1][form.place][0]
        held["text"] += part.text
        told = {**self._place, form.index: 0, "delta": part.text}
        if form is _SAID:
            told["logprobs"], self._logprobs = self._logprobs, []
            held["logprobs"] += told["logprobs"]
        return [*begun, (f"{form.text_event}.delta", told)]

    @property
    def _place(self) -> dict[str, Any]:
        return {"item_id": self.items[-1]["id"], "output_index": len(self.items) - 1}

    def _begin(self, form: _Text) -> list[Event]:
        item: Item = {"id": _id(form.id), "type": form.item, "status": "in_progress"}
        item.update({"role": "assistant"} if form is _SAID else {"summary": [], "encrypted_content": None})
        item["content"] = []
        self.items.append(item)
        self._open, self._growing, self._logprobs = form, True, self._logprobs if form is _SAID else []
        part: Item = {"type": form.part, "text": ""}
        empty = {**part, "annotations": [], "logprobs": []} if form is _SAID else part
        added = ("response.output_item.added", {"output_index": len(self.items) - 1, "item": _copy(item)})
        item[form.place].append({**empty, "logprobs": []} if form is _SAID else dict(empty))
        return [added, (f"{form.part_event}.added", {**self._place, form.index: 0, "part": empty})]

    def _call(self, name: str) -> list[Event]:
        item = {"id": _id("fc"), "type": "function_call", "status": "in_progress"}
        self.items.append({**item, "call_id": call_id(), "name": name, "arguments": ""})
        self._open, self._growing = None, True
        return [
            (
                "response.output_item.added",
                {"output_index": len(self.items) - 1, "item": dict(self.items[-1])},
            )
        ]

    def close(self, status: str = "completed") -> list[Event]:
        """The last item is complete."""
        if not self._growing:
            return []
        item, form = self.items[-1], self._open
        item["status"], self._growing = status, False
        if form is None:
            told = {"name": item["name"], "arguments": item["arguments"]}
            events: list[Event] = [(f"{_ARGUMENTS}.done", {**self._place, **told})]
        else:
            part = item[form.place][0]
            told = {"text": part["text"], **({"logprobs": part["logprobs"]} if form is _SAID else {})}
            events = [
                (f"{form.text_event}.done", {**self._place, form.index: 0, **told}),
                (f"{form.part_event}.done", {**self._place, form.index: 0, "part": part}),
            ]
        return [
            *events,
            ("response.output_item.done", {"output_index": len(self.items) - 1, "item": item}),
        ]

    def _end(self, status: str) -> list[Event]:
        """An answer without a word is an empty message: clients look for one."""
        begun = [] if self.items else self._begin(_SAID)
        return [*begun, *self.close(status)]


def _copy(item: Item) -> Item:
    return {name: list(value) if isinstance(value, list) else value for name, value in item.items()}


def _id(name: str) -> str:
    return f"{name}_{secrets.token_hex(16)}"
