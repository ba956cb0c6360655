"""Calls as programs for rknn-toolkit-lite 1.x write them. Loaded when a call or a file needs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Callable, Protocol

import numpy as np

from .. import plugins
from .._faces.arguments import path_of, shown
from .._faces.log import FaceLog
from ..choosing import devices
from ..errors import BackendUnavailable, RknnError
from ..files.writing import write_file
from ..tensor import TensorAttr

__all__ = ["attached", "frame", "init_call", "load_call", "method"]

Call = tuple[tuple[Any, ...], dict[str, Any]]
Say = Callable[[str], None]

_NOT_INITED = "Runtime environment is not inited, please call init_runtime to init it first!"
_ORDER = (
    "target",
    "target_sub_class",
    "device_id",
    "perf_debug",
    "eval_mem",
    "async_mode",
    "rknn2precompile",
)
_NEW_ORDER = ("target", "device_id", "async_mode", "core_mask")
_ONLY_OLD = frozenset(_ORDER) - frozenset(_NEW_ORDER)
_SUB_CLASS = "AICS"
"""The only ``target_sub_class`` there has been."""
_WITHOUT_EFFECT = ("target_sub_class", "perf_debug", "eval_mem")


class _Face(Protocol):
    """What is used of an ``RKNNLite`` here."""

    rknn_log: FaceLog
    rknn_runtime: Any


def init_call(args: tuple[Any, ...], given: Mapping[str, Any], say: Say) -> Call:
    """Arguments of ``init_runtime`` in today's words; ``rknn2precompile`` comes as a keyword where it is set.

    The old order is (target, target_sub_class, device_id, perf_debug, eval_mem, async_mode, rknn2precompile), today's is
    (target, device_id, async_mode, core_mask). The old one is meant where the call has one of the old keywords or more
    than four positions, where the second position is "AICS", where the third is a text (an id; async_mode is a flag),
    or the fourth a bool (perf_debug; core_mask is a number). All other calls are today's.

    Raises:
        TypeError: too many positions, or an argument twice, as for any call.
    """
    if not _is_old(args, given):
        return args, dict(given)
    if len(args) > len(_ORDER):
        raise TypeError(f"init_runtime() takes at most {len(_ORDER)} arguments, {len(args)} were given")
    words = dict(zip(_ORDER, args))
    for name in words:
        if name in given:
            raise TypeError(f"init_runtime() got multiple values for argument {name!r}")
    words.update(given)
    for name in _WITHOUT_EFFECT:
        if _is_set(words.pop(name, None)):
            say(
                f"{name} has no effect here; it is deprecated or not supported by rknn-toolkit-lite 1.7, either."
            )
    if not _is_set(words.get("rknn2precompile")):
        words.pop("rknn2precompile", None)
    return (), words


def _is_set(value: Any) -> bool:
    """Whether an argument says something; what it says need not make sense."""
    return not (value is None or (isinstance(value, (bool, int, str)) and not value))


def _is_old(args: tuple[Any, ...], given: Mapping[str, Any]) -> bool:
    if _ONLY_OLD & set(given) or len(args) > len(_NEW_ORDER):
        return True
    places: list[Any] = list(args)
    second, third, fourth = (places + [None] * len(_NEW_ORDER))[1:4]
    return (
        (isinstance(second, str) and second.upper() == _SUB_CLASS)
        or isinstance(third, str)
        or isinstance(fourth, bool)
    )


def load_call(args: tuple[Any, ...], given: Mapping[str, Any]) -> tuple[Call, bool]:
    """Arguments of ``load_rknn`` in today's words, and ``load_model_in_npu``: a flag at the second position is that one."""
    words = dict(given)
    in_npu = words.pop("load_model_in_npu", False)
    if len(args) == 2 and isinstance(args[1], bool):
        in_npu, args = args[1], args[:1]
    return (args, words), _is_set(in_npu)


def frame(given: Any, data_type: Any, attrs: Sequence[TensorAttr], say: Say) -> tuple[Any, Any]:
    """Inputs and ``data_type`` of one call: pictures get their batch dimension, the element type is uint8 by default."""
    if not isinstance(given, (list, tuple)) or len(given) != len(attrs):
        given = [given] if isinstance(given, np.ndarray) else given
        if not isinstance(given, (list, tuple)) or len(given) != len(attrs):
            return given, data_type
    items = [_batched(item, attr) for item, attr in zip(given, attrs)]
    if data_type is None and any(isinstance(i, np.ndarray) and i.dtype != np.uint8 for i in items):
        say(
            "data_type is not given: it is uint8 by default for files of the first toolkit; name that of the arrays."
        )
        data_type = "uint8"
    return items, data_type


