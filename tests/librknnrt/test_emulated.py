"""Programs for boards under emulation, and for another C library: this machine's own Python computes for them, at its speed."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from rknnlite_librknnrt import recipe

from rknnlite._version import __version__
from tests.custom_ops.models import DUAL, PlainDual
from tests.librknnrt.clients import PROGRAMS, environment, library, run
from tests.librknnrt.goldens import inferred, pixels, write
from tests.librknnrt.test_mini import LIBRARIES, prepared
from tests.support.corpus import genuine
from tests.support.needs import needs

pytestmark = pytest.mark.slow


class Target(NamedTuple):
    """What programs are made for."""

    packages: tuple[str, ...]
    compiler: str
    emulator: tuple[str, ...] = ()
    header: str = ""
    """Of its C library, which compilers do not bring."""


TARGETS = {
    "aarch64": Target(
        ("gcc-aarch64-linux-gnu", "qemu-user"), "aarch64-linux-gnu-gcc", ("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"),
        "/usr/aarch64-linux-gnu/include/stdio.h",
    ),
    "armv7": Target(
        ("gcc-arm-linux-gnueabihf", "qemu-user"), "arm-linux-gnueabihf-gcc", ("qemu-arm", "-L", "/usr/arm-linux-gnueabihf"),
        "/usr/arm-linux-gnueabihf/include/stdio.h",
    ),
    "musl": Target(("musl-tools",), "musl-gcc"),
}  # fmt: skip


@pytest.fixture(params=TARGETS)
def target(request: pytest.FixtureRequest) -> Target:
    """Skips the test where its packages are not here."""
    found = TARGETS[request.param]
    needs(*found.packages)
    if found.header and not Path(found.header).is_file():
        pytest.skip(f"needs the C library of {found.packages[0]}")
    return found


def made(
    target: Target, folder: Path, program: str, libraries: Sequence[str], *flags: str
) -> list[str | Path]:
    """The words that run a program of ``programs`` on libraries that are made for the target, in ``folder``."""
    for name in libraries:
        out = folder / Path(name).name
        subprocess.run(recipe.command([target.compiler], out, __version__, name), check=True)
    words = [target.compiler, "-std=c99", f"-I{recipe.INCLUDE}", PROGRAMS / program]
    files = [folder / Path(name).name for name in libraries]
    subprocess.run([*words, *files, *flags, "-o", folder / "program"], check=True)
    if not target.emulator:
        return [folder / "program"]
    return [*target.emulator, "-E", f"LD_LIBRARY_PATH={folder}", folder / "program"]


def variables(target: Target, folder: Path) -> dict[str, str]:
    """Of the program: an emulator is not to find its libraries, which are for another machine."""
    told = environment(library())
    del told["LD_LIBRARY_PATH"]
    return told if target.emulator else {**told, "LD_LIBRARY_PATH": str(folder)}


def test_a_boards_program_runs_here(tmp_path: Path, target: Target) -> None:
    """Its operators are emulated, and called back by a process that is not."""
    words = made(target, tmp_path, "custom_ops.c", [recipe.LIBRARY], "-lm")
    images = [write(tmp_path, f"in{i}", pixels(i, 1, 32, 32, 3)) for i in range(2)]
    for i, output in enumerate(inferred(DUAL, images, custom_ops=[PlainDual()])[0]):
        write(tmp_path, f"out{i}", output)
    run([*words, DUAL, tmp_path], env=variables(target, tmp_path))


@pytest.mark.parametrize(
    ("program", "libraries"),
    [("mini.c", LIBRARIES[:1]), ("mini_memory.c", LIBRARIES)],
    ids=["calls", "memory"],
)
def test_a_program_for_rv1106(
    tmp_path: Path, target: Target, program: str, libraries: tuple[str, ...]
) -> None:
    """Its processor is an armv7: addresses of four bytes, whose structures the Python of eight takes."""
    model, more = genuine("unet_like.rv1106.i8"), [genuine("conv_relu.rk3588.i8")]
    words = made(target, tmp_path, program, libraries)
    prepared(model, tmp_path)
    run(
        [*words, model, tmp_path, *more[: program == "mini.c"]], env=variables(target, tmp_path), cwd=tmp_path
    )


def test_another_c_library_is_what_it_says(tmp_path: Path) -> None:
    """The musl libraries load without glibc."""
    needs("musl-tools")
    assert platform.system() == "Linux"
    out = tmp_path / recipe.MINI_LIBRARY
    subprocess.run(recipe.command(["musl-gcc"], out, __version__, recipe.MINI_LIBRARY), check=True)
    read = subprocess.run(["readelf", "-d", out], capture_output=True, text=True, check=True).stdout
    assert "libc.so]" in read and "libc.so.6" not in read
