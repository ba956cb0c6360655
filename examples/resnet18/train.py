#!/usr/bin/env python3
"""Train a narrow ResNet-18 on pictures of handwritten digits and export it to ONNX.

    python train.py --width 24 --out resnet18.onnx

Needs torch, onnx, onnxruntime, scikit-learn and opencv-python-headless. Same seed, same network.
"""

from __future__ import annotations

import argparse
import signal
import time

import numpy as np
import torch
from digits import SEED, load_split, pictures
from torch import Tensor, nn

MEAN, STD = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut."""

    def __init__(self, cin: int, cout: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(cin, cout, 3, stride, 1, bias=False),
            nn.BatchNorm2d(cout),
            nn.ReLU(inplace=True),
            nn.Conv2d(cout, cout, 3, 1, 1, bias=False),
            nn.BatchNorm2d(cout),
        )
        self.shortcut = (
            nn.Identity()
            if cin == cout and stride == 1
            else nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout))
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.shortcut(x))


def resnet18(width: int, classes: int = 10) -> nn.Sequential:
    """The topology of ResNet-18 (where width is 64): stem, four stages of two blocks, pooling, classifier."""
    layers: list[nn.Module] = [
        nn.Conv2d(3, width, 7, 2, 3, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
    ]
    cin = width
    for stage in range(4):
        cout = width << stage
        layers += [BasicBlock(cin, cout, 1 if stage == 0 else 2), BasicBlock(cout, cout, 1)]
        cin = cout
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(cin, classes))


def normalise(images: np.ndarray) -> Tensor:
    """uint8 NHWC -> float32 NCHW, as the converter's mean_values and std_values do it."""
    x = (images.astype(np.float32) - np.float32(MEAN)) / np.float32(STD)
    return torch.from_numpy(np.ascontiguousarray(x.transpose(0, 3, 1, 2)))


@torch.no_grad()
def accuracy(net: nn.Module, digits: np.ndarray, labels: np.ndarray, size: int) -> float:
    """Share of the held-out pictures that the network names correctly."""
    net.eval()
    hits = 0
    for part in range(0, len(digits), 60):
        images = pictures(digits[part : part + 60], size, SEED + part)
        hits += int((net(normalise(images)).argmax(1).numpy() == labels[part : part + 60]).sum())
    return hits / len(digits)


def train(width: int, plan: list[tuple[list[int], int, float]], batch: int = 32) -> nn.Module:
    """Train by a plan of (picture sizes, epochs, peak learning rate)."""
    digits, labels, held, held_labels = load_split()
    net = resnet18(width).to(memory_format=torch.channels_last)
    rng = np.random.default_rng(SEED)
    loss_of = nn.CrossEntropyLoss(label_smoothing=0.05)
    for sizes, epochs, rate in plan:
        optimiser = torch.optim.AdamW(net.parameters(), lr=rate, weight_decay=0.02)
        steps = epochs * (len(digits) // batch)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, total_steps=steps)
        for epoch in range(epochs):
            net.train()
            start, total = time.monotonic(), 0.0
            order = rng.permutation(len(digits))
            for n in range(len(digits) // batch):
                pick = order[n * batch : (n + 1) * batch]
                size = sizes[n % len(sizes)]
                x = normalise(pictures(digits[pick], size, int(rng.integers(1 << 32))))
                loss = loss_of(
                    net(x.contiguous(memory_format=torch.channels_last)), torch.from_numpy(labels[pick])
                )
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
                schedule.step()
                total += loss.item()
            print(
                f"{sizes} px, epoch {epoch + 1}/{epochs}: loss {total / (n + 1):.4f}, "
                f"{time.monotonic() - start:.0f} s",
                flush=True,
            )
        for size in sizes:
            print(f"{size} px: held-out accuracy {accuracy(net, held, held_labels, size):.4f}", flush=True)
    return net.eval()


def stage(text: str) -> tuple[list[int], int, float]:
    """'96:10:3e-3' -> ([96], 10, 0.003)."""
    sizes, epochs, rate = text.split(":")
    return [int(size) for size in sizes.split(",")], int(epochs), float(rate)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--width", type=int, default=24, help="channels of the first stage (ResNet-18: 64)")
    parser.add_argument(
        "--plan",
        nargs="+",
        default=["96:10:3e-3", "144:2:1e-3", "224:4:1e-3"],
        metavar="SIZE[,SIZE..]:EPOCHS:RATE",
        help="small pictures first, for speed; of several sizes every batch takes one",
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", default="resnet18.onnx")
    args = parser.parse_args()

    torch.manual_seed(SEED)
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(args.threads)
    net = train(args.width, [stage(text) for text in args.plan])
    torch.onnx.export(
        net.to(memory_format=torch.contiguous_format),
        (torch.zeros(1, 3, 224, 224),),
        args.out,
        input_names=["input"],
        output_names=["output"],
        opset_version=13,
        dynamo=False,
    )


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # whoever reads our output may have enough of it
    main()
