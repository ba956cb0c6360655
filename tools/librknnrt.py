#!/usr/bin/env python3
"""Compile librknnrt.so, librknnmrt.so, librknn3_api.so and librkllmrt.so for programs in other languages:

    tools/librknnrt.py                      # for wheels: x86-64 and aarch64, into plugins/rknnlite_librknnrt/lib
    tools/librknnrt.py --machine aarch64    # for one of them
    tools/librknnrt.py OUT COMPILER [FLAG ...]   # one library, by its name, with a compiler of yours

For wheels the package ziglang is used where this Python has it: its compiler makes libraries for both machines that
load with glibc 2.17 and newer. Without it the machines' own compilers are taken, with the glibc that they have, and a
machine without a compiler is left out. Where a library is left out, or too new, rknnlite compiles one on first use.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "plugins" / "rknnlite_librknnrt"
MACHINES = ("x86_64", "aarch64")
FLOOR = (2, 17)
"""The glibc of the oldest systems that wheels are made for."""


def recipe() -> ModuleType:
    """What the library is made of."""
    return read_alone(PACKAGE / "recipe.py")


def read_alone(file: Path) -> ModuleType:
    """A module without its package, which needs numpy."""
    spec = importlib.util.spec_from_file_location(f"{file.parent.name}_{file.stem}", file)
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tell(library: Path, shown: Path, compiler: str) -> None:
    """Size and glibc of a library that was made; exits with an error where ziglang made what is too new."""
    needed = tuple(recipe().glibc_needed(library))
    print(
        f"{shown}: {library.stat().st_size} bytes, for glibc {'.'.join(map(str, needed))} and newer, by {compiler}"
    )
    if compiler == "ziglang" and needed > FLOOR:
        library.unlink()
        sys.exit(f"{shown} needs a newer glibc than {'.'.join(map(str, FLOOR))}; do without that function")


def compile_library(compiler: list[str], out: Path) -> tuple[int, int]:
    """Compile one; returns the oldest glibc that it loads with. What was there before is replaced at once."""
    version = runpy.run_path(str(ROOT / "rknnlite" / "_version.py"))["__version__"]
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        names = [
            name for name in recipe().LIBRARIES if out.parts[-len(Path(name).parts) :] == Path(name).parts
        ]
        name = names[0] if names else recipe().LIBRARY
        subprocess.run(recipe().command(compiler, part, version, name), check=True)
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)
    return tuple(recipe().glibc_needed(out))


def compiler_for(machine: str) -> tuple[str, list[str]]:
    """Its name and words; no words where there is none."""
    if importlib.util.find_spec("ziglang") is not None:
        floor = ".".join(map(str, FLOOR))
        return "ziglang", [sys.executable, "-m", "ziglang", "cc", "-target", f"{machine}-linux-gnu.{floor}"]
    name = "cc" if machine == platform.machine() else f"{machine}-linux-gnu-gcc"
    return name, [name] if shutil.which(name) else []


def for_wheels(asked: str | None = None) -> None:
    """All libraries for both machines, or for one; exits with an error where ziglang made what is too new."""
    machines = [machine for machine in MACHINES if asked in (None, machine)]
    for machine, library in ((machine, library) for machine in machines for library in recipe().LIBRARIES):
        name, words = compiler_for(machine)
        out = PACKAGE / "lib" / f"{machine}-linux-gnu" / library
        shown = out.relative_to(ROOT)
        if not words:
            print(f"{shown}: left out, there is neither ziglang nor {name}")
            continue
        compile_library([*words, "-s", "-Wl,-z,now"], out)
        made_of = PACKAGE / "lib" / f"{machine}-linux-gnu" / recipe().MADE_OF
        made_of.write_text(f"{recipe().digest()}\n", "utf-8")
        tell(out, shown, name)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--machine", choices=MACHINES)
    parser.add_argument("out", nargs="?", type=Path)
    parser.add_argument("compiler", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    if args.out is None:
        for_wheels(args.machine)
    elif args.compiler:
        compile_library(args.compiler, args.out)
    else:
        parser.error("name a compiler")


if __name__ == "__main__":
    main()
