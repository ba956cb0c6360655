#!/usr/bin/env python3
"""Train a small YOLOv8-like detector on scenes made on the fly, and export it to ONNX.

    python train.py --out detect.onnx          # a quarter of an hour on two cores

Needs torch, onnx, scikit-image and opencv-python-headless. Per stride (8, 16, 32) the network says how far the four
sides of a box are from the middle of the cell, each as a distribution over 16 bins, and one score per class.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import signal
import time
from collections.abc import Iterator

import cv2
import numpy as np
import torch
from scenes import LABELS, SIZE, letterboxed
from torch import Tensor, nn
from torch.nn import functional as F

STRIDES, BINS = (8, 16, 32), 16
REACH = (0, 56, 128, 1e9)
"""Square roots of the areas of the boxes that belong to a stride, in pixels."""


def conv(cin: int, cout: int, size: int = 3, stride: int = 1) -> nn.Sequential:
    layer = nn.Conv2d(cin, cout, size, stride, size // 2, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(cout), nn.ReLU(inplace=True))


class Split(nn.Module):
    """YOLOv8's block: one half goes through two convolutions with a shortcut, all parts are joined."""

    def __init__(self, cin: int, cout: int) -> None:
        super().__init__()
        half = cout // 2
        self.a, self.b = conv(cin, half, 1), conv(cin, half, 1)
        self.body = nn.Sequential(conv(half, half), conv(half, half))
        self.out = conv(3 * half, cout, 1)

    def forward(self, x: Tensor) -> Tensor:
        a, b = self.a(x), self.b(x)
        return self.out(torch.cat([a, b, self.body(b) + b], 1))


class Pools(nn.Module):
    """SPPF: what is around, in three sizes."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.a, self.out = conv(width, width // 2, 1), conv(2 * width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        parts = [self.a(x)]
        for _ in range(3):
            parts.append(F.max_pool2d(parts[-1], 5, 1, 2))
        return self.out(torch.cat(parts, 1))


class Head(nn.Module):
    def __init__(self, cin: int, stride: int, width: int = 32) -> None:
        super().__init__()
        self.sides = nn.Sequential(conv(cin, width), nn.Conv2d(width, 4 * BINS, 1))
        self.scores = nn.Sequential(conv(cin, width), nn.Conv2d(width, len(LABELS), 1))
        nn.init.constant_(self.sides[-1].bias, 1.0)
        nn.init.constant_(self.scores[-1].bias, float(np.log(5 / len(LABELS) / (SIZE / stride) ** 2)))


class Detector(nn.Module):
    """Input 1 x 3 x 320 x 320 in 0..1; outputs per stride 1 x 64 x h x w and 1 x 7 x h x w, scores in 0..1."""

    def __init__(self) -> None:
        super().__init__()
        self.near = nn.Sequential(
            conv(3, 16, 3, 2), conv(16, 24, 3, 2), Split(24, 24), conv(24, 48, 3, 2), Split(48, 48)
        )
        self.middle = nn.Sequential(conv(48, 96, 3, 2), Split(96, 96))
        self.far = nn.Sequential(conv(96, 96, 3, 2), Split(96, 96), Pools(96))
        self.up_middle, self.up_near = Split(192, 64), Split(112, 48)
        self.heads = nn.ModuleList(Head(c, s) for c, s in zip((48, 64, 96), STRIDES))

    def raw(self, x: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Sides and scores before the sigmoid."""
        near = self.near(x)
        middle = self.middle(near)
        far = self.far(middle)
        middle = self.up_middle(torch.cat([F.interpolate(far, scale_factor=2.0), middle], 1))
        near = self.up_near(torch.cat([F.interpolate(middle, scale_factor=2.0), near], 1))
        return [(head.sides(f), head.scores(f)) for head, f in zip(self.heads, (near, middle, far))]

    def forward(self, x: Tensor) -> list[Tensor]:
        return [part for sides, scores in self.raw(x) for part in (sides, scores.sigmoid())]


