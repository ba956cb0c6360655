"""Resident memory over many inferences with the garbage collector off.

    python benchmarks/leak.py [MODEL.rknn] [--count 20000] [--face | --cycles | --llm]

The figure must stay flat: whatever grows is kept by a reference cycle or a buffer that nobody frees. With
``--face`` it goes through RKNNLite, which loads, initialises and releases anew every 1,000 inferences; with
``--cycles`` it does so for every inference. ``--llm`` counts cycles of a language model: tokenizer, session, one
token; MODEL is then the prefix of a package, and the collector stays on, for the circles of the package jinja2.

Blocks of Python's allocator are counted, too, both times after two caches of the interpreter have been emptied, which have a fixed size and fill over the first thousands of cycles: the free lists
(up to 2,000 tuples of each length; a look of the collector, which must find nothing, empties them) and the cache of
attributes (4,096 names; numpy makes a new one whenever it sets a flag).
"""

from __future__ import annotations

import argparse
import gc
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil

import rknnlite

ROOT = Path(__file__).resolve().parent.parent
MODEL = ROOT / "tests/data/mobilenetv2_like.rk3588.i8.rknn"
PACKAGE = ROOT / "examples/llm_chat/models/tiny"
WARM_UP = 500
ALLOWED = 1 << 20  # bytes; the allocator itself moves by some pages
ATTEMPTS = 3  # the allocator takes a heap of a megabyte once in a while; what leaks grows every time
ALLOWED_BLOCKS = 100  # in all, not in every cycle: counters that become objects, say


def native(model: Path) -> tuple[Callable[[], object], Callable[[], object]]:
    """(one inference, start over) through rknnlite.open."""
    state: dict[str, Any] = {}

    def start() -> None:
        if state:
            state["context"].close()
        state["context"] = rknnlite.open(model, backend="cpu")
        state["inputs"] = [np.zeros(attr.dims, np.uint8) for attr in state["context"].inputs]

    start()
    return (lambda: state["context"].infer(state["inputs"])), start


def face(model: Path) -> tuple[Callable[[], object], Callable[[], object]]:
    """(one inference, start over) through RKNNLite."""
    from rknnlite.api import RKNNLite

    logging.getLogger("rknnlite").setLevel(logging.CRITICAL)
    rknn = RKNNLite()
    with rknnlite.open(model, backend="cpu") as context:
        inputs = [np.zeros(attr.dims, np.uint8) for attr in context.inputs]

    def start() -> None:
        rknn.release()
        if rknn.load_rknn(str(model)) != 0 or rknn.init_runtime() != 0:
            raise SystemExit("the model could not be opened")

    def infer() -> None:
        if rknn.inference(inputs=inputs) is None:
            raise SystemExit("an inference failed")

    start()
    return infer, start


def language_model(prefix: Path) -> tuple[Callable[[], object], Callable[[], object]]:
    """(one cycle, nothing to start over): everything of a chat is made anew for one token."""
    from rknnlite_llm import Chat

    logging.getLogger("rknnlite").setLevel(logging.CRITICAL)

    def cycle() -> None:
        with Chat(prefix, backend="cpu") as chat:
            chat.ask("What is 2 + 3?", max_new_tokens=1)

    return cycle, lambda: None


def empty_caches() -> int:
    """Of the interpreter; returns how many objects the collector has found."""
    clear: Callable[[], None] = getattr(sys, "_clear_internal_caches", None) or sys._clear_type_cache
    clear()
    return gc.collect()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path, nargs="?")
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--face", action="store_true")
    parser.add_argument("--cycles", action="store_true")
    parser.add_argument("--llm", action="store_true")
    parser.add_argument("--warm-up", type=int, default=WARM_UP)
    args = parser.parse_args()
    if not args.llm:  # the package jinja2 ties its environments in circles
        gc.disable()
    model = args.model or (PACKAGE if args.llm else MODEL)
    infer, start = (language_model if args.llm else face if args.face or args.cycles else native)(model)
    every = 1 if args.cycles else 1000 if args.face else args.count + args.warm_up + 1
    process = psutil.Process()

    def rounds(count: int) -> None:
        for i in range(count):
            infer()
            if (i + 1) % every == 0:
                start()

    rounds(args.warm_up)
    what = "inferences"
    if args.cycles or args.llm:
        what = "cycles of tokenizer, session, one token" if args.llm else "cycles of init, inference, release"
    for attempt in range(ATTEMPTS):
        empty_caches()
        before, blocks = process.memory_info().rss, sys.getallocatedblocks()
        rounds(args.count)
        after, found = process.memory_info().rss, empty_caches()
        grown, more = after - before, sys.getallocatedblocks() - blocks
        print(
            f"{args.count} {what} of {model.name}, garbage collector {'on' if args.llm else 'off'}: "
            f"it would have found {found} objects; {more:+d} blocks"
        )
        leaks = more > ALLOWED_BLOCKS or (found > 0 and not args.llm)
        flat = grown <= ALLOWED and not leaks
        again = not flat and not leaks and attempt + 1 < ATTEMPTS
        verdict = "flat" if flat else "once more" if again else "GROWS"
        print(
            f"resident set {before / 1e6:.1f} MB before, {after / 1e6:.1f} MB after: {grown / 1e3:+.0f} kB, {verdict}"
        )
        if not again:
            break
    sys.exit(0 if flat else 1)


if __name__ == "__main__":
    main()
