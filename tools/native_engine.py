#!/usr/bin/env python3
"""Compile the native engine of the CPU reference for wheels, into plugins/rknnlite_cpu/engines/native/lib:

    tools/native_engine.py

As tools/librknnrt.py: by the package ziglang for x86-64 and aarch64 and glibc 2.17, else by the compilers that are here.
Each kind of processor that ``recipe.py`` names gets a library; the one to take is chosen where it runs. Where none fits,
rknnlite compiles one on first use.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tools import librknnrt  # noqa: E402

PACKAGE = ROOT / "plugins" / "rknnlite_cpu" / "engines" / "native"


def recipe() -> ModuleType:
    """What the library is made of, and for which processors."""
    return librknnrt.read_alone(PACKAGE / "recipe.py")


def command(variant: object, out: Path) -> tuple[str, list[str]]:
    """Which compiler, and its words; none where there is no compiler for the machine."""
    name, words = librknnrt.compiler_for(variant.machine)  # type: ignore[attr-defined]
    if not words:
        return name, []
    told = [f"-mcpu={variant.zig}"] if name == "ziglang" else list(variant.gcc)  # type: ignore[attr-defined]
    sources = [str(file) for file in recipe().files() if file.suffix == ".c"]
    built = ("-shared", "-fPIC", "-O2", "-pthread", "-s", "-Wl,-z,now", *recipe().FLAGS)
    return name, [*words, *told, *built, "-o", str(out), *sources]


def main() -> None:
    """All variants; exits with an error where ziglang made what is too new."""
    lib = PACKAGE / "lib"
    shutil.rmtree(lib, ignore_errors=True)
    for variant in recipe().VARIANTS:
        out = lib / f"{variant.machine}-linux-gnu" / f"{variant.name}.so"
        name, words = command(variant, out)
        shown = out.relative_to(ROOT)
        if not words:
            print(f"{shown}: left out, there is neither ziglang nor {name}")
            continue
        out.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(words, check=True)
        out.with_name(recipe().MADE_OF).write_text(f"{recipe().digest()}\n", "utf-8")
        librknnrt.tell(out, shown, name)


if __name__ == "__main__":
    main()
