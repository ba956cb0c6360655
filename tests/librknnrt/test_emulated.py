"""Programs for boards under emulation: the PC's own Python computes for them, at the PC's speed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from rknnlite_librknnrt import recipe

from rknnlite._version import __version__
from tests.custom_ops.models import DUAL, PlainDual
from tests.librknnrt.clients import PROGRAMS, environment, run
from tests.librknnrt.goldens import inferred, pixels, write
from tests.support.needs import needs

TRIPLETS = {"aarch64-linux-gnu": "qemu-aarch64", "arm-linux-gnueabihf": "qemu-arm"}


@pytest.mark.slow
@pytest.mark.parametrize("triplet", TRIPLETS)
def test_a_boards_program_runs_here(tmp_path: Path, triplet: str) -> None:
    """Its operators are emulated, and called back by a process that is not."""
    needs(f"gcc-{triplet}", "qemu-user")
    if not Path("/usr", triplet, "include", "stdio.h").is_file():
        pytest.skip(f"needs the C library of gcc-{triplet}")
    compiler, library, program = f"{triplet}-gcc", tmp_path / "librknnrt.so", tmp_path / "program"
    subprocess.run(recipe.command([compiler], library, __version__), check=True)
    words = [
        compiler,
        "-std=c99",
        f"-I{recipe.INCLUDE}",
        PROGRAMS / "custom_ops.c",
        f"-L{tmp_path}",
        "-lrknnrt",
        "-lm",
    ]
    subprocess.run([*words, "-o", program], check=True)

    images = [write(tmp_path, f"in{i}", pixels(i, 1, 32, 32, 3)) for i in range(2)]
    for i, output in enumerate(inferred(DUAL, images, custom_ops=[PlainDual()])[0]):
        write(tmp_path, f"out{i}", output)
    emulator = [TRIPLETS[triplet], "-L", f"/usr/{triplet}", "-E", f"LD_LIBRARY_PATH={tmp_path}"]
    variables = {name: value for name, value in environment(library).items() if name != "LD_LIBRARY_PATH"}
    run([*emulator, program, DUAL, tmp_path], env=variables)
