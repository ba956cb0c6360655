"""A plugin in its process: started for one model, kept warm, driven over a socket and a shared memory file."""

from __future__ import annotations

import ctypes as ct
import logging
import mmap
import os
import struct
import subprocess
from collections.abc import Sequence
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray
from rknnlite_backend.abi import rknn3_op as abi
from rknnlite_programs.childprocess import ChildProcess, exactly

from rknnlite.errors import ParamInvalid, RknnError, error_from_code
from rknnlite.log import logger
from rknnlite.tensor import DType, Layout, QuantParams, TensorAttr

__all__ = ["Process"]

Array = NDArray[Any]
_MAX_TENSORS = 64
_MAGIC = 0x72763364
_OPEN, _MAP, _COMPUTE, _CLOSE = 1, 2, 3, 4
_GUARD = b"\xa5\x5a\xc3\x3c" * 16
_RESULT_LIMIT = 256 << 20
_CODE = struct.Struct("<i")
_NAMES = ("UNDEFINED", "NCHW", "NHWC")


class _Header(ct.Structure):
    """The start of the shared file; the same structure is in stub.c."""

    _fields_ = (
        ("magic", ct.c_uint32),
        ("n_inputs", ct.c_uint32),
        ("n_outputs", ct.c_uint32),
        ("n_results", ct.c_uint32),
        ("inputs_end", ct.c_uint64),
        ("total", ct.c_uint64),
        ("output_at", ct.c_uint64 * _MAX_TENSORS),
        ("result_at", ct.c_uint64 * _MAX_TENSORS),
        ("text", ct.c_char * 256),
        ("op_type", ct.c_char * 256),
        ("inputs", abi.TensorAttr3 * _MAX_TENSORS),
        ("outputs", abi.TensorAttr3 * _MAX_TENSORS),
        ("results", abi.TensorAttr3 * _MAX_TENSORS),
    )


