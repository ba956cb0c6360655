#!/usr/bin/env python3
"""Train the small detector and export its two heads as ONNX.

    python train.py --out shapes.onnx          # some minutes on two cores; torch, opencv, onnx

YOLOv5's way of saying boxes: per cell and anchor the numbers x, y, w, h, object, one per class, all before the
sigmoid; centre = (2 s(x) - 0.5 + cell) * stride, size = (2 s(w))^2 * anchor.
"""

from __future__ import annotations

import argparse
import multiprocessing
import signal

import numpy as np
import torch
from decode import ANCHORS, DECODER, LABELS, LIMITS, SIZE, STRIDES
from shapes import compose
from torch import nn
from torch.nn import functional as F

CLASSES = len(LABELS)


def block(channels_in: int, channels_out: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels_in, channels_out, 3, stride, 1, bias=False),
        nn.BatchNorm2d(channels_out),
        nn.ReLU(),
    )


class Detector(nn.Module):
    """Input 1 x 3 x 128 x 128 in 0..1; outputs 1 x 27 x 16 x 16 and 1 x 27 x 8 x 8."""

    def __init__(self) -> None:
        super().__init__()
        self.near = nn.Sequential(
            block(3, 12, 2), block(12, 16, 2), block(16, 32, 2), block(32, 32), block(32, 48)
        )
        self.far = nn.Sequential(block(48, 64, 2), block(64, 64))
        self.heads = nn.ModuleList(nn.Conv2d(c, 3 * (5 + CLASSES), 1) for c in (48, 64))
        for head in self.heads:  # an object is rare: start from a low score
            nn.init.constant_(head.bias.view(3, -1)[:, 4].detach(), 0.0)
            head.bias.data.view(3, -1)[:, 4] = -5.0

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        near = self.near(x)
        return self.heads[0](near), self.heads[1](self.far(near))


def overlap(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Intersection over union of boxes (centre x, y, width, height), row by row."""
    top = torch.maximum(a[:, :2] - a[:, 2:] / 2, b[:, :2] - b[:, 2:] / 2)
    low = torch.minimum(a[:, :2] + a[:, 2:] / 2, b[:, :2] + b[:, 2:] / 2)
    shared = (low - top).clamp(min=0).prod(1)
    return shared / (a[:, 2:].prod(1) + b[:, 2:].prod(1) - shared + 1e-6)


def loss_of(heads: tuple[torch.Tensor, ...], boxes: list[np.ndarray]) -> torch.Tensor:
    total = torch.zeros(())
    for head, stride, anchors in zip(heads, STRIDES, np.array(ANCHORS, np.float32)):
        batch, _, h, w = head.shape
        raw = head.view(batch, 3, 5 + CLASSES, h, w).permute(0, 1, 3, 4, 2)
        wanted = torch.zeros(batch, 3, h, w)
        picks, goals, kinds = [], [], []
        for n, entries in enumerate(boxes):
            for kind, x1, y1, x2, y2 in entries:
                cx, cy, bw, bh = (x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1
                ratio = np.maximum(np.array([bw, bh]) / anchors, anchors / np.array([bw, bh])).max(1)
                for a in np.flatnonzero(ratio < 2):
                    fx, fy = cx / stride, cy / stride
                    cells = {
                        (int(fx), int(fy)),
                        (int(fx + (0.5 if fx % 1 > 0.5 else -0.5)), int(fy)),
                        (int(fx), int(fy + (0.5 if fy % 1 > 0.5 else -0.5))),
                    }
                    for gx, gy in cells:
                        if 0 <= gx < w and 0 <= gy < h:
                            picks.append((n, a, gy, gx))
                            goals.append((fx - gx, fy - gy, bw / anchors[a, 0], bh / anchors[a, 1]))
                            kinds.append(int(kind))
        if picks:
            index = tuple(torch.tensor(picks).T)
            chosen = raw[index]
            anchor = torch.tensor(anchors)[index[1]] / stride
            guess = torch.cat(
                [chosen[:, :2].sigmoid() * 2 - 0.5, (chosen[:, 2:4].sigmoid() * 2) ** 2 * anchor], 1
            )
            goal = torch.tensor(np.array(goals, np.float32))
            goal = torch.cat([goal[:, :2], goal[:, 2:] * anchor], 1)
            match = overlap(guess, goal)
            total = total + (1 - match).mean() + F.smooth_l1_loss(guess, goal) * 0.5
            total = total + F.binary_cross_entropy_with_logits(
                chosen[:, 5:], F.one_hot(torch.tensor(kinds), CLASSES).float()
            )
            wanted[index] = 1
        total = total + 60 * F.binary_cross_entropy_with_logits(raw[..., 4], wanted)
    return total


def batch_of(seed: int, count: int = 12) -> tuple[np.ndarray, list[np.ndarray]]:
    rng = np.random.default_rng(seed)
    pictures, boxes = zip(*(compose(rng) for _ in range(count)))
    return np.stack(pictures), list(boxes)


def hits(model: Detector, count: int = 100) -> tuple[float, float]:
    """Share of held-out shapes that are found (class right, overlap above 0.6), and of boxes that are right."""
    model.eval()
    found = shapes = guesses = 0
    for n in range(count):
        picture, boxes = compose(np.random.default_rng(10_000_000 + n))
        with torch.no_grad():
            heads = model(torch.from_numpy(picture).permute(2, 0, 1)[None].float() / 255)
        (result,) = DECODER.decode([h.numpy() for h in heads], LIMITS)
        guesses += len(result)
        shapes += len(boxes)
        for kind, x1, y1, x2, y2 in boxes:
            for label, (a1, b1, a2, b2) in zip(result.classes, result.boxes):
                shared = max(0, min(x2, a2) - max(x1, a1)) * max(0, min(y2, b2) - max(y1, b1))
                union = (x2 - x1) * (y2 - y1) + (a2 - a1) * (b2 - b1) - shared
                if int(label) == int(kind) and shared / union > 0.6:
                    found += 1
                    break
    return found / shapes, found / max(1, guesses)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", default="shapes.onnx")
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(args.threads)
    model = Detector()
    optimiser = torch.optim.AdamW(model.parameters(), 2e-3, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 6e-3, args.steps)
    with multiprocessing.Pool(1) as pool:
        for step, (pictures, boxes) in enumerate(pool.imap(batch_of, range(args.steps), chunksize=4)):
            model.train()
            heads = model(torch.from_numpy(pictures).permute(0, 3, 1, 2).float() / 255)
            loss = loss_of(heads, boxes)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            if step % 250 == 0 or step + 1 == args.steps:
                print(
                    step,
                    f"loss {loss.item():.3f}",
                    "found {:.3f}, right {:.3f}".format(*hits(model, 50)),
                    flush=True,
                )
    print("held out: found {:.3f}, right {:.3f}".format(*hits(model, 300)))
    model.eval()
    torch.onnx.export(
        model,
        torch.zeros(1, 3, SIZE, SIZE),
        args.out,
        opset_version=12,
        input_names=["image"],
        output_names=["near", "far"],
        dynamo=False,
    )


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # whoever reads our output may have enough of it
    main()
