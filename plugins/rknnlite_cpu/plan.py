"""A graph prepared to run: kernels chosen once, values dropped as soon as their last reader has run."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Optional, Protocol

import numpy as np
from rknnlite_graph.graph import MARKERS, Graph, Node
from rknnlite_graph.node_view import NodeView
from rknnlite_graph.shape_rules import check_shapes

from rknnlite import plugins
from rknnlite.errors import ModelInvalid, ModelUnsupported, OutOfMemory, RknnError
from rknnlite.spi import CustomOp, UseBuiltin
from rknnlite.spi.custom_op import unregistered

from .ops import builder_of
from .registry import Builder
from .values import Array, Kernel

if TYPE_CHECKING:
    from .custom_ops import CustomNode
    from .engines.accelerator import Accelerator, Island

__all__ = ["ExecutionPlan", "LateKernel", "Step", "Tiers", "Watch"]

"""Node types that only mark where a graph begins and ends."""


@dataclass
class Step:
    """One node: its kernel, where operands come from and results go, and which values die after it."""

    node: Node
    kernel: Kernel
    sources: list[int]
    targets: list[int]
    shapes: list[tuple[int, ...]]
    drops: list[int] = field(default_factory=list)


class LateKernel:
    """The kernel of a node that is prepared when it is first called: an engine computes the node as long as nobody looks."""

    __slots__ = ("_check", "_kernel", "_make")

    def __init__(
        self, make: Callable[[], Kernel], check: Callable[[], None], kernel: Optional[Kernel] = None
    ) -> None:
        self._make, self._check, self._kernel = make, check, kernel

    def __call__(self, values: list[Array]) -> list[Array]:
        kernel = self._kernel
        if kernel is None:
            self._check()  # the file may be another one by now
            kernel = self._kernel = self._make()
        return kernel(values)

    def put_off(self) -> None:
        """Give back what was prepared."""
        self._kernel = None


class Watch:
    """Looks on while a plan runs; a subclass overrides what it needs."""

    def before(self, step: Step, values: dict[int, Array]) -> None:
        """Called before a step; may replace the values of its operands."""

    def after(self, step: Step, seconds: float, values: dict[int, Array]) -> None:
        """Called when the results of a step are among the values, before operands are dropped; may replace the results."""


class Tiers(Protocol):
    """Finds an engine while frames run; ``engines.tiers`` has them."""

    settled: bool
    """Nothing is to be tried any more."""
    check: Callable[[], None]
    """Raises ModelInvalid when the file of the weights was changed."""

    def run(self, plan: ExecutionPlan, inputs: Mapping[int, Array]) -> dict[int, Array]:
        """One frame of a plan, on what computes now."""

    def join(self) -> None:
        """One more plan has them."""

    def leave(self) -> None:
        """A plan has them no more."""

    def without(self, op_type: str) -> Tiers:
        """For a graph in which a custom operator has taken a type of nodes."""


class ExecutionPlan:
    """Runs one graph. Built once; ``run`` may be called any number of times, one caller at a time.

    ``declared`` are the custom operators that the file names: those may be registered later, other unknown node
    types are refused at once. ``accelerator`` has an engine compute what it can, as long as nobody looks on; ``tiers`` finds
    one while frames run.
    """

    def __init__(
        self,
        graph: Graph,
        model_name: str,
        ops: Mapping[str, CustomOp] | None = None,
        declared: Collection[str] = (),
        accelerator: Optional[Accelerator] = None,
        tiers: Optional[Tiers] = None,
    ) -> None:
        self.graph = graph
        self._model_name = model_name
        self._declared = declared
        self._custom: dict[int, CustomNode] = {}
        self._accelerator = accelerator
        self._late = accelerator.late if accelerator is not None else frozenset()
        self._tiers = tiers
        self._check = next((each.check for each in (accelerator, tiers) if each is not None), _nothing)
        self._fast: Optional[list[Step]] = None
        self.steps = [self._step(node, ops or {}) for node in graph.nodes if node.op not in MARKERS]
        _plan_drops(self.steps, graph.outputs)

    def register(self, op: CustomOp) -> None:
        """Give the nodes of the operator's type to it; whoever computed them is closed when it is ready."""
        for step in self.steps:
            if step.node.op == op.op_type:
                previous = self._custom.pop(step.node.index, None)
                try:
                    step.kernel = self._kernel(NodeView(self.graph, step.node), {op.op_type: op})
                except BaseException:
                    if previous is not None:
                        self._custom[step.node.index] = previous
                    raise
                if previous is not None:
                    previous.close()
        if self._accelerator is not None:
            self._accelerator, self._fast = self._accelerator.without(op.op_type), None
        if self._tiers is not None:
            self._tiers.leave()
            self._tiers = self._tiers.without(op.op_type)

    def twin(self, ops: Mapping[str, CustomOp]) -> ExecutionPlan:
        """The same plan for another caller: weights are shared, custom operators get nodes of their own."""
        other = copy.copy(self)
        other._custom, other._fast = {}, None
        if other._tiers is not None:
            other._tiers.join()
        other.steps = [replace(step) for step in self.steps]
        for step in other.steps:
            if step.node.index in self._custom:
                step.kernel = other._kernel(NodeView(self.graph, step.node), ops)
        return other

    @property
    def concurrent(self) -> bool:
        """Whether several threads may run it at once; custom operators are called one at a time."""
        return not self._custom

    def close(self) -> None:
        """Give custom operators back what they hold."""
        for node in self._custom.values():
            node.close()
        self._custom.clear()
        if self._tiers is not None:
            self._tiers.leave()
            self._tiers = None

    def _step(self, node: Node, ops: Mapping[str, CustomOp]) -> Step:
        view = NodeView(self.graph, node)
        kernel = self._kernel(view, ops)
        shapes = [tensor.shape for tensor in view.outputs]
        return Step(node, kernel, view.live, list(node.outputs), shapes)

    def _kernel(self, view: NodeView, ops: Mapping[str, CustomOp]) -> Kernel:
        node = view.node
        if node.op in ops:
            from .custom_ops import CustomNode  # few networks have one

            try:
                custom = CustomNode(ops[node.op], view, self._model_name)
                self._custom[node.index] = custom
                return custom.kernel
            except UseBuiltin:
                pass  # the operator leaves this node to the reference
        builder = _builder(node)
        if builder is not None:
            _check_shapes(view, self._model_name)
            prepare = partial(_prepared, builder, view.graph, node, self._model_name)
            if node.index in self._late:
                return LateKernel(prepare, self._check)
            if self._accelerator is None and self._tiers is None:
                return prepare()
            kernel = prepare()
            # For a proof kernels are made again, one by one: all of them take most of the memory that it needs.
            return LateKernel(prepare, self._check, kernel if self._accelerator is None else None)
        if node.op in ops:
            raise ModelUnsupported(
                f"{self._model_name}: custom operator {node.op} leaves node {node.label()} to the runtime's own "
                "operator of that type, and the CPU reference has none"
            )
        if not node.op.startswith("cst") and node.op not in self._declared:
            raise ModelUnsupported(
                f"{self._model_name}: node {node.label()} has a type the CPU reference does not know; "
                "run the model on the NPU, pass custom_ops=[...] if it is an operator of your own, or report the type"
            )
        return self._unregistered(node, sorted(ops))

    def _unregistered(self, node: Node, registered: list[str]) -> Kernel:
        """Like the vendor's runtime: the model opens, operators may be registered, running without fails with -1."""
        text = f"{self._model_name}: {unregistered(node.label(), node.op, registered)}"

        def kernel(values: list[Array]) -> list[Array]:
            raise ModelUnsupported(text + plugins.blame(), code=RknnError.code)  # librknnrt 1.6.0

        return kernel

    def run(
        self, inputs: Mapping[int, Array], watch: Watch | None = None, steps: Sequence[Step] | None = None
    ) -> dict[int, Array]:
        """Values of the graph inputs by tensor index -> values of the graph outputs; ``watch`` looks on."""
        if steps is None:
            if watch is None and self._tiers is not None:
                return self._tiers.run(self, inputs)
            fast = watch is None and self._accelerator is not None
            steps = (self._fast or self._accelerated()) if fast else self.steps
        values: dict[int, Array] = dict(inputs)
        for step in steps:
            if watch is None:
                self._run_step(step, values)
            else:
                watch.before(step, values)
                started = time.perf_counter()
                self._run_step(step, values)
                watch.after(step, time.perf_counter() - started, values)
            for index in step.drops:
                values.pop(index, None)
        try:
            return {index: values[index] for index in self.graph.outputs}
        except KeyError:
            missing = [self.graph.tensors[index].name for index in self.graph.outputs if index not in values]
            raise ModelInvalid(f"{self._model_name}: no node computes the outputs {missing}") from None

    def run_on(self, accelerator: Optional[Accelerator], inputs: Mapping[int, Array]) -> dict[int, Array]:
        """``run`` on what ``tiers`` have found; when they are settled the plan stays on it."""
        if accelerator is not self._accelerator:
            self._accelerator, self._fast = accelerator, None
        tiers = self._tiers
        if tiers is not None and tiers.settled:
            tiers.leave()
            self._tiers = self._fast = None  # islands anew, without the numpy kernels that they replace
        return self.run(inputs, steps=self.steps if accelerator is None else self._accelerated())

    def _accelerated(self) -> list[Step]:
        """The steps with islands in the place of the nodes that an engine computes."""
        if self._fast is None:
            assert self._accelerator is not None
            islands = self._accelerator.islands(
                {step.node.index: _judging(step.kernel) for step in self.steps}
            )
            first = {island.segment.nodes[0].index: island for island in islands}
            inside = {node.index for island in islands for node in island.segment.nodes}
            fast: list[Step] = []
            for step in self.steps:
                if step.node.index in first:
                    fast.append(_island_step(first[step.node.index], self.graph))
                elif step.node.index not in inside:
                    fast.append(replace(step, drops=[]))
                if self._tiers is None:  # else the kernels are needed to compare with
                    self._put_off(step, inside)
            _plan_drops(fast, self.graph.outputs)
            self._fast = fast
        return self._fast

    def _put_off(self, step: Step, inside: Collection[int]) -> None:
        """Give back the weights of a numpy kernel that an island has proven to be needless."""
        builder = builder_of(step.node.op)
        if step.node.index not in inside or builder is None:
            return
        if isinstance(step.kernel, LateKernel):
            step.kernel.put_off()
        else:
            make = partial(_prepared, builder, self.graph, step.node, self._model_name)
            step.kernel = LateKernel(make, self._check)

    def target(self, node: Node) -> str:
        """Where the runtime on a board computes a node: ``NPU``, ``CPU``, ``GPU``."""
        custom = self._custom.get(node.index)
        return custom.target if custom is not None else "NPU" if node.on_npu else "CPU"

    def _run_step(self, step: Step, values: dict[int, Array]) -> None:
        try:
            results = step.kernel(list(map(values.__getitem__, step.sources)))
        except RknnError:
            raise
        except MemoryError as error:
            raise OutOfMemory(
                f"{self._model_name}: node {step.node.label()} needs memory for {list(map(list, step.shapes))} "
                f"that is not to be had: {error}"
            ) from None
        except Exception as error:
            shapes = [list(values[i].shape) for i in step.sources if i in values]
            raise RknnError(
                f"{self._model_name}: node {step.node.label()} failed on inputs {shapes}: "
                f"{type(error).__name__}: {error}"
            ) from error
        for index, result, shape in zip(step.targets, results, step.shapes):
            if result.shape != shape:
                result = self._fit(step, result, shape)
            values[index] = result

    def _fit(self, step: Step, result: Array, shape: tuple[int, ...]) -> Array:
        if result.size == np.prod(shape):
            return result.reshape(shape)
        raise ModelInvalid(
            f"{self._model_name}: node {step.node.label()} gives shape {list(result.shape)}, "
            f"the file says {list(shape)}"
        )


