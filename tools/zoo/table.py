"""The zoo's results for the terminal, and as a section of docs/coverage.md."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from statistics import median

from cells import header, percent, row
from compare import Outcome
from layers import RELATIVE
from measure import COSINE, NEAR, TRAINED, Closeness, Measured
from reasons_zoo import reason_for
from stored import Stored
from table_layers import kinds, told

__all__ = ["markdown", "terminal"]

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


def markdown(results: Sequence[Measured], networks: Sequence[Stored]) -> str:
    """The section."""
    parts = [
        _HEAD,
        _summary(results),
        kinds(results),
        _open(results),
        _main(results, networks),
        _others(results),
    ]
    return "\n".join([*parts, _unconverted(results)])


_HEAD = f"""## Networks

`tools/zoo` exports networks as people export them, with small inputs and widths, converts each for RK3588 and about each
third one for all SoCs, and compares with the simulator on photographs and signals that the converter was not calibrated
with. Batch norms of random networks are calibrated first; networks marked T are trained (weights that packages ship, or
trained by the script). A network is good if

* int8: the cosine is {COSINE} or better; {TRAINED} for trained ones, with {NEAR:.0%} of the values within 2 steps; or all
  values are within 1 step;
* fp16: the largest difference is at most {RELATIVE:g} of the largest magnitude.

*To float*: mean distance to the float network (ONNX Runtime) over its mean magnitude, ours / the simulator's. Where both
are alike, neither is wrong: random networks make much of one step of an early layer. So what is not good is judged layer
by layer, each layer of ours computing on the simulator's values; it is *explained* if every layer alone fits. *Finding*: of
the others, how many are understood (below): most are files that the converter damaged. *Not tried*: not converted for this
page.
"""


def _summary(results: Sequence[Measured]) -> str:
    titles = (
        "target",
        "networks",
        "not tried",
        "converted",
        "run",
        "good",
        "explained",
        "good or explained",
        "finding",
    )
    lines = [header(*titles)]
    for target in dict.fromkeys(r.target for r in results):
        mine = [r for r in results if r.target == target]
        converted = [r for r in mine if r.outcome not in (Outcome.UNCONVERTED, Outcome.WAITING)]
        ran = [r for r in converted if r.outcome is not Outcome.REFUSED]
        good = sum(r.outcome is Outcome.MATCHES for r in ran)
        told = sum(r.outcome is Outcome.DIFFERS and r.explained for r in ran)
        rest = [r for r in converted if r.outcome is not Outcome.MATCHES and not r.explained]
        found = sum(bool(reason_for(r.network, [r.target])) for r in rest)
        share = f"**{percent((good + told) / len(converted))}**" if converted else "-"
        left = sum(r.outcome is Outcome.WAITING for r in mine)
        lines.append(
            row(
                target,
                len(mine),
                left,
                len(converted),
                len(ran),
                good,
                told,
                share,
                f"{found} of {len(rest)}",
            )
        )
    return "\n".join(lines) + "\n" + _neither(results)


def _neither(results: Sequence[Measured]) -> str:
    """Whether ours or the simulator's is nearer to the float network, over all networks."""
    parts = []
    for target in dict.fromkeys(r.target for r in results):
        found = [r.worst for r in results if r.target == target and r.worst is not None]
        ratios = [w.ours / w.simulator for w in found if w.simulator > 0 and w.ours >= 0]
        if ratios:
            parts.append(f"{target} {median(ratios):.2f}")
    told = f"\nOf {date.today()}. Distance to the float network, ours over the simulator's, median: "
    return told + ", ".join(parts) + ".\n"


