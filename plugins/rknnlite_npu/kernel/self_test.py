"""The first time that a model meets a device: one run on random input, layer by layer against the chip's arithmetic on the CPU.

Each layer is computed on what the NPU left for it, so that a layer differs by what it did itself. Integers may be a step apart:
tables and half floats inside of a layer are the chip's own. Sums of products of integers are the same to the last bit.
"""

from __future__ import annotations

import contextlib
import logging
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rknnlite_insight.dumps import Dump

from rknnlite.errors import DeviceUnavailable, ModelUnsupported, OutOfMemory, RknnError
from rknnlite.formats import ModelFile
from rknnlite.log import logger
from rknnlite.runtime import open_model
from rknnlite.spi import Context, CustomOp
from rknnlite.spi.inputs import collect
from rknnlite.tensor import DType, TensorAttr

from .verdicts import Record, Verdict

__all__ = ["compare_layers", "difference", "first_verdict", "random_inputs", "self_test"]

_STEPS, _FLOATS = 1, 2.0**-7
"""What a layer may be off: steps of integers, shares of the largest value of float16."""
_EXPONENTIALS = {"exSDPAttention", "exSoftmax13"}
_STEPS_OF_EXPONENTIALS, _FLOATS_OF_EXPONENTIALS = 8, 2.0**-5
"""The chip's are up to 3 % off (docs/npu.md), of 255 steps that is 8."""
_NOT_KEPT = (DeviceUnavailable, ModelUnsupported, OutOfMemory)
"""These say nothing of the model on this device: the next time it may be otherwise."""
Array = NDArray[Any]


def first_verdict(
    file: ModelFile,
    record: Record,
    opened: Callable[[], Context],
    custom_ops: Sequence[CustomOp] = (),
    insist: bool = False,
) -> Verdict:
    """The verdict of a comparison made now, which is kept; that of another program which makes it meanwhile.

    Args:
        record: what is kept of the file on the device.
        opened: opens the model on the device.
        custom_ops: operators for the CPU.
        insist: compare also where the last comparison took the program or the machine down.

    Raises DeviceUnavailable, ModelUnsupported and OutOfMemory; nothing is kept then.
    """
    with record.turn():
        known = record.verdict()
        if known is not None:
            return known
        device = record.device
        if record.broke_off and not insist:
            return Verdict(
                device, file.label, 0, 0, "a comparison went down with its program, or the machine"
            )
        logger.warning(
            "%s: compared layer by layer on %s, this once: the backend npu is experimental",
            file.label,
            device,
        )
        with record.begun():
            verdict = self_test(file, device, opened, custom_ops)
            record.keep(verdict)
    logger.info("%s: %s", file.label, verdict)
    return verdict


def self_test(
    file: ModelFile, device: str, opened: Callable[[], Context], custom_ops: Sequence[CustomOp] = ()
) -> Verdict:
    """Compare now; a run that fails is a difference. Raises as ``first_verdict``."""
    with _silent():
        chip = open_model(
            file,
            backend="cpu",
            custom_ops=list(custom_ops),
            fidelity="silicon",
            inputs="board",
            engine="numpy",
        )
    with chip:
        try:
            with opened() as context:
                return compare_layers(context, chip, device, file.label)
        except _NOT_KEPT:
            raise
        except RknnError as error:
            return Verdict(device, file.label, 0, 0, f"a run fails: {error}")


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Nothing of this thread is told: what the CPU does not know of a layer is for who runs a model there."""
    here = threading.get_ident()

    def others(record: logging.LogRecord) -> bool:
        return record.thread != here

    logger.addFilter(others)
    try:
        yield
    finally:
        logger.removeFilter(others)


def compare_layers(context: Context, chip: Context, device: str, label: str, seed: int = 0) -> Verdict:
    """Run a context on random inputs, and compute every layer again with ``chip`` on the operands that the context had.

    The outputs of a run as any other, where layers are one job, must be those of the layers one by one.
    """
    inputs = random_inputs(context.inputs, seed)
    with tempfile.TemporaryDirectory(prefix="rknnlite-npu-") as folder:
        _prepare(context, inputs)
        context.run()
        outputs = dict(zip((attr.name for attr in context.outputs), context.get_outputs(want_float=False)))
        found: Dump = context.dump(Path(folder) / "npu")
        _prepare(chip, inputs)
        wanted: Dump = chip.dump(Path(folder) / "chip", found)
        shared = [name for name in wanted.names if name in found.names]
        equal = 0
        for name in shared:
            a, b = _values(wanted, name), _values(found, name)
            different = difference(a, b, wanted.entry(name).op in _EXPONENTIALS)
            if different:
                return Verdict(device, label, len(shared), equal, f"layer {name} differs: {different}")
            equal += _same(a, b)
        for name, value in outputs.items():
            alone = _values(found, name) if name in found.names else value
            if alone.size == value.size and difference(alone, value):
                different = f"output {name} of one run is not that of its layers one by one"
                return Verdict(device, label, len(shared), equal, different)
    if not shared:
        return Verdict(device, label, 0, 0, "no layer could be compared")
    return Verdict(device, label, len(shared), equal)


def random_inputs(attrs: list[TensorAttr], seed: int) -> list[Array]:
    """Pixels for pictures, normal numbers for the rest."""
    rng = np.random.default_rng(seed)
    return [
        rng.integers(0, 256, attr.dims, dtype=np.uint8)
        if len(attr.dims) == 4 and attr.dtype in (DType.INT8, DType.UINT8)
        else rng.normal(size=attr.dims).astype(np.float32)
        for attr in attrs
    ]


def _prepare(context: Context, inputs: list[Array]) -> None:
    context.set_inputs(collect(inputs, context.inputs, None, False, shapes=context.shapes))


def _values(dump: Dump, name: str) -> Array:
    return dump.raw(name) if dump.entry(name).raw_file else dump.value(name)


def _same(a: Array, b: Array) -> bool:
    return np.array_equal(a.ravel(), b.ravel(), equal_nan=a.dtype.kind == "f")


def difference(wanted: Array, found: Array, exponentials: bool = False) -> str:
    """What is different by more than it may be, in words; empty: nothing. ``exponentials``: of a Softmax or attention."""
    if wanted.size != found.size:
        return f"{found.size} values instead of {wanted.size}"
    a, b = (array.astype(np.float64).ravel() for array in (wanted, found))
    with np.errstate(invalid="ignore"):
        apart = np.abs(a - b)
    apart[(a == b) | (np.isnan(a) & np.isnan(b))] = 0
    apart[np.isnan(apart)] = np.inf
    limit: float = _STEPS_OF_EXPONENTIALS if exponentials else _STEPS
    if wanted.dtype.kind == "f":
        share = _FLOATS_OF_EXPONENTIALS if exponentials else _FLOATS
        limit = share * float(np.abs(a[np.isfinite(a)]).max(initial=0))
    wrong = np.flatnonzero(apart > limit)
    if not len(wrong):
        return ""
    first = int(wrong[0])
    return f"{len(wrong)} of {a.size} values, the first ({first}) is {b[first]:g} instead of {a[first]:g}"
