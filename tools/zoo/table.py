"""The zoo's results for the terminal, as a section of docs/coverage.md and as its data."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from cells import percent, row
from compare import Outcome
from data_file import DataTable, merged
from layers import EVEN, RELATIVE
from layers import NEAR as LAYER_NEAR
from measure import COSINE, NEAR, TRAINED, Closeness, Measured
from reasons_zoo import reason_for
from stored import Stored
from table_layers import told
from targets import places

__all__ = ["markdown", "rows", "terminal"]

_MAIN = "rk3588"
ALIKE = 1.33
"""Largest ratio of two distances to the float network that counts as none."""


def _figures(output: Closeness) -> str:
    steps = ""
    if output.steps is not None and output.within_one is not None:
        steps = f", {output.steps:.0f} LSB, within 1: {percent(output.within_one)}"
    return f"cos {output.cosine:.6f}{steps}, relative {output.relative:.1e}"


def _said(result: Measured) -> str:
    worst = result.worst
    return result.note if worst is None else _figures(worst)


def terminal(results: Sequence[Measured]) -> str:
    """One line per conversion, then totals."""
    lines = []
    for r in results:
        far = "" if r.worst is None else f"  to float: {r.worst.ours:.4f} / {r.worst.simulator:.4f}"
        mark = "T" if r.trained else " "
        lines.append(f"{r.outcome.value:13} {r.target:13} {mark} {r.network:28} {_said(r)}{far}")
    for target in dict.fromkeys(r.target for r in results):
        lines.append(f"{target:14} {_counts(results, target)}")
    return "\n".join(lines)


def _counts(results: Sequence[Measured], target: str) -> str:
    mine = [r for r in results if r.target == target]
    kinds = {kind: sum(r.outcome is kind for r in mine) for kind in Outcome}
    return ", ".join(f"{number} {kind.value}" for kind, number in kinds.items() if number)


def markdown(results: Sequence[Measured]) -> str:
    """The section."""
    return f"{_HEAD}\n{_summary(results)}\n{_TABLES}"


_HEAD = f"""## Networks

Exported with small inputs (`tools/zoo`), and compared on photographs and signals beyond the calibration. Good is

* int8: a cosine of {COSINE}; of {TRAINED} for trained ones, with {NEAR:.0%} of the values within 2 steps; or all within 1 step;
* fp16: a largest difference of {RELATIVE:g} of the largest magnitude.

*Explained*: each layer alone fits, on the simulator's values. *To float*: mean distance to the float network, ours / the
simulator's. Steps and *to float* are of RK3588.
"""

_TABLES = f"""[Networks](assets/coverage-networks.js)

Layers of all int8 networks. *Equal*: {EVEN:.1%} of the bytes; *with its roundings*: once rounded where and how the simulator
rounds; *within 1 LSB*: {LAYER_NEAR:.1%} of the values.

[Layers](assets/coverage-layers.js)
"""


def _summary(results: Sequence[Measured]) -> str:
    titles = ("SoC, type", "converted", "good", "explained", "good or explained")
    lines = [f"{row(*titles)}\n|---{'|---:' * (len(titles) - 1)}|"]
    for target in dict.fromkeys(r.target for r in results):
        mine = [r for r in results if r.target == target]
        converted = [r for r in mine if r.outcome not in (Outcome.UNCONVERTED, Outcome.WAITING)]
        if not converted:
            continue
        good = sum(r.outcome is Outcome.MATCHES for r in converted)
        told = sum(r.outcome is Outcome.DIFFERS and r.explained for r in converted)
        cells = places(target)
        share = percent((good + told) / len(converted))
        lines.append(row(f"{cells['SoC']} {cells['type']}", len(converted), good, told, share))
    return "\n".join(lines) + "\n" + _neither(results)


def _neither(results: Sequence[Measured]) -> str:
    """Whether ours or the simulator's is nearer to the float network, over all networks of a target."""
    medians = []
    for target in dict.fromkeys(r.target for r in results):
        found = [r.worst for r in results if r.target == target and r.worst is not None]
        ratios = [w.ours / w.simulator for w in found if w.simulator > 0 and w.ours >= 0]
        if ratios:
            medians.append(median(ratios))
    if not medians:
        return ""
    ends = f"{min(medians):.2f} to {max(medians):.2f}"
    return f"\nMedians of ours / the simulator's: {ends}.\n"


