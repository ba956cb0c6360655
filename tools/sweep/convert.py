"""Conversions with the vendor's PC toolkit: one import, a forked process for every few conversions.

A process that dies or exceeds its time costs one case only: what it had still to do goes to another. Results stay in
the cache:
``<case>-<digest>/<soc>.<dtype>.rknn`` and ``.npz`` (inputs, the simulator's outputs, the float network's), or ``.fail``
(the reason).
"""

from __future__ import annotations

import multiprocessing
import os
import re
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import onnx
from norm_ranges import norm_ranges
from numpy.typing import NDArray
from targets import QUANTIZED, dtype_of

__all__ = ["Convertible", "Job", "convert_all"]

SAMPLES = 6
"""Calibration samples per case."""
BATCH = 24
"""Conversions per process: the fork takes three times as long as converting a small graph."""


class Convertible(Protocol):
    """What can be converted: a case of the sweep, a network of the zoo."""

    @property
    def name(self) -> str: ...

    @property
    def config(self) -> dict[str, Any]:
        """Options of the converter."""

    @property
    def calibrated(self) -> bool:
        """Whether the converter quantises it; else it is quantised already."""

    def make(self) -> Any:
        """The ONNX model."""

    def draw(self, purpose: str) -> list[Any]:
        """Inputs for a purpose, ``run``, ``calibration0``, ... or ``many0``, ...; the same every time, in the shapes of the model."""


@dataclass(frozen=True)
class Job:
    """One case for one target, for example ``rk3588.i8``."""

    case: Convertible
    target: str
    stem: Path
    layers: bool = False  # keep the simulator's value of every tensor, too: <stem>.layers.npz

    @property
    def done(self) -> bool:
        """Whether the cache has an answer."""
        if self.layers and self._has(".npz"):
            return self._has(".layers.npz") or self._has(".layers.fail")
        return self._has(".npz") or self._has(".fail")

    @property
    def converted(self) -> bool:
        """Whether the answer is what was asked for."""
        return self._has(".layers.npz" if self.layers else ".npz")

    def fail(self, reason: str) -> None:
        """Note down why it failed; a conversion that only lacks its layers stays."""
        if self.layers and self._has(".npz"):
            Path(f"{self.stem}.layers.fail").write_text(reason + "\n")
            return
        Path(f"{self.stem}.fail").write_text(reason + "\n")
        Path(f"{self.stem}.rknn").unlink(missing_ok=True)

    def _has(self, suffix: str) -> bool:
        return Path(f"{self.stem}{suffix}").exists()


def convert_all(jobs: list[Job], processes: int, limit: float) -> None:
    """Run all jobs, at most ``processes`` at a time, each for at most ``limit`` seconds."""
    import onnxruntime  # noqa: F401 - before the processes fork, so that none of them has to load it
    from rknn.api import RKNN

    waiting, running = list(jobs), list[_Batch]()
    started, count = time.monotonic(), 0
    while waiting or running:
        while waiting and len(running) < processes:
            running.append(_Batch(RKNN, waiting[:BATCH]))
            del waiting[:BATCH]
        running[0].process.join(0.05)
        for batch in list(running):
            for job in batch.progress(limit):
                count += 1
                seconds = (time.monotonic() - started) / count
                outcome = "ok" if job.converted else "FAIL"
                print(
                    f"{count}/{len(jobs)} {seconds:.2f}s {outcome} {job.case.name} {job.target}", flush=True
                )
            if not batch.process.is_alive():
                running.remove(batch)
                waiting[:0] = batch.jobs


