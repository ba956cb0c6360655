"""Custom operators for ``rknn_register_custom_ops``: Python callbacks that see tensors as numpy views.

An exception in a callback cannot cross C. It is kept, the callback answers -1, and the call that led there
(register, run, close) raises it to the program with the operator's name.
"""

from __future__ import annotations

import ctypes as ct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Optional

import numpy as np
from numpy.typing import NDArray
from rknnlite_backend.addresses import view

from rknnlite import plugins
from rknnlite.errors import ModelInvalid, ParamInvalid
from rknnlite.formats import ModelFile
from rknnlite.log import logger
from rknnlite.spi import CustomOp, CustomOpFailed, OpContext, OpNode, UseBuiltin
from rknnlite.spi.custom_op import OPERATOR_ERRORS, take_results, unregistered
from rknnlite.tensor import DType, QuantParams, TensorAttr

from . import abi
from .attrs import from_struct
from .loader import Library

if TYPE_CHECKING:
    from rknnlite_graph.graph import Graph, Node

__all__ = ["OpAttrs", "Registration", "missing", "needed", "stored"]

Array = NDArray[Any]

Quants = Callable[[], Mapping[str, QuantParams]]

_FAILED = -1
_CUSTOM = "cst"  # how the converter's types of custom operators begin


def needed(file: ModelFile, ops: Sequence[CustomOp]) -> list[CustomOp]:
    """The operators that the model has nodes of, all of them where its nodes cannot be read.

    Plugins offer operators for other models too: those must not reach a library that may not take any.
    """
    nodes = _nodes(file) if ops else None
    if nodes is None:
        return list(ops)
    types = {node.op for node in nodes}.union(file.model.custom_ops)
    return [op for op in ops if op.op_type in types]


def stored(file: ModelFile) -> dict[str, QuantParams]:
    """Scale and zero point of the tensors that the model stores as integers, by name; the library tells operators none."""
    graph = _graph(file)
    tensors = graph.tensors if graph else ()
    return {t.name: t.quant for t in tensors if t.quant is not None and not t.dtype.is_float}


def _nodes(file: ModelFile) -> Optional[Sequence[Node]]:
    graph = _graph(file)
    return None if graph is None else graph.nodes


def _graph(file: ModelFile) -> Optional[Graph]:
    """The graph of the model; None where it cannot be read, as Debian packages the library of graphs alone."""
    try:
        from rknnlite_graph.read import read_graph

        file.check()
        return read_graph(file.model)
    except (ModelInvalid, ModuleNotFoundError):
        return None


def missing(file: ModelFile, ops: Sequence[CustomOp], library: Library) -> str:
    """The custom operator that the model has and nobody registered, with the remedy; empty where there is none.

    The library answers a run with -1 then. Asked after a failure only, because it reads the graph.
    """
    known = {op.op_type for op in ops}
    nodes = _nodes(file)
    if nodes is None:
        return ""
    declared = set(file.model.custom_ops)
    for node in nodes:
        if node.op not in known and (node.op in declared or node.op.startswith(_CUSTOM)):
            if not library.has("rknn_register_custom_ops"):
                return (
                    f"{file.label}: node {node.label()} is a custom operator, and {library.name} takes none; convert "
                    "the network without it"
                )
            return f"{file.label}: {unregistered(node.label(), node.op, known)}{plugins.blame()}"
    return ""


class OpAttrs(Mapping[str, Any]):
    """Attributes of a node by name, asked from the runtime inside a callback and remembered afterwards.

    The runtime cannot list names: iteration yields those that were read. Scalars are numbers, text (bytes in
    the ABI) is str, everything else a list.
    """

    def __init__(self, get: Any) -> None:
        self._get = get
        self._known: dict[str, Any] = {}
        self.pointer: Any = None

    def __getitem__(self, name: str) -> Any:
        if name not in self._known:
            if self.pointer is None:
                raise KeyError(f"{name} (attributes can be read in init and compute only)")
            found = abi.CustomOpAttr()
            self._get(self.pointer, name.encode(), ct.byref(found))
            if found.n_elems == 0 or not found.data:
                raise KeyError(name)
            self._known[name] = _value(found)
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


def _value(attr: abi.CustomOpAttr) -> Any:
    dtype = DType(attr.dtype)
    if dtype is DType.UINT8:
        return ct.string_at(attr.data, attr.n_elems).rstrip(b"\0").decode("utf-8", "replace")
    values = view(attr.data, (attr.n_elems,), dtype.numpy).tolist()
    return values[0] if attr.n_elems == 1 else values


