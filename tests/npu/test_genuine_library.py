"""A genuine librknnrt on the rig, where a developer has one: RKNNLITE_GENUINE_RKNNRT names it. It is no part of this."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import rknnlite
from tests.custom_ops.models import DUAL, FullDual, dual_golden
from tests.support.corpus import EXAMPLES, ROOT, genuine, golden_of
from tools.npu_rig.build import built, processor_of

from .rig import needs_processor

LIBRARY = os.environ.get("RKNNLITE_GENUINE_RKNNRT", "")
NAMES = (
    "conv_relu.rk3588.i8", "conv_group.rk3588.i8", "residual_add_relu.rk3588.i8", "mobilenetv2_like.rk3588.i8",
    "three_outputs.rk3588.i8", "arithmetic.rk3588.i8",
)  # fmt: skip


def expectations(folder: Path) -> None:
    """Networks, inputs, and what ``npu-machine`` makes of them."""
    for name in NAMES:
        _store(folder, genuine(name), golden_of(name).inputs, {})
    _store(folder, DUAL, dual_golden().inputs, {"custom_ops": [FullDual()]})
    picture = np.random.default_rng(0).integers(0, 256, (1, 224, 224, 3)).astype(np.uint8)
    _store(folder, EXAMPLES / "resnet18" / "resnet18_for_RK3588.rknn", [picture], {})


def _store(folder: Path, model: Path, inputs: list[np.ndarray], options: dict[str, object]) -> None:
    with rknnlite.open(model, backend="npu-machine", **options) as context:
        outputs = [output.data for output in context.infer(inputs, raw=True)]
    arrays = {f"in{i}": data for i, data in enumerate(inputs)}
    arrays.update({f"out{i}": data for i, data in enumerate(outputs)})
    np.savez(folder / f"{model.stem}.npz", model=np.array(str(model.relative_to(ROOT))), **arrays)


@pytest.mark.slow
@pytest.mark.skipif(not LIBRARY, reason="no genuine librknnrt: set RKNNLITE_GENUINE_RKNNRT to its path")
def test_a_genuine_library_computes_what_the_machine_does(tmp_path: Path) -> None:
    expectations(tmp_path)
    here = processor_of(Path(LIBRARY)).is_here
    tests = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/npu/on_genuine_library.py"]
    rig = [sys.executable, "-m", "tools.npu_rig", "--library", LIBRARY, "--bind", f"/rig-expected={tmp_path}"]
    done = subprocess.run(
        [*rig, "--", sys.executable if here else "python3", *tests],
        cwd=ROOT,
        env={**os.environ, "RIG_EXPECTED": str(tmp_path) if here else "/rig-expected"},
        capture_output=True,
        text=True,
        check=False,
    )
    print(done.stdout, done.stderr)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


@pytest.mark.slow
def test_the_way_there_works_without_one(tmp_path: Path) -> None:
    """The same command with the shell for a program: what is expected is stored, devices are there, jobs are counted."""
    expectations(tmp_path)
    assert sorted(path.stem for path in tmp_path.glob("*.npz")) == sorted(
        [*NAMES, DUAL.stem, "resnet18_for_RK3588"]
    )
    shell = built("rknpu_shell.c", needs_processor("x86_64"))
    done = subprocess.run(
        [sys.executable, "-m", "tools.npu_rig", "--trace", "--", str(shell)],
        input="open\ncreate 4096 8\nsubmit 1 5 0 0 1\n",
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split()[:5] == ["ok", "/dev/dri/card0", "rknpu", "20240828", "ok"]
    assert "rig: 0 jobs done, 1 refused" in done.stderr and done.returncode == 3


def test_what_is_no_library_is_said(tmp_path: Path) -> None:
    path = tmp_path / "librknnrt.so"
    path.write_bytes(b"nothing")
    with pytest.raises(ValueError, match="is no library for x86_64, arm64, armhf"):
        processor_of(path)
