"""What a model says, taken apart as it comes: thinking, content, tool calls.

``answer_format`` tells from a chat template how a family of models marks them, ``AnswerParser`` reads an answer in pieces
of any size. Each family's form is in the module that reads it.
"""

from __future__ import annotations

from .answer_grammar import rule_behind_thought, tool_rule
from .answer_parts import AnswerPart, PartKind
from .complete_answer import Answer, ToolCall
from .decoding import answer_decoder, special_token
from .formats import AnswerFormat, answer_format, can_think, ends_in_thought
from .parser import AnswerParser
from .thought_budget import ThoughtBudget

__all__ = [
    "Answer",
    "AnswerFormat",
    "AnswerParser",
    "AnswerPart",
    "PartKind",
    "ThoughtBudget",
    "ToolCall",
    "answer_decoder",
    "answer_format",
    "can_think",
    "ends_in_thought",
    "rule_behind_thought",
    "special_token",
    "tool_rule",
]
