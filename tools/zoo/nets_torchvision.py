"""Classifiers of torchvision."""

from __future__ import annotations

from typing import Any

import torchvision.models as tv
from network import image, network


@network("tv_mobilenet_v2", image(96))
def _mobilenet_v2() -> Any:
    return tv.mobilenet_v2(width_mult=0.5, num_classes=50)


@network("tv_resnet18", image(96), dynamo=True)
def _resnet18() -> Any:
    return tv.ResNet(tv.resnet.BasicBlock, [2, 2, 2, 2], num_classes=50)
