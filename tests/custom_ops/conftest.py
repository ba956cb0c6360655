"""Plugins compiled for these tests, each variant once per run."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rknnlite.abi import include_dir
from tests.support.corpus import EXAMPLES

C_SOURCES = Path(__file__).parent / "c"
CUSTOM_OP = EXAMPLES / "custom_op"


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What is built on first use is built for the tests alone."""
    patch = pytest.MonkeyPatch()
    patch.setenv("RKNNLITE_CACHE", str(tmp_path_factory.mktemp("cache")))
    yield
    patch.undo()


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """``compiled(source, *flags, name=...)``: a shared library."""

    if shutil.which("cc") is None:
        pytest.skip("no C compiler is installed")

    def build(source: Path, *flags: str, name: str = "librkcst_test.so") -> Path:
        target = tmp_path_factory.mktemp("plugin") / name
        command = [
            "cc",
            "-shared",
            "-fPIC",
            "-O1",
            "-w",
            f"-I{include_dir()}",
            "-o",
            str(target),
            str(source),
        ]
        subprocess.run([*command, *flags], check=True)
        return target

    return build


@pytest.fixture(scope="session")
def behaviour(compiled: Callable[..., Path]) -> Callable[..., Path]:
    """``behaviour("-DCRASH")``: the dual residual that then crashes."""
    return lambda *flags: compiled(C_SOURCES / "behaviour.c", *flags)


@pytest.fixture(scope="session")
def riscv(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """``riscv(source, *flags)``: a post-process plugin, built as for the coprocessor."""

    def build(source: Path, *flags: str) -> Path:
        target = tmp_path_factory.mktemp("riscv") / "libpostprocess_test.so"
        command = [
            "riscv64-unknown-elf-gcc", "--specs=picolibc.specs", "-march=rv64gc", "-mabi=lp64d", "-mcmodel=medany",
            "-fpic", "-O2", "-w", "-c", f"-I{include_dir()}", "-o", str(target), str(source), *flags,
        ]  # fmt: skip
        subprocess.run(command, check=True)
        return target

    return build


@pytest.fixture(scope="session")
def argmax(riscv: Callable[..., Path]) -> Callable[..., Path]:
    """``argmax("-DCRASH")``: the plugin of argmax_riscv.c that then crashes."""
    return lambda *flags: riscv(C_SOURCES / "argmax_riscv.c", *flags)
