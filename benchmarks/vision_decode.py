"""How long a frame of YOLOv8's head takes to decode: 640 pixels, 80 classes, int8, nine outputs as Rockchip's model zoo cuts them.

    python benchmarks/vision_decode.py                 # needs g++; --check: fail above a limit; --instructions: needs valgrind, too

Beside our decoder: one in C++ (``vision_decode.cc``), one in numpy that makes everything float first, and ultralytics' own where
it is installed (on floats, which is what it takes). All decode the same frames in turn, in one process with one thread; times are
medians, ratios those of medians. All must find the same boxes. Instructions are those of callgrind for one frame more.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "plugins")]

from rknnlite_vision.heads.head import Limits  # noqa: E402
from rknnlite_vision.heads.recognise import recognise  # noqa: E402

from rknnlite.tensor import DType, Layout, QuantParams, TensorAttr  # noqa: E402

SIZE, CLASSES, BINS = 640, 80, 16
LIMITS = Limits(score=0.25, overlap=0.45)
QUANT = {
    "sides": QuantParams(0.09, 10),
    "scores": QuantParams(1 / 256, -128),
    "sum": QuantParams(1 / 250, -128),
}
MOST_MS, MOST_RATIO = 2.0, 1.2
SCENES = {"street, 12 things": 12, "crowd, 60 things": 60}

Frame = list[np.ndarray]


def attributes(sums: bool) -> list[TensorAttr]:
    """Of the outputs."""
    attrs = []
    for stride in (8, 16, 32):
        side = SIZE // stride
        for name, channels in (("sides", 4 * BINS), ("scores", CLASSES), ("sum", 1)):
            if sums or name != "sum":
                dims = (1, channels, side, side)
                attrs.append(
                    TensorAttr(len(attrs), f"{name}{stride}", dims, DType.INT8, Layout.NCHW, QUANT[name])
                )
    return attrs


def frame(things: int, seed: int) -> Frame:
    """Outputs as a trained network gives them: next to nothing everywhere, and about each thing a few cells that see it."""
    random = np.random.default_rng(seed)
    outputs = []
    seen = [
        (random.integers(3), random.random(2), random.integers(CLASSES), random.uniform(1.5, 6, 4))
        for _ in range(things)
    ]
    for part, stride in enumerate((8, 16, 32)):
        side = SIZE // stride
        real = {
            "sides": random.normal(0, 1.5, (4, BINS, side, side)),
            "scores": np.zeros((CLASSES, side, side)),
        }
        real["scores"] += random.exponential(0.0015, real["scores"].shape)
        for _, (y, x), kind, reach in (thing for thing in seen if thing[0] == part):
            row, column = int(y * side), int(x * side)
            for r in range(max(row - 1, 0), min(row + 2, side)):
                for c in range(max(column - 1, 0), min(column + 2, side)):
                    near = 1 - 0.25 * (abs(r - row) + abs(c - column))
                    real["scores"][kind, r, c] = 0.9 * near * random.uniform(0.8, 1)
                    moved = reach + np.array([c - column, r - row, column - c, row - r])
                    real["sides"][:, :, r, c] += 12 * np.exp(-0.5 * (np.arange(BINS) - moved[:, None]) ** 2)
        real["sum"] = real["scores"].sum(axis=0).clip(0, 1)
        for name in ("sides", "scores", "sum"):
            scale, zero = QUANT[name]
            stored = np.clip(np.round(real[name] / scale) + zero, -128, 127).astype(np.int8)
            outputs.append(stored.reshape(1, -1, side, side))
    return outputs


def ours(sums: bool, compiled: bool = True) -> Callable[[Frame], np.ndarray]:
    """The package's decoder; not ``compiled``: as where there is no compiler."""
    image = TensorAttr(0, "images", (1, SIZE, SIZE, 3), DType.INT8, Layout.NHWC)
    head: Any = recognise([image], attributes(sums))
    if not compiled:
        head.compiled = None

    def decode(outputs: Frame) -> np.ndarray:
        found = head.decode(outputs, LIMITS)[0]
        return np.column_stack([found.boxes, found.scores, found.classes])

    def alone(outputs: Frame) -> Any:
        return head.decode(outputs, LIMITS)

    decode.alone = alone  # type: ignore[attr-defined]  # what is timed makes no table of it
    return decode


