"""Taking an answer apart as it comes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Union

from . import gemma, tags
from .answer_parts import AnswerPart, NoCall, PartKind, Parts
from .formats import THINK, AnswerFormat
from .harmony import channels
from .incremental_text import IncrementalText, Reading, first_of
from .offered_tools import OfferedTools

__all__ = ["AnswerParser"]

Read = Callable[[IncrementalText, Parts, OfferedTools], Reading[None]]
_READERS: dict[str, Read] = {
    "<tool_call>": tags.tool_call,
    "<function=": tags.function_tag,
    "<|tool_call|>": tags.listed_calls,
    "<tool_calls>": tags.listed_calls,
    "[TOOL_CALLS]": tags.mistral_calls,
    "<|python_tag|>": tags.python_tag,
    "```tool_code": gemma.tool_code,
    "```json": gemma.fenced_json,
    "{": gemma.bare_object,
    "[": gemma.bare_list,
    "<start_function_call>": gemma.braces("<start_function_call>", "<escape>", "<end_function_call>"),
    "<|tool_call>": gemma.braces("<|tool_call>", '<|"|>', "<tool_call|>"),
}
"""What a call begins with -> who reads it; everything else is DeepSeek's."""


class AnswerParser:
    """Takes text in pieces of any size; how it was cut changes nothing.

    What looks like a call and is none stays content, its markers included. Arguments are the model's own text where it
    wrote JSON: complete JSON unless the answer ends in the middle or the model breaks it after the call has begun. Blanks
    beside calls and thoughts are left out, as templates write them by themselves.
    """

    def __init__(
        self, form: AnswerFormat, tools: Union[bool, Sequence[Mapping[str, Any]]], thinking: bool = False
    ) -> None:
        """``tools``: calls are looked for; as OpenAI's list of tools, they tell types of arguments and, where a form
        has no markers, which names are functions. ``thinking``: the prompt ends inside of a thought."""
        self._source, self._parts = IncrementalText(), Parts()
        self._offered = OfferedTools(() if isinstance(tools, bool) else tools)
        self._openings = form.openings if tools else ()
        self._bare = form.bare if tools else ()
        self._thoughts = dict(form.thoughts or (THINK,))
        self._run = (
            channels(self._source, self._parts, bool(tools), thinking)
            if form.name == "harmony"
            else self._answer(thinking)
        )

    def push(self, text: str) -> list[AnswerPart]:
        """The parts that are certain by now."""
        self._source.data += text
        next(self._run, None)
        return self._parts.take()

    def finish(self) -> list[AnswerPart]:
        """What waited for more."""
        self._source.ended = True
        for _ in self._run:
            pass
        self._parts.flush()
        return self._parts.take()

    def _answer(self, thinking: bool) -> Reading[None]:
        if thinking:
            yield from self._thought(*self._thoughts.values())
        while True:
            marker = yield from self._content()
            if not marker:
                return
            start = self._source.at
            self._source.at += len(marker)
            if marker in self._thoughts:
                yield from self._thought(self._thoughts[marker])
                continue
            try:
                yield from _READERS.get(marker, tags.deepseek_calls)(self._source, self._parts, self._offered)
                self._parts.section()
            except NoCall:
                self._source.at = start + len(marker)
                self._parts.say(marker)

    def _thought(self, *closings: str) -> Reading[None]:
        """Text up to the end of a thought; a thought that is not ended goes on to the end of the answer."""
        self._parts.section()
        marker = yield from self._source.each_before(self._think, *closings)
        if not marker:
            self._parts.flush(PartKind.REASONING)
        self._source.at += len(marker)
        self._parts.section()

    def _think(self, text: str) -> None:
        self._parts.say(text, PartKind.REASONING)

    def _content(self) -> Reading[str]:
        """Say content up to the next marker, which is not taken; empty at the end."""
        source, parts = self._source, self._parts
        while True:
            at_start = (*self._thoughts, *self._bare) if parts.fresh else ()
            markers = (*self._openings, *at_start)
            place = (_NOT_BLANK if parts.fresh else first_of(markers)).search(source.data, source.at)
            end = place.start() if place else len(source.data)
            parts.say(source.data[source.at : end])
            source.data, source.at = source.data[end:], 0
            if place:
                marker = yield from source.found(*markers)
                if marker:
                    return marker
                parts.say(source.data[0])
                source.at = 1
            elif source.ended:
                return ""
            else:
                yield


_NOT_BLANK = re.compile(r"[^ \t\r\n]")  # where nothing was said yet, the first word decides
