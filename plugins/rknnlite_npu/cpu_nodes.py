"""The nodes that the runtime computes on the CPU, on the NPU's own bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from rknnlite_backend.node_runners import NodeRunner, nodes_on_cpu
from rknnlite_graph.graph import Graph

from rknnlite.spi import CustomOp

from .command_words import POOLING
from .cores import tasks_of_cores
from .program import NpuNode, NpuProgram
from .tensor_bytes import TensorBytes

__all__ = ["CpuNodes", "is_for_cpu", "pooling_on_cpu"]

Bytes = NDArray[np.uint8]


def is_for_cpu(node: NpuNode) -> bool:
    """Whether the runtime computes it on the CPU; markers of inputs and outputs compute nothing."""
    return bool(node.type and not node.on_npu and node.inputs and node.outputs)


def pooling_on_cpu(program: NpuProgram) -> NpuProgram:
    """The same program with the nodes that end in the pooling unit left to the CPU, for a kernel that does not see it end."""
    tasks = [program.tasks[i] for core in tasks_of_cores(program) for i in core]
    pooling = {task.node for task in tasks if task.enable & POOLING}
    nodes = [replace(node, on_npu=False) if i in pooling else node for i, node in enumerate(program.nodes)]
    return replace(program, nodes=tuple(nodes)) if pooling else program


class CpuNodes:
    """The nodes of one program that the NPU leaves out, prepared. ``numbers`` are their places among its nodes."""

    def __init__(
        self,
        runner: NodeRunner | None,
        forms: Mapping[int, TensorBytes],
        nodes: Mapping[int, tuple[int, ...]],
    ) -> None:
        self._runner, self._forms, self._outputs = runner, forms, nodes
        self.numbers = frozenset(nodes)

    @classmethod
    def of(
        cls,
        program: NpuProgram,
        graph: Graph,
        label: str,
        ops: Mapping[str, CustomOp],
        declared: tuple[str, ...],
    ) -> CpuNodes:
        """Raises ModelUnsupported, ModelInvalid for a node that nobody computes, BackendUnavailable without a plugin that does."""
        numbers = {number for number, node in enumerate(program.nodes) if is_for_cpu(node)}
        if not numbers:
            return cls(None, {}, {})
        outputs = {node.index: tuple(node.outputs) for node in graph.nodes if node.index in numbers}
        runner = nodes_on_cpu().node_runner(graph, outputs, label, ops, declared)
        used = {i for number in outputs for i in (*runner.operands(number), *outputs[number])}
        forms = {
            i: TensorBytes.of(program.tensors[i], graph.tensors[i].shape, graph.tensors[i].dtype)
            for i in sorted(used)
        }
        return cls(runner, forms, outputs)

    def touched(self, number: int) -> tuple[list[int], list[int]]:
        """The tensors that a node reads and writes."""
        assert self._runner is not None
        return list(self._runner.operands(number)), list(self._outputs[number])

    def run(self, number: int, view: Callable[[int], Bytes]) -> None:
        """Compute a node; ``view`` gives the bytes of a tensor, which are read and written."""
        reads, writes = self.touched(number)
        assert self._runner is not None
        results = self._runner.run(number, {i: self._forms[i].unpack(view(i)) for i in reads})
        for i in writes:
            self._forms[i].pack(results[i], view(i))

    def register(self, op: CustomOp) -> None:
        """Give nodes to a custom operator."""
        if self._runner is not None:
            self._runner.register(op)

    def twin(self, ops: Mapping[str, CustomOp]) -> CpuNodes:
        """For another context."""
        runner = None if self._runner is None else self._runner.twin(ops)
        return CpuNodes(runner, self._forms, self._outputs)

    def close(self) -> None:
        """Give custom operators back what they hold."""
        if self._runner is not None:
            self._runner.close()
