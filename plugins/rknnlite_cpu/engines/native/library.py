"""Loads the C files of this folder, ready in a wheel or built for this machine, and runs programs with them."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from math import prod
from typing import Any, Optional

import numpy as np
from rknnlite_programs import buildcache

from rknnlite.errors import ModelInvalid, OutOfMemory, ParamInvalid
from rknnlite.log import logger

from ...values import Array
from ..engine import Program
from . import recipe
from .description import FUNCTIONS, KINDS, NUMBERS, TAKES, Op, ProgramText, sides_at_edge
from .prebuilt import prebuilt

__all__ = ["Library", "NativeProgram", "is_ready", "library"]

_NAME = "librknnlite_networks.so"
_ALIGNED, _SLACK = 64, 256
_SMALL = 1 << 12
"""Elements that are copied in less time than it takes to find out their address."""


class _Tensor(ctypes.Structure):
    """``struct tensor``."""

    _fields_ = tuple(
        (name, ctypes.c_int64) for name in ("offset", "items", "height", "width", "channels", "pitch", "zero")
    )


_PAIR = ctypes.c_int64 * 2
_ADDRESSES = ("weights", "bias", "zeros", "factor", "slope", "numbers", "table", "ones", "sizes")


class _Op(ctypes.Structure):
    """``struct op``."""

    _fields_ = (
        ("kind", ctypes.c_int64),
        ("flags", ctypes.c_int64),
        *((name, _Tensor) for name in ("x", "other", "third", "y")),
        *((name, _PAIR) for name in ("kernel", "strides", "dilations", "pads")),
        ("place", ctypes.c_int64),
        ("depth", ctypes.c_int64),
        ("channels", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in _ADDRESSES),
        ("function", ctypes.c_int64),
        ("entries", ctypes.c_int64),
        *((name, ctypes.c_float) for name in NUMBERS),
        ("padding", ctypes.c_int32),
    )


class Library:
    """The library of a wheel, else one that is built here.

    Args:
        flags: more for the compiler; with any it is built.

    Raises BackendUnavailable without a compiler, ParamInvalid when it fails.
    """

    def __init__(self, *flags: str) -> None:
        loaded, self.build = (None if flags else _of_the_wheel()) or _built(flags)
        self.run, self.scratch = loaded.rknnlite_run, loaded.rknnlite_scratch
        size, address, ops = ctypes.c_int64, ctypes.c_void_p, ctypes.POINTER(_Op)
        self.run.argtypes = [ops, size, address, size, size, ctypes.c_int, address, address]
        self.scratch.argtypes, self.scratch.restype = [ops, size, ctypes.c_int], size
        layout = (ctypes.c_int64 * 4)()
        loaded.rknnlite_layout(layout)
        self.lanes, self.across, self.offset, op_size = layout
        if op_size != ctypes.sizeof(_Op):
            raise ParamInvalid(f"the native engine {loaded._name} has other structures; remove it")

    @property
    def layout(self) -> tuple[int, ...]:
        """How weights lie, see ``rknnlite_layout``."""
        return (self.lanes, self.across, self.offset)


_Loaded = tuple[ctypes.CDLL, str]
"""A library, and a text that differs where sources, compiler or processor do."""


def _built(flags: Sequence[str]) -> _Loaded:
    path = buildcache.build_library(_NAME, recipe.files(), "the native engine", *_flags(), *flags)
    try:
        return ctypes.CDLL(str(path)), path.parent.name
    except OSError as error:
        raise ParamInvalid(f"the native engine {path} cannot be loaded: {error}; remove it") from None


def _flags() -> list[str]:
    return [*recipe.FLAGS, *buildcache.for_this_processor()]


def is_ready() -> bool:
    """Whether the library is there without a compiler's seconds: in the wheel, or built before."""
    if library.cache_info().currsize or prebuilt() is not None:
        return True
    return buildcache.kept_library(_NAME, recipe.files(), *_flags()) is not None


def _of_the_wheel() -> Optional[_Loaded]:
    file = prebuilt()
    if file is None:
        return None
    try:
        return ctypes.CDLL(str(file)), f"{file.stem} {recipe.digest()}"
    except OSError as error:  # of a system with another C library
        logger.info("the native engine is built here, that of the wheel cannot be loaded: %s", error)
        return None


@functools.cache
def library() -> Library:
    """The one of this process; raises as ``Library`` does, every time anew."""
    return Library()


