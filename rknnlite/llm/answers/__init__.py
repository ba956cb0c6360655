"""What a model says, taken apart as it comes: thinking, content, tool calls.

``answer_form`` tells from a chat template how a family of models marks them, ``AnswerParser`` reads an answer in pieces
of any size. Each family's form is in the module that reads it.
"""

from __future__ import annotations

from .forms import AnswerForm, answer_form
from .parser import AnswerParser
from .parts import AnswerPart, PartKind

__all__ = ["AnswerForm", "AnswerParser", "AnswerPart", "PartKind", "answer_form"]
