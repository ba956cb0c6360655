"""Matrix products and attention of the NPU: their hidden steps, and first operands that are stored.

``exMatMul`` multiplies A [B, K, 1, M] by B [B, K, 1, N]. Where A is stored, the compiler makes a 1x1 convolution of every item:
A lies as the weights of B convolutions do, one behind the other. Its dims are those of a single one, [M, K, 1, 1], its zero
point is the common one of the registers, and its step follows from the scale of the output stage.
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ModelInvalid, ModelUnsupported
from rknnlite.tensor import DType, QuantParams

from ..graph import Node, Tensor, TensorRole
from . import weights
from .matmul_scales import attention_steps, product_steps
from .npu_families import NpuFamily
from .output_stages import data_use
from .register_map import Registers
from .registers import RegisterProgram
from .tensor_storage import Storage

__all__ = ["read_product"]


def read_product(
    node: Node,
    tensors: list[Tensor],
    storage: Storage,
    family: NpuFamily,
    program: RegisterProgram,
    regs: Registers,
) -> None:
    """Give ``node`` its steps as attributes, and a stored A in logical order as a tensor of its own. Raises ModelInvalid."""
    operands, output = [tensors[i] for i in node.inputs], tensors[node.outputs[0]]
    if node.op == "exSDPAttention":
        steps = attention_steps(family, program, node.index, operands, output)
        if output.dtype is DType.INT8 and not steps:
            node.doubts.append("its registers do not tell the steps of its scores; they are not rounded")
    elif (
        len(operands) > 1 and operands[0].role is TensorRole.CONST and len(operands[0].native_shape) % 6 == 0
    ):
        steps = {}
        made = _item_weights(node, operands, len(tensors), storage.of(operands[0].index))
        if made.dtype is DType.INT8 and operands[1].quant is not None and output.quant is not None:
            assert node.stage is not None
            step = node.stage.scale * output.quant.scale / operands[1].quant.scale
            made.quant = QuantParams(step, data_use(family, regs).common_zero_point)
        tensors.append(made)
        node.inputs[0] = made.index
    else:
        steps = product_steps(family, program, node.index, operands, output)
    node.attrs.update(steps)


def _item_weights(node: Node, operands: list[Tensor], index: int, data: memoryview) -> Tensor:
    """A as a constant [B, K, 1, M], numbered ``index``; ``data`` are its bytes."""
    stored, b = operands[:2]
    if len(stored.shape) != 4 or len(b.shape) != 4 or stored.shape[1:] != (b.shape[1], 1, 1):
        raise ModelInvalid(
            f"node {node.label()}: its constant {stored.name} {list(stored.shape)} is no set of weights for {b.name} "
            f"{list(b.shape)}"
        )
    kind = stored.dtype.numpy.newbyteorder("<")
    count, rest = divmod(len(data) // kind.itemsize, max(b.shape[0], 1))
    need = sum(prod(part) for part in weights.segments(stored.native_shape, stored.name))
    if rest or count < need:
        raise ModelInvalid(
            f"node {node.label()}: its constant {stored.name} has {len(data)} bytes for {b.shape[0]} items of {need} weights each"
        )
    if stored.dtype not in (b.dtype, DType.FLOAT16):
        raise ModelUnsupported(
            f"node {node.label()}: its constant {stored.name} holds {stored.dtype.short} weights for {b.dtype.short} data; "
            "convert the network again, in int8 or float16"
        )
    if stored.dtype is not b.dtype:
        node.doubts.append(
            f"its weights {stored.name} are {stored.dtype.short} beside {b.dtype.short} data: the NPU may take them as such"
        )
    load = partial(_unpacked, np.frombuffer(data, kind, count * b.shape[0]), stored, b.shape[0])
    shape = (*b.shape[:2], 1, stored.shape[0])
    role, native = TensorRole.CONST, stored.native_shape
    return Tensor(
        index, stored.name, stored.dtype, shape, role, native_shape=native, nbytes=len(data), load=load
    )


def _unpacked(flat: NDArray[Any], stored: Tensor, items: int) -> NDArray[Any]:
    """[items, K, 1, M]."""
    shape, name = stored.shape, stored.name
    parts = [
        weights.unpack_blocks(part, stored.native_shape, shape, name) for part in flat.reshape(items, -1)
    ]
    found: NDArray[Any] = np.stack(parts)[..., 0].transpose(0, 2, 3, 1)
    return np.ascontiguousarray(found)
