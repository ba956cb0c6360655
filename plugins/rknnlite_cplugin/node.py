"""One node on a loaded operator: structures, shared buffers with guard bytes, and the calls in their order.

Needs nothing but ctypes, because it also runs in the worker process of isolated plugins.
"""

from __future__ import annotations

import contextlib
import ctypes as ct
import mmap
import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rknnlite_backend.crash import caller

from rknnlite.abi import rknn_op as abi
from rknnlite.tensor import DType, TensorAttr

__all__ = ["Buffer", "NativeNode", "describe_attrs", "overwritten"]

_GUARD = b"\xa5\x5a\xc3\x3c" * 16


class _AttributeTable(ct.Structure):
    _fields_ = (("count", ct.c_uint32), ("attrs", ct.POINTER(abi.CustomOpAttr)))


@dataclass
class Buffer:
    """Shared memory for one tensor, with guard bytes behind its ``size`` bytes."""

    fd: int
    size: int
    map: mmap.mmap

    @classmethod
    def create(cls, size: int, fd: int | None = None) -> Buffer:
        """New memory, or a mapping of what ``fd`` refers to (the descriptor is taken over)."""
        if fd is None:
            fd = os.memfd_create("rknnlite-op", os.MFD_CLOEXEC)
            os.ftruncate(fd, size + len(_GUARD))
        mapped = mmap.mmap(fd, size + len(_GUARD))
        mapped[size:] = _GUARD
        return cls(fd, size, mapped)

    @property
    def address(self) -> int:
        return ct.addressof(ct.c_char.from_buffer(self.map))

    def intact(self) -> bool:
        """Whether nobody wrote past the end."""
        return self.map[self.size :] == _GUARD

    def restore(self) -> None:
        """Put the guard bytes back."""
        self.map[self.size :] = _GUARD

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
            with contextlib.suppress(BufferError):  # somebody still looks at it; freed with the last view
                self.map.close()


def overwritten(outputs: Sequence[Buffer], attrs: Sequence[TensorAttr]) -> str | None:
    """Names of the outputs behind whose end something was written; None when there are none."""
    if all(buffer.intact() for buffer in outputs):
        return None
    names = [f"{a.name} ({a.size} bytes)" for b, a in zip(outputs, attrs) if not b.intact()]
    for buffer in outputs:
        buffer.restore()
    return "wrote past the end of output " + ", ".join(names)


class NativeNode:
    """The structures that a plugin sees for one node. ``init``, ``compute`` and ``destroy`` answer its codes."""

    def __init__(
        self,
        struct: abi.CustomOpStruct,
        attrs: Mapping[str, Any],
        inputs: Sequence[tuple[TensorAttr, Buffer]],
        outputs: Sequence[tuple[TensorAttr, Buffer]],
        symbols: Any,
        gpu: tuple[int, int, int] | None = None,
        call: Callable[..., Any] | None = None,
    ) -> None:
        self._struct = struct
        self._call = call or caller("in a worker", "an operator")
        self._kept: list[Any] = []
        self._table = self._attributes(attrs)
        self._ctx = abi.CustomOpContext(target=struct.target, internal_ctx=ct.addressof(self._table))
        if gpu is not None:
            self._ctx.gpu_ctx = abi.GpuOpContext(*gpu)
        self._in = _tensors(inputs)
        self._out = _tensors(outputs)
        self._args = (ct.byref(self._ctx), self._in, len(inputs), self._out, len(outputs))
        if symbols is not None:  # from now on the plugin may ask for attributes of this node
            address = ct.addressof(self._table)
            symbols.rknnlite_op_announce(address)
            weakref.finalize(self, symbols.rknnlite_op_withdraw, address)
        self._compute = struct.compute
        self._prepare = struct.prepare if struct.prepare else None

    def init(self) -> int:
        """Call the plugin's ``init``; 0 when it has none."""
        return int(self._call(self._struct.init, *self._args)) if self._struct.init else 0

    def compute(self) -> int:
        """Call ``prepare`` (where there is one) and ``compute``; the first code that is not 0."""
        if self._prepare is not None:
            code = self._call(self._prepare, *self._args)
            if code:
                return int(code)
        return int(self._call(self._compute, *self._args))

    def destroy(self) -> int:
        """Call the plugin's ``destroy``; 0 when it has none."""
        return int(self._call(self._struct.destroy, ct.byref(self._ctx))) if self._struct.destroy else 0

    def _attributes(self, attrs: Mapping[str, Any]) -> _AttributeTable:
        array = (abi.CustomOpAttr * max(1, len(attrs)))()
        for entry, (name, value) in zip(array, attrs.items()):
            dtype, count, data = _encode(value)
            self._kept.append(data)
            entry.name = name.encode()[: abi.MAX_NAME - 1]
            entry.dtype, entry.n_elems, entry.data = int(dtype), count, ct.addressof(data)
        self._kept.append(array)
        return _AttributeTable(len(attrs), ct.cast(array, ct.POINTER(abi.CustomOpAttr)))


def _tensors(parts: Sequence[tuple[TensorAttr, Buffer]]) -> Any:
    array = (abi.CustomOpTensor * max(1, len(parts)))()
    for entry, (attr, buffer) in zip(array, parts):
        target = entry.attr
        target.index, target.n_dims = attr.index, len(attr.dims)
        target.dims[: len(attr.dims)] = attr.dims
        target.name = attr.name.encode()[: abi.MAX_NAME - 1]
        target.n_elems, target.size, target.size_with_stride = attr.n_elems, attr.size, attr.size
        target.fmt, target.type, target.scale = int(attr.layout), int(attr.dtype), 1.0
        entry.mem.virt_addr, entry.mem.fd, entry.mem.size = buffer.address, buffer.fd, buffer.size
    return array


def _encode(value: Any) -> tuple[DType, int, Any]:
    """An attribute as the vendor's runtime shows it: int64, float32, bool, or the bytes of a text."""
    if isinstance(value, (str, bytes)):
        text = value.encode() if isinstance(value, str) else value
        return DType.UINT8, len(text), ct.create_string_buffer(text)
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    if values and all(isinstance(v, bool) for v in values):
        return DType.BOOL, len(values), (ct.c_bool * len(values))(*values)
    if all(isinstance(v, int) for v in values):
        return DType.INT64, len(values), (ct.c_int64 * max(1, len(values)))(*values)
    if all(isinstance(v, (int, float)) for v in values):
        return DType.FLOAT32, len(values), (ct.c_float * len(values))(*values)
    text = "\0".join(str(v) for v in values).encode()
    return DType.UINT8, len(text), ct.create_string_buffer(text)


def describe_attrs(attrs: Mapping[str, Any]) -> str:
    """Names, types and lengths of attributes, for messages."""
    entries = [(name, *_encode(value)[:2]) for name, value in attrs.items()]
    return ", ".join(f"{name} {dtype.name.lower()}[{count}]" for name, dtype, count in entries) or "none"
