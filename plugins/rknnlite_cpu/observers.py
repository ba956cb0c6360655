"""What looks on while a plan runs: stopwatch, recorder of every tensor, feeder of golden values.

None of it costs a run that was not asked for it: ``ExecutionPlan.run`` calls a ``Watch`` only where there is one.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from rknnlite_backend.running import run_late
from rknnlite_graph.graph import Graph, Tensor, TensorRole

from rknnlite.errors import RunTimeout

from .plan import Step, Watch
from .values import Array, decode, encode, stored_elements

if TYPE_CHECKING:
    from rknnlite_insight.dumps import Dump, TensorSink

__all__ = ["Changer", "Deadline", "Feeder", "Recorder", "Stopwatch", "Watches"]


class Stopwatch(Watch):
    """Adds up the seconds of every node, over the items of a batch."""

    def __init__(self) -> None:
        self.seconds: dict[int, float] = defaultdict(float)

    def after(self, step: Step, seconds: float, values: Mapping[int, Array]) -> None:
        self.seconds[step.node.index] += seconds


class Deadline(Watch):
    """Ends a run that takes longer than a coprocessor would let it; looked at between two nodes."""

    def __init__(self, label: str, milliseconds: int) -> None:
        self._label, self._milliseconds = label, milliseconds
        self._end = time.perf_counter() + milliseconds / 1000

    def after(self, step: Step, seconds: float, values: Mapping[int, Array]) -> None:
        if time.perf_counter() > self._end:
            raise RunTimeout(run_late(self._label, self._milliseconds))


class Feeder(Watch):
    """Puts golden values in the place of a node's operands: errors of earlier nodes do not reach it.

    Operands that ``golden`` does not have, or has in another shape, stay as they were computed.
    """

    def __init__(self, graph: Graph, golden: Dump) -> None:
        self._tensors = graph.tensors
        self._golden = golden
        self._known = set(golden.names)

    def before(self, step: Step, values: dict[int, Array]) -> None:
        for index in step.sources:
            tensor = self._tensors[index]
            if tensor.name not in self._known or tensor.role is TensorRole.INPUT:
                continue
            real = self._golden.value(tensor.name)
            if real.shape == tuple(tensor.shape):
                values[index] = encode(real, tensor)


class Changer(Watch):
    """Puts what ``change`` makes of a tensor, by its name, in the tensor's place, for all that read it."""

    def __init__(self, graph: Graph, change: Callable[[str, Array], Array]) -> None:
        self._tensors = graph.tensors
        self._change = change
        self._inputs = set(graph.inputs)

    def before(self, step: Step, values: dict[int, Array]) -> None:
        for index in self._inputs.intersection(step.sources):
            self._put(index, values)
            self._inputs.discard(index)

    def after(self, step: Step, seconds: float, values: dict[int, Array]) -> None:
        for index in step.targets:
            self._put(index, values)

    def _put(self, index: int, values: dict[int, Array]) -> None:
        values[index] = self._change(self._tensors[index].name, values[index])


class Recorder(Watch):
    """Writes what every node gives, as soon as it is there."""

    def __init__(self, graph: Graph, writer: TensorSink, item: int | None) -> None:
        self._graph = graph
        self._writer = writer
        self._item = item
        self._outputs = set(graph.outputs)

    def inputs(self, feeds: Mapping[int, Array]) -> None:
        """The inputs of the graph as they are fed."""
        for index, value in feeds.items():
            self._add(self._graph.tensors[index], value, "InputOperator", "", "input", None)

    def after(self, step: Step, seconds: float, values: Mapping[int, Array]) -> None:
        for index in step.targets:
            role = "output" if index in self._outputs else "activation"
            tensor = self._graph.tensors[index]
            self._add(tensor, values[index], step.node.op, step.node.name, role, seconds * 1e6)

    def _add(
        self, tensor: Tensor, value: Array, op: str, node: str, role: str, time_us: float | None
    ) -> None:
        quant = tensor.quant
        self._writer.add(
            tensor.name,
            decode(value, tensor),
            stored_elements(value, tensor) if quant is not None else None,
            dtype=tensor.dtype.short,
            node=node,
            op=op,
            role=role,
            scale=quant.scale if quant is not None else None,
            zero_point=quant.zero_point if quant is not None else None,
            item=self._item,
            time_us=time_us,
        )


class Watches(Watch):
    """Several watches as one, asked in their order."""

    def __init__(self, *watches: Watch | None) -> None:
        self._watches = [watch for watch in watches if watch is not None]

    def before(self, step: Step, values: dict[int, Array]) -> None:
        for watch in self._watches:
            watch.before(step, values)

    def after(self, step: Step, seconds: float, values: dict[int, Array]) -> None:
        for watch in self._watches:
            watch.after(step, seconds, values)