def rows(results: Sequence[Measured], networks: Sequence[Stored]) -> DataTable:
    """A row for what a network comes to, with all SoCs where it does."""
    facts = {network.name: network.facts for network in networks}
    remarks = _remarks(results)
    found = []
    for r in results:
        if r.outcome is Outcome.WAITING:
            continue
        main = r.target.startswith(f"{_MAIN}.")
        cells = {
            "network": r.network,
            **_facts(facts[r.network]),
            **places(r.target),
            "result": _RESULTS[r.outcome, r.explained and r.outcome is Outcome.DIFFERS],
            "difference": _difference(r, main),
            "to float": _far(r) if main else "",
            "remark": remarks.get((r.network, r.target), ""),
        }
        found.append({name: cells[name] for name in COLUMNS})
    return DataTable(COLUMNS, FILTERS, merged(found, "SoC"))


COLUMNS = (
    "network",
    "SoC",
    "type",
    "result",
    "difference",
    "to float",
    "remark",
    "exporter",
    "trained",
    "input",
    "container",
)
FILTERS = ("SoC", "type", "container", "result", "exporter", "trained")


_RESULTS = {
    (Outcome.MATCHES, False): "good",
    (Outcome.DIFFERS, True): "explained",
    (Outcome.DIFFERS, False): "differs",
    (Outcome.REFUSED, False): "refused",
    (Outcome.UNCONVERTED, False): "not converted",
}


def _facts(facts: dict[str, Any]) -> dict[str, str]:
    return {
        "exporter": f"{facts['exporter']}, opset {facts['opset']}",
        "trained": "trained" if facts["trained"] else "random",
        "input": ", ".join("x".join(map(str, shape)) for shape in facts["inputs"]),
    }


def _difference(result: Measured, whole: bool) -> str:
    """int8: the least cosine of an output, ``whole`` with its steps; fp16: the largest relative difference."""
    worst = result.worst
    if worst is None:
        return ""
    if not result.target.endswith(".i8"):
        return f"relative {max(o.relative for o in result.outputs):.1e}"
    cosine = f"cos {worst.cosine:.6f}"
    if not whole or worst.steps is None or worst.within_one is None:
        return cosine
    return f"{cosine}, {worst.steps:.0f} LSB, within 1: {percent(worst.within_one)}"


def _remarks(results: Sequence[Measured]) -> dict[tuple[str, str], str]:
    """What is said of networks that are not good: of those that share a finding the worst one's figures."""
    groups: dict[tuple[object, ...], list[Measured]] = {}
    found = {}
    for r in results:
        if r.outcome in (Outcome.DIFFERS, Outcome.REFUSED):
            kind, note = r.target.partition(".")[2], r.note.partition("; ")[0]
            key = r.network, kind, note, r.explained, reason_for(r.network, [r.target])
            groups.setdefault(key, []).append(r)
        elif r.outcome is Outcome.UNCONVERTED:
            found[r.network, r.target] = " ".join(r.note.split())
    for mine in groups.values():
        worst = min(mine, key=lambda r: r.worst.cosine if r.worst else -1)
        reason = _reason(worst, [r.target for r in mine])
        said = f"{_said(worst)}; {reason}" if worst.worst is None else reason
        found.update({(r.network, r.target): said for r in mine})
    return found


def _reason(result: Measured, targets: Sequence[str]) -> str:
    """What the layers tell, where that is not enough the finding by hand."""
    if result.explained:
        return told(result)
    known = reason_for(result.network, targets)
    return known or (told(result) if result.layers else _even(result))


def _even(result: Measured) -> str:
    """Where no layers were kept: whether the simulator is as far from the float network as ours."""
    worst = result.worst
    if worst is None or not 1 / ALIKE < (worst.ours + 1e-9) / (worst.simulator + 1e-9) < ALIKE:
        return "not explained yet"
    return "both are equally far from the float network; layers not judged"


def _far(result: Measured) -> str:
    worst = result.worst
    return "" if worst is None else f"{worst.ours:.3g} / {worst.simulator:.3g}"
