"""The part of docs/coverage.md about the random cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from compare import Outcome, Result
from random_cases import KINDS
from reasons import UNEXPLAINED, damage, reason_for
from targets import TARGETS, dtype_of, soc_of
from verdicts import Entry, counts, told_right

__all__ = ["random_section"]

_HEAD = """## Random cases

Beside the cases written by hand, {cases} cases of {kinds} kinds are drawn from their names: asymmetric kernels, strides,
pads and dilations, groups, single channels, odd sizes, shared and per-channel parameters, broadcast forms, chains of two
and three layers with all activations, options of the toolkit. `tools/sweep/verdicts.txt` keeps the verdict of each; a
test sees to it that the generators still draw the same graphs, and that nothing is left unexplained.
"""

_FOUND = """
The first run of the int8 cases, before anything was mended, matched in 1671 of 1898 on rk3588, 1662 of 1888 on rk3568, 1599
of 1891 on rk3562, 1449 of 1892 on rk3576 and rv1126b, 1614 of 1888 on rv1106 and 1670 of 1894 on rv1103b. What it found:
transposed convolutions with uneven kernels or pads (84 of 129 converted ones wrong on rk3588), one output channel or weights scaled as a
whole on rk3576 and rv1126b (all 45 of the single channels wrong), PRelu with one slope or a slope per place, LSTM with weights
scaled as a whole, GRU and sums of the mini format, convolutions of int16 models on rv1106, int16 constants and slopes that
the converter cut, and eight operators that nobody had written.
"""

_PROOFS = """
Four sorts of differences are proven to be no errors (`tools/sweep/proof.py`), case by case:

* *nearer*: on average our output is no farther from the float network than the simulator's is. The simulator rounds to
  int8 between a depthwise convolution and its activation, and before a second operand is added or multiplied; the file
  does both in one step, and so does the reference. An error could not bring it nearer.
* *rounding*: the file rounds between layers that the simulator computes in one step. Noise of the variance of rounding (a
  twelfth of a square step), put on what the layers inside give, moves the outputs far enough to explain our distance to
  the float network and the largest difference from the simulator.
* *joined*: the file stores what a layer inside gives as int8, cut off at the ends of its calibrated range; the simulator joins
  that layer with the next one. Without any rounding inside, 99 % or more of our bytes are the simulator's.
* *cut*: values of the run leave the calibrated range of a layer inside; the file cuts them off there, the simulator, which joins
  that layer with the next one, does not. With wider ranges inside our results match, or are no farther from the float network
  than the simulator's.

Damaged files are those that the converter left something out of, so that no reader can run them; they do not count as
converted. What is left, by reason:
"""


def random_section(entries: Mapping[str, Entry], results: Sequence[Result]) -> str:
    """Totals of the committed verdicts; what does not match, with its reason and the worst example."""
    return "\n".join([_HEAD.format(cases=len(entries), kinds=len(KINDS)), _totals(entries), _open(results)])


def _row(*cells: object) -> str:
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.2f} %" if whole else "-"


def _totals(entries: Mapping[str, Entry]) -> str:
    lines = [
        _row(
            "SoC", "element types", "damaged files", "converted", "run", "match", "nearer", "rounding", "joined", "cut",
            "match or proven",
            "with attributes given",
        ),
        f"|{'---|' * 12}",
    ]  # fmt: skip
    for soc, count in counts(entries).items():
        types = ", ".join(dtype_of(target) for target in TARGETS if soc_of(target) == soc)
        told = _share(count.right + count.told, count.converted)
        match = f"{count.match} ({_share(count.match, count.converted)})"
        share = f"**{_share(count.right, count.converted)}**"
        proven = count.nearer, count.rounding, count.joined, count.cut
        lines.append(_row(soc, types, count.damaged, count.converted, count.run, match, *proven, share, told))
    return "\n".join(lines) + "\n" + _FOUND + _PROOFS


def _open(results: Sequence[Result]) -> str:
    """One line per reason; where there is none, per kind of case."""
    groups: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        if (
            result.outcome in (Outcome.DIFFERS, Outcome.REFUSED)
            and not told_right(result)
            and result.proof is None
        ):
            kind = result.case.partition(".")[0]
            reason = damage(result.target, result.note) or reason_for(result.case, [result.target])
            groups.setdefault((kind if reason == UNEXPLAINED else "", reason), []).append(result)
    lines = [_row("conversions", "kinds", "on", "for example", "result", "reason"), f"|{'---|' * 6}"]
    for (_, reason), members in sorted(groups.items(), key=lambda group: -len(group[1])):
        worst = max(members, key=_badness)
        socs = dict.fromkeys(soc_of(r.target) for r in members)
        note = worst.note.replace("|", "/").partition("; ")[0]
        example = f"`{worst.case}` {worst.target}"
        kinds = ", ".join(dict.fromkeys(r.case.partition(".")[0] for r in members))
        lines.append(_row(len(members), kinds, ", ".join(socs), example, note, reason))
    return "\n".join(lines) + "\n" if groups else "All of them match.\n"


def _badness(result: Result) -> float:
    return 1 - result.worst.cosine if result.worst else 2.0
