"""Custom operators: what an author writes, and what the operator gets to see.

The same operator runs on every backend. On the CPU reference it is called between two nodes; on librknnrt it
is registered by callback. Public names are re-exported by ``rknnlite.spi``.
"""

from __future__ import annotations

import abc
import functools
import inspect
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, Optional, Union

import numpy as np
from numpy.typing import NDArray

from ..errors import ParamInvalid, RknnError
from ..log import logger
from ..quant import to_integer
from ..tensor import TensorAttr
from .plugin_problems import note

__all__ = [
    "OPERATOR_ERRORS",
    "Contested",
    "CustomOp",
    "CustomOpFailed",
    "OpContext",
    "OpNode",
    "OpSource",
    "UseBuiltin",
    "as_custom_op",
    "by_type",
    "distinct",
    "put",
    "take_results",
    "tell_nan",
    "unregistered",
]

Array = NDArray[Any]
OPERATOR_ERRORS = (Exception, SystemExit)
"""What an operator's calls raise of their own: all but an interrupt of the program."""
OpSource = Union["CustomOp", Any, str, "os.PathLike[str]"]
"""What may stand for an operator: a CustomOp, the PC toolkit's plain class, or the path of a compiled one."""


class UseBuiltin(RknnError):
    """Raised by ``init``: this node shall use the runtime's own operator of that type (-14 in the C ABI).

    Examples:
        >>> UseBuiltin("only for float tensors").code
        -14
    """

    code = -14


class CustomOpFailed(RknnError):
    """An operator raised, or answered something that does not fit; names operator, node and cause.

    Examples:
        >>> issubclass(CustomOpFailed, rknnlite.RknnError)
        True
    """


class OpNode(NamedTuple):
    """The node that an operator computes.

    ``input`` and ``output`` are tensor names, ``attrs`` the attributes by name: int, float, str, or a list of
    them. The PC toolkit's ``get_node_attr(node, name)`` is in ``rknnlite.api.custom_op``.

    Examples:
        >>> OpNode("cstSquare", "square_1", {"alpha": 0.5}).attrs["alpha"]
        0.5
    """

    op_type: str
    name: str
    attrs: Mapping[str, Any] = MappingProxyType({})
    input: Sequence[str] = ()
    output: Sequence[str] = ()

    def label(self) -> str:
        """``op "name"`` for messages."""
        return f'{self.op_type} "{self.name}"'


