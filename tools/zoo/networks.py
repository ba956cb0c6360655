"""Imports every module with networks; torchvision needs its operators declared where its own library is not built."""

from __future__ import annotations

import importlib
from pathlib import Path

import torch

__all__ = ["load_all"]


def _declare_operators() -> torch.library.Library:
    """torchvision's wheel for graphics cards does not load beside torch for CPUs; exports need none of its operators."""
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return library


def load_all() -> object:
    """Fill the registry. The result has to be kept: operators vanish with it."""
    library = _declare_operators()
    for path in sorted(Path(__file__).parent.glob("nets_*.py")):
        importlib.import_module(path.stem)
    return library
