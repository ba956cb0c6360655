"""Which engine a context has."""

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

NAMES = ("numpy", "onnxruntime", "openvino")
_DEFAULT = "onnxruntime"
_LANGUAGE_MODELS_ONLY = ("native",)
"""Engines of ``llm.compiled_products``, which choose nothing here when ``RKNNLITE_ENGINE`` names them."""


def chosen(given: Any) -> Optional[Engine]:
    """The engine that an option names, else ``RKNNLITE_ENGINE``, else onnxruntime where it is installed.

    None: the numpy kernels. Raises ParamInvalid for an unknown name, BackendUnavailable for one that was asked for and is
    not installed.
    """
    asked = given if given is not None else config.get("engine") or None
    if given is None and asked in _LANGUAGE_MODELS_ONLY:
        asked = None
    if asked is None:
        return _engine(_DEFAULT) if _lacking(_DEFAULT) == "" else None
    if asked not in NAMES:
        raise ParamInvalid(f"engine {asked!r:.80} is unknown; there are {', '.join(NAMES)}")
    if asked == "numpy":
        return None
    lacking = _lacking(asked)
    if lacking:
        extra = "openvino" if asked == "openvino" else "fast"
        raise missing(extra, f"the engine {asked} needs {lacking}, which is not installed")
    return _engine(asked)


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
