"""Custom operators inside a plan: the arrays they get, their life, and errors that name them."""

from __future__ import annotations

import traceback
import weakref
from pathlib import Path
from typing import Any

import numpy as np
from rknnlite_graph.graph import Node, Tensor
from rknnlite_graph.node_view import NodeView

from rknnlite.errors import RknnError
from rknnlite.log import logger
from rknnlite.spi import CustomOp, CustomOpFailed, OpContext, OpNode, UseBuiltin
from rknnlite.spi.custom_op import OPERATOR_ERRORS, take_results
from rknnlite.tensor import DType, Layout, TensorAttr

from .values import Array, decode, encode

__all__ = ["CustomNode"]


class CustomNode:
    """One node computed by a custom operator; ``kernel`` is what the plan calls.

    ``init`` of the operator has run when the constructor returns; ``close``, or dropping the node, runs
    ``destroy``.

    Raises:
        UseBuiltin: the operator leaves the node to the backend's own.
        CustomOpFailed: ``init`` raised anything else.
    """

    def __init__(self, op: CustomOp, view: NodeView, model_name: str) -> None:
        self._op = op
        self._model_name = model_name
        self._outputs = view.outputs
        self._where = (
            f'{model_name}: custom operator {op.op_type} ({op.describe()}) at node "{view.node.name}"'
        )
        present = [(i, tensor) for i, tensor in enumerate(view.inputs) if tensor is not None]
        self._live = [(slot, t) for slot, (i, t) in enumerate(present) if not view.is_const(i)]
        self._fixed: list[Array] = [
            _frozen(view.constant(i)) if view.is_const(i) else _blank(tensor) for i, tensor in present
        ]
        self._ctx = OpContext(
            OpNode(
                view.node.op,
                view.node.name,
                dict(view.attrs),
                [t.name for _, t in present],
                [t.name for t in self._outputs],
            ),
            [_attr(slot, tensor) for slot, (_, tensor) in enumerate(present)],
            [_attr(slot, tensor) for slot, tensor in enumerate(self._outputs)],
        )
        self._hint = _left_out(view.node) if view.node.attrs_left_out else ""
        self._call("init", self._fixed)
        if self._hint:
            logger.warning("%s: custom operator %s%s", model_name, view.node.label(), self._hint)
        self._finalizer = weakref.finalize(self, _destroy, op, self._ctx)

    def kernel(self, values: list[Array]) -> list[Array]:
        """Runtime values of the inputs that are not constant -> runtime values of the outputs."""
        inputs = list(self._fixed)
        for (slot, tensor), value in zip(self._live, values):
            inputs[slot] = _frozen(decode(value, tensor))
        return [encode(r, t, self._where) for r, t in zip(self._call("compute", inputs), self._outputs)]

    @property
    def target(self) -> str:
        """The processor that the operator is made for, as performance tables name it."""
        return str(self._op.target).upper()

    def close(self) -> None:
        """Run ``destroy``; calling it again does nothing."""
        self._finalizer()

    def _call(self, step: str, inputs: list[Array]) -> list[Array]:
        outputs = [_blank(tensor) for tensor in self._outputs]
        try:
            results = getattr(self._op, step)(self._ctx, inputs, outputs)
            if results is not None and step == "compute":
                take_results(results, outputs, self._where)
        except UseBuiltin:
            raise
        except OPERATOR_ERRORS as error:
            raise self._failure(step, inputs, error) from error
        return outputs

    def _failure(self, step: str, inputs: list[Array], error: BaseException) -> CustomOpFailed:
        if isinstance(error, RknnError):
            cause = str(error)
        else:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            cause = f"{type(error).__name__}: {error} ({Path(frame.filename).name}, line {frame.lineno})"
        code = error.code if isinstance(error, RknnError) else None
        return CustomOpFailed(
            f"{self._model_name}: custom operator {self._op.op_type} ({self._op.describe()}) failed in {step} "
            f'at node "{self._ctx.node.name}" on inputs {[list(array.shape) for array in inputs]}: {cause}{self._hint}',
            code=code,
        )


def _left_out(node: Node) -> str:
    return (
        "; the file does not hold the attributes of this node (containers for RV1103, RV1106 and their like, and those of "
        "old toolkits, leave them out): "
        f'open the model with attributes={{"{node.op}": {{...}}}}, {{}} where it has none'
    )


def _destroy(op: CustomOp, ctx: OpContext) -> None:
    try:
        op.destroy(ctx)
    except OPERATOR_ERRORS as error:
        logger.warning(
            "custom operator %s failed in destroy at node %s: %s: %s",
            op.op_type,
            ctx.node.name,
            type(error).__name__,
            error,
        )


def _dtype(tensor: Tensor) -> DType:
    """Real numbers are float32 whatever the tensor stores; everything else keeps its type."""
    return DType.FLOAT32 if tensor.quant is not None or tensor.dtype.is_float else tensor.dtype


def _attr(slot: int, tensor: Tensor) -> TensorAttr:
    layout = Layout.NCHW if len(tensor.shape) == 4 else Layout.UNDEFINED
    quant = None if tensor.dtype.is_float else tensor.quant
    return TensorAttr(slot, tensor.name, tuple(tensor.shape), _dtype(tensor), layout, quant)


def _blank(tensor: Tensor) -> Array:
    return np.zeros(tensor.shape, _dtype(tensor).numpy)


def _frozen(array: Any) -> Array:
    """A read-only contiguous view: an operator that wrote there would change what other nodes read."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view
