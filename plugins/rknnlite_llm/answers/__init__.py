"""What a model says, taken apart as it comes: thinking, content, tool calls.

``answer_form`` tells from a chat template how a family of models marks them, ``AnswerParser`` reads an answer in pieces
of any size. Each family's form is in the module that reads it.
"""

from __future__ import annotations

from .complete import Answer, ToolCall
from .decoding import answer_decoder, special_token
from .forms import AnswerForm, answer_form, can_think, ends_in_thought
from .parser import AnswerParser
from .parts import AnswerPart, PartKind
from .rules import rule_behind_thought, tool_rule

__all__ = [
    "Answer", "AnswerForm", "AnswerParser", "AnswerPart", "PartKind", "ToolCall", "answer_decoder", "answer_form", "can_think",
    "ends_in_thought", "rule_behind_thought", "special_token", "tool_rule",
]  # fmt: skip
