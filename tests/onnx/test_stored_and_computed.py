"""Computed weights, stored factors and rows for each item in whole files: on an engine, and exported."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import onnxruntime

import rknnlite
from rknnlite.formats import ModelFile
from tests.support.corpus import open_cpu
from tests.support.swept import FOLDER, arrays, members

FILES = [
    ("correlation.0003", "rk3588.i8"), ("correlation.0003", "rk3588.fp16"), ("correlation.0005", "rk3576.i8"),
    ("correlation.0005", "rv1103b.i8"), ("items.0004", "rk3588.i8"), ("items.0004", "rk3576.i8"), ("rows.0000", "rk3588.i8"),
    ("attention_disentangled", "rk3588.i8"),
]  # fmt: skip


def archive_of(case: str) -> Path:
    return FOLDER / f"{case}.tar.xz"


def model(case: str, target: str) -> bytes:
    return members(archive_of(case))[f"{target}.rknn"]


@pytest.mark.parametrize(("case", "target"), FILES)
def test_an_engine_has_all_of_it(case: str, target: str) -> None:
    """The same answers as numpy's, the same bytes of integers, and no weighted node left to numpy."""
    found = {}
    for engine in ("numpy", "onnxruntime"):
        with open_cpu(ModelFile(model(case, target)), extra={"engine": engine}) as context:
            found[engine] = context.infer(arrays(archive_of(case), "in"))
            if engine == "onnxruntime":
                plan = context._shapes.current.plan  # type: ignore[attr-defined]
                left = [
                    step.node for step in plan._accelerated() if step.node.conv or step.node.op == "exMatMul"
                ]
                assert not left
    for mine, other in zip(found["numpy"], found["onnxruntime"]):
        if target.endswith(".i8") and not case.startswith("attention"):
            assert np.array_equal(mine, other)
        else:
            assert np.abs(mine - other).max() < 0.02 * np.abs(mine).max()


@pytest.mark.parametrize(("case", "target"), FILES)
@pytest.mark.parametrize(("form", "away"), [("float", 0.04), ("fp16", 0.04), ("qdq", 0.02), ("exact", 0.02)])
def test_exported(case: str, target: str, form: str, away: float) -> None:
    """Reals differ from the simulator by its rounding, and where its integers end."""
    made = rknnlite.to_onnx(model(case, target), form=form)
    session = onnxruntime.InferenceSession(made.SerializeToString())
    given = [x.transpose(0, 3, 1, 2) if x.ndim == 4 else x for x in arrays(archive_of(case), "in")]
    found = session.run(None, {entry.name: x for entry, x in zip(session.get_inputs(), given)})
    for mine, simulated in zip(found, arrays(archive_of(case), f"{target}.out")):
        a, b = (np.asarray(each, np.float64).reshape(-1) for each in (mine, simulated))
        assert a @ b / np.sqrt((a @ a) * (b @ b)) > 1 - away


@pytest.mark.parametrize(("case", "target"), [("correlation.0005", "rk3576.i8"), ("items.0004", "rk3588.i8")])
def test_there_is_no_batch_of_them(case: str, target: str) -> None:
    """The first axis of weights is no batch, and a stored factor has as many items as it has."""
    with pytest.raises(rknnlite.errors.ParamInvalid, match="batch"):
        rknnlite.to_onnx(model(case, target), batch=2)
