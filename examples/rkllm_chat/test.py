#!/usr/bin/env python3
"""Chat with a language model on the NPU of an RK3588, RK3576, RK3562 or RV1126B: answers appear as they are made.

python test.py                              the one model in this folder, a few questions
python test.py Qwen3-0.6B.rkllm             that model
python test.py Qwen3-0.6B.rkllm "Why?" ...  your own questions, one conversation
python test.py Qwen3-0.6B.rkllm -           questions from the keyboard
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

from rknnlite_llm import Chat

from rknnlite.errors import RknnError

HERE = Path(__file__).resolve().parent
QUESTIONS = ["What is an NPU, in one sentence?", "And what is it good for?"]


def the_model(given: list[str]) -> Path:
    """The model that is named, else the one that lies here."""
    if given:
        return Path(given[0])
    found = sorted(HERE.glob("*.rkllm"))
    if len(found) != 1:
        raise SystemExit(f"{len(found)} .rkllm files in {HERE}; name one: python test.py MODEL.rkllm")
    return found[0]


def questions(given: list[str]) -> Iterator[str]:
    """Those that are given, those of the keyboard, or ours."""
    if given == ["-"]:
        print("questions, one per line; Ctrl-D ends")
        yield from (line.strip() for line in sys.stdin if line.strip())
    else:
        yield from given or QUESTIONS


def talk(chat: Chat, asked: Iterator[str]) -> None:
    """Print every answer while it is made, and how fast that was."""
    for question in asked:
        print(f"\n> {question}")
        for piece in chat.stream(question, max_new_tokens=512):
            print(piece, end="", flush=True)
        last = chat.last
        if last is not None:
            waited, speed = (
                last.first_token - last.start,
                last.n_decode_tokens / max(last.end - last.first_token, 1e-9),
            )
            print(f"\n[{last.state.name}: {last.n_prefill_tokens} tokens in, first after {waited * 1000:.0f} ms, "
                  f"{last.n_decode_tokens} out at {speed:.1f} per second]")  # fmt: skip


def main() -> int:
    """Open the model and talk; 1 with a reason where that cannot be."""
    try:
        with Chat(the_model(sys.argv[1:]), backend="rkllm") as chat:
            versions = chat.context.versions
            print(
                f"librkllmrt {versions.api}, NPU driver {versions.driver}, {chat.context.config.max_ctx_len} tokens of context"
            )
            talk(chat, questions(sys.argv[2:]))
    except RknnError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # whoever reads our output may have enough of it
    raise SystemExit(main())
