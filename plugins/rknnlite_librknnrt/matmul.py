"""Matrix products of the program: ``rknn_matmul_*``."""

from __future__ import annotations

import ctypes as ct
import mmap
from typing import Any

import numpy as np
from rknnlite_backend.abi.rknn_matmul import Info, Io, Shape, Tensor
from rknnlite_backend.matmul import facts_of
from rknnlite_backend.matrices import matrix_of, matrix_struct

from rknnlite import config, socs
from rknnlite.choosing import choose_matmul_backend
from rknnlite.errors import ParamInvalid
from rknnlite.matmul.layout import from_bytes, pack_b, to_bytes
from rknnlite.spi.matmul import BLayout, BQuant, MatmulContext, MatmulShape, MatmulSpec, MatmulType

from .calls import Handler, Reply
from .memories import Memories
from .protocol import Call, Request

__all__ = ["Product", "native_b"]
_NAME = 256


class Product:
    """Serves one context of ``rknn_matmul_create``."""

    def __init__(self, opened: MatmulContext) -> None:
        self._opened = opened
        self._memories = Memories(opened)

    @classmethod
    def open(cls, request: Request) -> tuple[Product, Reply]:
        """A product with the shapes that the call names; answers their tensors. Raises what opening raises."""
        info = Info.from_buffer_copy(request.payload)
        at, step = ct.sizeof(Info), ct.sizeof(Shape)
        shapes = [Shape.from_buffer_copy(request.payload, at + i * step) for i in range(request.args[0])]
        spec = _spec(info, shapes)
        opened = choose_matmul_backend(config.get("backend") or "cpu").matmul(spec)
        told = []
        for shape in reversed(spec.shapes):  # the first one is chosen in the end
            if len(spec.shapes) > 1:
                opened.set_shape(shape)
            told.append(bytes(Io(*map(matrix_struct, opened.tensors))))
        return cls(opened), Reply(b"".join(reversed(told)))

    def handlers(self) -> dict[int, Handler]:
        """What answers which call."""
        return {
            Call.MEMORY: self._memories.learn,
            Call.FORGET: self._memories.forget,
            Call.MATMUL_BIND: self._bind,
            Call.MATMUL_MASK: self._mask,
            Call.MATMUL_QUANT: self._quant,
            Call.MATMUL_SCALE: self._scale,
            Call.MATMUL_SHAPE: self._shape,
            Call.MATMUL_RUN: self._run,
        }

    def close(self) -> None:
        """Close the context."""
        self._opened.close()
        self._memories.close()

    def _bind(self, request: Request) -> None:
        tensor = matrix_of(Tensor.from_buffer_copy(request.payload))
        self._opened.bind(tensor, self._memories.find(request.args[0]))

    def _mask(self, request: Request) -> None:
        self._opened.set_core_mask(request.args[0])

    def _quant(self, request: Request) -> None:
        scales, zeros = request.args[:2]
        name = _name(request.payload)
        scale = np.frombuffer(request.payload, np.float32, scales, _NAME)
        zero = np.frombuffer(request.payload, np.int32, zeros, _NAME + scale.nbytes)
        if not scales or zeros not in (0, 1, scales):
            raise ParamInvalid(
                f"{name}: {scales} scales and {zeros} zero points; give one each, or as many of both"
            )
        points = zero.tolist() if zeros else [0]
        self._opened.set_quant(name, scale.tolist(), points)

    def _scale(self, request: Request) -> Reply:
        name = _name(request.payload)
        if name not in ("B", ""):  # programs leave it empty, as there is no other
            raise ParamInvalid(f"the normalised scale is one of B, not of {name}")
        return Reply(np.float32(self._opened.b_scale()).tobytes())

    def _shape(self, request: Request) -> None:
        shape = Shape.from_buffer_copy(request.payload)
        wanted = MatmulShape(shape.M, shape.K, shape.N)
        legal = self._opened.spec.shapes
        if wanted not in legal:
            raise ParamInvalid(
                f"shape {tuple(wanted)} is none of those that the product was created with: "
                f"{', '.join(str(tuple(known)) for known in legal)}"
            )
        self._opened.set_shape(wanted)

    def _run(self, _: Request) -> None:
        self._opened.run()


def native_b(request: Request) -> Reply:
    """Put B, which lies [K, N] in the memory that came along, into the layout of the NPU, in place."""
    k, n, size = request.args[:3]
    info = Info.from_buffer_copy(request.payload)
    info.B_layout = BLayout.NATIVE
    spec = _spec(info, [Shape(max(1, info.M), k, n)])
    with_layout = choose_matmul_backend("cpu").matmul(spec)
    try:
        tensor, facts = with_layout.tensors[1], facts_of(with_layout.soc, spec.type)
    finally:
        with_layout.close()
    if tensor.size != size:
        raise ParamInvalid(
            f"B of {k} x {n} has {size} bytes, its native form {tensor.size}: it cannot be converted"
        )
    data = np.frombuffer(mmap.mmap(request.fds.first, size), np.uint8)
    matrix = from_bytes(data, tensor.dtype, (k, n))
    tile_n, tile_k = tensor.dims[2:]
    data[:] = to_bytes(pack_b(matrix, (tile_n, tile_k), facts.segment), tensor.dtype)
    return Reply()


def _spec(info: Info, shapes: list[Any]) -> MatmulSpec:
    """What is asked for. Raises ParamInvalid for numbers that mean nothing."""
    if info.AC_layout not in (0, 1):
        raise ParamInvalid(f"AC_layout is {info.AC_layout}; 0 is normal, 1 native")
    try:
        layout, quant = BLayout(info.B_layout), BQuant(info.B_quant_type)
    except ValueError as error:
        raise ParamInvalid(f"B_layout or B_quant_type: {error}; layouts are 0 to 2, kinds 0 to 5") from None
    soc = config.get("soc")
    spec = MatmulSpec(
        shapes=tuple(MatmulShape(shape.M, shape.K, shape.N) for shape in shapes),
        type=MatmulType.of(info.type),
        soc=socs.get(soc) if soc else None,
        b_layout=layout,
        ac_native=bool(info.AC_layout),
        b_quant=quant,
        group_size=info.group_size if quant.per_group else 0,
        iommu_domain=max(0, info.iommu_domain_id),
        dynamic=len(shapes) > 1,
    )
    spec.check()
    return spec


def _name(payload: bytes) -> str:
    return payload[:_NAME].split(b"\0", 1)[0].decode("utf-8", "replace")
