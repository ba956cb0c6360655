"""rknnlite: run Rockchip ``.rknn`` models on the NPU, or anywhere on a CPU reference with the NPU's numbers.

>>> import rknnlite
>>> with rknnlite.open("model.rknn") as context:          # doctest: +SKIP
...     scores, = context.infer(image)
"""

from __future__ import annotations

import enum
import importlib
from typing import TYPE_CHECKING, Any

from . import errors
from ._version import __version__
from .errors import RknnError
from .hookspecs import hookimpl
from .plugins import load_custom_ops
from .runtime import open_model as open
from .spi import Context, RawOutput
from .tensor import DType, Known, Layout, QuantParams, TensorAttr

if TYPE_CHECKING:
    from .accuracy import compare, to_onnx
    from .llm import open_llm
    from .matmul import Matmul
    from .pool import Pool
    from .spi import CustomOp

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
    "open_llm",
    "to_onnx",
]

_ROOMS = {
    "CustomOp": "spi",
    "Matmul": "matmul",
    "Pool": "pool",
    "compare": "accuracy",
    "open_llm": "llm",
    "to_onnx": "accuracy",
}
"""Names whose room is imported when they are first used: a program that opens one model needs none of them."""


def __getattr__(name: str) -> Any:
    if name not in _ROOMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(f".{_ROOMS[name]}", __name__), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_ROOMS})


class CoreMask(Known, enum.IntFlag):
    """Core masks, numbered as ``rknn_core_mask``; which are legal depends on the SoC.

    Examples:
        >>> CoreMask.CORE_0 | CoreMask.CORE_1 == CoreMask.CORE_0_1
        True
        >>> with rknnlite.open("examples/resnet18/resnet18_for_RK3588.rknn", core_mask=CoreMask.CORE_0_1) as context:
        ...     context.soc.name
        'rk3588'
    """

    AUTO = 0
    CORE_0 = 1
    CORE_1 = 2
    CORE_2 = 4
    CORE_0_1 = 3
    CORE_0_1_2 = 7
    ALL = 0xFFFF