class _Batch:
    """A process with what it still has to do; the rest of its jobs if it died."""

    def __init__(self, toolkit: Any, jobs: list[Job]) -> None:
        self.jobs = jobs
        self.process: BaseProcess = multiprocessing.get_context("fork").Process(
            target=_child, args=(toolkit, jobs)
        )
        self.process.start()
        self._since = time.monotonic()

    def progress(self, limit: float) -> list[Job]:
        """What has been finished since the last call; one that died or took too long is among them."""
        alive = self.process.is_alive()  # before the look into the cache: what it did last is there by then
        finished = self._done()
        if finished:
            self._since = time.monotonic()
        elif alive and time.monotonic() - self._since > limit:
            self.process.kill()
            self.process.join()
            self.jobs[0].fail(f"time limit of {limit:.0f} s")
            finished = self._done()
        if not alive and self.jobs:
            self.jobs[0].fail(_reason(Path(f"{self.jobs[0].stem}.log"), self.process.exitcode))
            finished += self._done()
        return finished

    def _done(self) -> list[Job]:
        finished = []
        while self.jobs and self.jobs[0].done:
            finished.append(self.jobs.pop(0))
            Path(f"{finished[-1].stem}.log").unlink(missing_ok=True)
        return finished


def _reason(log: Path, code: int | None) -> str:
    """The most telling line of what the toolkit said."""
    text = log.read_text(errors="replace") if log.exists() else ""
    lines = [line.strip() for line in text.replace("\r", "\n").splitlines() if line.strip()]
    telling = [
        line for line in lines if "rror" in line or "not support" in line.lower() or line.startswith("E ")
    ]
    line = re.sub(r" \[[\d:.]+\]", "", (telling or lines or ["no message"])[-1])  # without the time of day
    return f"exit {code}: {line[:240]}"


def _child(toolkit: Any, jobs: list[Job]) -> None:
    """Convert one after the other, each in a folder of its own and with all that is printed going to a log."""
    os.nice(max(0, 10 - os.nice(0)))
    for job in jobs:
        job.stem.parent.mkdir(parents=True, exist_ok=True)
        log = Path(f"{job.stem}.log")
        with log.open("w") as stream:
            sys.stdout.flush()
            os.dup2(stream.fileno(), 1)
            os.dup2(stream.fileno(), 2)
        folder = tempfile.mkdtemp()
        os.chdir(folder)
        try:
            _convert(toolkit, job, Path(folder))
        except BaseException:  # of the toolkit, which also ends the program
            traceback.print_exc()
            sys.stdout.flush()
            job.fail(_reason(log, 1))
        finally:
            os.chdir("/")
            shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


def _check(status: int, step: str) -> None:
    if status != 0:
        raise RuntimeError(f"Error: the toolkit refused {step}")


def _convert(toolkit: Any, job: Job, folder: Path) -> None:
    soc, dtype = job.target.partition(".")[0], dtype_of(job.target)
    path = folder / "model.onnx"
    onnx.save(job.case.make(), str(path))
    rknn = toolkit(verbose=False)
    _check(rknn.config(target_platform=soc, **_options(job, soc)), "config")
    _check(rknn.load_onnx(str(path)), "load_onnx")
    plan: dict[str, Any] = {"do_quantization": dtype in QUANTIZED and job.case.calibrated}
    if plan["do_quantization"]:
        plan["dataset"] = str(_dataset(job.case, folder))
    _check(rknn.build(**plan), "build")
    _check(rknn.export_rknn(str(folder / "model.rknn")), "export_rknn")
    _check(rknn.init_runtime(), "init_runtime")
    drawn = job.case.draw("run")
    feeds = [np.ascontiguousarray(_fed(a)) for a in drawn]
    outputs = rknn.inference(feeds, data_format=["nhwc"] * len(feeds))
    if outputs is None:
        raise RuntimeError("Error: the simulator returned nothing")
    arrays = {f"in{i}": x for i, x in enumerate(feeds)} | {f"out{i}": y for i, y in enumerate(outputs)}
    arrays |= {f"ref{i}": y for i, y in enumerate(_reference(path, drawn))}
    np.savez(folder / "model.npz", **arrays)
    many = _many(rknn, job.case)
    if many:
        np.savez_compressed(f"{job.stem}.many.npz", **many)
    shutil.move(folder / "model.rknn", f"{job.stem}.rknn")
    shutil.move(folder / "model.npz", f"{job.stem}.npz")
    if job.layers:
        layers = dict(_layers(rknn, job.case, folder))
        if plan["do_quantization"]:
            sets = [_normalised(job.case, n) for n in range(_calibrations(job.case))]
            layers |= {f"{name}/norm": v for name, v in norm_ranges(path, sets).items()}
        np.savez_compressed(folder / "layers.npz", **layers)
        shutil.move(folder / "layers.npz", f"{job.stem}.layers.npz")


