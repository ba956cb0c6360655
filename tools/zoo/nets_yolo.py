"""Detectors of the YOLO families, with heads as they are exported for an NPU (one output per level) and as usual."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import torch
import yaml
from network import image, network, packaged
from torch import nn

_SDPA = "fuse_exmatmul_add_mul_exsoftmax13_exmatmul_to_sdpa"
"""A rule on which the toolkit (2.5.0) fails with attention in convolutions; people switch it off."""
_PLAIN: dict[str, Any] = {"mean": (0.0,), "std": (255.0,), "config": {"disable_rules": [_SDPA]}}
Tensors = list[torch.Tensor]


def _model(kind: str, width: float = 0.25, task: str = "DetectionModel") -> Any:
    """A network of the package by the name of its file, at a small width, with 10 classes."""
    from ultralytics.nn import tasks

    plan = yaml.safe_load(packaged("ultralytics", f"cfg/models/{kind}.yaml").read_text())
    if "scales" in plan:
        plan["scales"] = {"n": [0.33, width, 1024]}
        plan["scale"] = "n"
    plan["yaml_file"] = f"{kind}.yaml"
    net = getattr(tasks, task)(plan, ch=3, nc=10, verbose=False)
    for module in net.modules():
        if isinstance(module, nn.SiLU) or type(module).__name__ in ("Hardswish", "ReLU"):
            module.inplace = False
    return net


def _plain(net: Any) -> Any:
    """The head as ``export`` of the package leaves it: decoded, one output."""
    head = net.model[-1]
    head.export, head.format, head.dynamic = True, "onnx", False
    return net


def _with_head(net: Any, forward: Callable[[Any, Tensors], Any]) -> Any:
    head = net.model[-1]
    head.forward = types.MethodType(forward, head)
    return net


def _levels(head: Any, x: Tensors) -> Tensors:
    """Per level: box distributions, class scores, and their clipped sum, which the decoder looks at first."""
    boxes, classes = getattr(head, "one2one_cv2", head.cv2), getattr(head, "one2one_cv3", head.cv3)
    found: Tensors = []
    for level, features in enumerate(x):
        scores = classes[level](features).sigmoid()
        found += [boxes[level](features), scores, torch.clamp(scores.sum(1, keepdim=True), 0, 1)]
    return found


def _segments(head: Any, x: Tensors) -> Tensors:
    prototypes = head.proto(x[0])
    found = _levels(head, x)
    masks = [head.cv4[level](features) for level, features in enumerate(x)]
    return [*found, *masks, prototypes]


def _joined(head: Any, x: Tensors) -> Tensors:
    return [torch.cat((head.cv2[i](f), head.cv3[i](f).sigmoid()), 1) for i, f in enumerate(x)]


def _poses(head: Any, x: Tensors) -> Tensors:
    """Keypoints are decoded in the graph: anchors and strides are constants."""
    points, offsets, strides = [], [], []
    for level, features in enumerate(x):
        height, width = features.shape[2:]
        points.append(head.cv4[level](features).view(features.shape[0], *head.kpt_shape, -1))
        y, x_ = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        offsets.append(torch.stack((x_, y)).reshape(2, -1).float())
        strides.append(torch.full((1, height * width), 8.0 * 2**level))
    flat = torch.cat(points, -1)
    places = (flat[:, :, :2] * 2.0 + torch.cat(offsets, 1)) * torch.cat(strides, 1)
    return [*_joined(head, x), torch.cat((places, flat[:, :, 2:3].sigmoid()), 2)]


def _turned(head: Any, x: Tensors) -> Tensors:
    """Oriented boxes: the angle of all levels in one output."""
    angles = torch.cat([head.cv4[i](f).view(f.shape[0], head.ne, -1) for i, f in enumerate(x)], 2)
    return [*_joined(head, x), (angles.sigmoid() - 0.25) * torch.pi]


class Anchors(nn.Module):
    """The head of version 5: three anchors per cell, sigmoid in the graph, decoding outside."""

    def __init__(self, inner: nn.Module, channels: list[int]) -> None:
        super().__init__()
        self.inner = inner
        self.f, self.i, self.type = inner.f, inner.i, "Anchors"  # type: ignore[attr-defined]
        self.convs = nn.ModuleList(nn.Conv2d(c, 45, 1) for c in channels)

    def forward(self, x: Tensors) -> Tensors:
        """One output per level."""
        return [conv(features).sigmoid() for conv, features in zip(self.convs, x, strict=True)]


_DETECTORS = {
    "yolov3_tiny": ("v3/yolov3-tiny", _levels, 11),
    "yolov6n": ("v6/yolov6", _levels, 12),
    "yolov8n": ("v8/yolov8", _levels, 12),
    "yolov8n_ghost": ("v8/yolov8-ghost", _levels, 12),
    "yolov8n_p2": ("v8/yolov8-p2", _levels, 13),
    "yolov9t": ("v9/yolov9t", _levels, 12),
    "yolov10n": ("v10/yolov10n", _levels, 13),
    "yolo11n": ("11/yolo11", _levels, 12),
    "yolo12n": ("12/yolo12", _levels, 14),
    "yolo26n": ("26/yolo26", _levels, 17),
}
for _name, (_kind, _head, _opset) in _DETECTORS.items():
    network(_name, image(96), opset=_opset, **_PLAIN)(
        lambda kind=_kind, head=_head: _with_head(_model(kind), head)
    )

for _name, _kind, _opset in (
    ("yolov8n", "v8/yolov8", 17),
    ("yolo11n", "11/yolo11", 19),
    ("yolov10n", "v10/yolov10n", 13),
):
    network(f"{_name}_decoded", image(96), opset=_opset, **_PLAIN)(lambda kind=_kind: _plain(_model(kind)))

for _name, _kind, _task, _head in (
    ("yolov8n_seg", "v8/yolov8-seg", "SegmentationModel", _segments),
    ("yolov8n_pose", "v8/yolov8-pose", "PoseModel", _poses),
    ("yolov8n_obb", "v8/yolov8-obb", "OBBModel", _turned),
    ("yolo11n_seg", "11/yolo11-seg", "SegmentationModel", _segments),
    ("yolo11n_pose", "11/yolo11-pose", "PoseModel", _poses),
    ("yolo11n_obb", "11/yolo11-obb", "OBBModel", _turned),
):
    network(_name, image(96), opset=12, **_PLAIN)(
        lambda kind=_kind, task=_task, head=_head: _with_head(_model(kind, task=task), head)
    )


@network("yolo11n_cls", image(64), dynamo=True, **_PLAIN)
def _classes() -> Any:
    return _plain(_model("11/yolo11-cls", task="ClassificationModel"))


@network("yolo11n_dynamo", image(96), dynamo=True, **_PLAIN)
def _dynamo() -> Any:
    return _with_head(_model("11/yolo11"), _levels)


@network("yolov5n", image(96), opset=12, **_PLAIN)
def _yolov5() -> Any:
    net = _model("v5/yolov5")
    head = net.model[-1]
    net.model[-1] = Anchors(head, [branch[0].conv.in_channels for branch in head.cv2])
    return net


class Block(nn.Sequential):
    """Convolution, batch norm, activation."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int = 3, stride: int = 1, act: nn.Module | None = None
    ) -> None:
        conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
        super().__init__(conv, nn.BatchNorm2d(outputs), act or nn.SiLU())