def _batched(item: Any, attr: TensorAttr) -> Any:
    if isinstance(item, np.ndarray) and item.ndim == 3 and len(attr.dims) == 4 and attr.dims[0] == 1:
        return item[None]
    return item


def attached(face: _Face) -> tuple[list[str], list[str]]:
    """``list_devices`` in the old wording: ids of devices by adb and by ntb, printed too."""
    try:
        first = {name for name, backend in plugins.backends().items() if backend.generation == "rknpu1"}
        found = [device for name, each in devices().items() if name in first for device in each]
    except Exception as error:
        face.rknn_log.tell("Catch exception when list devices.", error)
        found = []
    ntb = [device.id for device in found if "ntb" in f"{device.soc} {device.address}".lower()]
    adb = [device.id for device in found if device.id not in ntb]
    face.rknn_log.p("*" * 25)
    for kind, ids in (("adb", adb), ("ntb", ntb)):
        if ids:
            face.rknn_log.p(f"all device(s) with {kind} mode:")
            face.rknn_log.p(", ".join(ids))
    if not found:
        face.rknn_log.p("None devices connected.")
    if adb and ntb:
        face.rknn_log.w("Devices of adb and of ntb mode are attached; use one kind at a time.")
    face.rknn_log.p("*" * 25)
    return adb, ntb


def method(face: _Face, name: str) -> Any:
    """A method that only the old class has, bound; raises AttributeError for what no class has."""
    found = _METHODS.get(name)
    if found is None:
        raise AttributeError(f"{type(face).__name__!r} object has no attribute {name!r}")
    return partial(found, face)


def _set_core_mask(face: _Face, core_mask: int = 0) -> int:
    """0 for auto, else a bit per core, of chips with several cores; returns 0 or -1."""
    if face.rknn_runtime is None:
        face.rknn_log.e(_NOT_INITED, False)
        return -1
    try:
        with face.rknn_log.listening():
            face.rknn_runtime.set_core_mask(core_mask)
            return 0
    except Exception as error:
        face.rknn_log.tell("Catch exception when set npu core mode.", error)
        return -1


def _eval_memory(face: _Face, is_print: bool = True) -> dict[str, int] | None:
    """Bytes of weights, of buffers between layers, and of all, of 1.6.1; None with an E line where nobody knows them."""
    if face.rknn_runtime is None:
        face.rknn_log.e(_NOT_INITED, False)
        return None
    try:
        sizes = face.rknn_runtime.opened.memory()
    except RknnError as error:
        face.rknn_log.tell("Catch exception when eval memory.", error)
        return None
    found = {"weight_memory": sizes.weight, "internal_memory": sizes.internal, "total_memory": sizes.total}
    if is_print:
        for line in ("=" * 54, "Memory Profile Info Dump".center(54).rstrip(), "=" * 54):
            face.rknn_log.p(line)
        for name, count in found.items():
            face.rknn_log.p(f"{name.replace('_', ' ')}: {count / 2**20:.2f} MiB")
        face.rknn_log.p("=" * 54)
    return found


def _export(face: _Face, export_path: Any = None) -> int:
    """Write the pre-compiled form that a board has made; needs ``init_runtime(rknn2precompile=True)``. Returns 0 or -1."""
    headline = "Catch exception when export rknn precompile model."
    if face.rknn_runtime is None:
        face.rknn_log.e(_NOT_INITED, False)
        return -1
    path = path_of(export_path)
    if path is None:
        face.rknn_log.e(f"{headline} Invalid export path: {shown(export_path) or None}", False)
        return -1
    try:
        make = getattr(face.rknn_runtime.opened, "precompiled", None)
        if make is None:
            raise BackendUnavailable(
                "only the driver of an RK1808, RV1109 or RV1126 makes pre-compiled models; call this on such a board"
            )
        write_file(path, bytes(make()))
    except Exception as error:
        face.rknn_log.tell(headline, error)
        return -1
    return 0


_METHODS: dict[str, Callable[..., Any]] = {
    "eval_memory": _eval_memory,
    "export_rknn_precompile_model": _export,
    "set_core_mask": _set_core_mask,
}
