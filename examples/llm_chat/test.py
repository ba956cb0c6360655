#!/usr/bin/env python3
"""Chat with a small language model: answers appear as they are made, then a table of times.

python test.py                     a few questions
python test.py "What is 47 + 38?"  your own
python test.py -                   questions from the keyboard
"""

from __future__ import annotations

import ctypes
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rknnlite_llm import Tokenizer
from rknnlite_llm.streaming import TextPieces

from rknn3lite.api import (
    LLMGetEmbedCallback,
    LLMResultCallback,
    LLMTokenizerCallback,
    RKLLMCallback,
    RKNN3Lite,
)

MODEL = Path(__file__).resolve().parent / "models" / "tiny"
LLM_ARGS = {"logits_name": b"logits", "max_context_len": 1024, "special_eos_id": 2, "max_new_tokens": 64}
QUESTIONS = [
    "What is 47 + 38?",
    "How much is 91 minus 17?",
    "What day comes after Sunday?",
    "How many days does April have?",
    "What do red and blue make?",
]
NORMAL, FINISH = 0, 2


class Printer:
    """The callbacks of a session: tokens from text, embeddings of tokens, and printing what comes back."""

    def __init__(self) -> None:
        self._tokenizer = Tokenizer(f"{MODEL}.tokenizer.gguf")
        self._table = np.fromfile(f"{MODEL}.embed.bin", np.float16).reshape(len(self._tokenizer), -1)
        self.begin()

    def begin(self) -> None:
        """Another run."""
        self._text = TextPieces(self._tokenizer.decode)
        self.first_token = 0.0

    def tokenize(self, userdata: Any, text: bytes, length: int, tokens: Any, most: int) -> int:
        """Write the token ids of a text; their number."""
        ids = self._tokenizer.encode(text.decode("utf-8"))
        if len(ids) > most:
            return -1
        for place, number in enumerate(ids):
            tokens[place] = number
        return len(ids)

    def embed(self, userdata: Any, tokens: Any, count: int, target: int, size: int) -> int:
        """Write the float16 embeddings of some tokens."""
        rows = self._table[tokens[:count]]
        ctypes.memmove(target, rows.ctypes.data, size)
        return 0

    def result(self, userdata: Any, result: Any, state: int) -> int:
        """Print what has come, complete characters only."""
        self.first_token = self.first_token or time.perf_counter()
        ids = result.contents.token_ids[: result.contents.num_tokens] if state == NORMAL else []
        print(self._text.push(ids, last=state >= FINISH), end="", flush=True)
        return 0

    def struct(self) -> RKLLMCallback:
        """What ``init_runtime`` wants; it must live as long as the session."""
        callbacks = RKLLMCallback()
        callbacks.tokenizer_callback = LLMTokenizerCallback(self.tokenize)
        callbacks.embed_callback = LLMGetEmbedCallback(self.embed)
        callbacks.result_callback = LLMResultCallback(self.result)
        return callbacks


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


def table(decoded: int, prefilled: int, start: float, first_token: float, end: float) -> str:
    """Tokens and times of the two stages of a run."""
    stages = [("Prefill", prefilled, first_token - start), ("Generate", decoded, end - first_token)]
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


def main() -> int:
    given = sys.argv[1:]
    printer = Printer()
    callbacks = printer.struct()
    rknn = RKNN3Lite(llm_mode=True)
    if rknn.load_rknn(f"{MODEL}.rknn", f"{MODEL}.weight") != 0:
        return 1
    if rknn.init_runtime("rk1820", core_mask=0xFF, llm_args=[LLM_ARGS], llm_callback=callbacks) != 0:
        return 1
    for question in keyboard() if given == ["-"] else given or QUESTIONS:
        if given != ["-"]:
            print(f"user: {question}")
        print("assistant: ", end="")
        printer.begin()
        code, figures = rknn.session_run(prompt=question)
        if code != 0:
            return 1
        decoded, prefilled, start, end = figures
        print(f"\n{table(decoded, prefilled, start, printer.first_token, end)}")
    rknn.release()
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # whoever reads our output may have enough of it
    sys.exit(main())
