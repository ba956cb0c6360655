"""Which engines a context has."""

from __future__ import annotations

import functools
from importlib.util import find_spec
from typing import Any, Optional

from rknnlite import config, plugins
from rknnlite.errors import BackendUnavailable, ParamInvalid
from rknnlite.extras import missing
from rknnlite.log import logger

from .engine import Engine

__all__ = ["NAMES", "chosen"]

NAMES = ("numpy", "native", "onnxruntime", "openvino")
_DEFAULT = ("native", "onnxruntime")
"""The first has networks of 8 bits, the second what is left."""


def chosen(given: Any) -> tuple[Engine, ...]:
    """The engine that an option names, else ``RKNNLITE_ENGINE``, else those of ``native`` and onnxruntime that are there.

    None at all: the numpy kernels. Raises ParamInvalid for an unknown name, BackendUnavailable or ParamInvalid for one that was
    asked for and is not installed or cannot be built.
    """
    asked = given if given is not None else config.get("engine") or None
    if asked is None:
        return tuple(engine for name in _DEFAULT if (engine := _where_possible(name)) is not None)
    if asked not in NAMES:
        raise ParamInvalid(f"engine {asked!r:.80} is unknown; there are {', '.join(NAMES)}")
    if asked == "numpy":
        return ()
    if asked == "native":
        return (_native(),)
    lacking = _lacking(asked)
    if lacking:
        extra = "openvino" if asked == "openvino" else "fast"
        raise missing(extra, f"the engine {asked} needs {lacking}, which is not installed")
    engine = _engine(asked)
    return () if engine is None else (engine,)


@functools.cache
def _lacking(name: str) -> str:
    """What an engine needs and is not there."""
    for module in ("onnx", name):
        if find_spec(module) is None:
            return module
    try:
        plugins.lowering("onnx")
    except BackendUnavailable:
        return "the plugin rknnlite_onnx"
    return ""


def _where_possible(name: str) -> Optional[Engine]:
    """An engine that nobody has asked for."""
    if name == "native":
        return _native_where_possible()
    return _engine(name) if _lacking(name) == "" else None


@functools.cache
def _native_where_possible() -> Optional[Engine]:
    try:
        return _native()
    except (BackendUnavailable, ParamInvalid) as error:
        logger.info("the native engine is not used, which computes networks of 8 bits fastest: %s", error)
        return None


@functools.cache
def _native() -> Engine:
    from .with_native import Native

    return Native()


@functools.cache
def _engine(name: str) -> Optional[Engine]:
    try:
        if name == "openvino":
            from .with_openvino import OpenVino

            return OpenVino()
        from .with_onnxruntime import OnnxRuntime

        return OnnxRuntime()
    except ImportError as error:  # built for another machine, say
        logger.warning("the engine %s cannot be loaded: %s; the numpy kernels compute", name, error)
        return None
