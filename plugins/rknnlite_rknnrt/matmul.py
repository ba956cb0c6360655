"""Matrix products through ``rknn_matmul_*`` of librknnrt."""

from __future__ import annotations

import ctypes as ct
import weakref
from collections.abc import Sequence
from typing import Any

from rknnlite_backend.abi.rknn_matmul import Io, QuantParams, Shape
from rknnlite_backend.crash import calls
from rknnlite_backend.matmul import check_fits, check_limits
from rknnlite_backend.matrices import info_of, matrix_of, matrix_struct

from rknnlite import socs
from rknnlite.errors import ContextInvalid, ParamInvalid, RknnError
from rknnlite.log import logger
from rknnlite.spi import Memory
from rknnlite.spi.matmul import MatmulContext, MatmulShape, MatmulSpec, MatmulTensor

from . import abi, memory
from .errors import Native, call_error
from .loader import Library
from .memory import RknnrtMemory

__all__ = ["RknnrtMatmul"]

_MOST_SHAPES = 512


class RknnrtMatmul(MatmulContext):
    """See ``rknnlite.spi.matmul.MatmulContext``. What the library refuses is explained by the SoC's table."""

    def __init__(self, library: Library, spec: MatmulSpec, soc: socs.Soc) -> None:
        super().__init__(spec, soc)
        if len(spec.shapes) > _MOST_SHAPES:
            raise ParamInvalid(f"{len(spec.shapes)} shapes are too many, {_MOST_SHAPES} are possible")
        self._library = library
        self._memories: weakref.WeakSet[RknnrtMemory] = weakref.WeakSet()
        self._native: Native | None = None
        self._cell = abi.CONTEXT(0)
        self._ios = self._create()
        self._native = Native(
            self._cell.value, _destroy, (library.quick("rknn_matmul_destroy"), self._cell), (), self._owner
        )
        try:
            if spec.core_mask:
                self.set_core_mask(spec.core_mask)
        except BaseException:
            self._native.release()
            raise

    @calls("backend rknnrt: rknn_matmul_create")
    def _create(self) -> list[tuple[MatmulTensor, MatmulTensor, MatmulTensor]]:
        spec = self.spec
        ios = (Io * len(spec.shapes))()
        info = info_of(spec, self.shape)
        if spec.dynamic:
            shapes = (Shape * len(spec.shapes))(*(Shape(*shape) for shape in spec.shapes))
            name = "rknn_matmul_create_dynamic_shape"
            arguments: tuple[Any, ...] = (ct.c_int(len(shapes)), shapes, ios)
        else:
            name, arguments = "rknn_matmul_create", (ios,)
        code = self._library.quick(name)(ct.byref(self._cell), ct.byref(info), *arguments)
        if code:
            raise call_error(name, code, self._why())
        return [
            (matrix_of(io.A, RknnError), matrix_of(io.B, RknnError), matrix_of(io.C, RknnError)) for io in ios
        ]

    def _why(self) -> str:
        """The limit of the SoC that a shape breaks, as far as it is known."""
        try:
            for shape in self.spec.shapes:
                check_limits(self.soc, self.spec.type, shape)
        except RknnError as error:
            return str(error)
        return (
            f"{self.spec.type.name.lower()} may be unknown to this version of the library, or memory is short"
        )

    @property
    def backend_name(self) -> str:
        return "rknnrt"

    @property
    def tensors(self) -> tuple[MatmulTensor, MatmulTensor, MatmulTensor]:
        return self._ios[self.spec.shapes.index(self.shape)]

    @calls("backend rknnrt: rknn_matmul")
    def _call(self, name: str, *arguments: Any, detail: str = "") -> None:
        self._need()
        code = self._library.quick(name)(self._cell, *arguments)
        if code:
            raise call_error(name, code, detail)

    # -- settings -----------------------------------------------------------------------------------------

    def set_shape(self, shape: MatmulShape) -> None:
        with self.exclusive():
            before = self.tensors
            self._call("rknn_matmul_set_dynamic_shape", ct.byref(Shape(*shape)))
            self.shape = shape
            self._bind_again(before)

    def set_core_mask(self, mask: int) -> None:
        with self.exclusive():
            detail = ""
            try:
                self.soc.check_core_mask(mask)
            except RknnError as error:
                detail = str(error)
                if not 0 <= mask <= abi.CoreMask.ALL:
                    raise
            self._call("rknn_matmul_set_core_mask", ct.c_int32(mask), detail=detail)

    def set_quant(self, name: str, scale: Sequence[float], zero_point: Sequence[int]) -> None:
        with self.exclusive():
            scales = (ct.c_float * len(scale))(*scale)
            zeros = (ct.c_int32 * len(zero_point))(*zero_point)
            params = QuantParams(name.encode(), scales, len(scales), zeros, len(zeros))
            self._call("rknn_matmul_set_quant_params", ct.byref(params))

    def b_scale(self) -> float:
        with self.exclusive():
            found = ct.c_float()
            params = QuantParams(name=b"B")
            self._call("rknn_matmul_get_quant_params", ct.byref(params), ct.byref(found))
            return found.value

    # -- memory -------------------------------------------------------------------------------------------

    def create_mem(self, size: int) -> RknnrtMemory:
        with self.exclusive():
            return self._own(
                memory.allocate(self._library, self._need().value, size, 0, (self._native,), self._owner)
            )

    def import_mem(self, handle: int, size: int, offset: int = 0) -> RknnrtMemory:
        with self.exclusive():
            value = self._need().value
            return self._own(
                memory.from_fd(self._library, value, handle, size, offset, (self._native,), self._owner)
            )

    def _own(self, mem: RknnrtMemory) -> RknnrtMemory:
        self._memories.add(mem)
        mem.belongs_to(self)
        return mem

    def unbind(self, mem: Memory) -> None:
        """Multiply on ``mem`` no more; ``mem.close`` calls it."""
        with self._owner:
            for name in [name for name, bound in self._bound.items() if bound is mem]:
                del self._bound[name]

    def _need(self) -> Native:
        if self._native is None:
            raise ContextInvalid(self._closed_reason)
        if not self._native.alive:
            raise ContextInvalid(self._forked_reason)
        return self._native

    def bind(self, tensor: MatmulTensor, mem: Memory) -> None:
        with self.exclusive():
            check_fits(tensor, mem, isinstance(mem, RknnrtMemory) and mem in self._memories)
            assert isinstance(mem, RknnrtMemory)
            self._call("rknn_matmul_set_io_mem", mem.require(), ct.byref(matrix_struct(tensor)))
            self._bound[tensor.name] = mem

    def run(self) -> None:
        with self.exclusive():
            self._check_bound()
            self._call("rknn_matmul_run")

    # -- life ---------------------------------------------------------------------------------------------

    def _release(self) -> None:
        """Memory first; numpy views that are still alive delay both until they are gone."""
        self._bound.clear()
        for mem in list(self._memories):
            mem.close()
        self._native = None


def _destroy(function: Any, cell: Any) -> int:
    value, cell.value = cell.value, 0
    code: int = function(abi.CONTEXT(value))
    if code:
        logger.debug("rknn_matmul_destroy answered %d", code)
    return code
