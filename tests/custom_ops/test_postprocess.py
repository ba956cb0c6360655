"""Post-process plugins of RK182x behind models on the CPU reference."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rknnlite
from rknnlite.abi import include_dir
from rknnlite.errors import ContextInvalid, ModelUnsupported, ParamInvalid, RknnError, RunTimeout
from rknnlite.plugins import load_postprocess
from rknnlite.spi import Context, PostProcess
from rknnlite.tensor import DType, Layout, TensorAttr
from tests.support.corpus import genuine, goldens
from tests.support.needs import needs

from .conftest import C_SOURCES
from .models import DUAL, PlainDual, dual_golden

Argmax = Callable[..., Path]

if shutil.which("riscv64-unknown-elf-gcc") is None:
    pytest.skip("riscv64-unknown-elf-gcc is not installed", allow_module_level=True)


def open_dual(postprocess: Any, **options: Any) -> Context:
    if options:
        postprocess = load_postprocess(postprocess, **options)
    return rknnlite.open(DUAL, custom_ops=[PlainDual()], postprocess=postprocess)


def raw_features() -> Any:
    with rknnlite.open(DUAL, custom_ops=[PlainDual()]) as context:
        return context.infer(dual_golden().inputs, raw=True)[0]


@pytest.mark.parametrize(
    "flags", [(), ("-DUSER_DATA",), ("-march=rv64gcv",)], ids=["1.0.0", "later header", "vector"]
)
def test_the_results_take_the_place_of_the_outputs(flags: tuple[str, ...], argmax: Argmax) -> None:
    features = raw_features()
    real = (features.data.astype(np.float32) - features.zero_point) * np.float32(features.scale)
    with open_dual(argmax(*flags)) as context:
        assert [(a.name, a.dims, a.dtype) for a in context.outputs] == [
            ("channel", (1, 32, 32), DType.INT32),
            ("value", (1, 32, 32), DType.FLOAT32),
        ]
        for _ in range(3):
            channel, value = context.infer(dual_golden().inputs)
            assert np.array_equal(channel, features.data.argmax(1))
            assert np.array_equal(value, real.max(1))
        channel_raw = context.infer(dual_golden().inputs, raw=True)[0]
    assert channel_raw.data.dtype == np.int32
    assert channel.dtype == np.float32


def test_half_precision_is_computed_as_the_cores_do(tmp_path: Path) -> None:
    """GCC has ``_Float16`` for RISC-V from version 13 on, clang has it here."""
    needs("clang")
    plugin = tmp_path / "half.so"
    flags = [
        "--target=riscv64-unknown-elf",
        "-menable-experimental-extensions",
        "-march=rv64gc_zfh",
        "-mabi=lp64d",
    ]
    flags += ["-mcmodel=medany", "-fpic", "-O2", f"-I{include_dir()}"]
    subprocess.run(["clang", *flags, "-c", "-o", plugin, C_SOURCES / "half_riscv.c"], check=True)
    x = np.array([[0.1, -3, 6e-8, 40000]], np.float16)
    host = load_postprocess(plugin)
    (attr,) = host.open([], [TensorAttr(0, "x", (1, 4), DType.FLOAT16, Layout.UNDEFINED)])
    try:
        (y,) = host.compute([x])
    finally:
        host.close()
    assert attr.dtype is DType.FLOAT16
    with np.errstate(over="ignore"):
        assert np.array_equal(y, x * np.float16(2) + np.float16(0.125))


def test_results_of_an_earlier_run_are_not_overwritten(argmax: Argmax) -> None:
    with open_dual(argmax()) as context:
        first = context.infer(dual_golden().inputs)
        kept = [array.copy() for array in first]
        context.infer([255 - array for array in dual_golden().inputs])
    assert all(np.array_equal(a, b) for a, b in zip(first, kept))


def test_a_dynamic_model_opens_the_plugin_per_shape() -> None:
    opened: list[list[tuple[int, ...]]] = []

    class Sum(PostProcess):
        def open(self, inputs: Any, outputs: Any) -> list[TensorAttr]:
            opened.append([attr.dims for attr in inputs])
            return [TensorAttr(0, "sum", (1,), DType.FLOAT32, Layout.UNDEFINED)]

        def compute(self, arrays: Any) -> list[np.ndarray]:
            return [np.array([np.sum(arrays[0], dtype=np.float32)], np.float32)]

        def close(self) -> None:
            opened.append([])

    name = "dynamic_two.rk3588.fp16"
    stored = goldens(genuine(name).with_suffix(".npz"))
    with rknnlite.open(genuine(name), postprocess=Sum()) as context:
        for golden in stored:
            (total,) = context.infer(golden.inputs)
            assert total.shape == (1,)
    assert opened[-1] == []
    assert len({str(dims) for dims in opened[:-1]}) == len(stored)


def test_a_plugin_of_two_objects_with_what_a_c_library_offers(
    riscv: Callable[..., Path], tmp_path: Path
) -> None:
    """Mathematics, heap, static data, errno, character classes; as many outputs as the model asks for."""
    parts = [riscv(C_SOURCES / "library_riscv.c", f"-D{half}") for half in ("PLUGIN", "HELPER")]
    joined = tmp_path / "libpostprocess_joined.so"
    subprocess.run(["riscv64-unknown-elf-ld", "-r", "-o", joined, *parts], check=True)
    with rknnlite.open(DUAL, custom_ops=[PlainDual()], postprocess=joined) as context:
        sizes = [attr.n_elems for attr in context.outputs]
        assert sizes == [1, 2, 3, 4, 5]  # one more than twice the model's two
        for run in (1, 2):
            answers = context.infer(dual_golden().inputs)
            expected = [np.sqrt(np.arange(n)) + np.log1p(n) + run for n in sizes]
            assert all(np.allclose(a, e, rtol=1e-6) for a, e in zip(answers, expected))


def test_linked_programs_are_kept(argmax: Argmax, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = argmax()
    open_dual(plugin).close()
    monkeypatch.setattr(subprocess, "run", lambda *a, **k: pytest.fail("linked again"))
    open_dual(plugin).close()


# -- mistakes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flag", "text"),
    [
        ("-DHIDDEN", "no function rknn3_register_custom_ops_plugin"),
        ("-DPLUGIN_TYPE=1", "no post-process operator"),
        pytest.param("-DTARGET=2", "target 2", marks=pytest.mark.slow),
        ("-DVERSION=9", "version 9, this host knows version 1"),
        pytest.param("-DNO_COMPUTE", "lacks compute", marks=pytest.mark.slow),
        ("-DINIT_CODE=-6", "init answers -6"),
        pytest.param(
            "-DATTR_SIZE=584",
            "tensor attributes of 584 bytes, the header 1.0.0 has 512",
            marks=pytest.mark.slow,
        ),
        ("-DOUTPUTS=0", "get_output_num answers 0"),
        pytest.param("-DOUTPUTS=1000", "get_output_num answers 1000", marks=pytest.mark.slow),
        pytest.param("-DATTRS_CODE=-3", "get_attrs answers -3", marks=pytest.mark.slow),
        ("-DTYPE=77", "element type 77"),
        pytest.param("-DOUTPUTS=3", "output2 has (element type|0 dimensions)", marks=pytest.mark.slow),
        ("-DSIZE(n)=(n)", "aligned_size 1024; it must be at least"),
        pytest.param("-DSIZE(n)=(1ull<<40)", "at most", marks=pytest.mark.slow),
    ],
)
def test_plugins_that_cannot_be_used(flag: str, text: str, argmax: Argmax) -> None:
    with pytest.raises(ParamInvalid, match=text):
        open_dual(argmax(flag))


@pytest.mark.parametrize(
    ("flag", "text"),
    [
        ("-DCRASH", "ended in compute: signal 6"),
        ("-DWRITE_INPUT", "ended in compute: signal 11"),
        ("-DCOMPUTE_CODE=-5", "compute answers -5"),
        ("-DOVERRUN=8", "wrote past the end of output value"),
    ],
)
def test_failures_in_compute_are_errors_and_nothing_more(flag: str, text: str, argmax: Argmax) -> None:
    with open_dual(argmax(flag)) as context:
        with pytest.raises(RknnError, match=text):
            context.infer(dual_golden().inputs)
        if "ended" in text:
            with pytest.raises(RknnError, match="open the model again"):
                context.infer(dual_golden().inputs)


def test_a_plugin_that_never_returns_is_ended(argmax: Argmax) -> None:
    with (
        open_dual(argmax("-DHANG"), time_limit=0.5) as context,
        pytest.raises(RunTimeout, match=r"did not return from compute within 0\.5 s"),
    ):
        context.infer(dual_golden().inputs)


def test_files_that_are_no_plugins(tmp_path: Path, compiled: Callable[..., Path], argmax: Argmax) -> None:
    (tmp_path / "text.so").write_text("hello")
    (tmp_path / "text.txt").write_text("hello")
    source = tmp_path / "empty.c"
    source.write_text("int nothing;\n")
    linked = tmp_path / "linked.so"
    subprocess.run(["riscv64-linux-gnu-gcc", "-shared", "-o", str(linked), str(source)], check=True)
    for path, text in (
        (tmp_path / "none.so", "no such file"),
        (tmp_path / "text.so", "not an ELF object"),
        (tmp_path / "text.txt", "no host for such a post-process plugin"),
        (compiled(source), "a post-process plugin is 64-bit RISC-V"),
        (linked, "relocatable object"),
    ):
        with pytest.raises(ParamInvalid, match=text):
            open_dual(path)
    with pytest.raises(ParamInvalid, match="unknown options"):
        open_dual(argmax(), isolate=True)
    with pytest.raises(ParamInvalid, match="path of a plugin"):
        open_dual(42)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("return nowhere();", "undefined reference to `nowhere'"),
        ("return __extendhfsf9();", r"converts _Float16 by __extendhfsf9, .* compile with -march=rv64gc_zfh"),
        ("return 0;", "registers no post-process operator"),
        ("for (;;);", r"did not return from init, get_output_num or get_attrs within 0\.5 s"),
        ("return (void *)8;", r"ended in init, .*: signal 11 \(SIGSEGV\)"),
    ],
)
def test_entry_functions_that_go_wrong(
    body: str, text: str, riscv: Callable[..., Path], tmp_path: Path
) -> None:
    source = tmp_path / "entry.c"
    source.write_text(
        f"void *nowhere(void), *__extendhfsf9(void);\nvoid *rknn3_register_custom_ops_plugin(int i) {{ {body} }}\n"
    )
    with pytest.raises(RknnError, match=text):
        open_dual(riscv(source), time_limit=0.5)


def test_a_missing_compiler_is_named(argmax: Argmax, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RKNNLITE_RISCV_CC", "riscv64-no-such-gcc")
    with pytest.raises(RknnError, match="riscv64-no-such-gcc missing; install gcc-riscv64"):
        open_dual(argmax())


def test_use_after_close(argmax: Argmax) -> None:
    plugin = load_postprocess(argmax())
    context = open_dual(plugin)
    context.close()
    with pytest.raises(ContextInvalid):
        plugin.compute([])


def test_models_keep_their_own_errors(argmax: Argmax) -> None:
    with rknnlite.open(DUAL, postprocess=argmax()) as context, pytest.raises(ModelUnsupported):
        context.infer(dual_golden().inputs)


def test_a_type_that_plugins_do_not_know(argmax: Argmax) -> None:
    path = genuine("bfloat_chain.rk3588.bf16")
    with pytest.raises(ParamInvalid, match=r"is BF16, a type that post-process plugins do not know"):
        rknnlite.open(path, backend="cpu", postprocess=argmax())
