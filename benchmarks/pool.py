"""Throughput and latency of pools: on the test double of librknnrt, and on the CPU reference.

    python benchmarks/pool.py [--calls 300] [MODEL.rknn]

The double stands for an NPU with three cores on which every run takes 20 ms. Targets: three workers answer at least
2.9 times as many calls as one context; at half the load that they can bear, 95 of 100 calls take at most 1.2 times
20 ms; of 10,000 calls from 16 threads every result belongs to its call, and memory stays flat. On the CPU
reference two workers answer at least 1.6 times as many calls as one context on one thread (MODEL: by default
the network of examples/resnet18).
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "plugins")]

import numpy as np  # noqa: E402
import psutil  # noqa: E402

import rknnlite  # noqa: E402
from tests.doubles.double import build, model  # noqa: E402

LATENCY = 0.020
AFFINE = ("input image int8 4 1 4 6 3 1 0", "output scores float32 4 1 3 4 6", "op affine 2 1")
CLASSIFIER = ROOT / "examples" / "resnet18" / "resnet18_for_RK3588.rknn"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("model", nargs="?", default=str(CLASSIFIER))
    options = parser.parse_args()
    os.environ["RKNNLITE_LIBRARY"] = str(build())
    print("on the test double, 20 ms a run")
    throughput(options.calls)
    half_load(options.calls)
    many_callers(10_000)
    print(f"on the CPU reference, {Path(options.model).name}")
    on_the_cpu(options.model, options.calls)


def verdict(good: bool) -> str:
    return "met" if good else "MISSED"


def slow_model(latency: float) -> bytes:
    return model(*AFFINE, f"latency {round(latency * 1e6)}")


def rate(count: int, work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return count / (time.perf_counter() - started)


def throughput(calls: int) -> None:
    image = np.zeros((1, 4, 6, 3), np.int8)
    with rknnlite.open(slow_model(LATENCY), backend="rknnrt") as context:
        one = rate(calls // 3, lambda: [context.infer(image) for _ in range(calls // 3)])
    with rknnlite.Pool(slow_model(LATENCY), backend="rknnrt") as pool:
        all_ = rate(calls, lambda: list(pool.map([image] * calls)))
    ratio = all_ / one
    print(
        f"  throughput    one context {one:6.1f}/s, pool of {pool.workers} {all_:6.1f}/s: {ratio:.2f} times (target 2.9: {verdict(ratio >= 2.9)})"
    )


def half_load(calls: int) -> None:
    """Calls come at irregular moments, on average at half the rate that three cores can bear."""
    image, draw = np.zeros((1, 4, 6, 3), np.int8), random.Random(0)
    period = LATENCY / 3 / 0.5
    with rknnlite.Pool(slow_model(LATENCY), backend="rknnrt") as pool:
        next_call = time.perf_counter()
        for _ in range(calls):
            next_call += draw.uniform(0.7, 1.3) * period
            time.sleep(max(0.0, next_call - time.perf_counter()))
            pool.submit(image)
        pool.close()
        stats = pool.stats()
    limit = 1.2 * LATENCY
    print(
        f"  half load     latency p50 {stats.p50 * 1e3:.1f} ms, p95 {stats.p95 * 1e3:.1f} ms (target {limit * 1e3:.0f} ms: {verdict(stats.p95 <= limit)})"
    )


def many_callers(calls: int, callers: int = 16) -> None:
    wrong: list[int] = []
    with rknnlite.Pool(slow_model(0), backend="rknnrt") as pool:

        def ask(first: int) -> None:
            for value in range(first, calls, callers):
                number = value % 100
                if not (
                    pool.submit(np.full((1, 4, 6, 3), number, np.int8)).result()[0] == 2 * number + 1
                ).all():
                    wrong.append(value)

        run_all([threading.Thread(target=ask, args=(number,)) for number in range(callers)])
        before = psutil.Process().memory_info().rss
        started = time.perf_counter()
        run_all([threading.Thread(target=ask, args=(number,)) for number in range(callers)])
        seconds = time.perf_counter() - started
        growth = psutil.Process().memory_info().rss - before
    good = not wrong and growth < 1 << 20
    print(
        f"  many callers  {calls} calls from {callers} threads in {seconds:.1f} s: {len(wrong)} wrong results, resident memory {growth / 1024:+.0f} KiB (target 0, under 1 MiB: {verdict(good)})"
    )


def run_all(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def on_the_cpu(path: str, calls: int) -> None:
    with rknnlite.open(path, backend="cpu", threads=1) as context:
        inputs = [
            np.random.default_rng(0).integers(0, 255, attr.dims).astype(np.uint8) for attr in context.inputs
        ]
        context.infer(*inputs)
        seconds = 1 / rate(10, lambda: [context.infer(*inputs) for _ in range(10)])
        share = max(10, min(calls, round(2 / seconds)))
        singles, pools = [], []
        with rknnlite.Pool(path, 2, backend="cpu") as pool:
            for _ in range(3):  # in turns: the machine is not always equally busy
                singles.append(rate(share, lambda: [context.infer(*inputs) for _ in range(share)]))
                pools.append(rate(share, lambda: list(pool.map([inputs] * share))))
    one, two = sorted(singles)[1], sorted(pools)[1]
    ratio = two / one
    print(
        f"  throughput    one context, one thread {one:6.1f}/s, pool of 2 {two:6.1f}/s: {ratio:.2f} times (target 1.6: {verdict(ratio >= 1.6)})"
    )


if __name__ == "__main__":
    main()
