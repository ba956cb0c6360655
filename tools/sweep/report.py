"""The sweep's results as a table for the terminal and as the page docs/coverage.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from compare import Outcome, Result
from judge import COSINE, LSB, RELATIVE, SAME, Judge
from reasons import LACKING, UNEXPLAINED, reason_for

__all__ = ["markdown", "table"]

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


def _cell(result: Result | None) -> str:
    """One place of the big table: error in steps or relative; marks for what does not match."""
    if result is None or result.outcome is Outcome.WAITING:
        return ""
    if result.outcome is Outcome.UNCONVERTED:
        return "."
    worst = result.worst
    if worst is None:
        return "refused"
    error = f"{worst.error:.0f}" if worst.unit == "LSB" else f"{worst.error:.0e}".replace("e-0", "e-")
    return error if result.outcome is Outcome.MATCHES else f"**{error}**"


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
    """The page for the documentation; ``random`` is the section about the random cases."""
    targets = _targets(results)
    parts = [
        _HEAD,
        _summary(results, targets),
        random,
        _open_cases(results),
        _refusals(results),
        _all_cases(results, targets),
    ]
    return "\n".join(parts)


_HEAD = f"""# Coverage

Which ONNX operators and patterns run in the CPU reference, and how close they come to the vendor's simulator
(rknn-toolkit2 2.5.0). `tools/sweep` makes this page: it builds a small graph per case, converts it for each target, runs
the file and compares each output with the simulator's.

A case matches if

* int8 outputs differ by at most {LSB[Judge.CLOSE]} step; {LSB[Judge.FUSED]} where the compiler joins layers that the
  simulator computes and rounds one by one (then with a cosine of {COSINE} or better);
* floating outputs of floating models differ by at most {RELATIVE:g} of the largest magnitude, cosine {COSINE} or better;
* floating outputs of int8 models have a cosine of {COSINE} or better;
* of functions that jump, and of indices, at least {100 * SAME:.0f} % of the elements are equal.

## Summary
"""


def _row(*cells: object) -> str:
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def _header(*cells: str) -> str:
    return f"{_row(*cells)}\n|{'---|' * len(cells)}"


def _summary(results: Sequence[Result], targets: Sequence[str]) -> str:
    lines = [
        _header(
            "target",
            "cases",
            "converted",
            "run",
            "match",
            "of converted",
            "proven",
            "match or proven",
            "with attributes given",
            "worst int8",
            "worst floating",
        )
    ]
    for target in targets:
        tried, converted, ran, matching = _counts(results, target)
        good = [v for r in results if r.target == target and r.outcome is Outcome.MATCHES for v in r.verdicts]
        steps = max((v.error for v in good if v.unit == "LSB"), default=0)
        real = max((v.error for v in good if v.unit != "LSB" and not target.endswith(".i8")), default=0)
        worst = (f"{steps:.0f} LSB" if target.endswith(".i8") else "", f"{real:.1e}" if real else "")
        proven = _proven(results, target)
        right = matching + proven
        shares = _share(right, converted), _share(right + _told(results, target), converted)
        lines.append(
            _row(
                target,
                tried,
                converted,
                ran,
                matching,
                f"**{_share(matching, converted)}**",
                proven,
                *shares,
                *worst,
            )
        )
    lines.append(
        "\nA case that is not run is one that the CPU reference refuses. Worst: of the cases that match; those that do "
        "not are all listed below. With attributes given: the files of rv1106 and rv1103b leave out the attributes of "
        "some operators, and two networks that differ in those alone give files that differ in nothing else but "
        "calibrated ranges; so no reader can tell, and the model is opened with `attributes={type: {...}}`.\n"
    )
    return "\n".join(lines)


def _grouped(results: Iterable[Result]) -> dict[tuple[str, str], list[str]]:
    """(case, note) -> targets."""
    groups: dict[tuple[str, str], list[str]] = {}
    for r in results:
        groups.setdefault((r.case, _safe(r.note)), []).append(r.target)
    return groups


def _safe(note: str) -> str:
    """A note as a cell of a table, without the advice that follows the first semicolon."""
    return note.replace("|", "/").replace("\n", " ").partition("; ")[0]


def _open_cases(results: Sequence[Result]) -> str:
    lines = ["## Converted, but not matching\n", _header("case", "targets", "result", "reason")]
    for (case, note), targets in _grouped(
        r for r in results if r.outcome in (Outcome.DIFFERS, Outcome.REFUSED)
    ).items():
        told = next((r.told for r in results if r.case == case and r.target in targets and r.told), None)
        given = f"; with them given: {told.worst or told.note}" if told is not None else ""
        proof = next((r.proof for r in results if r.case == case and r.target in targets and r.proof), None)
        reason = LACKING if told is not None else reason_for(case, targets)
        if proof is not None and reason == UNEXPLAINED:
            reason = f"proven to be no error: {proof.name.lower()} (see random cases)"
        lines.append(_row(f"`{case}`", ", ".join(targets), note + given, reason))
    return "\n".join(lines) + "\n"


def _refusals(results: Sequence[Result]) -> str:
    """What the toolkit does not convert or its simulator does not run: nothing to compare with."""
    lines = ["## Not converted by the toolkit\n", "No file, or no answer of the simulator to compare with.\n"]
    lines.append(_header("case", "targets", "what the toolkit says"))
    groups: dict[str, tuple[list[str], str]] = {}
    for r in results:
        if r.outcome is Outcome.UNCONVERTED:
            groups.setdefault(r.case, ([], _safe(r.note)))[0].append(r.target)
    everywhere = len(_targets(results))
    for case, (targets, note) in groups.items():
        lines.append(_row(f"`{case}`", "all" if len(targets) == everywhere else ", ".join(targets), note))
    return "\n".join(lines) + "\n"


def _all_cases(results: Sequence[Result], targets: Sequence[str]) -> str:
    """The largest error of each case: steps (int8), or relative to the largest magnitude."""
    cells = {(r.case, r.target): r for r in results}
    lines = [
        "## All cases\n",
        "Largest difference: an integer is in steps of the output, anything else relative to the largest magnitude. "
        "**Bold**: does not match. A point: not converted.\n",
        _header("case", *targets),
    ]
    for case in dict.fromkeys(r.case for r in results):
        lines.append(_row(f"`{case}`", *(_cell(cells.get((case, target))) for target in targets)))
    return "\n".join(lines) + "\n"
