"""rknnlite: run Rockchip ``.rknn`` models on the NPU, or anywhere on a CPU reference with the NPU's numbers.

>>> import rknnlite
>>> with rknnlite.open("model.rknn") as context:          # doctest: +SKIP
...     scores, = context.infer(image)
"""

from __future__ import annotations

import enum
import importlib
import importlib.util
import pkgutil
import sys
from typing import TYPE_CHECKING, Any

from . import errors
from .errors import RknnError
from .hookspecs import hookimpl
from .plugins import load_custom_ops
from .runtime import open_model as open
from .spi import Context, RawOutput
from .tensor import DType, Known, Layout, QuantParams, TensorAttr

if TYPE_CHECKING:
    from rknnlite_insight import compare, to_onnx
    from rknnlite_llm import Chat, open_llm

    from ._version import __version__
    from .matmul import Matmul
    from .pool import Pool
    from .spi import CustomOp

__all__ = [
    "Chat",
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

_ROOMS = {"CustomOp": "spi", "Matmul": "matmul", "Pool": "pool", "__version__": "_version"}
"""Names whose room is imported when they are first used: a program that opens one model needs none of them.

Further names come from libraries (``libraries.NAMES``).
"""


class _FormerPaths:
    """Finds what lay in the core in earlier versions; asked when nobody else knows a module (``rknnlite_backend.former_paths``)."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        """As importlib calls it."""
        if not name.startswith(f"{__name__}.") or importlib.util.find_spec("rknnlite_backend") is None:
            return None
        return importlib.import_module("rknnlite_backend.former_paths").former_path(name)


sys.meta_path.append(_FormerPaths)


def _libraries() -> Any:
    return importlib.import_module(".libraries", __name__)


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        found = getattr(importlib.import_module(f".{_ROOMS[name]}", __name__), name)
    elif name.startswith("_") or name in _rooms():  # no name of a library: importlib goes on
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    else:
        found = _libraries().public_name(name)
    globals()[name] = found
    return found


def _rooms() -> set[str]:
    return {found.name for found in pkgutil.iter_modules(__path__)}


def __dir__() -> list[str]:
    return sorted({*globals(), *_ROOMS, *_libraries().NAMES})


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
