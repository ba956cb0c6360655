"""What the graph of a model tells: operators, weights, what is doubtful."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Optional

from rknnlite.errors import ModelInvalid
from rknnlite.formats import Model, ModelFile, is_package
from rknnlite.formats.rkllm import is_rkllm
from rknnlite.spi.command import Column, Line, Part, Table, bytes_text
from rknnlite.spi.inspection import Description, Inspector

from .coarse_multipliers import REMEDY, coarse_data, coarse_of
from .graph import Guess, TensorRole
from .known_hardware_issues import silicon, suspicions
from .read import read_graph, told_graph
from .reading import unverified_facts

__all__ = ["GraphInspector", "Operators"]


@dataclass(frozen=True)
class Operators:
    """Nodes by type: on the NPU and on the CPU; ``problem`` where the graph cannot be read."""

    rows: tuple[tuple[str, int, int], ...] = ()
    weights: int = 0
    problem: str = ""

    @classmethod
    def of(cls, model: Model) -> Operators:
        """Count the nodes of the graph; nothing is decoded."""
        try:
            graph = told_graph(model)
        except ModelInvalid as error:
            return cls(problem=str(error))
        npu = Counter(node.op for node in graph.nodes if node.on_npu)
        all_nodes = Counter(node.op for node in graph.nodes)
        rows = tuple((op, npu[op], count - npu[op]) for op, count in all_nodes.most_common())
        weights = sum(tensor.nbytes for tensor in graph.tensors if tensor.role is TensorRole.CONST)
        return cls(rows, weights)


class GraphInspector(Inspector):
    """See the module."""

    name = "graph"

    def describe(self, file: ModelFile, check: bool) -> Optional[Description]:
        """Operators and bytes of weights; with ``check`` patterns with reports of boards, channels with coarse multipliers,
        and what was never verified."""
        if is_package(file.data) or is_rkllm(file.path, file.data):
            return None
        model = file.model
        found = Operators.of(model)
        data: dict[str, Any] = {
            "operators": [{"op": op, "npu": npu, "cpu": cpu} for op, npu, cpu in found.rows],
            "weight_bytes": found.weights,
            "graph_problem": found.problem,
        }
        facts: list[Part] = []
        if found.weights:
            facts.append(Line(f"{'weights:':15}{bytes_text(found.weights)}", hang=15))
        tensors: list[Part] = []
        if model.generation == "rknpu1":
            from .rknn1.info import FirstToolkit

            first = FirstToolkit.of(model)
            data.update(first.data)
            facts += first.lines
            tensors = first.tensors
        rest: list[Part] = [_operators(model, found)]
        if check:
            data["silicon"], told = _checked(model)
            data["coarse_multipliers"], coarse = _coarse(model)
            data["guesses"], guessed = _guessed(model)
            rest.append(f"\n{told}\n\n{coarse}{guessed}")
        return Description(data, facts, tensors, rest)


def _operators(model: Model, operators: Operators) -> Part:
    if model.board_only:
        return f"operators: {model.board_only.replace('; ', '. To run it here: ')}"
    if operators.problem:
        return f"operators: the graph cannot be read: {operators.problem}"
    cells = [[op, str(npu + cpu), str(npu), str(cpu)] for op, npu, cpu in operators.rows]
    total = [sum(column) for column in zip(*((n + c, n, c) for _, n, c in operators.rows))]
    columns = [Column("operator", least=12), *(Column(head, True) for head in ("nodes", "NPU", "CPU"))]
    return Table(columns, [*cells, ["all", *map(str, total or [0, 0, 0])]], last=1)


def _checked(model: Model) -> tuple[list[dict[str, Any]], str]:
    """Patterns that have gone wrong on boards: as data, and as text."""
    found = [{**vars(one), "level": one.level.value} for one in suspicions(model)]
    lines = [str(finding) for finding in silicon(model)] or ["no pattern with reports of wrong results"]
    return found, "\n".join(["on boards:", *lines])


def _coarse(model: Model) -> tuple[list[dict[str, Any]], str]:
    """Layers some of whose channels have coarse multipliers: as data, and as text, empty where there are none."""
    found = coarse_of(model)
    lines = [f"  {layer}" for layer in found] + (
        [f"  -> {REMEDY}"] if any(layer.lost for layer in found) else []
    )
    return coarse_data(found), "\n".join(
        ["multipliers too coarse for their scales:", *lines, "\n"]
    ) if found else ""


def _guessed(model: Model) -> tuple[list[dict[str, str]], str]:
    """What the reader is not sure of: as data, and as text with one line per fact."""
    found = _guesses(model)
    facts = dict.fromkeys(guess.fact for guess in found)
    lines = [
        f"  {unverified_facts.text(fact, [guess.node for guess in found if guess.fact == fact])}"
        for fact in facts
    ] or ["  nothing: every pattern has been compared with the vendor's simulator"]
    return [vars(guess) for guess in found], "\n".join(["not verified:", *lines])


def _guesses(model: Model) -> list[Guess]:
    """Those of all shapes; none for a graph that cannot be read, which is told elsewhere."""
    try:
        graphs = [read_graph(model, index) for index in range(max(1, len(model.shapes)))]
    except ModelInvalid:
        return []
    reported = [Guess("", fact) for fact in unverified_facts.about_strides(model.family)]
    return list(dict.fromkeys([*(guess for graph in graphs for guess in graph.guesses), *reported]))
