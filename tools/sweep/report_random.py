"""The random cases: a part of docs/coverage.md, and its data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from compare import Outcome, Result
from data_file import DataTable, merged
from random_cases import KINDS
from reasons import UNEXPLAINED, damage, reason_for
from targets import TARGETS, places, soc_of
from verdicts import DAMAGED, MARKS, PROVEN, TOLD, Entry, counts, told_right

__all__ = ["markdown", "open_rows", "rows"]

_HEAD = """## Random cases

{cases} cases of {kinds} kinds, drawn from their names. *Damaged*: the converter left something out of the file; not
counted as converted.
"""

_TABLES = """
[Kinds of cases](assets/coverage-random.js)

[What does not match](assets/coverage-open.js)
"""


def markdown(entries: Mapping[str, Entry]) -> str:
    """Totals of the committed verdicts."""
    names = ("SoC", "converted", "match", "proven", "match or proven", "with attributes")
    lines = [
        _HEAD.format(cases=len(entries), kinds=len(KINDS)),
        _row(*names),
        f"|---{'|---:' * (len(names) - 1)}|",
    ]
    for soc, count in counts(entries).items():
        shares = _share(count.right, count.converted), _share(count.right + count.told, count.converted)
        lines.append(_row(soc.upper(), count.converted, count.match, count.right - count.match, *shares))
    return "\n".join(lines) + "\n" + _TABLES


def rows(entries: Mapping[str, Entry]) -> DataTable:
    """How many cases of a kind match on a target, and what becomes of the others."""
    marks: dict[tuple[str, str], Counter[str]] = {}
    for name, entry in entries.items():
        for target, mark in entry.marks.items():
            marks.setdefault((name.partition(".")[0], target), Counter())[mark] += 1
    found = []
    for kind in dict.fromkeys(kind for kind, _ in marks):
        for target in TARGETS:
            count = marks.get((kind, target))
            if count is None:
                continue
            unconverted = count[MARKS[Outcome.UNCONVERTED]] + count[MARKS[Outcome.WAITING]] + count[DAMAGED]
            found.append(
                {
                    "kind": kind,
                    **places(target),
                    "converted": sum(count.values()) - unconverted,
                    "match": count[MARKS[Outcome.MATCHES]],
                    **{proof.name.lower(): count[mark] or "" for proof, mark in PROVEN.items()},
                    "needs attributes": count[TOLD] or "",
                    "differs": count[MARKS[Outcome.DIFFERS]] or "",
                    "refused": count[MARKS[Outcome.REFUSED]] or "",
                    "damaged": count[DAMAGED] or "",
                }
            )
    return DataTable(list(found[0]), ["kind", "container", "SoC", "type"], merged(found, "SoC"))


def open_rows(results: Sequence[Result]) -> DataTable:
    """A row per reason, with the worst example; where there is no reason, per kind of case."""
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
    found = []
    for (_, reason), members in sorted(groups.items(), key=lambda group: -len(group[1])):
        worst = max(members, key=_badness)
        socs = dict.fromkeys(soc_of(r.target).upper() for r in members)
        kinds = dict.fromkeys(r.case.partition(".")[0] for r in members)
        note = worst.note.partition("; ")[0]
        cells = len(members), ", ".join(kinds), ", ".join(socs), f"{worst.case} {worst.target}", note, reason
        found.append([str(cell) for cell in cells])
    return DataTable(
        ["conversions", "kinds", "SoC", "for example", "result", "reason"], ["kinds", "SoC"], found
    )


def _row(*cells: object) -> str:
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.2f} %" if whole else "-"


def _badness(result: Result) -> float:
    return 1 - result.worst.cosine if result.worst else 2.0