def _many(rknn: Any, case: Convertible) -> dict[str, NDArray[Any]]:
    """The simulator's answers to further inputs, stacked by output, of a case that has some."""
    answers = []
    for n in range(getattr(case, "many", 0)):
        feeds = [np.ascontiguousarray(_fed(a)) for a in case.draw(f"many{n}")]
        answers.append(rknn.inference(feeds, data_format=["nhwc"] * len(feeds)))
    return {f"out{i}": np.stack(outputs) for i, outputs in enumerate(zip(*answers))}


def _layers(rknn: Any, case: Convertible, folder: Path) -> Iterator[tuple[str, NDArray[Any]]]:
    """(tensor's name, the simulator's flat values) as the toolkit's accuracy analysis tells them."""
    paths = []
    for i, array in enumerate(case.draw("run")):
        paths.append(str(folder / f"run{i}.npy"))
        np.save(paths[-1], array)
    _check(rknn.accuracy_analysis(inputs=paths, output_dir=str(folder / "out")), "accuracy_analysis")
    for line in (folder / "out" / "map_name_to_file.txt").read_text().splitlines():
        name, _, file = line.strip().rpartition(" ")
        if not name:
            continue  # the rule below the title, as long as the longest name
        path = folder / "out" / "simulator" / Path(file).name
        if path.is_file():
            yield name.strip(), np.loadtxt(path, dtype=np.float32, ndmin=1)


def _options(job: Job, soc: str) -> dict[str, Any]:
    options = {"single_core_mode": True} | job.case.config
    if soc not in ("rk3588", "rk3576"):
        del options["single_core_mode"]
    if dtype_of(job.target) in QUANTIZED:
        options["quantized_dtype"] = QUANTIZED[dtype_of(job.target)]
    return options


def _reference(path: Path, drawn: list[Any]) -> list[Any]:
    """What the network answers in float32; nothing if ONNX Runtime does not know one of its operators."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        names = [entry.name for entry in session.get_inputs()]
        return list(session.run(None, dict(zip(names, drawn, strict=True))))
    except Exception as error:  # its error types are not public; the comparison goes without
        print(f"no reference: {error}")
        return []


def _fed(array: Any) -> Any:
    """Rank 4 goes in as NHWC, booleans as int8."""
    array = array.transpose(0, 2, 3, 1) if array.ndim == 4 else array
    return array.astype(np.int8) if array.dtype == bool else array


def _calibrations(case: Convertible) -> int:
    """Sets of inputs to calibrate with."""
    return int(getattr(case, "calibrations", SAMPLES))


def _normalised(case: Convertible, n: int) -> list[Any]:
    """A calibration set as the float network takes it."""
    arrays = case.draw(f"calibration{n}")
    found = []
    for place, array in enumerate(arrays):
        if "mean_values" in case.config and array.ndim == 4:
            mean, std = (
                np.reshape(case.config[key][place], (1, -1, 1, 1)) for key in ("mean_values", "std_values")
            )
            array = ((array - mean) / std).astype(np.float32)
        found.append(array)
    return found


def _dataset(case: Convertible, folder: Path) -> Path:
    lines = []
    for n in range(_calibrations(case)):
        arrays = case.draw(f"calibration{n}")
        names = [str(folder / f"{n}_{i}.npy") for i in range(len(arrays))]
        for name, array in zip(names, arrays, strict=True):
            np.save(name, array)
        lines.append(" ".join(names))
    listing = folder / "dataset.txt"
    listing.write_text("\n".join(lines) + "\n")
    return listing
