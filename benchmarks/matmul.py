"""Matrix products of the CPU reference beside numpy's own, and packing beside a copy.

    python benchmarks/matmul.py [--rounds 15]

Speed is that of ``multiply(a)`` with B in place, in multiply-adds per second, relative to ``numpy.matmul`` of float32
matrices of the same sizes with all of BLAS's threads: numpy has no product of float16 or int8 to compare with (its loops
for those are fifty to several hundred times slower). Both take turns, three calls each after a pause; medians of the ratios count.
Targets: float types at least 0.7, int8 at least 0.5.

Packing into the native layouts of an RK3588 takes at most 3 times as long as copying the matrix to fresh memory. Turning the
tiles of B takes three passes over the data; ``floor`` is the first of them alone, on one thread, in the same unit.
Machines with other work to do give wild figures: look at the load first.
"""

from __future__ import annotations

import argparse
import functools
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "plugins")]

import cv2  # noqa: E402
import numpy as np  # noqa: E402

import rknnlite  # noqa: E402
from rknnlite.matmul import layout  # noqa: E402
from rknnlite.spi.matmul import MatmulType  # noqa: E402

SIZES = [(1, 4096, 4096), (128, 4096, 4096), (1024, 1024, 1024), (512, 2048, 2048)]
SPEED = {
    MatmulType.FLOAT16_FLOAT16_FLOAT32: 0.7,
    MatmulType.FLOAT16_FLOAT16_FLOAT16: 0.7,
    MatmulType.FLOAT16_INT4_FLOAT16: 0.7,
    MatmulType.INT8_INT8_INT32: 0.5,
    MatmulType.INT8_INT8_INT8: 0.5,
    MatmulType.INT8_INT4_INT32: 0.5,
}
COPIES = 3.0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    print(f"load of the machine {os.getloadavg()[0]:.1f}")
    for kind, target in SPEED.items():
        for size in SIZES:
            speed(kind, size, target, rounds)
    for name, matrix, pack in packings():
        packing(name, matrix, functools.partial(pack, matrix), rounds)


def verdict(good: bool) -> str:
    return "met" if good else "MISSED"


def pairs(ours: Callable[[], Any], theirs: Callable[[], Any], rounds: int) -> list[tuple[float, float]]:
    """Seconds of both, in turns."""
    ours(), theirs()
    return [(seconds(ours), seconds(theirs)) for _ in range(rounds)]


def thrice(work: Callable[[], Any]) -> Callable[[], None]:
    return lambda: [work() for _ in range(3)] and None


def seconds(work: Callable[[], Any]) -> float:
    """After a pause: BLAS's threads spin for a while after a product, and would be in the way."""
    time.sleep(0.15)
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def speed(kind: MatmulType, size: tuple[int, int, int], target: float, rounds: int) -> None:
    m, k, n = size
    rng = np.random.default_rng(0)
    a, b = (elements(rng, kind.dtypes[i].name, shape) for i, shape in enumerate(((m, k), (k, n))))
    left, right = a.astype(np.float32), b.astype(np.float32)
    with rknnlite.Matmul(m, k, n, kind, soc="rk3588", backend="cpu") as multiply:
        multiply(a, b)
        times = pairs(thrice(lambda: multiply(a)), thrice(lambda: left @ right), rounds)
    ratio = statistics.median(theirs / ours for ours, theirs in times)
    rate = 3 * m * k * n / statistics.median(ours for ours, _ in times) / 1e9
    print(
        f"{kind.name.lower():<24} {m:>5} x {k} x {n:<6} {rate:7.1f} G/s, {ratio:.2f} of float32 numpy (target {target}: {verdict(ratio >= target)})"
    )


def elements(rng: np.random.Generator, dtype: str, shape: tuple[int, int]) -> np.ndarray:
    if dtype == "FLOAT16":
        return rng.normal(0, 1, shape).astype(np.float16)
    return rng.integers(*((-8, 8) if dtype == "INT4" else (-128, 128)), shape).astype(np.int8)


def packing(name: str, matrix: np.ndarray, pack: Callable[[], Any], rounds: int) -> None:
    ratio = copies(pack, matrix, rounds)
    text = f"{name:<34} {ratio:5.2f} copies (target {COPIES}: {verdict(ratio <= COPIES)})"
    if "pack B" in name:
        planes = matrix.view(f"u{matrix.itemsize}")
        once = functools.partial(cv2.merge, [planes[i::4] for i in range(4)])
        text += f", floor {copies(once, matrix, rounds):.2f}"
    print(text)


def copies(work: Callable[[], Any], matrix: np.ndarray, rounds: int) -> float:
    """Median duration in copies of ``matrix`` to fresh memory."""
    return statistics.median(ours / theirs for ours, theirs in pairs(work, matrix.copy, rounds))


def packings() -> list[tuple[str, np.ndarray, Callable[[np.ndarray], np.ndarray]]]:
    rng = np.random.default_rng(0)
    found: list[tuple[str, np.ndarray, Callable[[np.ndarray], np.ndarray]]] = []
    for rows, columns in ((4096, 4096), (4096, 11008)):
        for dtype, lanes, tile in (("INT8", 16, (32, 32)), ("FLOAT16", 8, (16, 32))):
            matrix = elements(rng, dtype, (rows, columns))
            label = f"{dtype.lower()} [{rows}, {columns}]"
            found.append((f"pack A {label}", matrix, lambda x, lanes=lanes: layout.pack_lanes(x, lanes)))
            found.append((f"pack B {label}", matrix, lambda x, tile=tile: layout.pack_b(x, tile)))
            native = layout.pack_lanes(matrix, lanes)
            found.append(
                (
                    f"unpack A, C {label}",
                    native,
                    lambda x: layout.unpack_lanes(x, x.shape[0] * x.shape[2]),
                )
            )
    return found


if __name__ == "__main__":
    main()
