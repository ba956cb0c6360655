"""Small detectors: the backbone and heads of YOLOv5 and YOLOv8, with raw, sigmoid and decoded outputs."""

from __future__ import annotations

import torch
from case import Case, Input
from layers import Residual, conv
from torch import Tensor, nn
from torch.nn import functional as F


class C2f(nn.Module):
    """Split-and-concatenate bottleneck of YOLOv8."""

    def __init__(self, cin: int, cout: int, depth: int = 1, shortcut: bool = True, act: str = "silu") -> None:
        super().__init__()
        self.mid = cout // 2
        self.first = conv(cin, cout, 1, act=act)
        bodies = [
            nn.Sequential(conv(self.mid, self.mid, 3, act=act), conv(self.mid, self.mid, 3, act=act))
            for _ in range(depth)
        ]
        self.bodies = nn.ModuleList(Residual(body) if shortcut else body for body in bodies)
        self.last = conv((2 + depth) * self.mid, cout, 1, act=act)

    def forward(self, x: Tensor) -> Tensor:
        """Concatenate both halves and every bottleneck's output."""
        parts = list(self.first(x).split(self.mid, 1))
        for body in self.bodies:
            parts.append(body(parts[-1]))
        return self.last(torch.cat(parts, 1))


class Yolo5Decode(nn.Module):
    """One-scale detector with the full decoding of YOLOv5 boxes inside the network."""

    def __init__(self, classes: int = 3) -> None:
        super().__init__()
        self.fields = classes + 5
        self.body = nn.Sequential(conv(3, 8, 6, 2, padding=2), conv(8, 16, 3, 2), conv(16, 20, 3, 2))
        self.out = nn.Conv2d(20, 3 * self.fields, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Boxes (centre, size), objectness and class scores."""
        y = self.out(self.body(x))
        n, _, h, w = (int(v) for v in y.shape)
        y = torch.sigmoid(y.view(n, 3, self.fields, h, w).permute(0, 1, 3, 4, 2))
        rows, cols = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        grid = torch.stack([cols, rows], 2).float().view(1, 1, h, w, 2) - 0.5
        anchors = torch.tensor([10.0, 13.0, 16.0, 30.0, 33.0, 23.0]).view(1, 3, 1, 1, 2)
        xy = (y[..., 0:2] * 2 + grid) * 8
        wh = (y[..., 2:4] * 2) ** 2 * anchors
        return torch.cat([xy, wh, y[..., 4:]], 4).view(n, -1, self.fields)


class Yolo8(nn.Module):
    """Two-scale YOLOv8 with distribution focal loss decoding."""

    bins = 16
    strides = (4, 8)

    def __init__(self, act: str = "relu", classes: int = 3, decode: bool = True) -> None:
        super().__init__()
        self.classes, self.decode = classes, decode
        self.stem = conv(3, 8, 3, 2, act)
        self.p3 = nn.Sequential(conv(8, 16, 3, 2, act), nn.Identity() if decode else C2f(16, 16, act=act))
        self.p4 = conv(16, 24, 3, 2, act)
        self.boxes = nn.ModuleList(nn.Conv2d(c, 4 * self.bins, 1) for c in (16, 24))
        self.scores = nn.ModuleList(nn.Conv2d(c, classes, 1) for c in (16, 24))

    def forward(self, x: Tensor) -> tuple[Tensor, ...] | Tensor:
        """Raw maps per scale, or boxes (centre, size) and class scores of every cell."""
        heads = zip(self.boxes, self.scores, self.levels(x), strict=True)
        maps = [torch.cat([box(y), score(y)], 1) for box, score, y in heads]
        if not self.decode:
            return tuple(maps)
        flat = torch.cat([y.flatten(2) for y in maps], 2)
        box, score = flat.split((4 * self.bins, self.classes), 1)
        n, _, count = (int(v) for v in box.shape)
        box = box.view(n, 4, self.bins, count).transpose(2, 1).softmax(1)
        weights = torch.arange(self.bins).float().view(1, self.bins, 1, 1)
        distance = F.conv2d(box, weights).view(n, 4, count)
        centres, stride = self._centres([(int(y.shape[2]), int(y.shape[3])) for y in maps])
        top_left, bottom_right = distance.chunk(2, 1)
        first, second = centres - top_left, centres + bottom_right
        return torch.cat([torch.cat([(first + second) / 2, second - first], 1) * stride, score.sigmoid()], 1)

    def levels(self, x: Tensor) -> tuple[Tensor, ...]:
        """Feature maps of every scale."""
        low = self.p3(self.stem(x))
        high = self.p4(low)
        return low, high

    def _centres(self, sizes: list[tuple[int, int]]) -> tuple[Tensor, Tensor]:
        points, strides = [], []
        for (h, w), stride in zip(sizes, self.strides, strict=True):
            rows, cols = torch.meshgrid(torch.arange(h) + 0.5, torch.arange(w) + 0.5, indexing="ij")
            points.append(torch.stack([cols, rows]).view(2, -1))
            strides.append(torch.full((1, h * w), float(stride)))
        return torch.cat(points, 1).unsqueeze(0), torch.cat(strides, 1)


def cases() -> list[Case]:
    """All detectors."""
    image, small = (Input((1, 3, 48, 48), "noise"),), (Input((1, 3, 24, 24)),)
    return [
        Case("yolov5_decode", Yolo5Decode, image, ("rk3588.i8", "rk3568.i8", "rv1126b.i8"), seed=1),
        Case("yolov8_dfl", Yolo8, small, ("rk3588.fp16",)),
    ]