def cells(boxes: list[np.ndarray], h: int, w: int, level: int) -> tuple[Tensor, Tensor, Tensor]:
    """Where the boxes of a level are looked for: indices [n, 3] (picture, y, x), classes [n], boxes [n, 4] in cells."""
    found: dict[tuple[int, int, int], tuple[float, np.ndarray]] = {}
    for n, rows in enumerate(boxes):
        for row in rows:
            x1, y1, x2, y2 = row[1:] / STRIDES[level]
            root = float(np.sqrt((x2 - x1) * (y2 - y1))) * STRIDES[level]
            if not REACH[level] * 0.85 <= root < REACH[level + 1] * 1.15:  # near a limit both levels learn it
                continue
            cx, cy = (x1 + x2) / 2, (y1 + y2) / 2
            for y in range(max(0, int(cy - 1.5)), min(h, int(cy + 1.5) + 1)):
                for x in range(max(0, int(cx - 1.5)), min(w, int(cx + 1.5) + 1)):
                    inside = x1 < x + 0.5 < x2 and y1 < y + 0.5 < y2
                    close = max(abs(x + 0.5 - cx), abs(y + 0.5 - cy)) < 1.5
                    if inside and close and root < found.get((n, y, x), (1e9,))[0]:  # the smaller one wins
                        found[n, y, x] = root, row
    places = torch.tensor(list(found), dtype=torch.long).reshape(-1, 3)
    rows = torch.from_numpy(np.array([row for _, row in found.values()], np.float32).reshape(-1, 5))
    return places, rows[:, 0].long(), rows[:, 1:] / STRIDES[level]


