"""OpenCL operators: kernels with a list of arguments, and compiled GPU plugins. PoCL computes on a PC."""

from __future__ import annotations

import ctypes as ct
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_programs.buildcache import cache_dir

import rknnlite
from rknnlite.errors import ParamInvalid
from rknnlite.spi import CustomOpFailed
from tests.support.corpus import fixture_file

from .conftest import C_SOURCES, CUSTOM_OP
from .models import DUAL, PROBE, PlainDual, argmax_model, dual_golden, probe_golden
from .test_python_ops import SOCS, assert_close_to_simulator

pytest.importorskip("pyopencl")
from rknnlite_opencl.device import device, opencl_library, unavailable

if unavailable():
    pytest.skip(f"no OpenCL: {unavailable()}", allow_module_level=True)
if not Path("/usr/include/CL/cl.h").is_file():
    pytest.skip("opencl-headers is not installed", allow_module_level=True)
from rknnlite_opencl import Attr, Count, In, OpenClOp, Out
from rknnlite_opencl.buffers import imports

ZERO = np.int32(0)
ARGS = [In(0), ZERO, In(1), ZERO, Out(0), ZERO, Out(1), ZERO, Attr("alpha")]


def dual_op(**changes: Any) -> OpenClOp:
    """The example's kernel as a Python-level operator."""
    settings: dict[str, Any] = {
        "source": CUSTOM_OP / "dual_residual.cl",
        "kernel": "dual_residual",
        "args": ARGS,
    }
    return OpenClOp("cstDualResidual", **{**settings, **changes})


@pytest.fixture(scope="session")
def gpu_plugin(compiled: Callable[..., Path]) -> Path:
    library = compiled(
        CUSTOM_OP / "librkcst_dual_residual_gpu.c", "-lOpenCL", name="librkcst_dual_residual_gpu.so"
    )
    shutil.copy(CUSTOM_OP / "dual_residual.cl", library.parent)
    return library


@pytest.fixture(scope="session")
def leaky(compiled: Callable[..., Path]) -> Callable[..., Path]:
    return lambda *flags: compiled(C_SOURCES / "leaky_gpu.c", "-lOpenCL", *flags)


def infer_dual(op: Any) -> list[np.ndarray]:
    with rknnlite.open(DUAL, custom_ops=[op]) as context:
        outputs: list[np.ndarray] = context.infer(dual_golden().inputs)
        assert_close_to_simulator(outputs, context)
    return outputs


@pytest.mark.parametrize("soc", SOCS)
@pytest.mark.parametrize("kind", ["kernel", "compiled"])
def test_the_vendors_model_gives_the_vendors_outputs(soc: str, kind: str, gpu_plugin: Path) -> None:
    model = fixture_file(f"vendor/dual_residual/{soc}.rknn")
    inputs = [np.load(fixture_file(f"vendor/dual_residual/dual_residual_input_{i}_nhwc.npy")) for i in (0, 1)]
    with rknnlite.open(model, custom_ops=[dual_op() if kind == "kernel" else gpu_plugin]) as context:
        answers = context.infer(inputs)
    for i, answer in enumerate(answers):
        stored = np.fromfile(fixture_file(f"vendor/dual_residual/dual_residual_output_{i}.bin"), np.float32)
        assert np.allclose(
            answer.reshape(-1), stored.astype(np.float16).astype(np.float32), rtol=1e-3, atol=1e-6
        )


def test_numbers_functions_and_counts_are_arguments() -> None:
    source = """__kernel void dual(__global const float *x, __global const float *y, __global float *l,
                                   __global float *r, int n, float alpha)
    { for (int i = get_global_id(0); i < n; i += get_global_size(0)) {
          l[i] = x[i] * alpha - y[i]; r[i] = y[i] * alpha - x[i]; } }"""
    args = [In(0), In(1), Out(0), Out(1), Count(), lambda ctx: np.float32(ctx.attr("alpha"))]
    op = dual_op(source=source, kernel="dual", args=args, global_size=lambda ctx: (64,), local_size=(16,))
    expected = infer_dual(PlainDual())
    assert all(np.array_equal(a, b) for a, b in zip(infer_dual(op), expected))


def test_a_compiled_plugin_loads_where_opencl_has_no_import_function(gpu_plugin: Path) -> None:
    """Ours stands in: the four tensors of the node are imported through it, and given back."""
    before = imports()
    with rknnlite.open(DUAL, custom_ops=[gpu_plugin]) as context:
        outputs = context.infer(dual_golden().inputs)
        assert imports() == before + 4
    assert imports() == before
    assert all(np.array_equal(a, b) for a, b in zip(outputs, infer_dual(PlainDual())))


