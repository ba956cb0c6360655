"""Runs converted models in the CPU reference and compares with the simulator's answers."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any

from answers import ABSENT, answers
from judge import Judge, Verdict, compare

__all__ = ["Outcome", "Result", "compare_all"]


class Outcome(Enum):
    """What became of one case for one target."""

    MATCHES = "matches"
    DIFFERS = "differs"
    REFUSED = "refused"  # the CPU reference says that it cannot run it
    UNCONVERTED = "not converted"
    WAITING = "waiting"  # no conversion has been tried


@dataclass(frozen=True)
class Result:
    """One case for one target; ``note`` says why it does not match.

    ``told``: the result of a case that is refused for attributes which the file does not store, with those given.
    """

    case: str
    target: str
    outcome: Outcome
    verdicts: tuple[Verdict, ...] = field(default=())
    note: str = ""
    told: Result | None = None

    @property
    def worst(self) -> Verdict | None:
        """The output that agrees least."""
        return max(self.verdicts, key=lambda v: (not v.matches, v.error), default=None)


def compare_all(
    cache: Path, cases: Mapping[str, Mapping[str, Any]], pattern: str, targets: tuple[str, ...]
) -> list[Result]:
    """Results of all cases and targets; ``cases`` is name -> folder, judge and attributes, as the index has it."""
    return [
        _compare(cache / entry["folder"] / target, name, target, Judge(entry["judge"]), entry["attributes"])
        for name, entry in cases.items()
        for target in targets
        if fnmatch.fnmatch(target, pattern)
    ]


def _compare(stem: Path, case: str, target: str, judge: Judge, attributes: dict[str, Any]) -> Result:
    failure = Path(f"{stem}.fail")
    if failure.exists():
        return Result(case, target, Outcome.UNCONVERTED, note=failure.read_text().strip())
    if not Path(f"{stem}.npz").exists():
        return Result(case, target, Outcome.WAITING)
    result = _result(stem, case, target, judge, {})
    lacking = ABSENT.search(result.note)
    if lacking is None:
        return result
    told = {lacking[1]: attributes[lacking[1]]}
    return replace(result, told=_result(stem, case, target, judge, told))


def _result(stem: Path, case: str, target: str, judge: Judge, told: dict[str, Any]) -> Result:
    quantised = target.endswith(".i8")
    try:
        found = answers(stem, told)
        verdicts = tuple(compare(a.ours, a.simulator, a.step, quantised, judge) for a in found)
    except Exception as error:  # whatever goes wrong concerns this case, and is what the sweep looks for
        text = str(error).replace(f"{stem}.rknn: ", "")  # results must not depend on where the cache is
        return Result(case, target, Outcome.REFUSED, note=f"{type(error).__name__}: {text}")
    fits = all(verdict.matches for verdict in verdicts)
    worst = max(verdicts, key=lambda v: (not v.matches, v.error))
    return Result(
        case, target, Outcome.MATCHES if fits else Outcome.DIFFERS, verdicts, "" if fits else str(worst)
    )
