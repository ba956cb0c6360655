"""An answer as a whole, for programs that do not follow it piece by piece."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rknnlite.files.json_text import parse_json

from .answer_parts import AnswerPart, PartKind

__all__ = ["Answer", "ToolCall"]


@dataclass
class ToolCall:
    """A function that the model wants called. ``text``: the arguments as the model wrote them, JSON."""

    name: str
    text: str = ""

    @property
    def arguments(self) -> Any:
        """The arguments, an object; raises ValueError when the answer ended in the middle of them."""
        return parse_json(self.text)

    def __str__(self) -> str:
        """As one would write it in a program."""
        try:
            given = self.arguments
        except ValueError:
            given = None
        if not isinstance(given, Mapping):
            return f"{self.name}({self.text})"
        return f"{self.name}({', '.join(f'{key}={value!r}' for key, value in given.items())})"


@dataclass
class Answer:
    """What a model said: its thoughts, its words, its calls in order."""

    content: str = ""
    reasoning: str = ""
    calls: list[ToolCall] = field(default_factory=list)

    @classmethod
    def of(cls, parts: Iterable[AnswerPart]) -> Answer:
        """An answer put together from its parts."""
        answer = cls()
        for part in parts:
            answer.add(part)
        return answer

    def add(self, part: AnswerPart) -> None:
        """Take a part in."""
        if part.kind is PartKind.CONTENT:
            self.content += part.text
        elif part.kind is PartKind.REASONING:
            self.reasoning += part.text
        elif part.kind is PartKind.CALL:
            self.calls.append(ToolCall(part.text))
        else:
            self.calls[part.call].text += part.text

    @property
    def message(self) -> dict[str, Any]:
        """The answer as a message, with which the conversation goes on."""
        message: dict[str, Any] = {"role": "assistant", "content": self.content}
        if self.reasoning:
            message["reasoning_content"] = self.reasoning
        if self.calls:
            message["tool_calls"] = [
                {
                    "id": f"call_{n}",
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.text},
                }
                for n, call in enumerate(self.calls)
            ]
        return message
