"""How long a frame of YOLOv8's head takes to decode: 640 pixels, 80 classes; nine outputs as Rockchip's model zoo cuts them, in
int8 and in float32, and the one table of other exports.

    python benchmarks/vision_decode.py                 # needs g++; --check: fail above a limit; --instructions: in the place of times, needs valgrind

Beside our decoder: one in C++ (``vision_decode.cc``, int8 alone), one in numpy that makes everything float first, and ultralytics'
own where it is installed (on floats, which is what it takes; integers it widens first). All decode the same frames in turn, in one process with one thread; times are
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
from typing import Any, NamedTuple

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


class Form(NamedTuple):
    """How a network gives the same numbers: maps in int8 or float32, with sums of scores or without; or one table in float32."""

    sums: bool = False
    floats: bool = False
    table: bool = False

    def of(self, stored: Frame) -> Frame:
        """Outputs of this form, of nine in int8."""
        maps = stored if self.sums else [a for n, a in enumerate(stored) if n % 3 != 2]
        if self.table:
            return [np.concatenate(decoded(self.parts(maps)), axis=0)[None]]
        if not self.floats:
            return maps
        names = ("sides", "scores", "sum") if self.sums else ("sides", "scores")
        return [real(a, names[n % len(names)]) for n, a in enumerate(maps)]

    def parts(self, outputs: Frame) -> list[tuple[np.ndarray, np.ndarray]]:
        """Sides [4, bins, cells] and scores [classes, cells] of each stride, in float."""
        each = 3 if self.sums else 2
        pairs = [outputs[n : n + 2] for n in range(0, len(outputs), each)]
        as_float = [
            (sides, scores) if self.floats else (real(sides, "sides"), real(scores, "scores"))
            for sides, scores in pairs
        ]
        return [(sides.reshape(4, BINS, -1), scores.reshape(CLASSES, -1)) for sides, scores in as_float]


FORMS = {
    "int8, 9 outputs": Form(sums=True),
    "int8, 6 outputs": Form(),
    "float32, 9 outputs": Form(sums=True, floats=True),
    "float32, one table": Form(table=True),
}


def real(stored: np.ndarray, name: str) -> np.ndarray:
    """Stored integers as float32."""
    quant = QUANT[name]
    return (stored.astype(np.float32) - np.float32(quant.zero_point)) * np.float32(quant.scale)


def decoded(parts: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Centres and sizes [4, cells], and scores [classes, cells], of all strides."""
    boxes = []
    for (sides, _), stride in zip(parts, (8, 16, 32)):
        weights = np.exp(sides)
        share = weights / weights.sum(axis=1, keepdims=True)
        left, top, right, low = (share * np.arange(BINS, dtype=np.float32)[:, None]).sum(axis=1)
        y, x = (v.ravel() for v in np.mgrid[: SIZE // stride, : SIZE // stride].astype(np.float32) + 0.5)
        boxes.append(
            np.stack([x + (right - left) / 2, y + (low - top) / 2, left + right, top + low]) * stride
        )
    return np.concatenate(boxes, axis=1), np.concatenate([scores for _, scores in parts], axis=1)


def attributes(form: Form) -> list[TensorAttr]:
    """Of the outputs."""
    if form.table:
        cells = sum((SIZE // stride) ** 2 for stride in (8, 16, 32))
        return [TensorAttr(0, "output0", (1, 4 + CLASSES, cells), DType.FLOAT32, Layout.UNDEFINED)]
    attrs = []
    for stride in (8, 16, 32):
        side = SIZE // stride
        for name, channels in (("sides", 4 * BINS), ("scores", CLASSES), ("sum", 1)):
            if form.sums or name != "sum":
                dims = (1, channels, side, side)
                kind, quant = (DType.FLOAT32, None) if form.floats else (DType.INT8, QUANT[name])
                attrs.append(TensorAttr(len(attrs), f"{name}{stride}", dims, kind, Layout.NCHW, quant))
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


def ours(form: Form, compiled: bool = True) -> Callable[[Frame], np.ndarray] | None:
    """The package's decoder; not ``compiled``: as where there is no compiler, None where that makes no difference."""
    image = TensorAttr(0, "images", (1, SIZE, SIZE, 3), DType.INT8, Layout.NHWC)
    head: Any = recognise([image], attributes(form))
    if not compiled:
        if getattr(head, "compiled", None) is None:
            return None
        head.compiled = None

    def decode(outputs: Frame) -> np.ndarray:
        found = head.decode(outputs, LIMITS)[0]
        return np.column_stack([found.boxes, found.scores, found.classes])

    def alone(outputs: Frame) -> Any:
        return head.decode(outputs, LIMITS)

    decode.alone = alone  # type: ignore[attr-defined]  # what is timed makes no table of it
    return decode


def compiled(form: Form, folder: Path) -> Callable[[Frame], np.ndarray] | None:
    """The decoder in C++, of int8; addresses of the outputs are taken within the time, as a program that calls it must."""
    if form.floats or form.table:
        return None
    library = folder / "vision_decode.so"
    if not library.exists():
        source = Path(__file__).with_suffix(".cc")
        subprocess.run(["g++", "-O3", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    call = ctypes.CDLL(str(library)).decode
    names = ("sides", "scores", "sum") * 3
    zeros = (ctypes.c_int * 9)(*(QUANT[name].zero_point for name in names))
    scales = (ctypes.c_float * 9)(*(QUANT[name].scale for name in names))
    rows = np.empty((LIMITS.most, 6), np.float32)
    least, overlap = ctypes.c_float(LIMITS.score), ctypes.c_float(LIMITS.overlap)

    def decode(outputs: Frame) -> np.ndarray:
        if not form.sums:
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


def all_float(form: Form) -> Callable[[Frame], np.ndarray]:
    """numpy in the way demos are written: everything float, the mean bin of every side, and only then the threshold."""

    def decode(outputs: Frame) -> np.ndarray:
        boxes, scores = np.split(outputs[0][0], [4], axis=0) if form.table else decoded(form.parts(outputs))
        half = boxes[2:] / 2
        corners = np.concatenate([boxes[:2] - half, boxes[:2] + half]).T
        kinds, best = scores.argmax(axis=0), scores.max(axis=0)
        passing = best >= LIMITS.score
        rows = np.column_stack([corners[passing], best[passing], kinds[passing]])
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


def ultralytics_own(form: Form) -> Callable[[Frame], np.ndarray] | None:
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
    each = 3 if form.sums else 2

    def joined(outputs: Frame, which: int) -> Any:
        quant = QUANT[("sides", "scores")[which]]
        parts = [torch.from_numpy(outputs[each * n + which]).flatten(2) for n in range(3)]
        together = torch.cat(parts, 2)
        return together if form.floats else (together.float() - quant.zero_point) * quant.scale

    @torch.inference_mode()
    def decode(outputs: Frame) -> np.ndarray:
        if form.table:
            table = torch.from_numpy(outputs[0])
        else:
            boxes = dist2bbox(dfl(joined(outputs, 0)), anchors[None], xywh=True, dim=1) * strides
            table = torch.cat([boxes, joined(outputs, 1)], 1)
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


def makers(folder: Path) -> dict[str, Callable[[Form], Any]]:
    """Name -> what makes the decoder, or None where it is not for a form."""
    return {
        "rknnlite": ours,
        "rknnlite, numpy": lambda form: ours(form, compiled=False),
        "C++": lambda form: compiled(form, folder),
        "numpy, all float": all_float,
        "ultralytics": ultralytics_own,
    }


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


def instructions(name: str, folder: Path) -> list[int]:
    """Of one frame more of each scene, by callgrind: (21 frames - 1 frame) / 20."""

    def counted(rounds: list[int]) -> int:
        tool = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
        program = [sys.executable, str(Path(__file__).resolve()), "--only", name, str(folder)]
        run = subprocess.run([*tool, *program, *map(str, rounds)], capture_output=True, text=True)
        found = re.search(r"Collected : (\d+)", run.stderr)
        if not found:
            raise SystemExit(f"valgrind: {run.stderr[-400:]}")
        return int(found[1])

    once = [1] * len(SCENES)
    least = counted(once)
    return [(counted([*once[:i], 21, *once[i + 1 :]]) - least) // 20 for i in range(len(SCENES))]


def timed(folder: Path, rounds: int) -> bool:
    """Print milliseconds of each form of the outputs; whether a limit is exceeded."""
    bad = False
    for scene, things in SCENES.items():
        stored = [frame(things, seed) for seed in range(8)]
        for title, form in FORMS.items():
            frames = [form.of(outputs) for outputs in stored]
            decoders = {n: d for n, d in ((n, make(form)) for n, make in makers(folder).items()) if d}
            boxes = agreement(decoders, frames[0])
            took = measured({n: getattr(d, "alone", d) for n, d in decoders.items()}, frames, rounds)
            print(f"{scene}, {title}, {boxes} boxes")
            for name, ms in took.items():
                print(f"  {name:18} {ms:8.3f} ms  {took['rknnlite'] / ms:6.2f}")
            bad |= took["rknnlite"] > MOST_MS or took["rknnlite"] / took.get("C++", np.inf) > MOST_RATIO
    return bad


def counted(folder: Path) -> bool:
    """Print instructions of a frame of nine outputs in int8; whether the limit beside C++ is exceeded. No clock has a part in it."""
    bad = False
    ours, theirs = (instructions(name, folder) for name in ("rknnlite", "C++"))
    for scene, mine, other in zip(SCENES, ours, theirs):
        print(f"{scene}, int8, 9 outputs")
        for name, count in (("rknnlite", mine), ("C++", other)):
            print(f"  {name:18} {count / 1e6:8.2f} M instructions  {mine / count:6.2f}")
        bad |= mine / other > MOST_RATIO
    return bad


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument(
        "--check",
        action="store_true",
        help="fail above 2 ms, or 1.2 times the C++ decoder's time or instructions",
    )
    parser.add_argument("--instructions", action="store_true", help="count them in the place of times")
    parser.add_argument(
        "--only", nargs=4, metavar=("NAME", "FOLDER", "ROUNDS", "ROUNDS"), help=argparse.SUPPRESS
    )
    args = parser.parse_args()
    if args.only:
        name, place, *rounds = args.only
        decode = makers(Path(place))[name](FORMS["int8, 9 outputs"])
        decode = getattr(decode, "alone", decode)
        for things, count in zip(SCENES.values(), rounds):
            outputs = frame(things, 1)
            for _ in range(int(count)):
                decode(outputs)
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        bad = counted(folder) if args.instructions else timed(folder, args.rounds)
    return int(bad and args.check)


if __name__ == "__main__":
    sys.exit(main())