class Elan(nn.Module):
    """Version 7's block: every second convolution's result is kept."""

    def __init__(self, inputs: int, inner: int, outputs: int) -> None:
        super().__init__()
        self.left, self.right = Block(inputs, inner, 1), Block(inputs, inner, 1)
        self.first = nn.Sequential(Block(inner, inner), Block(inner, inner))
        self.second = nn.Sequential(Block(inner, inner), Block(inner, inner))
        self.last = Block(4 * inner, outputs, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Concatenated, then mixed."""
        right = self.right(x)
        first = self.first(right)
        return self.last(torch.cat((self.second(first), first, right, self.left(x)), 1))


class Yolo7(nn.Module):
    """Version 7: max pool and strided convolution side by side, implicit knowledge in the head."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(Block(3, 16), Block(16, 32, 3, 2), Block(32, 32, 3, 2))
        self.one, self.two, self.three = Elan(32, 16, 48), Elan(48, 24, 64), Elan(112, 24, 64)
        self.pool, self.down = nn.MaxPool2d(2, 2), Block(48, 24, 3, 2)
        self.side = Block(48, 24, 1)
        self.reduce, self.up = Block(64, 64, 1), nn.Upsample(scale_factor=2, mode="nearest")
        self.heads = nn.ModuleList(nn.Conv2d(64, 45, 1) for _ in range(2))
        self.add = nn.ParameterList(nn.Parameter(torch.randn(1, 64, 1, 1) * 0.1) for _ in range(2))
        self.times = nn.ParameterList(nn.Parameter(1 + torch.randn(1, 45, 1, 1) * 0.1) for _ in range(2))

    def forward(self, x: torch.Tensor) -> Tensors:
        """Two levels."""
        fine = self.one(self.stem(x))
        coarse = self.two(torch.cat((self.down(fine), self.side(self.pool(fine))), 1))
        merged = self.three(torch.cat((self.up(self.reduce(coarse)), fine), 1))
        levels = zip(self.heads, self.add, self.times, (merged, coarse), strict=True)
        return [(head(level + add) * times).sigmoid() for head, add, times, level in levels]


@network("yolov7_tiny", image(96), opset=12, **_PLAIN)
def _yolov7() -> Any:
    return Yolo7()


class YoloX(nn.Module):
    """Focus stem, decoupled heads with an objectness map of one channel."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(Block(12, 16), Block(16, 32, 3, 2))
        self.body = nn.ModuleList([Elan(32, 16, 32), nn.Sequential(Block(32, 48, 3, 2), Elan(48, 24, 48))])
        self.towers = nn.ModuleList(nn.Sequential(Block(c, 32, 1), Block(32, 32)) for c in (32, 48))
        self.outs = nn.ModuleList(
            nn.ModuleList([nn.Conv2d(32, 4, 1), nn.Conv2d(32, 1, 1), nn.Conv2d(32, 10, 1)]) for _ in range(2)
        )

    def forward(self, x: torch.Tensor) -> Tensors:
        """Box, objectness, classes of each level in one tensor."""
        x = torch.cat((x[..., ::2, ::2], x[..., 1::2, ::2], x[..., ::2, 1::2], x[..., 1::2, 1::2]), 1)
        x, found = self.stem(x), []
        for body, tower, (box, sure, classes) in zip(self.body, self.towers, self.outs, strict=True):
            x = body(x)
            level = tower(x)
            found.append(torch.cat((box(level), sure(level).sigmoid(), classes(level).sigmoid()), 1))
        return found


@network("yolox_nano", image(96), opset=11, mean=(0.0,), std=(1.0,))
def _yolox() -> Any:
    return YoloX()


@network("nanodet_gfl", image(96), opset=11)
def _nanodet() -> Any:
    """ShuffleNet-like body, depthwise tower, class scores with sigmoid beside integral boxes."""
    leaky = nn.LeakyReLU(0.1)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(
                Block(3, 24, 3, 2, leaky), Block(24, 48, 3, 2, leaky), Block(48, 48, 3, 2, leaky)
            )
            self.depth = nn.Conv2d(48, 48, 5, 1, 2, groups=48)
            self.point = Block(48, 48, 1, 1, leaky)
            self.out = nn.Conv2d(48, 10 + 4 * 8, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out = self.out(self.point(leaky(self.depth(self.body(x)))))
            scores, boxes = out.split((10, 32), 1)
            return torch.cat((scores.sigmoid(), boxes), 1).flatten(2).permute(0, 2, 1)

    return Net()
