"""rknnlite: run Rockchip ``.rknn`` models on the NPU, or anywhere on a CPU reference with the NPU's numbers.

>>> import rknnlite
>>> with rknnlite.open("model.rknn") as context:          # doctest: +SKIP
...     scores, = context.infer(image)
"""

from __future__ import annotations

import enum

from . import errors
from ._version import __version__
from .accuracy import compare
from .errors import RknnError
from .hookspecs import hookimpl
from .matmul import Matmul
from .plugins import load_custom_ops
from .pool import Pool
from .runtime import open_model as open
from .spi import Context, CustomOp, RawOutput
from .tensor import DType, Layout, QuantParams, TensorAttr

__all__ = [
    "Context",
    "CoreMask",
    "CustomOp",
    "DType",
    "Layout",
    "Matmul",
    "Pool",
    "QuantParams",
    "RawOutput",
    "RknnError",
    "TensorAttr",
    "__version__",
    "compare",
    "errors",
    "hookimpl",
    "load_custom_ops",
    "open",
]


class CoreMask(enum.IntFlag):
    """Core masks, numbered as ``rknn_core_mask``; which are legal depends on the SoC."""

    AUTO = 0
    CORE_0 = 1
    CORE_1 = 2
    CORE_2 = 4
    CORE_0_1 = 3
    CORE_0_1_2 = 7
    ALL = 0xFFFF
