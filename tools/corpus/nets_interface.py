"""Cases about what goes in and out: several inputs, mean and std, ranks, dynamic shapes, batches."""

from __future__ import annotations

import torch
from case import Case, Input
from layers import Fn, conv, depthwise
from torch import Tensor, nn
from torch.nn import functional as F

TINTED = ((10.0, 128.0, 60.5),)
SPREAD = ((40.0, 64.0, 91.25),)


def _two_images() -> nn.Module:
    def run(m: nn.ModuleDict, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        a, b = m["left"](x), m["right"](y)
        return m["out"](torch.cat([a, b], 1)), a + b

    return Fn(run, left=conv(3, 8, 3, 2), right=conv(4, 8, 3, 2), out=conv(16, 10, 1, act=None))


def _image_and_vector() -> nn.Module:
    def run(m: nn.ModuleDict, x: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        y = F.adaptive_avg_pool2d(m["image"](x), 1).flatten(1) + m["vector"](v)
        return m["out"](y), y

    return Fn(run, image=conv(3, 12, 3, 2), vector=nn.Linear(9, 12), out=nn.Linear(12, 7))


def _three_outputs() -> nn.Module:
    def run(m: nn.ModuleDict, x: Tensor) -> tuple[Tensor, ...]:
        a = m["first"](x)
        b = m["second"](a)
        return a, b, m["third"](F.adaptive_avg_pool2d(b, 1)).flatten(1)

    return Fn(run, first=conv(3, 5, 3), second=conv(5, 20, 3, 2), third=nn.Conv2d(20, 11, 1))


def _pyramid() -> nn.Module:
    """Fully convolutional, so that any shape fits."""
    return nn.Sequential(
        conv(3, 8, 3, 2, "relu6"),
        depthwise(8, 3, 1),
        conv(8, 12, 1, act="leaky"),
        nn.MaxPool2d(2),
        nn.Conv2d(12, 5, 3, padding=1),
    )


def _classifier() -> nn.Module:
    return nn.Sequential(
        conv(3, 8, 3, 2), conv(8, 12, 3, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, 10)
    )


def cases() -> list[Case]:
    """All interface cases."""
    image = (Input((1, 3, 20, 24)),)
    three = (((1, 3, 32, 24),), ((1, 3, 24, 24),), ((1, 3, 16, 20),))
    pair = (Input((1, 3, 12, 16)), Input((1, 4, 12, 16)))
    return [
        Case(
            "two_images",
            _two_images,
            pair,
            ("rk3588.i8", "rk3576.fp16", "rv1126b.i8"),
            mean=((10.0, 128.0, 60.5), (0.0, 32.0, 64.0, 127.5)),
            std=((40.0, 64.0, 91.25), (255.0, 99.0, 50.0, 64.0)),
        ),
        Case(
            "image_and_vector",
            _image_and_vector,
            (Input((1, 3, 16, 16)), Input((1, 9), "normal")),
            ("rk3588.i8", "rk3562.fp16"),
        ),
        Case(
            "mean_std",
            lambda: conv(3, 8, 3, 1),
            image,
            ("rk3588.i8", "rk3576.i8", "rk3568.fp16"),
            mean=TINTED,
            std=SPREAD,
        ),
        Case(
            "three_outputs",
            _three_outputs,
            (Input((1, 3, 12, 10)),),
            ("rk3588.i8", "rk3568.i8", "rk3576.fp16"),
            multicore=True,
        ),
        Case(
            "sequence_rank3",
            lambda: Fn(lambda m, x: (m["out"](x), x.transpose(1, 2) * 2.0), out=nn.Linear(14, 9)),
            (Input((1, 10, 14), "normal"),),
            ("rk3588.i8", "rk3562.i8"),
        ),
        Case(
            "dynamic_three", _pyramid, (Input((1, 3, 32, 24)),), ("rk3588.i8", "rk3562.fp16"), dynamic=three
        ),
        Case(
            "dynamic_two",
            _pyramid,
            (Input((1, 3, 32, 24)),),
            ("rk3568.i8", "rk3588.fp16"),
            dynamic=three[::2],
        ),
        Case("batch_three", _classifier, image, ("rk3588.fp16", "rk3576.i8"), batch=3),
        Case("batch_four", _classifier, image, ("rk3588.i8", "rk3562.i8"), batch=4),
    ]
