#!/usr/bin/env python3
"""Several turns: what was said before is in the KV cache, only the new turn is prefilled."""

from __future__ import annotations

import signal

from opening import ask, chat


def main() -> None:
    with chat(keep_history=1) as rknn:
        for turn in ("My name is Clara.", "What colour is snow?", "What is my name?"):
            answer = ask(rknn, turn)
            state = rknn.session_query_state()
            print(f"user: {turn}\nassistant: {answer}")
            print(f"    {state.n_prefill_tokens} tokens prefilled, {state.n_total_tokens} in the cache")
        rknn.clear_kvcache()
        print(f"cleared: {rknn.session_query_state().n_total_tokens} in the cache")


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # whoever reads our output may have enough of it
    main()