def test_a_compiled_plugin_linked_against_the_runtime_loads_without_it(
    leaky: Callable[..., Path], compiled: Callable[..., Path], tmp_path: Path
) -> None:
    (tmp_path / "stub.c").write_text("void rknn_mem_sync(void) {}\n")
    runtime = compiled(tmp_path / "stub.c", "-Wl,-soname,librknnrt.so", name="librknnrt.so")
    library = leaky(f"-L{runtime.parent}", "-Wl,--no-as-needed", "-lrknnrt")
    runtime.unlink()
    script = "import sys, rknnlite\nprint(rknnlite.load_custom_ops(sys.argv[1])[0].op_type)\n"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", script, str(library)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "cstDualResidual\n", done.stderr


def test_plugins_call_the_loader_that_made_their_context() -> None:
    """Wheels of pyopencl bring one; objects of one loader crash in another (cl_khr_icd 2.0)."""
    opencl_library()
    process, pyopencl_s = ct.CDLL(None), ct.CDLL(device().cl._cl.__file__)
    for name in ("clCreateBuffer", "clSetKernelArg"):
        assert address(getattr(process, name)) == address(getattr(pyopencl_s, name))


def address(function: Any) -> int | None:
    return ct.cast(function, ct.c_void_p).value


def test_what_a_careless_plugin_imports_is_kept_once_and_given_back(leaky: Callable[..., Path]) -> None:
    before = imports()
    with rknnlite.open(DUAL, custom_ops=[leaky()]) as context:
        for _ in range(20):
            context.infer(dual_golden().inputs)
        assert imports() == before + 4
    assert imports() == before


def test_built_kernels_are_kept() -> None:
    before = set(cache_dir().glob("*.clbin"))
    infer_dual(dual_op(options="-DNOT_SEEN_BEFORE"))
    (added,) = set(cache_dir().glob("*.clbin")) - before
    stamp = added.stat().st_mtime_ns
    infer_dual(dual_op(options="-DNOT_SEEN_BEFORE"))
    assert added.stat().st_mtime_ns == stamp
    added.write_bytes(b"damaged")
    infer_dual(dual_op(options="-DNOT_SEEN_BEFORE"))


@pytest.mark.slow
def test_kernels_that_include_something_are_built_every_time(tmp_path: Path) -> None:
    source = """#include "scale.h"
    __kernel void dual(__global const float *x, __global const float *y, __global float *l, __global float *r)
    { int i = get_global_id(0); l[i] = x[i] * SCALE - y[i]; r[i] = y[i] * SCALE - x[i]; }"""
    args = [In(0), In(1), Out(0), Out(1)]
    op = dual_op(source=source, kernel="dual", args=args, options=f"-I {tmp_path}")
    header = tmp_path / "scale.h"
    header.write_text("#define SCALE 0.5f\n")
    infer_dual(op)
    header.write_text("#define SCALE 3.0f\n")
    with rknnlite.open(DUAL, custom_ops=[op]) as context:
        answer = context.infer(dual_golden().inputs)[1]
    assert np.abs(answer - dual_golden().outputs[1]).max() > 1


