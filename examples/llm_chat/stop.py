#!/usr/bin/env python3
"""Stopping an answer: by leaving the loop, from a callback, and from another thread."""

from __future__ import annotations

import signal
import threading
from typing import Any

from opening import chat

from rknn3lite.api import LLMCallState, RKLLMCallback

ENDLESS = {"ignore_eos_token": True, "max_new_tokens": 10**9}  # the model would go on for ever


class Counter:
    """A result callback that ends the run after some tokens, or lets it go on."""

    def __init__(self) -> None:
        self.most = 10**9
        self.stop: Any = None
        self.begin()

    def begin(self) -> None:
        """Another run."""
        self.seen, self.began, self.state = 0, threading.Event(), None

    def __call__(self, userdata: Any, result: Any, state: int) -> int:
        self.seen += state == 0
        self.began.set()
        self.state = LLMCallState(state)
        if self.seen == self.most:
            self.stop()
        return 0


def main() -> None:
    counter = Counter()
    callbacks = RKLLMCallback()
    callbacks.result_callback = counter
    with chat(callbacks, **ENDLESS) as rknn:
        for count, piece in enumerate(rknn.stream("What is 1 + 1?")):
            print(piece, end="")
            if count == 20:
                break
        print(f"\nleft the loop: {counter.state.name}")

        counter.begin()
        counter.most, counter.stop = 10, rknn.session_stop
        rknn.session_run(prompt="What is 2 + 2?")
        print(f"from a callback: {counter.state.name} after {counter.seen} tokens")

        counter.begin()
        counter.most = 10**9
        rknn.session_run_async(prompt="What is 3 + 3?")
        counter.began.wait()
        rknn.session_stop()
        rknn.session_wait()
        print(f"from another thread: {counter.state.name} after {counter.seen} tokens")


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # whoever reads our output may have enough of it
    main()
