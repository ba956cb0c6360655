"""What a model says, taken apart as it comes: thinking, content, tool calls."""

from __future__ import annotations

import enum
from dataclasses import dataclass

__all__ = ["AnswerForm", "AnswerParser", "AnswerPart", "PartKind", "answer_form"]


class PartKind(enum.Enum):
    """What a piece of an answer is. A call begins with its name; pieces of its arguments follow, JSON text."""

    REASONING = "reasoning"
    CONTENT = "content"
    CALL = "call"
    ARGUMENTS = "arguments"


@dataclass(frozen=True)
class AnswerPart:
    """A piece of an answer; ``call`` counts the tool calls from 0."""

    kind: PartKind
    text: str
    call: int = -1


@dataclass(frozen=True)
class AnswerForm:
    """How a family of models marks thinking and tool calls. ``special``: markers are special tokens."""

    name: str
    special: bool = False


def answer_form(template: str) -> AnswerForm:
    """The form that goes with a chat template."""
    return AnswerForm("hermes")


class AnswerParser:
    """Takes text in pieces of any size."""

    def __init__(self, form: AnswerForm, tools: bool, thinking: bool = False) -> None:
        """``tools``: calls are looked for; ``thinking``: the prompt ends inside of a thought."""
        self._form = form

    def push(self, text: str) -> list[AnswerPart]:
        """The parts that are certain by now."""
        return [AnswerPart(PartKind.CONTENT, text)] if text else []

    def finish(self) -> list[AnswerPart]:
        """What waited for more."""
        return []
