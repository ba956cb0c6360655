"""A program for the rig: files through the kernel's NPU, beside the chip's arithmetic on the CPU. Prints a line of JSON for each.

python -m tests.npu.kernel.whole_files FILE.rknn ...
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from rknnlite_npu.backend import KernelBackend, device
from rknnlite_npu.kernel.self_test import random_inputs

import rknnlite
from rknnlite.errors import RknnError
from rknnlite.formats import ModelFile
from rknnlite.runtime import known_ops
from rknnlite.spi import Context, OpenOptions
from rknnlite.tensor import TensorAttr
from tests.support.corpus import EXAMPLES

OPERATORS = {
    "dual_for": ("custom_op", "dual_residual", "cstDualResidual"),
    "shapes_detect_for": ("yolo_postprocess", "decode", "cstYoloDetect"),
}
"""Beginning of a file's name -> where the operators lie that it needs."""


def operators_of(path: Path) -> list[Any]:
    """Those of the examples, in Python."""
    for word, (folder, module, name) in OPERATORS.items():
        if path.name.startswith(word):
            sys.path.insert(0, str(EXAMPLES / folder))
            return [getattr(importlib.import_module(module), name)()]
    return []


def on_npu(path: Path, **extra: Any) -> Context:
    """Opened without a comparison: that is made here."""
    options = OpenOptions(custom_ops=known_ops(operators_of(path)), extra=extra)
    return KernelBackend().open_on(device().path, ModelFile(path), options)


def on_cpu(path: Path, **extra: Any) -> Context:
    """In the chip's arithmetic."""
    return rknnlite.open(
        path,
        backend="cpu",
        fidelity="silicon",
        inputs="board",
        engine="numpy",
        custom_ops=operators_of(path),
        **extra,
    )


def apart(attr: TensorAttr, a: np.ndarray, b: np.ndarray) -> float:
    """Steps of a quantised output; of floats, 255ths of the largest value."""
    difference = np.abs(a.astype(np.float64) - b).max(initial=0)
    if attr.quant is not None and not attr.dtype.is_float:
        return float(np.rint(difference / attr.quant.scale))
    return float(difference / max(1e-9, np.abs(b).max(initial=0)) * 255)


def steps(path: Path) -> float:
    """How far the farthest value of any output is off."""
    masters: list[Context] = []
    extra: list[dict[str, Any]] = [{}, {}]
    if path.name.startswith("removed."):
        lender = path.with_name(path.name.replace("removed", "kept"))
        masters = [on_npu(lender), on_cpu(lender)]
        extra = [{"master": master} for master in masters]
    with on_npu(path, **extra[0]) as npu, on_cpu(path, **extra[1]) as cpu:
        inputs = random_inputs(npu.inputs, 7)
        found = zip(npu.outputs, npu.infer(inputs), cpu.infer(inputs))
        worst = max(apart(attr, ours, theirs) for attr, ours, theirs in found)
    for master in masters:
        master.close()
    return worst


if __name__ == "__main__":
    for name in sys.argv[1:]:
        try:
            print(json.dumps([name, steps(Path(name)), ""]), flush=True)
        except RknnError as error:
            print(json.dumps([name, None, str(error)]), flush=True)
