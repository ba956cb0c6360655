#!/usr/bin/env python3
"""Several turns: what was said before is in the KV cache, only the new turn is prefilled."""

from __future__ import annotations

from pathlib import Path

from rknnlite.llm import Chat

MODEL = Path(__file__).resolve().parent / "models" / "tiny"


def main() -> None:
    with Chat(MODEL) as chat:
        for turn in ("My name is Clara.", "What colour is snow?", "What is my name?"):
            answer = chat.ask(turn)
            held = chat.session.state().n_total_tokens
            print(
                f"user: {turn}\nassistant: {answer}   [{chat.last.n_prefill_tokens} prefilled, {held} in the cache]"
            )
        chat.session.clear_kvcache()
        print(f"cleared: {chat.session.state().n_total_tokens} in the cache")


if __name__ == "__main__":
    main()