class Registration:
    """The operators of one context as an array of ``rknn_custom_op``; alive as long as the context in C.

    ``quants`` answers scale and zero point by the tensors' names; it is asked by the first operator in Python.
    """

    def __init__(self, library: Library, ops: Sequence[CustomOp], quants: Quants) -> None:
        self.failures: list[BaseException] = []
        self.count = len(ops)
        self.structs = abi.array_of(abi.CustomOpStruct, self.count)()
        self._keep: list[Any] = list(ops)
        self._quants = quants
        for op, struct in zip(ops, self.structs):
            if op.native is not None:
                where = op.native if isinstance(op.native, int) else ct.addressof(op.native)
                ct.memmove(ct.byref(struct), where, ct.sizeof(struct))
                op.registering(library.dll)
            else:
                self._fill(library, op, struct)

    def _fill(self, library: Library, op: CustomOp, struct: abi.CustomOpStruct) -> None:
        name = op.op_type.encode()
        if not 0 < len(name) < abi.MAX_NAME:
            raise ParamInvalid(f"op_type {op.op_type!r} must have 1 to {abi.MAX_NAME - 1} bytes")
        calls = _Calls(op, library.function("rknn_custom_op_get_op_attr"), self.failures, self._quants)
        struct.version, struct.target, struct.op_type = 1, abi.Target.CPU, name
        struct.init = abi.CALLBACK(calls.init)
        struct.compute = abi.CALLBACK(calls.compute)
        struct.destroy = abi.DESTROY_CALLBACK(calls.destroy)
        self._keep += [struct.init, struct.compute, struct.destroy]

    def raise_failure(self) -> None:
        """Raise what a callback left behind; an interrupt stays what it is."""
        if self.failures:
            try:
                raise self.failures[0]  # no local name: frame and exception would refer to each other
            finally:
                self.failures.clear()


class _Calls:
    """The callbacks of one operator; a model may hold several nodes of it."""

    def __init__(self, op: CustomOp, get_attr: Any, failures: list[BaseException], quants: Quants) -> None:
        self._op, self._get_attr, self._failures, self._quants = op, get_attr, failures, quants
        self._nodes: dict[int, OpContext] = {}

    def init(self, pointer: Any, ins: Any, n_in: int, outs: Any, n_out: int) -> int:
        return self._guarded("init", pointer, (ins, n_in), (outs, n_out))

    def compute(self, pointer: Any, ins: Any, n_in: int, outs: Any, n_out: int) -> int:
        return self._guarded("compute", pointer, (ins, n_in), (outs, n_out))

    def destroy(self, pointer: Any) -> int:
        ctx = self._nodes.pop(_node_key(pointer), None)
        try:
            if ctx is not None:
                self._op.destroy(ctx)
        except BaseException as error:
            logger.warning(
                "custom operator %s failed in destroy: %s: %s", self._op.op_type, type(error).__name__, error
            )
            return _FAILED
        return 0

    def _guarded(self, step: str, pointer: Any, ins: tuple[Any, int], outs: tuple[Any, int]) -> int:
        """One callback: views on the tensors, the operator, and no exception past this point."""
        inputs: list[Array] = []
        try:
            inputs, outputs = _views(*ins, writeable=False), _views(*outs, writeable=True)
            ctx = self._context(step, pointer, ins, outs)
            attrs = ctx.node.attrs
            assert isinstance(attrs, OpAttrs)
            attrs.pointer = pointer
            try:
                results = getattr(self._op, step)(ctx, inputs, outputs)
                if results is not None and step == "compute":
                    take_results(results, outputs, f"custom operator {self._op.op_type}")
            finally:
                attrs.pointer = None
        except UseBuiltin:
            self._nodes.pop(_node_key(pointer), None)
            return abi.SKIP_CUSTOM_OP_COMPUTE
        except OPERATOR_ERRORS as error:
            self._failures.append(self._failure(step, inputs, error))
            if step == "init":
                self._nodes.pop(_node_key(pointer), None)
            return _FAILED
        except BaseException as error:  # an interrupt: raised by the call that led here
            self._failures.append(error)
            return _FAILED
        return 0

    def _context(self, step: str, pointer: Any, ins: tuple[Any, int], outs: tuple[Any, int]) -> OpContext:
        key = _node_key(pointer)
        if key not in self._nodes or step == "init":
            inputs, outputs = (self._attrs(*tensors) for tensors in (ins, outs))
            node = OpNode(
                self._op.op_type,
                self._op.op_type,
                OpAttrs(self._get_attr),
                [attr.name for attr in inputs],
                [attr.name for attr in outputs],
            )
            self._nodes[key] = OpContext(node, inputs, outputs)
        return self._nodes[key]

    def _attrs(self, tensors: Any, count: int) -> list[TensorAttr]:
        attrs = [from_struct(tensors[i].attr) for i in range(count)]
        return [replace(attr, quant=attr.quant or self._quants().get(attr.name)) for attr in attrs]

    def _failure(self, step: str, inputs: list[Array], error: BaseException) -> CustomOpFailed:
        failure = CustomOpFailed(
            f"custom operator {self._op.op_type} ({self._op.describe()}) failed in {step} on inputs "
            f"{[list(array.shape) for array in inputs]}: {type(error).__name__}: {error}"
        )
        failure.__cause__ = error
        return failure


def _node_key(pointer: Any) -> int:
    return int(pointer.contents.internal_ctx) or ct.addressof(pointer.contents)


def _views(tensors: Any, count: int, writeable: bool) -> list[Array]:
    """Arrays on the runtime's own buffers, valid during the callback."""
    arrays = []
    for position in range(count):
        tensor = tensors[position]
        attr, mem = tensor.attr, tensor.mem
        shape = tuple(attr.dims[: attr.n_dims])
        dtype = DType(attr.type).numpy
        if mem.virt_addr:
            array = view(mem.virt_addr + mem.offset, shape, dtype)
        else:  # not allocated yet while the operator is registered
            array = np.zeros(shape, dtype)
        if not writeable:
            array.flags.writeable = False
        arrays.append(array)
    return arrays
