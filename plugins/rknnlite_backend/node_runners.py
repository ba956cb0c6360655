"""Single nodes of a graph, computed on the CPU: for a backend whose NPU leaves some of a network's nodes out.

A backend that can do so is found by what it is, not by its name: plugins know libraries, never each other.
"""

from __future__ import annotations

import abc
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from numpy.typing import NDArray

from rknnlite import plugins
from rknnlite.errors import BackendUnavailable

if TYPE_CHECKING:
    from rknnlite_graph.graph import Graph

    from rknnlite.spi import CustomOp

__all__ = ["NodeRunner", "RunsNodes", "nodes_on_cpu"]

Array = NDArray[Any]


class NodeRunner(Protocol):
    """Some nodes of one graph, ready to be computed one by one, by one caller at a time."""

    def operands(self, node: int) -> Sequence[int]:
        """The tensors that a node (``Node.index``) reads and that are no constants, each once."""

    def run(self, node: int, operands: Mapping[int, Array]) -> dict[int, Array]:
        """Compute a node: elements of its operands by tensor -> elements of its outputs by tensor.

        Elements are in logical order and as the file stores them: int8 of a quantised tensor, not real numbers.
        Raises RknnError naming the node.
        """

    def register(self, op: CustomOp) -> None:
        """Give the nodes of its type to a custom operator; raises what its ``init`` raises."""

    def twin(self, ops: Mapping[str, CustomOp]) -> NodeRunner:
        """The same nodes for another caller; custom operators get nodes of their own."""

    def close(self) -> None:
        """Give custom operators back what they hold."""


class RunsNodes(abc.ABC):
    """A backend that computes single nodes on the CPU."""

    @abc.abstractmethod
    def node_runner(
        self,
        graph: Graph,
        nodes: Collection[int],
        label: str,
        ops: Mapping[str, CustomOp],
        declared: Collection[str],
    ) -> NodeRunner:
        """Prepare nodes.

        Args:
            nodes: their ``Node.index``.
            label: name of the model, for errors.
            ops: custom operators by type.
            declared: types that the file names as custom operators; they may be registered later.

        Raises:
            ModelInvalid, ModelUnsupported: no kernel computes such a node.
        """


def nodes_on_cpu() -> RunsNodes:
    """Whoever computes single nodes here; raises BackendUnavailable where no plugin does."""
    for backend in plugins.backends().values():
        if isinstance(backend, RunsNodes):
            return backend
    raise BackendUnavailable(f"no plugin computes single nodes on the CPU{plugins.blame('cpu')}")
