#!/usr/bin/env python3
"""Stopping an answer: by leaving the loop, from a callback, and from another thread."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

from rknnlite.llm import Chat
from rknnlite.spi_llm import CallState, InferParams, LlmParams, LlmResult, PromptInput, VocabInfo

MODEL = Path(__file__).resolve().parent / "models" / "tiny"
ENDLESS = LlmParams(vocab=VocabInfo(ignore_eos_token=True))  # the model would go on for ever


def main() -> None:
    with Chat(MODEL, ENDLESS) as chat:
        for count, piece in enumerate(chat.stream("What is 1 + 1?", max_new_tokens=10**9)):
            print(piece, end="")
            if count == 20:
                break
        print("\nleft the loop: the run has ended")

        seen: list[int] = []

        def result(tokens: LlmResult, state: CallState) -> None:
            seen.extend(tokens.token_ids)
            if len(seen) >= 10:
                chat.session.stop()

        chat.session.set_callbacks(replace(chat.session.callbacks, result=result))
        summary = chat.session.run(PromptInput("What is 2 + 2?"))
        print(f"from a callback: {summary.state.name} after {summary.n_decode_tokens} tokens")

        chat.session.set_callbacks(replace(chat.session.callbacks, result=None))
        run = chat.session.run_async(PromptInput("What is 3 + 3?"), InferParams(max_new_tokens=10**9))
        threading.Timer(0.2, chat.session.stop).start()
        summary = run.result()
        print(f"from another thread: {summary.state.name} after {summary.n_decode_tokens} tokens")


if __name__ == "__main__":
    main()
