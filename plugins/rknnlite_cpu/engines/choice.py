"""Which engine a context has."""

from __future__ import annotations

import functools
from importlib import metadata
from importlib.util import find_spec
from typing import Any, Optional

from rknnlite import config, plugins
from rknnlite.errors import BackendUnavailable, ParamInvalid
from rknnlite.extras import missing
from rknnlite.log import logger

from .engine import Engine

__all__ = ["NAMES", "asked", "chosen", "engine", "installed", "version"]

NAMES = ("numpy", "onnxruntime", "openvino")
_DEFAULT = "onnxruntime"
_LANGUAGE_MODELS_ONLY = ("native",)
"""Engines of ``llm.compiled_products``, which choose nothing here when ``RKNNLITE_ENGINE`` names them."""


def chosen(given: Any) -> Optional[Engine]:
    """The engine that an option names, else ``RKNNLITE_ENGINE``, else onnxruntime where it is installed.

    None: the numpy kernels. Raises ParamInvalid for an unknown name, BackendUnavailable for one that was asked for and is
    not installed.
    """
    name = asked(given)
    if name is None:
        return engine(_DEFAULT) if _lacking(_DEFAULT) == "" else None
    if name not in NAMES:
        raise ParamInvalid(f"engine {name!r:.80} is unknown; there are {', '.join(NAMES)}")
    if name == "numpy":
        return None
    lacking = _lacking(name)
    if lacking:
        extra = "openvino" if name == "openvino" else "fast"
        raise missing(extra, f"the engine {name} needs {lacking}, which is not installed")
    return engine(name)


def asked(given: Any) -> Any:
    """What an option or ``RKNNLITE_ENGINE`` names; None: whatever is fastest."""
    if given is not None:
        return given
    found = config.get("engine") or None
    return None if found in _LANGUAGE_MODELS_ONLY else found


def installed() -> list[str]:
    """Engines that may be chosen without being asked for, the default first. Nothing is loaded."""
    others = [name for name in NAMES if name not in (_DEFAULT, "numpy")]
    return [name for name in (_DEFAULT, *others) if not _lacking(name)]


@functools.cache
def version(name: str) -> str:
    """Of an installed engine; nothing is loaded where its distribution tells."""
    try:
        return f"{name} {metadata.version(name)}"
    except metadata.PackageNotFoundError:
        found = engine(name)
        return name if found is None else found.version


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
def engine(name: str) -> Optional[Engine]:
    """An installed engine, loaded once; None where that fails, which is told."""
    try:
        if name == "openvino":
            from .with_openvino import OpenVino

            return OpenVino()
        from .with_onnxruntime import OnnxRuntime

        return OnnxRuntime()
    except ImportError as error:  # built for another machine, say
        logger.warning("the engine %s cannot be loaded: %s; the numpy kernels compute", name, error)
        return None