@dataclass
class OpContext:
    """One node of one open model, handed to every call of an operator.

    ``state`` belongs to the operator: put there in ``init`` what ``compute`` needs. ``inputs`` and ``outputs``
    say name, shape and element type of the arrays, in the order of the calls, and ``quant`` of what the model stores.

    Examples:
        >>> OpContext(OpNode("cstSquare", "square_1", {"alpha": 0.5})).attr("alpha")
        0.5
    """

    node: OpNode
    inputs: Sequence[TensorAttr] = ()
    outputs: Sequence[TensorAttr] = ()
    state: Any = None

    @property
    def attrs(self) -> Mapping[str, Any]:
        """Attributes of the node by name."""
        return self.node.attrs

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute of the node; raises ParamInvalid when it is absent and there is no default."""
        value = self.attrs.get(name, default)
        if value is None:
            there = ", ".join(sorted(self.attrs)) or "none"
            raise ParamInvalid(f"node {self.node.label()} has no attribute {name!r}; there are: {there}")
        return value


class CustomOp(abc.ABC):
    """An operator supplied by the author, in Python or hosted from a compiled plugin.

    Subclass it, set ``op_type`` (the node type in the model, by custom prefixed ``cst``) and implement
    ``compute``. Arrays are float32 in NCHW order, or the model's own integer or bool type where the tensor is
    not a real number (int64 where the ONNX tensor is int64). One object may serve several nodes and several
    open models at a time: what belongs to one node goes to ``ctx.state``.

    Per node the calls are: ``init`` once, ``compute`` at every run, ``destroy`` once, the latter only after an
    ``init`` that returned. A dynamic model makes that per shape, as its shapes are first chosen.

    An ``op_type`` of the runtime itself ("ArgMax") may be overridden on purpose: registering is enough.

    Examples:
        >>> class Square(CustomOp):
        ...     op_type = "cstSquare"
        ...     def compute(self, ctx, inputs, outputs):
        ...         outputs[0][...] = inputs[0] * inputs[0]
        >>> Square().describe().endswith("Square")
        True
    """

    op_type: str = ""
    target: str = "cpu"
    native: Any = None
    """A filled ``rknn_custom_op`` (address or ctypes structure) of a compiled operator; a backend that speaks
    the C ABI hands it to the runtime as it is, and keeps this object alive as long as its context."""

    def registering(self, runtime: Any) -> None:  # noqa: B027
        """Called before ``native`` is registered with a runtime: the ``ctypes.CDLL`` whose nodes will call it.

        Several files may be loaded under the name librknnrt.so; what is compiled must ask this one for attributes.
        """

    def shape_infer(
        self, node: Any, in_shapes: list[list[int]], in_dtypes: list[Any]
    ) -> tuple[list[list[int]], list[Any]]:
        """Shapes and dtypes of the outputs; only the converter needs it, the file carries them at run time."""
        raise NotImplementedError(f"{type(self).__name__} does not infer shapes")

    def init(self, ctx: OpContext, inputs: list[Array], outputs: list[Array]) -> None:  # noqa: B027
        """Called once before the first ``compute``; check attributes and allocate here what lasts.

        ``inputs`` and ``outputs`` have the shapes and types of the later calls, their values mean nothing.
        Raise ``UseBuiltin`` to leave this node to the runtime's own operator.
        """

    @abc.abstractmethod
    def compute(self, ctx: OpContext, inputs: list[Array], outputs: list[Array]) -> Any:
        """Fill ``outputs`` in place from ``inputs``, which are read-only; neither may be kept after the call.

        Or return the results: a list of one array per output, which are copied there (a single array where there is
        one output). Whatever else is returned, but None, is an error.
        """

    def destroy(self, ctx: OpContext) -> None:  # noqa: B027
        """Called once when the context closes, or when another operator takes the node over."""

    def describe(self) -> str:
        """Where the operator comes from, for messages."""
        return f"{type(self).__module__}.{type(self).__qualname__}"


class _PlainOp(CustomOp):
    """The class that the PC toolkit takes: ``compute(self, node, inputs)`` returns the outputs as a list."""

    def __init__(self, op: Any) -> None:
        self.op = op
        self.op_type = op.op_type

    def shape_infer(
        self, node: Any, in_shapes: list[list[int]], in_dtypes: list[Any]
    ) -> tuple[list[list[int]], list[Any]]:
        answer: tuple[list[list[int]], list[Any]] = self.op.shape_infer(node, in_shapes, in_dtypes)
        return answer

    def compute(self, ctx: OpContext, inputs: list[Array], outputs: list[Array]) -> None:
        # Copies, because such classes may work on their inputs in place.
        results = self.op.compute(ctx.node, [np.array(array) for array in inputs])
        take_results(results, outputs, f"operator {self.op_type} at {ctx.node.name}")

    def describe(self) -> str:
        return f"{type(self.op).__module__}.{type(self.op).__qualname__}"


class _FullOp(CustomOp):
    """An object with the calls of CustomOp that is not a subclass of it."""

    def __init__(self, op: Any) -> None:
        self.op = op
        self.op_type = op.op_type
        self.target = getattr(op, "target", "cpu")
        self.native = getattr(op, "native", None)

    def registering(self, runtime: Any) -> None:
        if hasattr(self.op, "registering"):
            self.op.registering(runtime)

    def init(self, ctx: OpContext, inputs: list[Array], outputs: list[Array]) -> None:
        if hasattr(self.op, "init"):
            self.op.init(ctx, inputs, outputs)

    def compute(self, ctx: OpContext, inputs: list[Array], outputs: list[Array]) -> Any:
        return self.op.compute(ctx, inputs, outputs)

    def destroy(self, ctx: OpContext) -> None:
        if hasattr(self.op, "destroy"):
            self.op.destroy(ctx)

    def describe(self) -> str:
        return f"{type(self.op).__module__}.{type(self.op).__qualname__}"


def take_results(results: Any, outputs: Sequence[Array], where: str = "a node") -> None:
    """Copy what ``compute`` returned into the outputs; raises ValueError where it does not fit. ``where`` tells of NaN.

    A backend that calls operators hands everything to it that is not None.
    """
    if isinstance(results, np.ndarray) and len(outputs) == 1:
        results = [results]
    if not isinstance(results, (list, tuple)) or len(results) != len(outputs):
        got = f"{len(results)} values" if isinstance(results, (list, tuple)) else type(results).__name__
        raise ValueError(f"compute must return a list of {len(outputs)} arrays, it returned {got}")
    apart = [_apart(np.asarray(result), number, outputs) for number, result in enumerate(results)]
    for number, (target, result) in enumerate(zip(outputs, apart)):
        _store(target, result, number, where)


def _apart(result: Array, number: int, outputs: Sequence[Array]) -> Array:
    """A result that does not change while the other outputs are filled."""
    others = (output for place, output in enumerate(outputs) if place != number)
    return result.copy() if any(np.may_share_memory(result, other) for other in others) else result


def _store(target: Array, result: Array, number: int, where: str) -> None:
    """Copy a result into its output; axes of length one may differ, anything else may not."""
    if result.dtype.kind not in "biuf":
        raise ValueError(f"output {number} is no array of numbers, it has type {result.dtype}")
    if result.shape != target.shape:
        if [d for d in result.shape if d != 1] != [d for d in target.shape if d != 1]:
            raise ValueError(
                f"output {number} has shape {list(result.shape)}, the model says {list(target.shape)}"
            )
        result = result.reshape(target.shape)
    if result.dtype.kind == "f" and target.dtype.kind in "iu" and np.isnan(result).any():
        tell_nan(where, f"output {number}", str(target.dtype))
    put(target, result)


@functools.lru_cache(maxsize=1024)
def tell_nan(where: str, name: str, dtype: str) -> None:
    """Once per tensor of a node."""
    logger.warning("%s: NaN in %s, which is %s: stored as 0", where, name, dtype)


def put(target: Array, result: Array) -> None:
    """Copy a result of the same shape into an output; real numbers saturate in an output of integers."""
    if result.dtype.kind == "f" and target.dtype.kind in "iu":
        result = to_integer(result, target.dtype)
    np.copyto(target, result, casting="unsafe")


def as_custom_op(op: Any) -> CustomOp:
    """Accept a CustomOp, an object with its calls, or the PC toolkit's plain class (an object or the class).

    Raises:
        ParamInvalid: ``op_type`` or ``compute`` is missing, or ``compute`` takes other arguments.
    """
    if isinstance(op, type):
        try:
            op = op()
        except TypeError as error:
            raise ParamInvalid(
                f"custom operator {op.__qualname__} must be constructed first: {error}"
            ) from None
    name = type(op).__qualname__
    op_type = getattr(op, "op_type", None)
    if not isinstance(op_type, str) or not op_type:
        raise ParamInvalid(
            f"custom operator {name} needs op_type, the node type in the model, not {op_type!r}"
        )
    if isinstance(op, CustomOp):
        return op
    compute = getattr(op, "compute", None)
    if not callable(compute):
        raise ParamInvalid(f"custom operator {name} of type {op_type} has no method compute")
    takes = _positional(compute)
    if takes not in (2, 3):
        raise ParamInvalid(
            f"custom operator {name} of type {op_type}: compute must take (node, inputs) and return a list, "
            f"or take (ctx, inputs, outputs); it takes {takes} arguments"
        )
    return _PlainOp(op) if takes == 2 else _FullOp(op)


def _positional(function: Any) -> Optional[int]:
    """Number of arguments that must be given by position; None when that cannot be told."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in kinds and p.default is p.empty for p in parameters)


