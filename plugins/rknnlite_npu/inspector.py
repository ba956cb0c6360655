"""``rknnlite info --npu`` and ``rknnlite perf --npu``: what the NPU is given for a model, from the file alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Optional

from rknnlite.errors import ModelUnsupported
from rknnlite.formats import ModelFile, is_package
from rknnlite.formats.rkllm import is_rkllm
from rknnlite.spi.command import Column, Line, Part, Table, Tone
from rknnlite.spi.inspection import Description, Inspector

if TYPE_CHECKING:  # what reads graphs is loaded when somebody asks
    from .counts import NodeCount
    from .limits import Limit
    from .submission import Submission

__all__ = ["NpuInspector"]

_ALL = 0xFFFF
_SHOWN = 3
_NODES = (
    Column("node", True), Column("operator"), Column("tasks", True), Column("words", True), Column("MACs", True),
    Column("bytes fetched", True), Column("written", True), Column("name", drop=1, least=12),
)  # fmt: skip
_CORES = (
    Column("mask"), Column("cores", True), Column("tasks of each"), Column("MACs of each"), Column("bytes fetched", True),
    Column("estimated cycles", True),
)  # fmt: skip


class NpuInspector(Inspector):
    """See the module."""

    name = "npu"
    topic = "npu"

    def describe(self, file: ModelFile, check: bool) -> Optional[Description]:
        """Per node tasks, words, products and bytes; nodes of the CPU and why; how cores are divided; limits."""
        if is_package(file.data) or is_rkllm(file.path, file.data):
            return None
        from .counts import count
        from .limits import limits

        try:
            plan = _planned(file)
        except ModelUnsupported as error:
            return Description({"npu": {"unknown": str(error)}}, [], [], [f"on the NPU: not known: {error}"])
        with file.naming():
            counts, ways = count(plan), _ways(plan)
            near = limits(plan, counts)
        return Description(
            {"npu": _data(plan, counts, ways, near)}, [], [], [*_parts(plan, counts, ways, near)]
        )

    def layers(self, file: ModelFile, mask: int) -> Any:
        """The manual's table with an estimate for every layer."""
        from .cores import legal_masks
        from .layer_table import layer_table

        plan = _planned(file)
        with file.naming():
            return layer_table(plan, max(legal_masks(plan.program)) if mask == _ALL else mask)


def _planned(file: ModelFile) -> Submission:
    """The submission at addresses that do not matter here."""
    from .placement import Bases
    from .submission import plan

    with file.naming():
        return plan(file.model, Bases())


def _ways(plan: Submission) -> list[tuple[int, tuple[NodeCount, ...]]]:
    """(core mask, counts) of the ways of dividing the cores that differ."""
    from .cores import legal_masks
    from .counts import count

    masks = {bin(mask).count("1"): mask for mask in reversed(legal_masks(plan.program))}
    return [(mask, count(plan, mask)) for _, mask in sorted(masks.items())]


def _cycles(plan: Submission, counts: Sequence[NodeCount]) -> float:
    from .cycles import WIDTHS, node_cycles

    return sum(node_cycles(node, WIDTHS[plan.program.family]).total for node in counts)


def _of_cores(counts: Sequence[NodeCount]) -> tuple[list[int], list[int]]:
    """Tasks and products of each core."""
    cores = range(counts[0].cores if counts else 1)
    tasks = [[t for node in counts for t in node.tasks if t.core == core] for core in cores]
    return [len(mine) for mine in tasks], [sum(t.work.macs for t in mine) for mine in tasks]


def _data(
    plan: Submission,
    counts: Sequence[NodeCount],
    ways: Sequence[tuple[int, Sequence[NodeCount]]],
    near: Sequence[Limit],
) -> dict[str, Any]:
    from .cpu_reasons import cpu_reason

    return {
        "nodes": [
            {
                "node": node.node, "op": node.type, "name": node.name, "tasks": len(node.tasks), "words": node.words,
                "macs": node.macs, "fetched": node.fetched, "written": node.written,
            }
            for node in counts
            if node.tasks
        ],
        "cpu": [
            {"op": node.type, "name": node.name, "why": cpu_reason(plan.program, node)} for node in plan.cpu_nodes
        ],
        "cores": [
            {
                "mask": mask, "tasks": _of_cores(found)[0], "macs": _of_cores(found)[1],
                "fetched": sum(node.fetched for node in found), "estimated_cycles": round(_cycles(plan, found)),
            }
            for mask, found in ways
        ],
        "limits": near,
        "never_recorded": plan.doubts,
    }  # fmt: skip


def _parts(
    plan: Submission,
    counts: Sequence[NodeCount],
    ways: Sequence[tuple[int, Sequence[NodeCount]]],
    near: Sequence[Limit],
) -> Iterator[Part]:
    from .cpu_reasons import cpu_reason

    yield Line("on the NPU, with one core:", Tone.HEAD)
    rows = [
        [
            str(node.node), node.type, str(len(node.tasks)), str(node.words), str(node.macs or ""), str(node.fetched),
            str(node.written), node.name,
        ]
        for node in counts
        if node.tasks
    ]  # fmt: skip
    total = [
        "", "all", str(sum(len(node.tasks) for node in counts)), *(str(sum(n)) for n in zip(*((n.words, n.macs) for n in counts))),
        str(sum(node.fetched for node in counts)), str(sum(node.written for node in counts)), "",
    ]  # fmt: skip
    yield Table(_NODES, [*rows, total], "", last=1)
    yield ""
    yield Line("how the cores are divided:", Tone.HEAD)
    yield Table(_CORES, [_way(plan, mask, found) for mask, found in ways])
    if plan.cpu_nodes:
        yield ""
        yield Line("on the CPU:", Tone.HEAD)
        yield from (Line(f"  {node}: {cpu_reason(plan.program, node)}", hang=4) for node in plan.cpu_nodes)
    yield ""
    yield Line("limits that are near:", Tone.HEAD)
    yield from _near(near)


def _way(plan: Submission, mask: int, counts: Sequence[NodeCount]) -> list[str]:
    tasks, macs = _of_cores(counts)
    whole = sum(macs) or 1
    return [
        f"{mask:#x}", str(len(tasks)), " + ".join(map(str, tasks)), " + ".join(f"{100 * n / whole:.0f} %" for n in macs),
        str(sum(node.fetched for node in counts)), f"{_cycles(plan, counts):.0f}",
    ]  # fmt: skip


def _near(near: Sequence[Limit]) -> Iterator[Part]:
    """The worst of each kind, and how many more there are."""
    for name in dict.fromkeys(one.name for one in near):
        alike = sorted((one for one in near if one.name == name), key=lambda one: -one.value)
        yield from (Line(f"  {one.text}", hang=4) for one in alike[:_SHOWN])
        if len(alike) > _SHOWN:
            yield f"  and {len(alike) - _SHOWN} more of the kind"
    if not near:
        yield "  none"
