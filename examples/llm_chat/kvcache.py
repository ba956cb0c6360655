#!/usr/bin/env python3
"""Saving and loading the KV cache: a conversation goes on without prefilling it again."""

from __future__ import annotations

import signal
import tempfile
from pathlib import Path

from opening import ask, chat


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "conversation.kv"
        with chat() as rknn:
            print("assistant:", ask(rknn, "I am Oscar."))
            if rknn.save_kvcache(path) != 0:
                raise SystemExit("the cache cannot be written")
        print(f"saved: {path.stat().st_size} bytes")
        with chat(keep_history=1) as rknn:  # this could be another process, on another day
            if rknn.load_kvcache(path) != 0:
                raise SystemExit("the cache cannot be read")
            print("assistant:", ask(rknn, "Who am I?"))


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # whoever reads our output may have enough of it
    main()
