"""Runs converted models in the CPU reference and compares with the simulator's answers."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
from answers import ABSENT
from judge import Judge, Verdict, compare
from proof import Proof, prove
from rknnlite_cpu.backend import CpuBackend
from targets import dtype_of

from rknnlite.formats import ModelFile
from rknnlite.spi import OpenOptions
from rknnlite.tensor import DType, TensorAttr

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

    ``proof``: why a difference is no error. ``told``: the result of a case that is refused for attributes which the file does not store, with those given.
    """

    case: str
    target: str
    outcome: Outcome
    verdicts: tuple[Verdict, ...] = field(default=())
    note: str = ""
    told: Result | None = None
    proof: Proof | None = None

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
        if fnmatch.fnmatch(target, pattern) and dtype_of(target) in entry["dtypes"]
    ]


def _compare(stem: Path, case: str, target: str, judge: Judge, attributes: dict[str, Any]) -> Result:
    model, answers, failure = (Path(f"{stem}{suffix}") for suffix in (".rknn", ".npz", ".fail"))
    if failure.exists():
        return Result(case, target, Outcome.UNCONVERTED, note=failure.read_text().strip())
    if not answers.exists():
        return Result(case, target, Outcome.WAITING)
    with np.load(answers) as stored:
        arrays = {name: stored[name] for name in stored.files}
    result = _result(model, case, target, arrays, judge, {})
    lacking = ABSENT.search(result.note)
    if lacking is None:
        return result
    told = {lacking[1]: attributes[lacking[1]]}
    return replace(result, told=_result(model, case, target, arrays, judge, told))


def _result(
    model: Path, case: str, target: str, arrays: dict[str, Any], judge: Judge, told: dict[str, Any]
) -> Result:
    try:
        verdicts, proof = _verdicts(model, arrays, dtype_of(target) == "i8", judge, told)
    except Exception as error:  # whatever goes wrong concerns this case, and is what the sweep looks for
        text = str(error).replace(f"{model}: ", "")  # results must not depend on where the cache is
        return Result(case, target, Outcome.REFUSED, note=f"{type(error).__name__}: {text}")
    fits = all(verdict.matches for verdict in verdicts)
    worst = max(verdicts, key=lambda v: (not v.matches, v.error))
    outcome = Outcome.MATCHES if fits else Outcome.DIFFERS
    return Result(case, target, outcome, verdicts, "" if fits else str(worst), proof=proof)


def _real(answer: Any, attr: TensorAttr) -> Any:
    """What the simulator answers where the network itself ends in integers, in real numbers."""
    if answer.dtype.kind not in "iu" or attr.quant is None:
        return answer
    zero = attr.quant.zero_point + (128 if answer.dtype == np.uint8 and attr.dtype is DType.INT8 else 0)
    return (answer.astype(np.float32) - zero) * np.float32(attr.quant.scale)


def _verdicts(
    model: Path, arrays: dict[str, Any], quantised: bool, judge: Judge, told: dict[str, Any]
) -> tuple[tuple[Verdict, ...], Proof | None]:
    inputs, wanted, floats = (_series(arrays, prefix) for prefix in ("in", "out", "ref"))
    with CpuBackend().open(ModelFile(model), OpenOptions(extra={"attributes": told})) as context:
        found = context.infer(inputs)
        steps = [
            attr.quant.scale if quantised and attr.quant and not attr.dtype.is_float else None
            for attr in context.outputs
        ]
        wanted = [_real(b, attr) for b, attr in zip(wanted, context.outputs)]
        truths = floats or [None] * len(found)
        verdicts = tuple(
            compare(a, b, step, quantised, judge, truth)
            for a, b, step, truth in zip(found, wanted, steps, truths, strict=True)
        )
        if all(verdict.matches for verdict in verdicts) or judge is Judge.STEPS:
            return verdicts, None
        return verdicts, prove(context, found, wanted, truths, verdicts)


def _series(arrays: dict[str, Any], prefix: str) -> list[Any]:
    """``prefix0``, ``prefix1`` and so on."""
    return [arrays[f"{prefix}{i}"] for i in range(sum(name.startswith(prefix) for name in arrays))]