def _judging(kernel: Kernel) -> Kernel:
    """For a proof before the first frame: a kernel that was judged is mostly needed no more, and is given back."""
    if not isinstance(kernel, LateKernel):
        return kernel

    def once(values: list[Array]) -> list[Array]:
        results = kernel(values)
        kernel.put_off()
        return results

    return once


def _builder(node: Node) -> Builder | None:
    """That of its type, or of its registers where they are asked for."""
    if node.stage is not None and node.stage.in_registers and node.conv is None:
        from .silicon.operands import chip_builder  # few ask for a chip's arithmetic

        return chip_builder
    return builder_of(node.op)


def _nothing() -> None:
    """Kernels are prepared when a plan is made."""


def _check_shapes(view: NodeView, model_name: str) -> None:
    """What a run would meet is told now, also of nodes whose kernels are prepared later."""
    try:
        check_shapes(view.node, view.inputs, view.outputs)
    except RknnError as error:
        raise type(error)(f"{model_name}: {error}") from None


def _prepared(builder: Builder, graph: Graph, node: Node, model_name: str) -> Kernel:
    try:
        return builder(NodeView(graph, node))
    except RknnError as error:
        raise type(error)(f"{model_name}: {error}") from None
    except (ValueError, IndexError, TypeError, KeyError, ZeroDivisionError, OverflowError) as error:
        raise ModelInvalid(
            f"{model_name}: node {node.label()} cannot be prepared, its operands do not fit: {error}"
        ) from error
    except MemoryError as error:
        raise OutOfMemory(f"{model_name}: node {node.label()} cannot be prepared: {error}") from None


def _plan_drops(steps: Sequence[Step], outputs: Sequence[int]) -> None:
    keep = set(outputs)
    last: dict[int, Step] = {}
    for step in steps:
        for index in (*step.sources, *step.targets):
            last[index] = step
    for index, step in last.items():
        if index not in keep:
            step.drops.append(index)


def _island_step(island: Island, graph: Graph) -> Step:
    """One step for all nodes of an island."""
    segment = island.segment
    node = Node(-1, f"{len(segment.nodes)} nodes on {island.engine.name}", island.label, [], [])
    shapes = [graph.tensors[index].shape for index in segment.outputs]
    return Step(node, island.run, list(segment.inputs), list(segment.outputs), shapes)