def _open(results: Sequence[Measured]) -> str:
    """What is not good, with the finding."""
    lines = [
        "### Not good, or refused\n",
        header("network", "targets", "worst result", "to float", "reason"),
    ]
    groups: dict[str, list[Measured]] = {}
    for r in results:
        if r.outcome in (Outcome.DIFFERS, Outcome.REFUSED):
            key = f"{r.network} {r.target.partition('.')[2]} {r.note.partition('; ')[0]} {r.explained}"
            key += reason_for(r.network, [r.target])
            groups.setdefault(key, []).append(r)
    for mine in groups.values():
        worst = min(mine, key=lambda r: r.worst.cosine if r.worst else -1)
        targets = [r.target for r in mine]
        lines.append(
            row(
                f"`{worst.network}`",
                ", ".join(targets),
                _said(worst),
                _far(worst),
                _reason(worst, targets),
            )
        )
    return "\n".join(lines) + "\n"


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


def _main(results: Sequence[Measured], networks: Sequence[Stored]) -> str:
    """All networks for the SoC that each is converted for."""
    cells = {(r.network, r.target): r for r in results}
    names = ("int8 cosine", "LSB", "within 1", "to float", "fp16 relative", "to float")
    lines = [
        f"### All networks for {_MAIN.upper()}\n",
        header("network", "exporter", "opset", "input", *names),
    ]
    for network in networks:
        quantised, floating = (cells.get((network.name, f"{_MAIN}.{kind}")) for kind in ("i8", "fp16"))
        facts = network.facts
        name = f"`{network.name}`{' T' if facts['trained'] else ''}"
        shapes = ", ".join("x".join(map(str, shape)) for shape in facts["inputs"])
        lines.append(
            row(name, facts["exporter"], facts["opset"], shapes, *_int8(quantised), *_fp16(floating))
        )
    return "\n".join(lines) + "\n"


def _int8(result: Measured | None) -> tuple[str, str, str, str]:
    worst = None if result is None else result.worst
    if result is None or worst is None:
        return _word(result), "", "", ""
    bold = "" if result.outcome is Outcome.MATCHES else "**"
    steps, near = "", ""
    if worst.steps is not None and worst.within_one is not None:
        steps, near = f"{worst.steps:.0f}", percent(worst.within_one)
    return f"{bold}{worst.cosine:.6f}{bold}", steps, near, _far(result)


def _fp16(result: Measured | None) -> tuple[str, str]:
    worst = None if result is None else result.worst
    if result is None or worst is None:
        return _word(result), ""
    bold = "" if result.outcome is Outcome.MATCHES else "**"
    return f"{bold}{max(o.relative for o in result.outputs):.1e}{bold}", _far(result)


def _word(result: Measured | None) -> str:
    words = {Outcome.REFUSED: "**refused**", Outcome.UNCONVERTED: "."}
    return "" if result is None else words.get(result.outcome, "")


def _others(results: Sequence[Measured]) -> str:
    """int8: the least cosine; fp16: the largest relative difference."""
    targets = [t for t in dict.fromkeys(r.target for r in results) if not t.startswith(f"{_MAIN}.")]
    cells = {(r.network, r.target): r for r in results}
    lines = [
        "### All SoCs\n",
        "int8: least cosine of an output; fp16: largest difference over the largest magnitude. **Bold**: not good. A "
        "point: not converted.\n",
        header("network", *targets),
    ]
    for name in dict.fromkeys(r.network for r in results if not r.target.startswith(f"{_MAIN}.")):
        found = [cells.get((name, target)) for target in targets]
        both = [_int8(r)[0] if t.endswith(".i8") else _fp16(r)[0] for r, t in zip(found, targets)]
        lines.append(row(f"`{name}`", *both))
    return "\n".join(lines) + "\n"


def _unconverted(results: Sequence[Measured]) -> str:
    lines = [
        "### Networks that the toolkit does not convert\n",
        header("network", "targets", "what it says"),
    ]
    groups: dict[str, list[Measured]] = {}
    for r in results:
        if r.outcome is Outcome.UNCONVERTED:
            groups.setdefault(r.network, []).append(r)
    for name, mine in groups.items():
        lines.append(row(f"`{name}`", ", ".join(r.target for r in mine), " ".join(mine[0].note.split())))
    return "\n".join(lines) + "\n"
