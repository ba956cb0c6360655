"""The zoo's results for the terminal, and as a section of docs/coverage.md."""

from __future__ import annotations

from collections.abc import Sequence

from compare import Outcome
from layers import NEAR as LAYER_NEAR
from measure import COSINE, NEAR, RELATIVE, TRAINED, Closeness, Measured
from reasons_zoo import reason_for
from stored import Stored

__all__ = ["markdown", "terminal"]

_MAIN = "rk3588"
EVEN = 0.999
"""Share of equal values of a layer that counts as the same."""
ALIKE = 1.33
"""Largest ratio of two distances to the float network that counts as none."""


def _percent(share: float) -> str:
    return f"{100 * share:.2f}".rstrip("0").rstrip(".") + " %"


def _figures(output: Closeness) -> str:
    steps = ""
    if output.steps is not None and output.within_one is not None:
        steps = f", {output.steps:.0f} LSB, within 1: {_percent(output.within_one)}"
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


def _row(*cells: object) -> str:
    return f"| {' | '.join(str(cell).replace('|', '/') for cell in cells)} |"


def _header(*cells: str) -> str:
    return f"{_row(*cells)}\n|{'---|' * len(cells)}"


def markdown(results: Sequence[Measured], networks: Sequence[Stored]) -> str:
    """The section."""
    parts = [_HEAD, _summary(results), _open(results), _main(results, networks), _others(results)]
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
by layer, each layer of ours computing on the simulator's values. Layers that differ in more than rare halves are those
whose convolution and activation, sum or product the NPU joins, while the simulator rounds to int8 between them.
"""


def _summary(results: Sequence[Measured]) -> str:
    lines = [_header("target", "networks", "converted", "run", "good", "of converted")]
    for target in dict.fromkeys(r.target for r in results):
        mine = [r for r in results if r.target == target and r.outcome is not Outcome.WAITING]
        converted = [r for r in mine if r.outcome is not Outcome.UNCONVERTED]
        ran = [r for r in converted if r.outcome is not Outcome.REFUSED]
        good = sum(r.outcome is Outcome.MATCHES for r in ran)
        share = _percent(good / len(converted)) if converted else "-"
        lines.append(_row(target, len(mine), len(converted), len(ran), good, f"**{share}**"))
    return "\n".join(lines) + "\n"


def _open(results: Sequence[Measured]) -> str:
    """What is not good, with the finding."""
    lines = [
        "### Not good, or refused\n",
        _header("network", "targets", "worst result", "to float", "reason"),
    ]
    groups: dict[str, list[Measured]] = {}
    for r in results:
        if r.outcome in (Outcome.DIFFERS, Outcome.REFUSED):
            key = f"{r.network} {r.target.partition('.')[2]} {r.note.partition('; ')[0]}"
            groups.setdefault(key, []).append(r)
    for mine in groups.values():
        worst = min(mine, key=lambda r: r.worst.cosine if r.worst else -1)
        targets = [r.target for r in mine]
        lines.append(
            _row(
                f"`{worst.network}`",
                ", ".join(targets),
                _said(worst),
                _far(worst),
                _reason(worst, targets),
            )
        )
    return "\n".join(lines) + "\n"


def _reason(result: Measured, targets: Sequence[str]) -> str:
    """The finding by hand, else what the layers tell."""
    known = reason_for(result.network, targets)
    if known or result.odd is None:
        return known or _even(result)
    layers, odd = result.layers, result.odd
    even = sum(layer.same >= EVEN for layer in layers)
    least = f"least {odd.op}: {_percent(odd.same)} equal, {_percent(odd.near)} within 1 LSB, largest {odd.error:.0f}"
    if result.explained:
        return f"each of {len(layers)} layers alone within 1 LSB ({LAYER_NEAR:.1%} of its values or more), {even} of them {EVEN:.1%} equal; {least}"
    return f"not explained yet: {least} (`{odd.tensor}`)"


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
        _header("network", "exporter", "opset", "input", *names),
    ]
    for network in networks:
        quantised, floating = (cells.get((network.name, f"{_MAIN}.{kind}")) for kind in ("i8", "fp16"))
        facts = network.facts
        name = f"`{network.name}`{' T' if facts['trained'] else ''}"
        shapes = ", ".join("x".join(map(str, shape)) for shape in facts["inputs"])
        lines.append(
            _row(name, facts["exporter"], facts["opset"], shapes, *_int8(quantised), *_fp16(floating))
        )
    return "\n".join(lines) + "\n"


def _int8(result: Measured | None) -> tuple[str, str, str, str]:
    worst = None if result is None else result.worst
    if result is None or worst is None:
        return _word(result), "", "", ""
    bold = "" if result.outcome is Outcome.MATCHES else "**"
    steps, near = "", ""
    if worst.steps is not None and worst.within_one is not None:
        steps, near = f"{worst.steps:.0f}", _percent(worst.within_one)
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
        _header("network", *targets),
    ]
    for name in dict.fromkeys(r.network for r in results if not r.target.startswith(f"{_MAIN}.")):
        found = [cells.get((name, target)) for target in targets]
        both = [_int8(r)[0] if t.endswith(".i8") else _fp16(r)[0] for r, t in zip(found, targets)]
        lines.append(_row(f"`{name}`", *both))
    return "\n".join(lines) + "\n"


def _unconverted(results: Sequence[Measured]) -> str:
    lines = [
        "### Networks that the toolkit does not convert\n",
        _header("network", "targets", "what it says"),
    ]
    groups: dict[str, list[Measured]] = {}
    for r in results:
        if r.outcome is Outcome.UNCONVERTED:
            groups.setdefault(r.network, []).append(r)
    for name, mine in groups.items():
        lines.append(_row(f"`{name}`", ", ".join(r.target for r in mine), " ".join(mine[0].note.split())))
    return "\n".join(lines) + "\n"