def giou(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Overlap of boxes row by row, and its generalised form, which knows how far apart they are."""
    shared = (torch.minimum(a[:, 2:], b[:, 2:]) - torch.maximum(a[:, :2], b[:, :2])).clamp(min=0).prod(1)
    union = (a[:, 2:] - a[:, :2]).prod(1) + (b[:, 2:] - b[:, :2]).prod(1) - shared + 1e-6
    hull = (torch.maximum(a[:, 2:], b[:, 2:]) - torch.minimum(a[:, :2], b[:, :2])).prod(1) + 1e-6
    return shared / union, shared / union - (hull - union) / hull


def loss_of(parts: list[tuple[Tensor, Tensor]], boxes: list[np.ndarray]) -> Tensor:
    score_loss = side_loss = torch.zeros(())
    total = 1e-3
    for level, (sides, scores) in enumerate(parts):
        (n, y, x), kinds, goal = (
            t.T if t.ndim == 2 and t.shape[1] == 3 else t for t in cells(boxes, *scores.shape[2:], level)
        )
        wanted = torch.zeros_like(scores)
        if len(kinds):
            bins = sides[n, :, y, x].view(-1, 4, BINS)
            reach = bins.softmax(2) @ torch.arange(BINS, dtype=torch.float32)
            middle = torch.stack([x, y], 1) + 0.5
            match, general = giou(torch.cat([middle - reach[:, :2], middle + reach[:, 2:]], 1), goal)
            weight = match.detach().clamp(min=0.1)
            wanted[n, kinds, y, x] = weight
            target = torch.cat([middle - goal[:, :2], goal[:, 2:] - middle], 1).clamp(0, BINS - 1.01)
            below = target.long()
            share = target - below
            logs = F.log_softmax(bins, 2)
            near, far = (-logs.gather(2, b[..., None])[..., 0] for b in (below, below + 1))
            spread = near * (1 - share) + far * share
            side_loss = side_loss + ((7.5 * (1 - general) + 1.5 * spread.mean(1)) * weight).sum()
            total = total + weight.sum()
        score_loss = score_loss + F.binary_cross_entropy_with_logits(scores, wanted, reduction="sum")
    return (score_loss + side_loss) / total


def batch_of(job: tuple[int, int, int]) -> tuple[np.ndarray, list[np.ndarray]]:
    """Scenes of a seed, a size in pixels and a number: uint8 [n, size, size, 3], boxes of each."""
    seed, size, count = job
    cv2.setNumThreads(1)
    rng = np.random.default_rng(seed)
    pictures, boxes = zip(*(letterboxed(rng, size) for _ in range(count)))
    return np.stack(pictures), list(boxes)


def mirrored(pictures: np.ndarray, boxes: list[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
    """Left is right."""
    turned = [rows.copy() for rows in boxes]
    for rows in turned:
        rows[:, [1, 3]] = pictures.shape[2] - rows[:, [3, 1]]
    return np.ascontiguousarray(pictures[:, :, ::-1]), turned


def batches(
    jobs: Iterator[tuple[int, int, int]], workers: int, repeats: int
) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
    """Scenes as they come from the workers, and every time some older ones, mirrored: making them is half of the work."""
    rng, older = np.random.default_rng(0), []
    with multiprocessing.Pool(workers) as pool:
        for batch in pool.imap(batch_of, jobs):
            yield batch
            older = [*(kept for kept in older[-400:] if kept[0].shape == batch[0].shape), batch]
            for _ in range(repeats):
                again = older[int(rng.integers(len(older)))]
                yield mirrored(*again) if rng.random() < 0.7 else again


def train(model: Detector, args: argparse.Namespace) -> None:
    """First with scenes of 224 pixels, then with those of 320; the learning rate falls with time."""
    model.to(memory_format=torch.channels_last).train()
    optimiser = torch.optim.AdamW(model.parameters(), args.rate, weight_decay=1e-3)
    started, mean, step, said = time.monotonic(), 0.0, 0, 0.0

    def passed() -> float:
        """Share of the time."""
        return (time.monotonic() - started) / 60 / args.minutes

    def jobs() -> Iterator[tuple[int, int, int]]:
        """What the workers are to make, a few batches ahead of what has been used."""
        for seed in itertools.count(args.seed):
            while seed - args.seed > step / (1 + args.repeats) + 6 and passed() < 1:
                time.sleep(0.05)
            if passed() >= 1:
                return
            yield seed, 224 if passed() < args.small else SIZE, args.batch

    for pictures, boxes in batches(jobs(), args.workers, args.repeats):
        if passed() >= 1:
            break
        for group in optimiser.param_groups:
            group["lr"] = (
                args.rate * min(1, (step + 1) / 60) * (0.01 + 0.99 * (1 + np.cos(np.pi * passed())) / 2)
            )
        x = torch.from_numpy(pictures).permute(0, 3, 1, 2).float() / 255
        with torch.autocast("cpu", torch.bfloat16):
            parts = model.raw(x.contiguous(memory_format=torch.channels_last))
        loss = loss_of([(sides.float(), scores.float()) for sides, scores in parts], boxes)
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        optimiser.step()
        step += 1
        mean += (loss.item() - mean) * max(0.03, 1 / step)
        if passed() - said > 0.05:
            said = passed()
            print(f"{said:.0%}: {step} steps, {pictures.shape[1]} pixels, loss {mean:.3f}", flush=True)
            torch.save(model.state_dict(), args.out + ".pt")
    print(f"{step} steps, loss {mean:.3f}", flush=True)
    torch.save(model.state_dict(), args.out + ".pt")
    model.to(memory_format=torch.contiguous_format)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", default="detect.onnx")
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--rate", type=float, default=3e-3, help="highest learning rate")
    parser.add_argument(
        "--small", type=float, default=0.65, help="share of the time with scenes of 224 pixels"
    )
    parser.add_argument("--seed", type=int, default=0, help="number of the first batch of scenes")
    parser.add_argument("--resume", help="weights to go on from, a .pt file beside an earlier result")
    parser.add_argument("--batch", type=int, default=12)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1, help="processes that make scenes")
    parser.add_argument("--repeats", type=int, default=2, help="how often a scene is used again")
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(args.threads)
    model = Detector()
    if args.resume:
        model.load_state_dict(torch.load(args.resume))
    train(model, args)
    torch.onnx.export(
        model.eval(),
        (torch.zeros(1, 3, SIZE, SIZE),),
        args.out,
        opset_version=12,
        input_names=["image"],
        output_names=[f"{what}{stride}" for stride in STRIDES for what in ("sides", "scores")],
        dynamo=False,
    )


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # whoever reads our output may have enough of it
    main()
