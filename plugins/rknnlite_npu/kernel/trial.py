"""``rknnlite doctor --try-npu``: small models on the NPU of this machine, each compared layer by layer with the chip's arithmetic.

Simple ones come first. What is told is meant for a report: nobody but people with boards can say whether the way works.
"""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rknnlite._version import __version__
from rknnlite.errors import DeviceUnavailable, ParamInvalid, RknnError
from rknnlite.formats import ModelFile
from rknnlite.native.board import Board
from rknnlite.native.processors import machine
from rknnlite.socs import Soc
from rknnlite.spi import Context, OpenOptions
from rknnlite.spi.command import Column, Console, Exit, Line, Part, Table, Tone

from ..backend import KernelBackend, board_soc, device
from .devices import FoundDevice, open_transport
from .self_test import random_inputs, self_test
from .verdicts import Verdict, device_key

__all__ = ["Trial", "try_npu"]

_FOLDER = Path(__file__).parent / "trials"
_CASES = {
    "conv_relu.i8": "convolution",
    "mean_std.i8": "pixels",
    "depthwise_3x3.i8": "depthwise",
    "residual_add.i8": "add",
    "pooling.i8": "pool",
    "act_silu.i8": "table",
    "conv_relu.fp16": "float16",
    "resnet_like.i8": "small ResNet",
}
"""What files are called, their SoC left out -> what they try; the simplest first."""
_RUNS = 5


@dataclass(frozen=True)
class Trial:
    """What came of one model. ``milliseconds`` is the fastest of some runs, None where layers differ.

    ``verdict`` is None where the device failed, or was gone before; ``reason`` then says why.
    """

    name: str
    verdict: Verdict | None
    milliseconds: float | None = None
    reason: str = ""

    @property
    def equal(self) -> bool:
        """Whether every layer agrees."""
        return self.verdict is not None and self.verdict.agrees

    @property
    def result(self) -> str:
        """One or two words."""
        return "equal" if self.equal else "not run" if self.verdict is None else "DIFFERENT"

    @property
    def detail(self) -> str:
        """Counts, or the first difference."""
        if self.verdict is None:
            return self.reason
        if self.verdict.agrees:
            return f"{self.verdict.layers} layers, {self.verdict.equal} to the last bit"
        return self.verdict.difference


def try_npu(model: Path | None, console: Console) -> int:
    """Try all that there is for this chip, and ``model``; ``UNAVAILABLE`` where something differs or cannot be run.

    Raises DeviceUnavailable without a device, ParamInvalid where nothing is there for this chip.
    """
    found, soc = device(), board_soc()
    if soc is None:
        raise ParamInvalid(
            "which chip this is cannot be told from the device tree; name it: RKNNLITE_SOC=rk3588"
        )
    files = [*_files(soc), *([(model.name, model)] if model is not None else [])]
    if not files:
        raise ParamInvalid(
            f"no file of ours is for {soc.name.upper()}; give one of yours: rknnlite doctor MODEL --try-npu"
        )
    console.note(
        f"{len(files)} models run on {found.path}, an experiment: if the machine stops, tell at which of them"
    )
    trials: list[Trial] = []
    for name, path in files:
        console.note(f"{name} ...")
        trials.append(_tried(found, soc, name, path, trials))
    head = _head(found, soc)
    good = all(trial.equal for trial in trials)
    data = {
        "equal": good,
        "about": head,
        "trials": [
            {"name": one.name, "result": one.result, "detail": one.detail, "milliseconds": one.milliseconds} for one in trials
        ],
    }  # fmt: skip
    console.report(data, *_parts(head, trials, good))
    return Exit.OK if good else Exit.UNAVAILABLE


def _files(soc: Soc) -> Iterator[tuple[str, Path]]:
    """What is tried, and the file, of this chip or one that runs the same files."""
    for words, name in _CASES.items():
        stem, dtype = words.split(".")
        places = (_FOLDER / f"{stem}.{one}.{dtype}.rknn" for one in dict.fromkeys((soc.name, *soc.accepts)))
        yield from ((name, place) for place in list(filter(Path.exists, places))[:1])


def _tried(found: FoundDevice, soc: Soc, name: str, path: Path, before: list[Trial]) -> Trial:
    """Run one, unless the device was lost with one before."""
    lost = next((one for one in before if one.verdict is None), None)
    if lost is not None:
        return Trial(
            name,
            None,
            reason=lost.reason if lost.reason.startswith("after") else f"after {lost.name}: {lost.reason}",
        )
    backend, key = KernelBackend(), device_key(str(found.driver), soc.name)
    try:
        file = ModelFile(path)

        def opened() -> Context:
            return backend.open_on(found.path, file, OpenOptions())

        verdict = self_test(file, key, opened)
        return Trial(name, verdict, _milliseconds(opened) if verdict.agrees else None)
    except DeviceUnavailable as error:
        return Trial(name, None, reason=str(error))
    except RknnError as error:
        return Trial(name, Verdict(key, name, 0, 0, str(error)))


def _milliseconds(opened: Callable[[], Context]) -> float:
    with opened() as context:
        inputs = random_inputs(context.inputs, 0)
        times = []
        for _ in range(_RUNS):
            context.infer(inputs)
            times.append(context.last_run_us / 1000)
    return min(times)


def _head(found: FoundDevice, soc: Soc) -> list[str]:
    """Package, kernel, board, chip, driver: a line each."""
    board = Board()
    return [
        f"rknnlite {__version__}, Linux {platform.release()} {machine()}",
        f"{board.model() or 'unnamed board'}, {soc.name.upper()}",
        f"{found.path}, driver {found.driver}{_pooling(found)}",
    ]


def _pooling(found: FoundDevice) -> str:
    """That the CPU pools, where the driver does not see such a task end."""
    try:
        transport = open_transport(found.path)
    except RknnError:
        return ""
    with contextlib.closing(transport):
        return "" if transport.ends_pooling else ", the CPU pools"


def _parts(head: list[str], trials: list[Trial], good: bool) -> Iterator[Part]:
    columns = (Column("tried"), Column("result"), Column("ms", True), Column("layers", least=20))
    rows = [
        [one.name, one.result, "" if one.milliseconds is None else f"{one.milliseconds:.1f}", one.detail]
        for one in trials
    ]
    yield Table(columns, rows)
    yield ""
    yield Line("for a report (please send one whatever came out, equal or not):", Tone.HEAD)
    yield ""
    yield from (f"    {line}" for line in head)
    yield from (Line(f"    {one.name}: {one.result}, {one.detail}", hang=8) for one in trials)
    yield ""
    count = sum(one.equal for one in trials)
    yield Line(
        f"{count} of {len(trials)} models are equal to the chip's arithmetic", Tone.GOOD if good else Tone.BAD
    )
