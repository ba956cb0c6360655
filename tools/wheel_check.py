#!/usr/bin/env python3
"""Look into wheel and sdist:   tools/wheel_check.py WHEEL SDIST

The wheel is small, for any machine, and holds packages and nothing else; the sdist holds what a build and the tests need.
"""

from __future__ import annotations

import sys
import tarfile
import zipfile
from pathlib import Path

LIMIT = 20 << 20
TOPS = {"rknnlite", "rknn3lite"}
SUFFIXES = {".py", ".typed", ".yaml", ".c", ".h", ".in", ".html", ".css", ".js"}


def check_wheel(path: Path) -> None:
    """Name, size, contents."""
    assert path.name.endswith("-py3-none-any.whl"), f"{path.name} is not for any machine"
    size = path.stat().st_size
    assert size < LIMIT, f"{path.name} has {size} bytes, at most {LIMIT} are allowed"
    names = [name for name in zipfile.ZipFile(path).namelist() if ".dist-info/" not in name]
    strange = [name for name in names if not belongs(name)]
    assert not strange, f"{path.name} holds {strange[:5]}"
    for needed in (
        "rknnlite/py.typed",
        "rknnlite/abi/include/rknn_op.h",
        "rknnlite/abi/include/rknn3_op.h",
        "rknnlite/cli/templates/report.html",
        "rknnlite/cli/templates/report.js",
        "rknnlite/cli/new_plugin/templates/common/pyproject.toml.in",
        "rknnlite/cli/new_plugin/templates/c/module/build.py.in",
        "rknnlite_riscv/stub.c",
        "rknnlite_cplugin/runtime_symbols.c",
    ):
        assert needed in names, f"{path.name} lacks {needed}"
    print(f"{path.name}: {size / 1e6:.2f} MB, {len(names)} files")


def belongs(name: str) -> bool:
    """Whether a file is part of an import package of ours."""
    top = name.split("/")[0]
    return (top in TOPS or top.startswith("rknnlite_")) and Path(name).suffix in SUFFIXES


def check_sdist(path: Path) -> None:
    """What the Debian build and ``make test`` take from it."""
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for needed in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "Makefile", "tests/conftest.py",
                   "examples/resnet18/test.py", "examples/resnet18/resnet18_for_RK3588.rknn", "tools/core_only.py",
                   "plugins/rknnlite_cplugin/runtime_symbols.c"):  # fmt: skip
        assert needed in names, f"{path.name} lacks {needed}"
    print(f"{path.name}: {path.stat().st_size / 1e6:.2f} MB, {len(names)} files")


if __name__ == "__main__":
    check_wheel(Path(sys.argv[1]))
    check_sdist(Path(sys.argv[2]))