def compiled(sums: bool, folder: Path) -> Callable[[Frame], np.ndarray]:
    """The decoder in C++; addresses of the outputs are taken within the time, as a program that calls it must."""
    library = folder / "vision_decode.so"
    if not library.exists():
        source = Path(__file__).with_suffix(".cc")
        subprocess.run(["g++", "-O2", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    call = ctypes.CDLL(str(library)).decode
    names = ("sides", "scores", "sum") * 3
    zeros = (ctypes.c_int * 9)(*(QUANT[name].zero_point for name in names))
    scales = (ctypes.c_float * 9)(*(QUANT[name].scale for name in names))
    rows = np.empty((LIMITS.most, 6), np.float32)
    least, overlap = ctypes.c_float(LIMITS.score), ctypes.c_float(LIMITS.overlap)

    def decode(outputs: Frame) -> np.ndarray:
        if not sums:
            outputs = [a for n in range(3) for a in (*outputs[2 * n : 2 * n + 2], None)]
        pointers = (ctypes.c_void_p * 9)(*(None if a is None else a.ctypes.data for a in outputs))
        count = call(
            pointers,
            zeros,
            scales,
            SIZE,
            CLASSES,
            least,
            overlap,
            ctypes.c_void_p(rows.ctypes.data),
            LIMITS.most,
        )
        return rows[:count]

    return decode


def all_float(sums: bool) -> Callable[[Frame], np.ndarray]:
    """numpy in the way demos are written: everything float, the mean bin of every side, and only then the threshold."""

    def decode(outputs: Frame) -> np.ndarray:
        boxes, scores = [], []
        each = 3 if sums else 2
        for part, stride in enumerate((8, 16, 32)):
            side = SIZE // stride
            sides, table = (
                (a[0].astype(np.float32) - q.zero_point) * np.float32(q.scale)
                for a, q in zip(outputs[each * part : each * part + 2], (QUANT["sides"], QUANT["scores"]))
            )
            weights = np.exp(sides.reshape(4, BINS, side, side))
            means = (
                weights
                / weights.sum(axis=1, keepdims=True)
                * np.arange(BINS, dtype=np.float32)[:, None, None]
            ).sum(1)
            y, x = np.mgrid[:side, :side].astype(np.float32) + 0.5
            corners = np.stack([x - means[0], y - means[1], x + means[2], y + means[3]]) * stride
            boxes.append(corners.reshape(4, -1).T)
            scores.append(table.reshape(CLASSES, -1).T)
        all_boxes, all_scores = np.concatenate(boxes), np.concatenate(scores)
        kinds, best = all_scores.argmax(axis=1), all_scores.max(axis=1)
        passing = best >= LIMITS.score
        rows = np.column_stack([all_boxes[passing], best[passing], kinds[passing]])
        kept = [suppressed(rows[rows[:, 5] == kind]) for kind in np.unique(rows[:, 5])]
        found = np.concatenate(kept) if kept else rows
        return found[np.argsort(-found[:, 4], kind="stable")]

    return decode


def suppressed(rows: np.ndarray) -> np.ndarray:
    """Of rows of one class those that stay."""
    order, kept = np.argsort(-rows[:, 4], kind="stable"), []
    while len(order):
        first, order = order[0], order[1:]
        kept.append(first)
        a, b = rows[first, :4], rows[order, :4]
        sides = (np.minimum(a[2:], b[:, 2:]) - np.maximum(a[:2], b[:, :2])).clip(0)
        shared = sides.prod(axis=1)
        areas = (b[:, 2:] - b[:, :2]).prod(axis=1) + (a[2:] - a[:2]).prod()
        order = order[shared / (areas - shared) <= LIMITS.overlap]
    return rows[kept]


def ultralytics_own(sums: bool) -> Callable[[Frame], np.ndarray] | None:
    """ultralytics' head and suppression on the outputs as floats; None where it is not installed."""
    try:
        import torch
        from ultralytics.nn.modules.block import DFL
        from ultralytics.utils.nms import non_max_suppression
        from ultralytics.utils.tal import dist2bbox, make_anchors
    except ImportError:
        return None
    torch.set_num_threads(1)
    dfl = DFL(BINS)
    maps = [torch.zeros(1, 1, SIZE // s, SIZE // s) for s in (8, 16, 32)]
    anchors, strides = (a.transpose(0, 1) for a in make_anchors(maps, [8, 16, 32], 0.5))
    each = 3 if sums else 2

    def real(outputs: Frame, which: int) -> Any:
        quant = QUANT[("sides", "scores")[which]]
        parts = [torch.from_numpy(outputs[each * n + which]).flatten(2).float() for n in range(3)]
        return (torch.cat(parts, 2) - quant.zero_point) * quant.scale

    @torch.inference_mode()
    def decode(outputs: Frame) -> np.ndarray:
        boxes = dist2bbox(dfl(real(outputs, 0)), anchors[None], xywh=True, dim=1) * strides
        table = torch.cat([boxes, real(outputs, 1)], 1)
        return non_max_suppression(table, LIMITS.score, LIMITS.overlap)[0].numpy()

    return decode


def measured(
    decoders: dict[str, Callable[[Frame], Any]], frames: list[Frame], rounds: int
) -> dict[str, float]:
    """Median milliseconds of each, one frame of each in turn."""
    times: dict[str, list[float]] = {name: [] for name in decoders}
    for number in range(rounds):
        outputs = frames[number % len(frames)]
        for name, decode in decoders.items():
            decode(outputs)  # the one before may have left nothing of them in the caches
            start = time.perf_counter()
            decode(outputs)
            times[name].append(time.perf_counter() - start)
    return {name: float(np.median(spent)) * 1e3 for name, spent in times.items()}


def makers(folder: Path) -> dict[str, Callable[[bool], Any]]:
    """Name -> what makes the decoder."""
    return {
        "rknnlite": ours,
        "rknnlite, numpy": lambda sums: ours(sums, compiled=False),
        "C++": lambda sums: compiled(sums, folder),
        "numpy, all float": all_float,
        "ultralytics": ultralytics_own,
    }


def without_sums(outputs: Frame) -> Frame:
    """The six outputs that are not sums."""
    return [a for n, a in enumerate(outputs) if n % 3 != 2]


def agreement(decoders: dict[str, Callable[[Frame], np.ndarray]], outputs: Frame) -> int:
    """How many boxes all decoders find; ends the program where they differ."""
    found = {name: decode(outputs) for name, decode in decoders.items()}
    wanted = found.pop("rknnlite")
    for name, rows in found.items():
        if rows.shape != wanted.shape or np.abs(_sorted(rows) - _sorted(wanted)).max(initial=0) > 0.01:
            raise SystemExit(f"rknnlite finds {len(wanted)} boxes, {name} {len(rows)}, or others")
    return len(wanted)


def _sorted(rows: np.ndarray) -> np.ndarray:
    return rows[np.lexsort((rows[:, 0].round(1), rows[:, 5], -rows[:, 4]))]


def instructions(name: str, things: int, folder: Path) -> int:
    """Of one frame more, by callgrind: (21 frames - 1 frame) / 20."""
    counts = []
    for rounds in (1, 21):
        script = [
            sys.executable,
            str(Path(__file__).resolve()),
            "--only",
            name,
            str(things),
            str(rounds),
            str(folder),
        ]
        run = subprocess.run(
            ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *script],
            capture_output=True,
            text=True,
        )
        found = re.search(r"Collected : (\d+)", run.stderr)
        if not found:
            raise SystemExit(f"valgrind: {run.stderr[-400:]}")
        counts.append(int(found[1]))
    return (counts[1] - counts[0]) // 20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--check", action="store_true", help="fail above 2 ms, or 1.2 times the C++ decoder")
    parser.add_argument("--instructions", action="store_true", help="count them, too")
    parser.add_argument(
        "--only", nargs=4, metavar=("NAME", "THINGS", "ROUNDS", "FOLDER"), help=argparse.SUPPRESS
    )
    args = parser.parse_args()
    if args.only:
        name, things, rounds, place = args.only
        decode = makers(Path(place))[name](True)
        decode = getattr(decode, "alone", decode)
        outputs = frame(int(things), 1)
        for _ in range(int(rounds)):
            decode(outputs)
        return 0
    bad = False
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for scene, things in SCENES.items():
            for sums in (True, False):
                frames = [frame(things, seed) for seed in range(8)]
                frames = frames if sums else [without_sums(f) for f in frames]
                decoders = {n: d for n, d in ((n, make(sums)) for n, make in makers(folder).items()) if d}
                boxes = agreement(decoders, frames[0])
                timed = {n: getattr(d, "alone", d) for n, d in decoders.items()}
                took = measured(timed, frames, args.rounds)
                ratio = took["rknnlite"] / took["C++"]
                print(f"{scene}, {9 if sums else 6} outputs, {boxes} boxes")
                for name, ms in took.items():
                    print(f"  {name:18} {ms:8.3f} ms  {took['rknnlite'] / ms:6.2f}")
                bad |= took["rknnlite"] > MOST_MS or ratio > MOST_RATIO
        if args.instructions:
            for name in ("rknnlite", "rknnlite, numpy", "C++", "numpy, all float"):
                print(f"  {name:18} {instructions(name, 12, folder) / 1e6:8.2f} M instructions per frame")
    return int(bad and args.check)


if __name__ == "__main__":
    sys.exit(main())
