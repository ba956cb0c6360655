"""The first time that a model meets a device: one run on random input, layer by layer against the chip's arithmetic on the CPU.

What was found is kept, for this kernel, driver, chip and file, until one of them changes.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray
from rknnlite_insight.dumps import Dump
from rknnlite_programs.buildcache import cache_dir, make_private

from rknnlite.errors import ParamInvalid, RknnError
from rknnlite.files.json_text import parse_json
from rknnlite.files.reading import read_text
from rknnlite.files.writing import write_text
from rknnlite.formats import ModelFile
from rknnlite.log import logger
from rknnlite.runtime import open_model
from rknnlite.spi import Context
from rknnlite.spi.inputs import collect
from rknnlite.tensor import DType, TensorAttr

__all__ = ["Verdict", "compare_layers", "kept_verdict", "random_inputs", "verdict_of"]

_FLOATS = 2.0**-7
"""Of the largest value of a tensor: what float16 layers may part by."""
_FORMAT = 1
Array = NDArray[Any]


@dataclass(frozen=True)
class Verdict:
    """What a comparison found.

    Attributes:
        device: kernel, driver and chip, as ``device_key`` has them.
        model: what the file is called.
        layers: how many were compared.
        difference: the first layer that differs, and how; empty where none does.
    """

    device: str
    model: str
    layers: int
    difference: str = ""

    @property
    def agrees(self) -> bool:
        """Whether all layers are equal."""
        return not self.difference

    def __str__(self) -> str:
        if self.agrees:
            return f"{self.layers} layers equal to the chip's arithmetic on {self.device}"
        return f"on {self.device} {self.difference}"


def device_key(driver: str, soc: str) -> str:
    """What a verdict holds for."""
    return f"Linux {os.uname().release}, {driver}, {soc}"


def verdict_of(file: ModelFile, device: str, opened: Callable[[], Context]) -> Verdict:
    """The kept verdict, else that of a comparison made now, which is kept.

    Args:
        device: see ``device_key``.
        opened: opens the model on the device.

    Raises what opening and running raise; nothing is kept then.
    """
    known = kept_verdict(file, device)
    if known is not None:
        return known
    logger.info("%s: compared layer by layer on %s, this once", file.label, device)
    with opened() as context, open_model(file, backend="cpu", fidelity="silicon", inputs="board") as chip:
        verdict = compare_layers(context, chip, device, file.label)
    _keep(file, device, verdict)
    logger.info("%s: %s", file.label, verdict)
    return verdict


def compare_layers(context: Context, chip: Context, device: str, label: str, seed: int = 0) -> Verdict:
    """Run both on the same random inputs and compare every tensor that both have, in order of computation."""
    inputs = random_inputs(context.inputs, seed)
    with tempfile.TemporaryDirectory(prefix="rknnlite-npu-") as folder:
        dumps = [
            _dumped(one, inputs, Path(folder) / name) for one, name in ((chip, "chip"), (context, "npu"))
        ]
        shared = [name for name in dumps[0].names if name in dumps[1].names]
        for name in shared:
            found = _difference(*(_values(dump, name) for dump in dumps))
            if found:
                return Verdict(device, label, len(shared), f"layer {name} differs: {found}")
    if not shared:
        return Verdict(device, label, 0, "no layer could be compared")
    return Verdict(device, label, len(shared))


def random_inputs(attrs: list[TensorAttr], seed: int) -> list[Array]:
    """Pixels for pictures, normal numbers for the rest."""
    rng = np.random.default_rng(seed)
    return [
        rng.integers(0, 256, attr.dims, dtype=np.uint8)
        if len(attr.dims) == 4 and attr.dtype in (DType.INT8, DType.UINT8)
        else rng.normal(size=attr.dims).astype(np.float32)
        for attr in attrs
    ]


def _dumped(context: Context, inputs: list[Array], folder: Path) -> Dump:
    context.set_inputs(collect(inputs, context.inputs, None, False, shapes=context.shapes))
    context.run()
    found: Dump = context.dump(folder)
    return found


def _values(dump: Dump, name: str) -> Array:
    return dump.raw(name) if dump.entry(name).raw_file else dump.value(name)


def _difference(wanted: Array, found: Array) -> str:
    """What is different, in words; empty: nothing."""
    if wanted.size != found.size:
        return f"{found.size} values instead of {wanted.size}"
    a, b = (array.astype(np.float64).ravel() for array in (wanted, found))
    apart = np.abs(a - b)
    apart[np.isnan(apart) & ~(np.isnan(a) & np.isnan(b))] = np.inf
    limit = 0.0
    if wanted.dtype.kind == "f":
        limit = _FLOATS * float(np.abs(a[np.isfinite(a)]).max(initial=0))
    wrong = np.flatnonzero(apart > limit)
    if not len(wrong):
        return ""
    first = int(wrong[0])
    return f"{len(wrong)} of {a.size} values, the first ({first}) is {b[first]:g} instead of {a[first]:g}"


# -- what is kept -------------------------------------------------------------------------------------------------


def _place(file: ModelFile, device: str) -> Path:
    name = hashlib.sha256(f"{device}\n".encode() + hashlib.sha256(file.data).digest()).hexdigest()
    return cache_dir() / "npu-verdicts" / f"{name}.json"


def kept_verdict(file: ModelFile, device: str) -> Optional[Verdict]:
    """What was found before; None where nothing was, or what is kept is damaged."""
    try:
        found = parse_json(read_text(_place(file, device)))
        if found.pop("format") == _FORMAT and found["device"] == device:
            return Verdict(**found)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RknnError):
        pass
    return None


def _keep(file: ModelFile, device: str, verdict: Verdict) -> None:
    try:
        place = _place(file, device)
        make_private(place.parent)
        write_text(place, json.dumps({"format": _FORMAT, **asdict(verdict)}))
    except (OSError, ParamInvalid) as error:
        logger.warning(
            "%s: the comparison cannot be kept (%s); the next program makes it again", file.label, error
        )
