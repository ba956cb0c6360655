"""``rknn_tensor_mem`` for programs that share memory with contexts where no vendor library computes."""

from __future__ import annotations

import ctypes as ct
from dataclasses import dataclass
from typing import Any

from ..abi.rknn_api import MemSource
from ..abi.rknn_op import MAX_DIMS, TensorAttrStruct, TensorMem
from ..errors import ParamInvalid
from ..spi import Context, Memory
from ..tensor import DType, Layout, TensorAttr
from ._c_pointers import address

__all__ = ["CMemories", "CMemory", "attr_of"]


@dataclass
class CMemory:
    """One buffer: the structure that the program sees, and what it stands for."""

    struct: TensorMem
    memory: Memory
    owner: Context
    view: Any
    """Keeps the bytes where ``virt_addr`` says until the program destroys the memory."""


class CMemories:
    """All memory of the contexts of one library, found by the address of its structure, which is never read."""

    def __init__(self) -> None:
        self._known: dict[int, CMemory] = {}

    def add(self, owner: Context, memory: Memory, virtual: int, source: MemSource) -> Any:
        """The pointer for the program. ``virtual`` is the program's own mapping; 0: ours is told."""
        view = memory.ndarray
        base = virtual or view.ctypes.data - memory.offset
        struct = TensorMem(
            virt_addr=base,
            phys_addr=memory.phys,
            fd=memory.fd,
            offset=memory.offset,
            size=memory.size,
            flags=source,
        )
        self._known[ct.addressof(struct)] = CMemory(struct, memory, owner, view)
        return ct.pointer(struct)

    def find(self, pointer: Any) -> CMemory:
        """The memory that is meant; raises ParamInvalid for one that was destroyed, or never was."""
        where = address(pointer)
        if where not in self._known:
            raise ParamInvalid(
                f"there is no rknn_tensor_mem at {where:#x}: it was destroyed, or is none of rknn_create_mem"
            )
        return self._known[where]

    def destroy(self, pointer: Any) -> None:
        """Give the buffer back; the structure leads nowhere afterwards."""
        found = self.find(pointer)
        del self._known[ct.addressof(found.struct)]
        found.struct.virt_addr, found.struct.size, found.struct.fd = None, 0, -1
        found.memory.close()


def attr_of(struct: TensorAttrStruct) -> TensorAttr:
    """What a program says of a tensor; raises ParamInvalid for numbers that mean nothing."""
    name = struct.name.decode("utf-8", "replace")
    if not 0 < struct.n_dims <= MAX_DIMS:
        raise ParamInvalid(f"tensor {name!r} has {struct.n_dims} dims; there are 1 to {MAX_DIMS}")
    try:
        dtype, layout = DType(struct.type), Layout(struct.fmt)
    except ValueError:
        raise ParamInvalid(
            f"tensor {name!r} has type {struct.type} and fmt {struct.fmt}; types are 0 to {max(DType)}, "
            f"formats 0 to {max(Layout)}"
        ) from None
    return TensorAttr(
        index=struct.index,
        name=name,
        dims=tuple(struct.dims[: struct.n_dims]),
        dtype=dtype,
        layout=layout,
        w_stride=struct.w_stride,
        h_stride=struct.h_stride,
        size_with_stride=struct.size_with_stride,
        pass_through=bool(struct.pass_through),
    )
