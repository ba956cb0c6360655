"""Conversions with the vendor's PC toolkit: one import, one forked process per conversion.

A process that dies or exceeds its time costs one case only. Results stay in the cache:
``<case>-<digest>/<soc>.<dtype>.rknn`` and ``.npz`` (inputs and the simulator's outputs), or ``.fail`` (the reason).
"""

from __future__ import annotations

import multiprocessing
import os
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
from numpy.typing import NDArray

__all__ = ["Convertible", "Job", "convert_all"]

SAMPLES = 6
"""Calibration samples per case."""


class Convertible(Protocol):
    """What can be converted: a case of the sweep, a network of the zoo."""

    @property
    def name(self) -> str: ...

    @property
    def config(self) -> dict[str, Any]:
        """Options of the converter."""

    def make(self) -> Any:
        """The ONNX model."""

    def draw(self, purpose: str) -> list[Any]:
        """Inputs for a purpose, ``run`` or ``calibration0``, ...; the same every time, in the shapes of the model."""


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
        return any(Path(f"{self.stem}{suffix}").exists() for suffix in (".npz", ".fail"))


def convert_all(jobs: list[Job], processes: int, limit: float) -> None:
    """Run all jobs, at most ``processes`` at a time, each for at most ``limit`` seconds."""
    from rknn.api import RKNN

    context = multiprocessing.get_context("fork")
    waiting, running = jobs[::-1], list[tuple[BaseProcess, Job, float]]()
    started, count = time.monotonic(), 0
    while waiting or running:
        while waiting and len(running) < processes:
            job = waiting.pop()
            job.stem.parent.mkdir(parents=True, exist_ok=True)
            process = context.Process(target=_child, args=(RKNN, job))
            process.start()
            running.append((process, job, time.monotonic()))
        running[0][0].join(0.02)
        for entry in list(running):
            process, job, since = entry
            if process.is_alive() and time.monotonic() - since > limit:
                process.kill()
                process.join()
                _failed(job, f"time limit of {limit:.0f} s")
            if not process.is_alive():
                running.remove(entry)
                count += 1
                _finish(job, process.exitcode)
                seconds = (time.monotonic() - started) / count
                outcome = "ok" if Path(f"{job.stem}.npz").exists() else "FAIL"
                print(
                    f"{count}/{len(jobs)} {seconds:.2f}s {outcome} {job.case.name} {job.target}", flush=True
                )


def _finish(job: Job, code: int | None) -> None:
    log = Path(f"{job.stem}.log")
    if not job.done:
        _failed(job, _reason(log, code))
    log.unlink(missing_ok=True)


def _failed(job: Job, reason: str) -> None:
    Path(f"{job.stem}.fail").write_text(reason + "\n")
    Path(f"{job.stem}.rknn").unlink(missing_ok=True)


def _reason(log: Path, code: int | None) -> str:
    """The most telling line of what the toolkit said."""
    text = log.read_text(errors="replace") if log.exists() else ""
    lines = [line.strip() for line in text.replace("\r", "\n").splitlines() if line.strip()]
    telling = [
        line for line in lines if "rror" in line or "not support" in line.lower() or line.startswith("E ")
    ]
    return f"exit {code}: {(telling or lines or ['no message'])[-1][:240]}"


def _child(toolkit: Any, job: Job) -> None:
    """Convert in a folder of its own, with everything that is printed going to a log."""
    os.nice(10)
    with Path(f"{job.stem}.log").open("w") as log:
        sys.stdout.flush()
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        folder = tempfile.mkdtemp()
        os.chdir(folder)
        try:
            _convert(toolkit, job, Path(folder))
        except BaseException:
            traceback.print_exc()
            sys.stdout.flush()
            os._exit(1)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


def _check(status: int, step: str) -> None:
    if status != 0:
        raise RuntimeError(f"Error: the toolkit refused {step}")


def _convert(toolkit: Any, job: Job, folder: Path) -> None:
    soc, dtype = job.target.split(".")
    path = folder / "model.onnx"
    onnx.save(job.case.make(), str(path))
    rknn = toolkit(verbose=False)
    _check(rknn.config(target_platform=soc, **_options(job, soc)), "config")
    _check(rknn.load_onnx(str(path)), "load_onnx")
    plan: dict[str, Any] = {"do_quantization": dtype == "i8"}
    if dtype == "i8":
        plan["dataset"] = str(_dataset(job.case, folder))
    _check(rknn.build(**plan), "build")
    _check(rknn.export_rknn(str(folder / "model.rknn")), "export_rknn")
    _check(rknn.init_runtime(), "init_runtime")
    feeds = [np.ascontiguousarray(_fed(a)) for a in job.case.draw("run")]
    outputs = rknn.inference(feeds, data_format=["nhwc"] * len(feeds))
    if outputs is None:
        raise RuntimeError("Error: the simulator returned nothing")
    arrays = {f"in{i}": x for i, x in enumerate(feeds)} | {f"out{i}": y for i, y in enumerate(outputs)}
    np.savez(folder / "model.npz", **arrays)
    if job.layers:
        np.savez_compressed(folder / "layers.npz", **dict(_layers(rknn, job.case, folder)))
        shutil.move(folder / "layers.npz", f"{job.stem}.layers.npz")
    shutil.move(folder / "model.rknn", f"{job.stem}.rknn")
    shutil.move(folder / "model.npz", f"{job.stem}.npz")


def _layers(rknn: Any, case: Convertible, folder: Path) -> Iterator[tuple[str, NDArray[Any]]]:
    """(tensor's name, the simulator's flat values) as the toolkit's accuracy analysis tells them."""
    paths = []
    for i, array in enumerate(case.draw("run")):
        paths.append(str(folder / f"run{i}.npy"))
        np.save(paths[-1], array)
    _check(rknn.accuracy_analysis(inputs=paths, output_dir=str(folder / "out")), "accuracy_analysis")
    for line in (folder / "out" / "map_name_to_file.txt").read_text().splitlines():
        name, _, file = line.strip().rpartition(" ")
        path = folder / "out" / "simulator" / Path(file).name
        if path.is_file():
            yield name.strip(), np.loadtxt(path, dtype=np.float32, ndmin=1)


def _options(job: Job, soc: str) -> dict[str, Any]:
    single = {"single_core_mode": True} if soc in ("rk3588", "rk3576") else {}
    return single | job.case.config


def _fed(array: Any) -> Any:
    """Rank 4 goes in as NHWC, booleans as int8."""
    array = array.transpose(0, 2, 3, 1) if array.ndim == 4 else array
    return array.astype(np.int8) if array.dtype == bool else array


def _dataset(case: Convertible, folder: Path) -> Path:
    lines = []
    for n in range(SAMPLES):
        arrays = case.draw(f"calibration{n}")
        names = [str(folder / f"{n}_{i}.npy") for i in range(len(arrays))]
        for name, array in zip(names, arrays, strict=True):
            np.save(name, array)
        lines.append(" ".join(names))
    listing = folder / "dataset.txt"
    listing.write_text("\n".join(lines) + "\n")
    return listing