def distinct(ops: Iterable[CustomOp]) -> list[CustomOp]:
    """The same operators; raises ParamInvalid when two of them are of one type."""
    seen: dict[str, CustomOp] = {}
    for op in ops:
        other = seen.setdefault(op.op_type, op)
        if other is not op:
            raise ParamInvalid(
                f"two custom operators of type {op.op_type} were given, {other.describe()} and {op.describe()}; "
                "give one of them"
            )
    return list(seen.values())


def unregistered(node: str, op_type: str, registered: Iterable[str]) -> str:
    """What to tell about a node of the author's own type for which there is no operator, and what to do."""
    return (
        f"node {node} is a custom operator and nobody registered one of type {op_type} (there are: "
        f"{', '.join(sorted(registered)) or 'none'}); pass custom_ops=[...], call reg_custom_op, install the plugin that "
        "brings it, or name the folder of its compiled library in RKNNLITE_OP_PLUGINS"
    )


class Contested(CustomOp):
    """Stands for a type that several plugins offer; complains when a model uses it."""

    def __init__(self, op_type: str, offered: list[str]) -> None:
        self.op_type = op_type
        self.offered = offered

    def init(self, ctx: Any, inputs: Any, outputs: Any) -> None:
        raise ParamInvalid(
            f"custom operator {self.op_type} is offered by several plugins: {', '.join(self.offered)}; pass the "
            "wanted one in custom_ops, or switch plugins off in RKNNLITE_DISABLE"
        )

    def compute(self, ctx: Any, inputs: Any, outputs: Any) -> None:
        raise AssertionError("init refuses")

    def describe(self) -> str:
        return f"one of {len(self.offered)}"


def by_type(found: Iterable[tuple[str, list[CustomOp]]]) -> list[CustomOp]:
    """Of what plugins offer, one operator per type: where there are several, one that says so when it is used."""
    offered: dict[str, list[tuple[str, CustomOp]]] = {}
    for plugin, ops in found:
        for op in ops:
            offered.setdefault(op.op_type, []).append((plugin, op))
    chosen: list[CustomOp] = []
    for op_type, entries in offered.items():
        offers_of = [f"{op.describe()} (plugin {name})" for name, op in entries]
        several = len(entries) > 1
        chosen.append(Contested(op_type, offers_of) if several else entries[0][1])
        text = f"{op_type} is offered several times: {', '.join(offers_of)}" if several else ""
        for name, _ in entries:
            note(name, f"operator {op_type}", text, "switch all but one off, or pass it in custom_ops")
    return chosen
