#!/usr/bin/env python3
"""Look into wheel and sdist:   tools/wheel_check.py WHEEL SDIST WHEEL_OF_SDIST

The wheel is small, for any machine or for one, and holds packages and nothing else; the sdist holds what a build and the tests need.
A wheel made of the sdist lacks nothing but the libraries that were compiled for the wheel: programs in other languages and the
native engine have them for two machines, chosen where they are used, so that the wheel stays one for all.
"""

from __future__ import annotations

import re
import sys
import tarfile
import zipfile
from pathlib import Path

LIMIT = 20 << 20
COMPILED = re.compile(
    r"rknnlite_librknnrt/lib/(x86_64|aarch64)-linux-gnu/(librknnm?rt\.so|librknn3?_api\.so"
    r"|board/lib(rockit|mpimmz|rga)\.so|played/played_board\.so|rkllm-[0-9.b]+/librkllmrt\.so|made-of)"
    r"|rknnlite_cpu/engines/native/lib/(x86_64-linux-gnu/(vnni512|vnni|avx2)\.so|aarch64-linux-gnu/(dotprod|plain)\.so"
    r"|(x86_64|aarch64)-linux-gnu/made-of)"
)
MANY = {"x86_64": 18, "aarch64": 17}
"""How many files these are."""
NAME = re.compile(r"rknnlite-[^-]+-py3-none-(any|manylinux_\d+_\d+_(x86_64|aarch64)(\.\w+)?)\.whl")
FLOOR = (2, 17)
TOPS = {"rknnlite", "rknn3lite"}
TRIALS = re.compile(r"rknnlite_(npu/kernel/trials|pytest/contract)/[^/]+\.rknn")
"""The small models of ``rknnlite doctor --try-npu``, and of ``pytest --rknnlite-backend``."""
SUFFIXES = {
    ".py",
    ".typed",
    ".yaml",
    ".c",
    ".h",
    ".in",
    ".html",
    ".css",
    ".svg",
    ".js",
    ".proto",
    ".desc",
    ".txt",
}


def check_wheel(path: Path) -> None:
    """Name, size, contents."""
    assert NAME.fullmatch(path.name), f"{path.name} is for something else than any Python on Linux"
    size = path.stat().st_size
    assert size < LIMIT, f"{path.name} has {size} bytes, at most {LIMIT} are allowed"
    names = [name for name in zipfile.ZipFile(path).namelist() if ".dist-info/" not in name]
    strange = [name for name in names if not belongs(name)]
    assert not strange, f"{path.name} holds {strange[:5]}"
    for needed in (
        "rknnlite/py.typed",
        "rknnlite/abi/include/rknn_op.h",
        "rknnlite/abi/include/rknn3_op.h",
        "rknnlite_pages/templates/report.html",
        "rknnlite_pages/templates/report.js",
        "rknnlite_authoring/templates/common/pyproject.toml.in",
        "rknnlite_authoring/templates/c/module/build.py.in",
        "rknnlite_llm/quality/samples/english.txt",
        "rknnlite_riscv/stub.c",
        "rknnlite_cplugin/runtime_symbols.c",
        "rknnlite_librknnrt/recipe.py",
        "rknnlite_librknnrt/client/rknn3/rknn3.h",
        "rknnlite_librknnrt/include/rknn_api.h",
        "rknnlite_librknnrt/include/rknn3_api.h",
    ):
        assert needed in names, f"{path.name} lacks {needed}"
    print(f"{path.name}: {size / 1e6:.2f} MB, {len(names)} files")


def belongs(name: str) -> bool:
    """Whether a file is part of an import package of ours."""
    top = name.split("/")[0]
    of_ours = top in TOPS or top.startswith("rknnlite_")
    return of_ours and (
        Path(name).suffix in SUFFIXES or any(kind.fullmatch(name) is not None for kind in (COMPILED, TRIALS))
    )


def check_compiled(path: Path, of_sdist: Path) -> None:
    """The libraries in the wheel, and that the sdist brings everything else."""
    with zipfile.ZipFile(path) as wheel, zipfile.ZipFile(of_sdist) as other:
        compiled = {name for name in wheel.namelist() if COMPILED.fullmatch(name)}
        assert compiled == set(wheel.namelist()) - set(other.namelist()), (
            f"{of_sdist} lacks more than libraries"
        )
        for name in sorted(name for name in compiled if name.endswith(".so")):
            asked = re.findall(rb"\0GLIBC_(\d+)\.(\d+)", wheel.read(name))
            needed = max(((int(major), int(minor)) for major, minor in asked), default=(0, 0))
            newer = (
                "" if needed <= FLOOR else "; older systems compile their own (ziglang makes one for 2.17)"
            )
            print(f"{name}: for glibc {needed[0]}.{needed[1]} and newer{newer}")
    named = NAME.fullmatch(path.name)
    machine = named[2] if named else None
    whole = MANY[machine] if machine else sum(MANY.values())
    foreign = [name for name in compiled if machine and f"/{machine}-linux-gnu/" not in name]
    assert not foreign, f"{path.name} holds libraries of another machine: {foreign[:3]}"
    if len(compiled) < whole:
        print(
            f"{path.name}: of {whole} files of compiled libraries it has {len(compiled)}; others compile their own"
        )


def check_sdist(path: Path) -> None:
    """What the Debian build and ``make test`` take from it."""
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for needed in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "Makefile", "tests/conftest.py",
                   "examples/resnet18/test.py", "examples/resnet18/resnet18_for_RK3588.rknn", "tools/core_only.py",
                   "plugins/rknnlite_cplugin/runtime_symbols.c", "tools/librknnrt.py",
                   "tools/native_engine.py"):  # fmt: skip
        assert needed in names, f"{path.name} lacks {needed}"
    compiled = [name for name in names if name.endswith((".so", "/made-of"))]
    assert not compiled, f"{path.name} holds {compiled}, which nobody can read"
    print(f"{path.name}: {path.stat().st_size / 1e6:.2f} MB, {len(names)} files")


if __name__ == "__main__":
    check_wheel(Path(sys.argv[1]))
    check_sdist(Path(sys.argv[2]))
    check_compiled(Path(sys.argv[1]), Path(sys.argv[3]))
