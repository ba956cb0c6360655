#!/usr/bin/env python3
"""Saving and loading the KV cache: a conversation goes on without prefilling it again."""

from __future__ import annotations

import tempfile
from pathlib import Path

from rknnlite.llm import Chat

MODEL = Path(__file__).resolve().parent / "models" / "tiny"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "conversation.kv"
        with Chat(MODEL) as chat:
            print("assistant:", chat.ask("I am Oscar."))
            chat.session.save_kvcache(str(path))
        print(f"saved: {path.stat().st_size} bytes")
        with Chat(MODEL) as chat:  # this could be another process, on another day
            chat.session.load_kvcache(str(path))
            print("assistant:", chat.ask("Who am I?"))


if __name__ == "__main__":
    main()
