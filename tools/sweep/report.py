"""The sweep's results as a table for the terminal, as a section of docs/coverage.md and as its data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from compare import Outcome, Result
from data_file import CASE_COLUMNS, CASE_FILTERS, DataTable, merged
from judge import COSINE, LSB, RELATIVE, SAME, Judge, Verdict
from reasons import UNEXPLAINED, reason_for
from targets import places
from verdicts import told_right

__all__ = ["markdown", "rows", "table"]

_RAN = (Outcome.MATCHES, Outcome.DIFFERS)


def _targets(results: Iterable[Result]) -> list[str]:
    return list(dict.fromkeys(r.target for r in results))


def _counts(results: Sequence[Result], target: str) -> tuple[int, int, int, int]:
    """(tried, converted, run, matching) cases of a target."""
    mine = [r for r in results if r.target == target and r.outcome is not Outcome.WAITING]
    converted = [r for r in mine if r.outcome is not Outcome.UNCONVERTED]
    ran = [r for r in converted if r.outcome in _RAN]
    return len(mine), len(converted), len(ran), sum(r.outcome is Outcome.MATCHES for r in ran)


def _told(results: Sequence[Result], target: str) -> int:
    """Cases of a target that match once the attributes are given which its container does not store."""
    return sum(
        r.target == target
        and r.told is not None
        and (r.told.outcome is Outcome.MATCHES or r.told.proof is not None)
        for r in results
    )


def _proven(results: Sequence[Result], target: str) -> int:
    """Cases of a target that do not match, and are proven to be no error."""
    return sum(r.target == target and r.proof is not None for r in results)


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def table(results: Sequence[Result], verbose: bool) -> str:
    """What does not match (with ``verbose`` everything), then the totals per target."""
    lines = []
    for r in results:
        if r.outcome in (Outcome.DIFFERS, Outcome.REFUSED):
            proof = f", {r.proof.name.lower()}" if r.proof else ""
            lines.append(f"{r.outcome.value:9} {r.target:13} {r.case:30} {r.note}{proof}")
        elif verbose and r.outcome is not Outcome.WAITING:
            lines.append(f"{r.outcome.value:9} {r.target:13} {r.case:30} {r.worst or r.note}")
    lines.append(
        f"{'target':15}{'tried':>7}{'converted':>11}{'run':>7}{'match':>7}          with attributes given"
    )
    for target in _targets(results):
        tried, converted, ran, matching = _counts(results, target)
        told = matching + _told(results, target)
        lines.append(
            f"{target:15}{tried:7}{converted:11}{ran:7}{matching:7}  {_share(matching, converted):8}"
            f"{told:7}  {_share(told, converted)}"
        )
    return "\n".join(lines)


def markdown(results: Sequence[Result], random: str) -> str:
    """The section of the page; ``random`` is the one about the random cases."""
    return "\n".join([_HEAD, _summary(results), _TABLE, random])


_HEAD = f"""# Coverage

Which ONNX operators, patterns and networks the CPU reference runs, and how far it is from the vendor's simulator
(rknn-toolkit2 2.5.0). *Container*: version of the [`.rknn` file](rknn-format.md). RK3566 runs files of RK3568, RV1103 those of
RV1106. Differences: steps of the output (LSB), or a part of the largest magnitude.

<noscript>Without scripts the links lead to the data, a row a line.</noscript>

## Operators

A case is a small graph. It matches if

* int8 outputs differ by {LSB[Judge.CLOSE]} step; {LSB[Judge.FUSED]} where the compiler joins layers that the simulator rounds
  one by one (cosine {COSINE});
* floating outputs of fp16 files differ by {RELATIVE:g}, cosine {COSINE}; of int8 files: that cosine;
* of functions that jump, and of indices, {100 * SAME:.0f} % are equal.

*Needs attributes*: mini files leave some out; it matches with `attributes={{type: {{...}}}}`. *Proven* to be no error:

* *nearer*: ours is no farther from the float network;
* *rounding*: the file rounds where the simulator joins layers, which explains the difference;
* *joined*: the same, and without rounding 99 % of the bytes are equal;
* *cut*: values leave the calibrated range inside.
"""

_TABLE = """[Cases of rknn-toolkit2](assets/coverage-operators.js),
[of RKNN-Toolkit 1](assets/coverage-first.js)
"""


def rows(results: Sequence[Result], operators: Mapping[str, str]) -> DataTable:
    """A row for what a case comes to, with all SoCs where it does; ``operators`` of each case."""
    found = []
    for r in results:
        if r.outcome is not Outcome.WAITING:
            cells = {
                "case": r.case,
                "operators": operators[r.case],
                **places(r.target),
                **_outcome(r, results),
            }
            found.append({name: cells[name] for name in CASE_COLUMNS})
    return DataTable(CASE_COLUMNS, CASE_FILTERS, merged(found, "SoC"))


def _outcome(result: Result, results: Sequence[Result]) -> dict[str, str]:
    worst = result.worst
    told = result.told
    if result.outcome is Outcome.DIFFERS or (result.outcome is Outcome.REFUSED and told is None):
        remark = f"{_brief(result.note)}; {_reason(result, results)}"
    elif told is not None:
        remark = f"with them given: {told.worst or told.note}"
    else:
        remark = _brief(result.note)
    word = "needs attributes" if told is not None and told_right(result) else result.outcome.value
    return {"result": word, "difference": "" if worst is None else _error(worst), "remark": remark}


def _error(worst: Verdict) -> str:
    if worst.unit == "LSB":
        return f"{worst.error:.0f} LSB"
    return f"{worst.error:.0e}".replace("e-0", "e-") if worst.error else "0"


def _reason(result: Result, results: Sequence[Result]) -> str:
    """Why it does not match: the finding for the case, or the proof that it is no error."""
    targets = [r.target for r in results if r.case == result.case and r.note == result.note]
    reason = reason_for(result.case, targets)
    if result.proof is not None and reason == UNEXPLAINED:
        return f"proven to be no error: {result.proof.name.lower()}"
    return reason


def _brief(note: str) -> str:
    """A note without the advice that follows the first semicolon."""
    return " ".join(note.partition("; ")[0].split())


def _row(*cells: object) -> str:
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def _summary(results: Sequence[Result]) -> str:
    """Totals per target."""
    names = ("SoC, type", "converted", "match", "proven", "match or proven", "with attributes")
    lines = [_row(*names), f"|---{'|---:' * (len(names) - 1)}|"]
    for target in _targets(results):
        _, converted, _, matching = _counts(results, target)
        right = matching + _proven(results, target)
        shares = _share(right, converted), _share(right + _told(results, target), converted)
        cells = places(target)
        lines.append(_row(f"{cells['SoC']} {cells['type']}", converted, matching, right - matching, *shares))
    return "\n".join(lines) + "\n"
