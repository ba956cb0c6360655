"""Which engines a context has."""

from __future__ import annotations

import functools
import shutil
import threading
from importlib import metadata
from importlib.util import find_spec
from typing import Any, Optional

from rknnlite_programs import buildcache

from rknnlite import config, plugins
from rknnlite.errors import BackendUnavailable, ParamInvalid
from rknnlite.extras import missing
from rknnlite.log import logger

from .engine import Engine

__all__ = ["NAMES", "asked", "candidates", "chosen", "engines", "version"]

NAMES = ("numpy", "native", "onnxruntime", "openvino")
_DEFAULT = ("native", "onnxruntime")
"""The first has what it computes, of 8 bits and float16, the second what is left."""
_PATIENCE = 1.0
"""Seconds of a program before a compiler runs for it."""


def chosen(given: Any) -> tuple[Engine, ...]:
    """The engine that an option names, else ``RKNNLITE_ENGINE``, else those of ``native`` and onnxruntime that are ready.

    None at all: the numpy kernels. Raises ParamInvalid for an unknown name, BackendUnavailable or ParamInvalid for one that was
    asked for and is not installed or cannot be built.
    """
    name = asked(given)
    if name is None:
        return tuple(engine for each in _DEFAULT if (engine := _at_once(each)) is not None)
    if name not in NAMES:
        raise ParamInvalid(f"engine {name!r:.80} is unknown; there are {', '.join(NAMES)}")
    if name == "numpy":
        return ()
    if name == "native":
        return (_native(),)
    lacking = _lacking(name)
    if lacking:
        extra = "openvino" if name == "openvino" else "fast"
        raise missing(extra, f"the engine {name} needs {lacking}, which is not installed")
    engine = _engine(name)
    return () if engine is None else (engine,)


def asked(given: Any) -> Any:
    """What an option or ``RKNNLITE_ENGINE`` names; None: whatever is fastest."""
    return given if given is not None else config.get("engine") or None


def candidates() -> list[str]:
    """What may be chosen without being asked for, the default first: names of engines joined by ``+``, see ``_DEFAULT``.

    Others are worth their memory only where ``native`` is not there. Nothing is loaded or built.
    """
    default = [name for name in _DEFAULT if _is_there(name)]
    if "native" in default:
        return ["+".join(default)]
    others = [name for name in NAMES if name not in ("numpy", *_DEFAULT) and _is_there(name)]
    return [*default, *others]


def _is_there(name: str) -> bool:
    if name != "native":
        return not _lacking(name)
    if _has_compiler():
        return True
    from .native.prebuilt import prebuilt  # where there is a compiler nobody asks

    return prebuilt() is not None


def _has_compiler() -> bool:
    return bool(shutil.which(buildcache.compiler().split()[0]))


def _at_once(name: str) -> Optional[Engine]:
    """As ``_where_possible``, and no frame waits for a compiler: what it builds is for contexts to come."""
    if name == "native" and _has_compiler() and not _native_is_ready():
        _build_later()
        return None
    return _where_possible(name)


def _native_is_ready() -> bool:
    from .native.library import is_ready

    try:
        return is_ready()
    except ParamInvalid:  # of the cache, which building tells
        return True


@functools.cache
def _build_later() -> None:
    """For programs that live long enough."""
    logger.info("the native engine is being built; networks that are opened later have it")
    timer = threading.Timer(_PATIENCE, _native_where_possible)
    timer.name, timer.daemon = "rknnlite-build", True
    timer.start()


def engines(candidate: str) -> tuple[Engine, ...]:
    """Those of one of ``candidates``, loaded and built once; less those for which that fails, which is told."""
    found = map(_where_possible, candidate.split("+"))
    return tuple(engine for engine in found if engine is not None)


@functools.cache
def version(candidate: str) -> str:
    """Of its engines; nothing is loaded where distributions tell."""
    return "+".join(map(_version, candidate.split("+")))


def _version(name: str) -> str:
    if name == "native":
        return name  # its files belong to the state of this project, under which everything is kept
    try:
        return f"{name} {metadata.version(name)}"
    except metadata.PackageNotFoundError:
        found = _engine(name)
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
        logger.info("the native engine is not used, which computes networks fastest: %s", error)
        return None


@functools.cache
def _native() -> Engine:
    from .with_native import Native

    return Native()


@functools.cache
def _engine(name: str) -> Optional[Engine]:
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
