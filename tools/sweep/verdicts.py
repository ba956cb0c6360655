"""What became of the random cases: a compact file that is committed, one line per case.

A line holds the case's name (which is its seed), the fingerprint of its graph and, per element type, one mark per SoC
in the order of ``TARGETS``: ``conv.0007 1a2b3c4d i8:======= fp16:===~=``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from compare import Outcome, Result
from graph import Case
from proof import Proof
from reasons import UNEXPLAINED, damage, reason_for
from targets import FAMILIES, MINI, TARGETS, dtype_of, soc_of

__all__ = ["FILE", "Counts", "Entry", "counts", "problems", "read", "told_right", "update", "write"]

FILE = Path(__file__).with_name("verdicts.txt")
LEAST_CONVERTED = 1500
"""Conversions per SoC that the file has to hold."""
LEAST_SHARE = 0.995
"""Of the converted cases of a SoC that has all attributes in its files, how many have to match or to be proven."""
MARKS = {
    Outcome.MATCHES: "=", Outcome.DIFFERS: "~", Outcome.REFUSED: "x", Outcome.UNCONVERTED: ".", Outcome.WAITING: "?",
}  # fmt: skip
TOLD = "t"
"""Refused for attributes that the file does not store, matches with them given."""
DAMAGED = "d"
"""Refused, because the converter left something out of the file; counts as not converted."""
PROVEN = {Proof.NEARER: "n", Proof.ROUNDING: "r", Proof.JOINED: "j", Proof.CUT: "c"}
"""Differs, and is proven to be no error."""


@dataclass(frozen=True)
class Entry:
    """One case."""

    fingerprint: str
    marks: Mapping[str, str]
    """Target -> mark."""


@dataclass(frozen=True)
class Counts:
    """Of one SoC."""

    damaged: int
    converted: int
    run: int
    match: int
    nearer: int
    rounding: int
    joined: int
    cut: int
    told: int

    @property
    def right(self) -> int:
        """Those that match, or are proven to be no error."""
        return self.match + self.nearer + self.rounding + self.joined + self.cut

    @property
    def share(self) -> float:
        """Of the converted, how many are right."""
        return self.right / self.converted if self.converted else 0.0


def _columns(dtype: str) -> list[str]:
    return [target for target in TARGETS if dtype_of(target) == dtype]


def read(path: Path = FILE) -> dict[str, Entry]:
    """All entries of a file, none if there is no such file."""
    found = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        if line.startswith("#") or not line:
            continue
        name, fingerprint, *groups = line.split()
        marks = {}
        for group in groups:
            dtype, _, values = group.partition(":")
            marks.update(zip(_columns(dtype), values))
        found[name] = Entry(fingerprint, marks)
    return found


def write(entries: Mapping[str, Entry], path: Path = FILE) -> None:
    """Write the file, sorted by name."""
    legend = ", ".join(f"{mark} {outcome.value}" for outcome, mark in MARKS.items())
    lines = [
        "# Written by `python tools/sweep run --verdicts`, checked by `python tools/sweep check`.",
        f"# {legend}, {TOLD} matches with the attributes given that the file lacks,",
        f"# {PROVEN[Proof.NEARER]} differs and is nearer to the float network, {PROVEN[Proof.ROUNDING]} differs by rounding, "
        f"{PROVEN[Proof.JOINED]} by layers that the simulator joins, "
        f"{PROVEN[Proof.CUT]} by values cut off inside",
        "# (all proven, see proof.py),",
        f"# {DAMAGED} refused, because the converter left something out of the file",
    ]
    for dtype in dict.fromkeys(dtype_of(target) for target in TARGETS):
        lines.append(f"# {dtype}: {' '.join(soc_of(target) for target in _columns(dtype))}")
    for name in sorted(entries):
        entry = entries[name]
        groups = [
            f"{dtype}:{''.join(entry.marks.get(t, '?') for t in _columns(dtype))}"
            for dtype in dict.fromkeys(dtype_of(target) for target in entry.marks)
        ]
        lines.append(" ".join((name, entry.fingerprint, *groups)))
    path.write_text("\n".join(lines) + "\n")


def told_right(result: Result) -> bool:
    """Whether a refused case is right once the attributes are given that its file lacks."""
    told = result.told
    return told is not None and (told.outcome is Outcome.MATCHES or told.proof is not None)


def mark(result: Result) -> str:
    """The mark of a result."""
    if told_right(result):
        return TOLD
    if result.proof is not None:
        return PROVEN[result.proof]
    if result.outcome is Outcome.REFUSED and damage(result.target, result.note):
        return DAMAGED
    return MARKS[result.outcome]


def update(
    entries: Mapping[str, Entry], results: Iterable[Result], fingerprints: Mapping[str, str]
) -> dict[str, Entry]:
    """The entries with newer results in the place of older ones; cases of another graph start anew."""
    merged: dict[str, tuple[str, dict[str, str]]] = {
        name: (entry.fingerprint, dict(entry.marks))
        for name, entry in entries.items()
        if name in fingerprints
    }
    for result in results:
        fingerprint = fingerprints[result.case]
        if merged.get(result.case, ("", {}))[0] != fingerprint:
            merged[result.case] = (fingerprint, {})
        merged[result.case][1][result.target] = mark(result)
    return {name: Entry(fingerprint, marks) for name, (fingerprint, marks) in merged.items()}


def counts(entries: Mapping[str, Entry]) -> dict[str, Counts]:
    """Per SoC."""
    found = {}
    for soc in (*FAMILIES, *MINI):
        marks = [
            m for entry in entries.values() for target, m in entry.marks.items() if soc_of(target) == soc
        ]
        match, nearer, rounding, joined, cut, differ, refused, told = map(marks.count, "=nrjc~xt")
        run = match + nearer + rounding + joined + cut + differ
        found[soc] = Counts(
            marks.count(DAMAGED), run + refused + told, run, match, nearer, rounding, joined, cut, told
        )
    return found


def problems(entries: Mapping[str, Entry], cases: Mapping[str, Case]) -> list[str]:
    """What is wrong with the file: empty if it is whole, belongs to the cases and explains what does not match."""
    found = [f"{name}: no verdict; run the sweep" for name in cases if name not in entries]
    found += [f"{name}: a verdict, but no such case" for name in entries if name not in cases]
    for name, entry in entries.items():
        if name not in cases:
            continue
        if entry.fingerprint != cases[name].fingerprint():
            found.append(f"{name}: the generator draws another graph than the one that was judged")
        for target in TARGETS:
            if dtype_of(target) in cases[name].dtypes and entry.marks.get(target, "?") == "?":
                found.append(f"{name}: no verdict for {target}")
        for target, value in entry.marks.items():
            if value in "~x" and reason_for(name, [target]) == UNEXPLAINED:
                found.append(f"{name}: does not match for {target}, without a reason in reasons.py")
    for soc, count in counts(entries).items():
        if count.converted < LEAST_CONVERTED:
            found.append(f"{soc}: {count.converted} converted cases, {LEAST_CONVERTED} are needed")
        if soc in FAMILIES and count.share < LEAST_SHARE:
            found.append(
                f"{soc}: {100 * count.share:.2f} % match or are proven, {100 * LEAST_SHARE:.1f} % are needed"
            )
    return found
