"""Networks written as ONNX, and run by onnxruntime on what a caller of ours gives."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rknnlite.formats import ModelFile
from tests.support.corpus import DATA, genuine

onnx = pytest.importorskip("onnx")

__all__ = ["NAMES", "UNREADABLE", "checked", "dims", "feeds", "metadata", "run"]

UNREADABLE = {
    "bytes_uneven.rk3562.w8a16", "int16_limits_lost.rk3562.i16", "int16_slopes_lost.rk3576.i16",
    "nibbles_group.rk3576.w4a16", "nibbles_layer.rk3576.w4a16", "removed.rk3588.i8", "sparse.rk3576.i8",
}  # fmt: skip
"""Files whose weights nobody can read."""
NAMES = sorted({path.stem for path in DATA.glob("*.rknn")} - UNREADABLE)


def checked(model: Any) -> Any:
    """The network, with types and shapes of every value proven by onnx."""
    onnx.checker.check_model(model, full_check=True)
    return model


def metadata(model: Any) -> dict[str, str]:
    return {each.key: each.value for each in model.metadata_props}


def dims(entry: Any) -> list[Any]:
    """Sizes and symbols of an input or output."""
    return [dim.dim_param or dim.dim_value for dim in entry.type.tensor_type.shape.dim]


def feeds(name: str, model: Any, arrays: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """A caller's arrays (rank 4: NHWC) as a written network with ``normalise`` takes them."""
    assert len(arrays) == len(ModelFile(genuine(name)).model.inputs) == len(model.graph.input)
    found = {}
    for entry, array in zip(model.graph.input, arrays):
        kind = onnx.helper.tensor_dtype_to_np_dtype(entry.type.tensor_type.elem_type)
        plain = array.transpose(0, 3, 1, 2) if array.ndim == 4 else array
        found[entry.name] = np.ascontiguousarray(plain, kind)
    return found


def _has_vnni() -> bool:
    """Whether the processor adds products of bytes without saturating in between."""
    with contextlib.suppress(OSError):
        return "vnni" in Path("/proc/cpuinfo").read_text("utf-8", "replace")
    return False


def run(model: Any, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """What onnxruntime computes."""
    runtime = pytest.importorskip("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    # else its sums of 8 bits saturate; where they do not, some graphs fail with this entry
    if not _has_vnni():
        options.add_session_config_entry("session.x64quantprecision", "1")
    session = runtime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    results: list[np.ndarray] = session.run(None, inputs)
    return results
