"""Resident memory over many inferences with the garbage collector off.

    python benchmarks/leak.py [MODEL.rknn] [--count 20000] [--face]

The figure must stay flat: whatever grows is kept by a reference cycle or a buffer that nobody frees. With
``--face`` it goes through RKNNLite, which loads, initialises and releases anew every 1,000 inferences.
"""

from __future__ import annotations

import argparse
import gc
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil

import rknnlite

ROOT = Path(__file__).resolve().parent.parent
MODEL = ROOT / "tests/data/mobilenetv2_like.rk3588.i8.rknn"
WARM_UP = 500
ALLOWED = 1 << 20  # bytes; the allocator itself moves by some pages


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


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path, nargs="?", default=MODEL)
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--face", action="store_true")
    args = parser.parse_args()
    gc.disable()
    infer, start = (face if args.face else native)(args.model)
    for _ in range(WARM_UP):
        infer()
    process = psutil.Process()
    before = process.memory_info().rss
    for i in range(args.count):
        infer()
        if args.face and i % 1000 == 999:
            start()
    after = process.memory_info().rss
    grown = after - before
    print(f"{args.count} inferences of {args.model.name}, garbage collector off")
    print(
        f"resident set {before / 1e6:.1f} MB before, {after / 1e6:.1f} MB after: {grown / 1e3:+.0f} kB",
        end=", ",
    )
    print("flat" if grown <= ALLOWED else "GROWS")


if __name__ == "__main__":
    main()
