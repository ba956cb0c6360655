"""The native engine that comes with a wheel: which library a processor gets, and what is done where none fits."""

from __future__ import annotations

import ctypes
import logging
import platform
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_cpu.engines import choice
from rknnlite_cpu.engines.native import library as loading
from rknnlite_cpu.engines.native import prebuilt as finding
from rknnlite_cpu.engines.native import recipe
from rknnlite_cpu.engines.native.library import Library, library
from rknnlite_cpu.engines.native.prebuilt import prebuilt
from rknnlite_programs import buildcache

from rknnlite.native.processors import features
from tests.cpu.engines import native
from tests.packaging.project import ROOT
from tests.support.needs import needs
from tools import native_engine as tool

X86 = "fpu sse2 abm avx2 bmi1 bmi2 f16c fma movbe popcnt"
ICE_LAKE = f"{X86} avx512f avx512bw avx512cd avx512dq avx512vl avx512_vnni avx512vbmi"

HERE = recipe.fitting(platform.machine(), features().split())
"""Those that this processor can run; test_native.py has others under emulation."""


@pytest.fixture(autouse=True)
def forgetful() -> Any:
    caches = (prebuilt, library, choice._native, choice._native_where_possible, choice._build_later)
    for each in caches:
        each.cache_clear()
    yield
    for each in caches:
        each.cache_clear()


@pytest.mark.parametrize(
    ("machine", "words", "first"),
    [
        ("x86_64", ICE_LAKE, "vnni512"),
        ("x86_64", ICE_LAKE.replace(" avx512vbmi", ""), "avx2"),  # Cascade Lake
        ("x86_64", f"{X86} avx_vnni", "vnni"),
        ("x86_64", X86, "avx2"),
        ("x86_64", "fpu sse2 avx", None),
        ("aarch64", "fp asimd evtstrm aes crc32 atomics asimdhp asimddp", "dotprod"),  # RK3588
        ("aarch64", "fp asimd evtstrm aes crc32", "plain"),  # RK3399
        ("armv7l", "half thumb neon", None),
        ("x86_64", "", None),
    ],
)
def test_which_one_a_processor_gets(machine: str, words: str, first: str | None) -> None:
    found = recipe.fitting(machine, words.split())
    assert (found[0].name if found else None) == first


@pytest.fixture
def wheel(cache_of_the_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of this machine's libraries, with one that this processor can run: built here, by gcc."""
    needs("gcc")
    variants = recipe.fitting(platform.machine(), features().split())
    if not variants:
        pytest.skip("no library of wheels fits this processor")
    folder = tmp_path / "lib" / f"{platform.machine()}-linux-gnu"
    folder.mkdir(parents=True)
    monkeypatch.setattr(recipe, "FOLDER", tmp_path / "lib")
    with monkeypatch.context() as patch:
        patch.setenv("RKNNLITE_CACHE", str(cache_of_the_run))
        built = loading._built(())[0]
    shutil.copy(built._name, folder / f"{variants[0].name}.so")
    (folder / recipe.MADE_OF).write_text(f"{recipe.digest()}\n")
    monkeypatch.delenv("RKNNLITE_ENGINE", raising=False)
    monkeypatch.setenv("CC", "no-compiler")
    monkeypatch.setenv("RKNNLITE_CACHE", str(tmp_path / "cache"))
    return folder


def test_a_wheel_needs_no_compiler(wheel: Path) -> None:
    assert "native" in "+".join(choice.candidates()) and choice._native_is_ready()
    made = Library()
    assert recipe.digest() in made.build
    graph = native.convolution(np.random.default_rng(0), (1, 16, 9, 9), 16)
    assert native.differing(made, graph) == 0


def test_one_of_other_sources_is_not_taken(wheel: Path) -> None:
    (wheel / recipe.MADE_OF).write_text("0" * 64)
    assert prebuilt() is None
    assert "native" not in "+".join(choice.candidates())


def test_one_that_cannot_be_loaded_is_built_instead(
    wheel: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    next(wheel.glob("*.so")).write_bytes(b"\x7fELF of another C library")
    here = ctypes.CDLL(None)
    monkeypatch.setattr(loading, "_built", lambda flags: (here, "built here"))
    with caplog.at_level(logging.INFO, "rknnlite"), pytest.raises(AttributeError):  # of libc
        Library()
    assert "that of the wheel cannot be loaded" in caplog.text


def test_a_processor_that_nobody_knows_gets_none(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "features", lambda: "")
    assert prebuilt() is None


@pytest.mark.slow
def test_no_context_waits_for_a_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Networks that an engine has from the first frame on: contexts that are opened when it is built have it."""
    needs("gcc")
    monkeypatch.delenv("RKNNLITE_ENGINE", raising=False)
    monkeypatch.setattr(recipe, "FOLDER", tmp_path)
    monkeypatch.setenv("RKNNLITE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(choice, "_PATIENCE", 0)
    began, go_on, build = threading.Event(), threading.Event(), buildcache.build

    def slow(*arguments: Any) -> Path:
        began.set()
        assert go_on.wait(60)
        return build(*arguments)

    monkeypatch.setattr(buildcache, "build", slow)
    assert all(engine.name != "native" for engine in choice.chosen(None))
    assert began.wait(60)
    assert all(engine.name != "native" for engine in choice.chosen(None))
    go_on.set()
    for thread in threading.enumerate():
        if thread.name == "rknnlite-build":
            thread.join(600)  # a compiler beside other work
    assert choice.chosen(None)[0].name == "native"


@pytest.mark.slow
@pytest.mark.parametrize("variant", HERE, ids=lambda variant: variant.name)
def test_every_variant_has_the_bytes_of_the_numpy_kernels(variant: recipe.Variant, tmp_path: Path) -> None:
    needs("gcc")
    file = tmp_path / "engine.so"
    sources = [str(path) for path in recipe.files() if path.suffix == ".c"]
    command = ["gcc", *variant.gcc, "-shared", "-fPIC", "-O2", "-pthread", *recipe.FLAGS, "-o", str(file)]
    subprocess.run([*command, *sources], check=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loading, "_of_the_wheel", lambda: (ctypes.CDLL(str(file)), variant.name))
        made = Library()
    for number, fused in enumerate(native.JOINED.values()):
        random = np.random.default_rng(number)
        for depthwise in (False, True):
            operand = (1, 40, 9, 11) if fused.join else None
            graph = native.convolution(
                random, (1, 40, 9, 11), 40, pads=(1, 1, 1, 1), depthwise=depthwise, fused=fused, operand=operand
            )  # fmt: skip
            assert native.differing(made, graph, number, 2) == 0


def test_what_compiles_them_needs_nothing_but_python() -> None:
    """The builder of wheels has no numpy."""
    code = "import runpy; runpy.run_path('tools/native_engine.py')['recipe']().digest()"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr


def test_compilers_are_told_the_processor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    variant, out = recipe.VARIANTS[0], tmp_path / "out.so"
    monkeypatch.setattr(tool.librknnrt, "compiler_for", lambda machine: ("ziglang", ["zig"]))
    assert tool.command(variant, out)[1][:2] == ["zig", f"-mcpu={variant.zig}"]
    monkeypatch.setattr(tool.librknnrt, "compiler_for", lambda machine: ("cc", ["cc"]))
    assert set(variant.gcc) < set(tool.command(variant, out)[1])
    monkeypatch.setattr(tool.librknnrt, "compiler_for", lambda machine: ("cc", []))
    assert tool.command(variant, out) == ("cc", [])
