#!/usr/bin/env python3
"""Ask held-out questions and count right answers: ``python score.py [COUNT] [PREFIX]``."""

from __future__ import annotations

import json
import signal
import sys
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from questions import TOOLS, Question, questions
from rknnlite_llm import Chat

from rknnlite.errors import BackendUnavailable

MODEL = Path(__file__).resolve().parent / "models" / "tiny"


def answer(chat: Chat, question: Question) -> str:
    """The model's answer to the last turn; earlier turns are had with the model too."""
    chat.session.clear_kvcache()
    chat.session.set_function_tools(json.dumps(TOOLS) if question.tools else "")
    said = ""
    for message in question.messages[:-1]:
        if message["role"] != "assistant":
            said = chat.ask(message["content"], max_new_tokens=64, role=message["role"])
    return said


def well_formed(said: str) -> bool:
    """Whether an answer is one tool call with JSON in it."""
    try:
        call = json.loads(said[len("<tool_call>\n") : -len("\n</tool_call>")])
    except ValueError:
        return False
    return said.startswith("<tool_call>\n") and isinstance(call.get("arguments"), dict) and "name" in call


def score(
    chat: Chat, asked: Iterable[Question]
) -> tuple[Counter[str], Counter[str], list[tuple[str, str, str]]]:
    """Right and asked per kind (``json``: tool calls that are well formed), and the wrong ones."""
    right: Counter[str] = Counter()
    total: Counter[str] = Counter()
    wrong = []
    for question in asked:
        said = answer(chat, question)
        total[question.kind] += 1
        right[question.kind] += said == question.answer
        if question.kind == "tool":
            total["json"] += 1
            right["json"] += well_formed(said)
        if said != question.answer:
            wrong.append((question.messages[-2]["content"], said, question.answer))
    return right, total, wrong


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    try:
        with Chat(sys.argv[2] if len(sys.argv) > 2 else MODEL) as chat:
            right, total, wrong = score(chat, islice(questions(3, True), count))
    except BackendUnavailable as error:  # no jinja2
        sys.exit(str(error))
    for kind in sorted(total):
        print(f"{kind:12s} {right[kind]:5d} of {total[kind]:5d}  {100 * right[kind] / total[kind]:5.1f} %")
    asked = sum(total.values()) - total["json"]
    print(f"{'all':12s} {sum(right.values()) - right['json']:5d} of {asked:5d}")
    for question, said, wanted in wrong[:10]:
        print(f"  {question!r}: {said!r}, not {wanted!r}")


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # whoever reads our output may have enough of it
    main()
