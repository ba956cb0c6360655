"""How far the chip's arithmetic of a model is known, for ``info``."""

from __future__ import annotations

from typing import Any, Optional

from rknnlite_graph.graph import Graph
from rknnlite_graph.read import told_graph

from rknnlite.errors import RknnError
from rknnlite.formats import ModelFile, is_package
from rknnlite.formats.rkllm import is_rkllm
from rknnlite.spi.command import Line, Part
from rknnlite.spi.inspection import Description, Inspector

from .telling import assumptions, evidence

__all__ = ["SiliconInspector"]


class SiliconInspector(Inspector):
    """See the module; with ``check`` node by node."""

    name = "silicon"

    def describe(self, file: ModelFile, check: bool) -> Optional[Description]:
        """On which chip its family was measured; with ``check`` what ``fidelity="silicon"`` leaves to the simulator's rule."""
        if is_package(file.data) or is_rkllm(file.path, file.data):
            return None
        try:
            graph = told_graph(file.model)
            if not any(
                node.stage is not None and node.stage.read_registers is not None for node in graph.nodes
            ):
                return None
            data: dict[str, Any] = {"silicon": {"measured_on": graph.measured_on}}
            rest: list[Part] = []
            if check:
                told, text = _checked(graph)
                data["silicon"].update(told)
                rest.append(f"\n{text}\n")
        except RknnError:  # which others tell
            return None
        return Description(data, [Line(f"{'on a chip:':15}{evidence(graph.measured_on)}", hang=15)], [], rest)


def _checked(graph: Graph) -> tuple[dict[str, Any], str]:
    from .rules import left_to_simulator, silicon_graph  # with the kernels, which nothing else needs

    graph = silicon_graph(graph)
    left, assumed = left_to_simulator(graph), assumptions(graph)
    rows = [f"  {one.node}: as the simulator computes: {one.why}" for one in left]
    rows += [
        f"  {node}: {fact}: taken to round half to even" for fact, nodes in assumed.items() for node in nodes
    ]
    text = "\n".join(["fidelity='silicon':", *(rows or ["  every node in the integers of its registers"])])
    return {"left_to_simulator": [vars(one) for one in left], "assumed": assumed}, text