class NativeProgram(Program):
    """A program that is ready to run, in several threads at once: each run has a workspace of its own.

    Args:
        content: what ``ProgramText.pack`` wrote; arrays stay there.
    """

    def __init__(self, made: Library, content: bytes, threads: int) -> None:
        text = ProgramText.unpack(content)
        if text.layout != made.layout:
            raise ModelInvalid("a kept program is for another processor")
        self._library, self._threads, self._text, self._content = made, threads, text, content
        self._ops = (_Op * max(1, len(text.ops)))(*(_c_op(op) for op in text.ops))
        self._count, self._size = len(text.ops), text.size + _SLACK
        self._size += -self._size % _ALIGNED
        self._scratch = int(made.scratch(self._ops, self._count, threads))
        self._entering = [sides_at_edge(op) for op in text.ops if op.kind in TAKES]
        self._sizes = [prod(sides) for sides in self._entering]
        self._idle: list[_Workspace] = []

    def run(self, values: Sequence[Array]) -> list[Array]:
        """Centred integers in float32 -> results. Raises ValueError for values of other sizes."""
        if [value.size for value in values] != self._sizes:
            raise ValueError(f"values {[list(value.shape) for value in values]} for {self._entering}")
        try:
            work = self._idle.pop()
        except IndexError:
            work = self._workspace()
        try:
            held = work.take(values)
            large = work.offer()
            failed = self._library.run(*work.arguments)
            del held  # read until here
            if failed:
                raise OutOfMemory("the native engine has no memory for its threads")
            return [place.copy() if array is None else array for array, place in zip(large, work.results)]
        finally:
            self._idle.append(work)

    def _workspace(self) -> _Workspace:
        memory = np.empty(self._size + self._threads * self._scratch + _SLACK, np.uint8)
        start = memory.ctypes.data + -memory.ctypes.data % _ALIGNED
        work = _Workspace(memory, self._sizes, self._text.shapes)
        work.arguments = (
            self._ops, self._count, start, self._size, self._scratch, self._threads, work.entering, work.leaving
        )  # fmt: skip
        return work


class _Workspace:
    """What one run at a time works in. Small values and results lie here, at addresses that stay."""

    arguments: tuple[Any, ...] = ()
    """Of the library's ``run``."""

    def __init__(self, memory: Array, entering: Sequence[int], leaving: Sequence[tuple[int, ...]]) -> None:
        self._memory = memory
        self._places = [_place((size,)) for size in entering]
        self.results = [_place(shape) for shape in leaving]
        """Empty for those that are too large."""
        self._shapes = leaving
        self.entering, self.leaving = _addresses(self._places), _addresses(self.results)

    def take(self, values: Sequence[Array]) -> list[Array]:
        """Bring values in; those that come back are read where they are."""
        held = []
        for number, (value, place) in enumerate(zip(values, self._places)):
            if place.size:
                place[...] = value.ravel()
            else:
                value = np.ascontiguousarray(value, np.float32)
                self.entering[number] = value.ctypes.data
                held.append(value)
        return held

    def offer(self) -> list[Optional[Array]]:
        """New arrays for large results, None for those that will lie in ``results``."""
        offered: list[Optional[Array]] = []
        for number, (place, shape) in enumerate(zip(self.results, self._shapes)):
            array = None if place.size else np.empty(shape, np.float32)
            if array is not None:
                self.leaving[number] = array.ctypes.data
            offered.append(array)
        return offered


def _place(shape: tuple[int, ...]) -> Array:
    return np.empty(shape if prod(shape) <= _SMALL else 0, np.float32)


def _addresses(arrays: Sequence[Array]) -> Any:
    return (ctypes.c_void_p * max(1, len(arrays)))(*(array.ctypes.data for array in arrays))


def _c_op(op: Op) -> _Op:
    made = _Op(
        kind=KINDS.index(op.kind), flags=op.flags, place=op.place, depth=op.depth, channels=op.channels
    )
    for name in ("x", "other", "third", "y"):
        plane = getattr(op, name)
        if plane is not None:
            fields = {each[0]: getattr(plane, each[0]) for each in _Tensor._fields_}
            setattr(made, name, _Tensor(**fields))
    for name in ("kernel", "strides", "dilations", "pads"):
        setattr(made, name, _PAIR(*getattr(op, name)))
    for name in _ADDRESSES:
        array = op.arrays.get(name)
        setattr(made, name, None if array is None else array.ctypes.data)
    made.function = FUNCTIONS.index(op.function) if op.function else 0
    made.entries = op.arrays["table"].size if "table" in op.arrays else 0
    for name, value in op.numbers.items():
        setattr(made, name, value)
    return made
