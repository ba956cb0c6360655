#!/usr/bin/env python3
"""Chat with a small language model: answers appear as they are made, then a table of times.

python test.py                     a few questions
python test.py "What is 47 + 38?"  your own
python test.py -                   questions from the keyboard
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from rknnlite.llm import Chat
from rknnlite.spi_llm import RunSummary

MODEL = Path(__file__).resolve().parent / "models" / "tiny"
QUESTIONS = [
    "What is 47 + 38?",
    "How much is 91 minus 17?",
    "What day comes after Sunday?",
    "How many days does April have?",
    "What do red and blue make?",
]


def keyboard() -> Iterator[str]:
    """Questions until an empty line."""
    while True:
        try:
            question = input("user: ")
        except EOFError:
            return
        if not question.strip():
            return
        yield question


def table(run: RunSummary) -> str:
    """Times of the two stages of a run."""
    stages = [
        ("Prefill", run.n_prefill_tokens, run.first_token - run.start),
        ("Generate", run.n_decode_tokens, run.end - run.first_token),
    ]
    line = "-" * 74
    titles = (
        f"{'Stage':10s}{'Total Time (ms)':>18s}{'Tokens':>9s}{'Time per Token (ms)':>22s}{'Tokens/s':>13s}"
    )
    rows = [line, titles, line]
    for name, tokens, seconds in stages:
        each = 1000 * seconds / max(1, tokens)
        rows.append(
            f"{name:10s}{1000 * seconds:18.2f}{tokens:9d}{each:22.2f}{tokens / max(seconds, 1e-9):13.1f}"
        )
    return "\n".join([*rows, line])


def main() -> None:
    given = sys.argv[1:]
    questions = keyboard() if given == ["-"] else given or QUESTIONS
    with Chat(MODEL) as chat:
        for question in questions:
            if given != ["-"]:
                print(f"user: {question}")
            print("assistant: ", end="")
            for piece in chat.stream(question, max_new_tokens=64):
                print(piece, end="", flush=True)
            print()
            chat.session.clear_kvcache()
        if chat.last is not None:
            print(table(chat.last))


if __name__ == "__main__":
    main()