class Process:
    """Runs ``command`` for a model with these inputs and outputs.

    Raises:
        ParamInvalid: the plugin cannot be used, or describes results that make no sense.
        RunTimeout, RknnError: it hangs, crashes or answers a code.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        inputs: Sequence[TensorAttr],
        outputs: Sequence[TensorAttr],
        limit: Optional[float],
    ) -> None:
        self._name = name
        self._limit = limit
        self._inputs: list[Array] = []
        self._outputs: list[Array] = []
        if max(len(inputs), len(outputs)) > _MAX_TENSORS:
            raise ParamInvalid(
                f"{name}: {len(inputs)} inputs and {len(outputs)} outputs, at most {_MAX_TENSORS} go"
            )
        fd = os.memfd_create("rknnlite-postprocess", os.MFD_CLOEXEC)
        try:
            os.ftruncate(fd, _page(ct.sizeof(_Header)))
            self._header_map = mmap.mmap(fd, _page(ct.sizeof(_Header)))
            header = _Header.from_buffer(self._header_map)
            header.magic, header.n_inputs, header.n_outputs = _MAGIC, len(inputs), len(outputs)
            for target, attr in zip(header.inputs, inputs):
                _describe(target, attr)
            for target, attr in zip(header.outputs, outputs):
                _describe(target, attr)
            self._header = header
            self._child = ChildProcess(name, [*command, str(fd)], [fd], **_chatter())
            try:
                self._ask(_OPEN, "init, get_output_num or get_attrs")
                self.results = [self._result(i) for i in range(min(header.n_results, _MAX_TENSORS))]
                self._lay_out(fd, outputs)
                self._ask(_MAP, "the mapping of tensors")
            except BaseException:
                self.close()
                raise
        finally:
            os.close(fd)

    def compute(self, arrays: Sequence[Array]) -> list[Array]:
        """Results (copies) from the model's outputs in their stored type."""
        self._child.check()
        for view, array in zip(self._inputs, arrays):
            view[...] = array
        self._ask(_COMPUTE, "compute")
        for attr, end in zip(self.results, self._ends):
            if self._data[end : end + len(_GUARD)] != _GUARD:
                self._data[end : end + len(_GUARD)] = _GUARD
                raise RknnError(
                    f"plugin {self._name} wrote past the end of output {attr.name} ({attr.size} bytes)"
                )
        return [view.copy() for view in self._outputs]

    def close(self) -> None:
        """Let the plugin tidy up and end the process; calling it again does nothing."""
        if self._child.alive:
            try:
                self._ask(_CLOSE, "deinit")
            except RknnError as error:
                logger.warning("%s", error)
        self._inputs, self._outputs = [], []
        self._child.close()

    def _ask(self, command: int, step: str) -> None:
        with self._child.exchange(step, self._limit) as sock:
            sock.sendall(_CODE.pack(command))
            (code,) = _CODE.unpack(exactly(sock, _CODE.size))
        if code != 0:
            text = self._header.text.decode("utf-8", "replace") or f"{step} answers {code}"
            message = f"plugin {self._name}: {text}"
            raise ParamInvalid(message) if command == _OPEN else error_from_code(code, message)

    # -- tensors ----------------------------------------------------------------------------------------------

    def _result(self, index: int) -> TensorAttr:
        given = self._header.results[index]
        name = given.name.decode("utf-8", "replace") or f"output{index}"
        try:
            dtype = DType[abi.Type3(given.dtype).name]
            layout = Layout[_NAMES[given.layout] if 0 <= given.layout < len(_NAMES) else "UNDEFINED"]
        except (KeyError, ValueError):
            raise ParamInvalid(f"plugin {self._name}: output {name} has element type {given.dtype}") from None
        if not 0 < given.n_dims <= abi.MAX_DIMS:
            raise ParamInvalid(f"plugin {self._name}: output {name} has {given.n_dims} dimensions")
        quant = None
        if given.qnt_type in (abi.QntType3.PER_LAYER_SYMMETRIC, abi.QntType3.PER_LAYER_ASYMMETRIC):
            quant = QuantParams(given.qnt_info.scale, given.qnt_info.zero_point)
        attr = TensorAttr(index, name, tuple(given.shape[: given.n_dims]), dtype, layout, quant)
        if not 0 < attr.size <= given.aligned_size <= _RESULT_LIMIT:
            raise ParamInvalid(
                f"plugin {self._name}: output {name} has shape {list(attr.dims)} of {dtype.short}, {attr.size} bytes, "
                f"and aligned_size {given.aligned_size}; it must be at least that and at most {_RESULT_LIMIT}"
            )
        return attr

    def _lay_out(self, fd: int, outputs: Sequence[TensorAttr]) -> None:
        header = self._header
        begin = at = _page(ct.sizeof(_Header))
        for i, attr in enumerate(outputs):
            header.output_at[i] = at
            at = _aligned(at + attr.size)
        header.inputs_end = at = _page(max(at, begin + 1))
        ends = []
        for i in range(len(self.results)):
            header.result_at[i] = at
            ends.append(at + header.results[i].aligned_size)
            at = _aligned(ends[-1] + len(_GUARD))
        header.total = at = _page(at)
        os.ftruncate(fd, at)
        self._data = mmap.mmap(fd, at - begin, offset=begin)
        self._inputs = [self._view(header.output_at[i] - begin, a) for i, a in enumerate(outputs)]
        self._outputs = [self._view(header.result_at[i] - begin, a) for i, a in enumerate(self.results)]
        self._ends = [end - begin for end in ends]
        for end in self._ends:
            self._data[end : end + len(_GUARD)] = _GUARD

    def _view(self, at: int, attr: TensorAttr) -> Array:
        return np.frombuffer(self._data, attr.dtype.numpy, attr.n_elems, at).reshape(attr.dims)


def _describe(target: abi.TensorAttr3, attr: TensorAttr) -> None:
    dims = attr.dims
    if attr.dtype.name not in abi.Type3.__members__:
        raise ParamInvalid(
            f"tensor {attr.name} is {attr.dtype.short}, a type that post-process plugins do not know; convert the "
            "model in float16 or int8, or keep the network's end in one of them (hybrid quantisation)"
        )
    target.index, target.n_dims = attr.index, len(dims)
    target.n_elems, target.aligned_size = attr.n_elems, attr.size
    target.name = attr.name.encode()[: abi.MAX_NAME - 1]
    target.shape[: len(dims)] = dims
    target.n_stride = len(dims)
    for i in range(len(dims)):
        target.stride[i] = int(np.prod(dims[i:]))
    target.dtype = abi.Type3[attr.dtype.name]
    target.layout = abi.Layout3[attr.layout.name] if attr.layout.name in _NAMES else abi.Layout3.UNDEFINED
    target.qnt_info.scale = 1.0
    if attr.quant is not None:
        target.qnt_type = abi.QntType3.PER_LAYER_ASYMMETRIC
        target.qnt_info.scale, target.qnt_info.zero_point = attr.quant.scale, attr.quant.zero_point


def _chatter() -> dict[str, Any]:
    """Where what plugins print goes: to stderr when debugging, else nowhere."""
    shown = logger.isEnabledFor(logging.DEBUG)
    return {"stdout": 2 if shown else subprocess.DEVNULL, "stderr": None if shown else subprocess.DEVNULL}


def _aligned(size: int) -> int:
    return (size + 63) & ~63


def _page(size: int) -> int:
    return (size + 4095) & ~4095