def test_a_kernel_file_is_looked_for_in_the_working_directory_too(
    gpu_plugin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = shutil.copy(gpu_plugin, tmp_path)
    monkeypatch.chdir(gpu_plugin.parent)
    infer_dual(alone)


# -- tensors that are no real numbers ---------------------------------------------------------------------------

ARGMAX_SOURCE = """
__kernel void argmax(__global const float *x, __global float *y, int plane)
{ int i = get_global_id(0), best = 0;
  for (int c = 1; c < 5; c++) if (x[c * plane + i] > x[best * plane + i]) best = c;
  y[i] = best; }
"""


@pytest.mark.parametrize("kind", ["kernel", "compiled"])
def test_a_kernel_that_writes_indices_as_floats_gives_what_the_builtin_gives(
    kind: str, compiled: Callable[..., Path]
) -> None:
    op: Any = OpenClOp(
        "ArgMax", ARGMAX_SOURCE, "argmax", [In(0), Out(0), lambda ctx: np.int32(ctx.outputs[0].n_elems)]
    )
    if kind == "compiled":
        op = compiled(C_SOURCES / "argmax_gpu.c", "-lOpenCL")
    image = np.random.default_rng(1).normal(size=(1, 4, 6, 5)).astype(np.float32)
    with rknnlite.open(argmax_model()) as context:
        (expected,) = context.infer([image])
    with rknnlite.open(argmax_model(), custom_ops=[op]) as context:
        for _ in range(2):
            (answer,) = context.infer([image])
            assert np.array_equal(answer, expected)
    assert set(np.unique(expected)) == set(range(5))


def test_integers_go_to_a_kernel_as_floats_too() -> None:
    source = """__kernel void probe(__global const float *x, __global const float *i, __global float *y,
                                    __global float *j, int n, int m)
    { int at = get_global_id(0); if (at < n) y[at] = x[at] * 1.0003f + 0.3f; if (at < m) j[at] = i[at] + 1; }"""
    op = OpenClOp("cstProbe", source, "probe", [In(0), In(1), Out(0), Out(1), Count(0), Count(1)])
    with rknnlite.open(PROBE, custom_ops=[op]) as context:
        answers = context.infer(probe_golden().inputs)
    for answer, expected in zip(answers, probe_golden().outputs):
        assert np.abs(answer - expected).max() <= np.abs(expected).max() / 1000


@pytest.mark.slow
def test_what_a_compiler_says_of_a_good_kernel_is_no_warning() -> None:
    """Neither when it is built nor when it comes from the cache."""
    told = (
        "#pragma OPENCL EXTENSION cl_of_no_compiler : enable\n" + (CUSTOM_OP / "dual_residual.cl").read_text()
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            infer_dual(dual_op(source=told))


# -- mistakes ----------------------------------------------------------------------------------------------------


def test_a_kernel_that_does_not_build_shows_the_build_log(leaky: Callable[..., Path]) -> None:
    for op in (
        dual_op(source="__kernel void f() { undeclared_thing = 1; }"),
        leaky('-DBODY="undeclared_thing = 1;"'),
    ):
        with pytest.raises(CustomOpFailed, match="undeclared_thing"):
            infer_dual(op)


def test_a_kernel_that_is_not_there(leaky: Callable[..., Path]) -> None:
    with pytest.raises(CustomOpFailed, match="no kernel 'other'; there are: dual_residual"):
        infer_dual(dual_op(kernel="other"))
    with pytest.raises(CustomOpFailed, match="no kernel 'other'; there are: dual"):
        infer_dual(leaky('-DKERNEL="other"'))


def test_a_kernel_file_that_is_not_there(gpu_plugin: Path, tmp_path: Path) -> None:
    with pytest.raises(CustomOpFailed, match=r"kernel source none\.cl: No such file"):
        infer_dual(dual_op(source=Path("none.cl")))
    alone = shutil.copy(gpu_plugin, tmp_path)
    with pytest.raises(CustomOpFailed, match=r"kernel source .*dual_residual\.cl"):
        infer_dual(alone)


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (ARGS[:-1], "takes 9 arguments, 8 are given"),
        ([*ARGS[:-1], Attr("beta")], "no attribute 'beta'; there are: alpha"),
        ([In(5), *ARGS[1:]], r"In\(index=5\) for a node with 2 tensors on that side"),
        ([*ARGS[:-1], Count(2)], r"Count\(output=2\) for a node with 2"),
        ([In(0), 0, *ARGS[2:]], r"argument 2 of the kernel is 0, .* write it as np\.int32\(0\)"),
        ([*ARGS[:-1], Attr("alpha", np.float64)], r"does not take its arguments: .*arg#9"),
    ],
)
def test_wrong_arguments(args: Any, text: str) -> None:
    with pytest.raises(CustomOpFailed, match=text):
        infer_dual(dual_op(args=args))


def test_more_memory_than_a_tensor_has_cannot_be_imported(leaky: Callable[..., Path]) -> None:
    infer_dual(leaky("-DMORE=4000"))  # up to the end of the page it can
    with pytest.raises(CustomOpFailed, match="compute of the plugin answers -61"):
        infer_dual(leaky("-DMORE=1000000"))


def test_gpu_plugins_are_not_isolated(gpu_plugin: Path) -> None:
    with pytest.raises(ParamInvalid, match=r"isolate|cannot be loaded"):
        rknnlite.load_custom_ops(gpu_plugin, isolate=True)


# -- machines without a GPU ----------------------------------------------------------------------------------------

NO_GPU = """
import logging
import sys
import rknnlite
from rknnlite_opencl import OpenClOp
from tests.custom_ops.models import DUAL, PlainDual, dual_golden
logging.basicConfig()
fallback = PlainDual() if sys.argv[1] == "fallback" else None
op = OpenClOp("cstDualResidual", source="", kernel="k", args=[], fallback=fallback)
with rknnlite.open(DUAL, custom_ops=[sys.argv[2] if sys.argv[1] == "compiled" else op]) as context:
    print(len(context.infer(dual_golden().inputs)))
"""


def without_gpu(*args: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "OCL_ICD_VENDORS": "/nonexistent",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    command = [sys.executable, "-c", NO_GPU, *args]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_without_a_gpu_the_reason_is_given(leaky: Callable[..., Path]) -> None:
    assert "no OpenCL platform" in without_gpu("none").stderr
    assert "no OpenCL platform" in without_gpu("compiled", str(leaky())).stderr


def test_without_a_gpu_the_fallback_computes() -> None:
    done = without_gpu("fallback")
    assert done.stdout.strip() == "2"
    assert "computes on the CPU" in done.stderr
