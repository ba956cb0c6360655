"""The C library in wheels: compiled for two machines, for old systems, or left out with a sentence."""

from __future__ import annotations

import importlib.util
import platform
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from rknnlite_cpu.engines.native import recipe

from rknnlite._version import __version__
from tests.packaging.project import ROOT, package_data
from tests.support.needs import needs
from tools import librknnrt as tool
from tools import wheel_check

LIBRARIES = tool.recipe().LIBRARIES
ENGINE = "rknnlite_cpu/engines/native/lib"
HERE = f"{platform.machine()}-linux-gnu"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the sources, so that nothing is put into the tree."""
    folder = tmp_path / "rknnlite_librknnrt"
    shutil.copytree(tool.PACKAGE, folder, ignore=shutil.ignore_patterns("lib", "__pycache__"))
    monkeypatch.setattr(tool, "PACKAGE", folder)
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    (tmp_path / "rknnlite").mkdir()
    shutil.copy(ROOT / "rknnlite" / "_version.py", tmp_path / "rknnlite")
    return folder


def without_ziglang(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "ziglang" else find(name, *rest)
    )


@pytest.mark.slow
def test_without_ziglang_the_compilers_that_are_here_are_taken(
    package: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    needs("gcc")
    without_ziglang(monkeypatch)
    monkeypatch.setattr(tool, "MACHINES", (platform.machine(), "pdp11"))
    tool.for_wheels()
    lines = capsys.readouterr().out.splitlines()
    count = len(LIBRARIES)
    for made, name in zip(lines[:count], LIBRARIES):
        assert made.startswith(f"rknnlite_librknnrt/lib/{HERE}/{name}: ")
        assert made.endswith("and newer, by cc")
    assert len(lines) == 2 * count
    for absent in lines[count:]:
        assert absent.endswith("left out, there is neither ziglang nor pdp11-linux-gnu-gcc")
    library = package / "lib" / HERE / "librknnrt.so"
    assert all(__version__.encode() in (library.parent / name).read_bytes() for name in LIBRARIES)
    assert library.with_name("made-of").read_text() == f"{tool.recipe().digest()}\n"
    found = [
        path.relative_to(library.parent).as_posix() for path in library.parent.rglob("*") if path.is_file()
    ]
    assert sorted(found) == sorted([*LIBRARIES, "made-of"])


def test_what_fails_leaves_nothing(package: Path) -> None:
    out = package / "lib" / HERE / "librknnrt.so"
    with pytest.raises(subprocess.CalledProcessError):
        tool.compile_library(["false"], out)
    assert not list(out.parent.iterdir())


def test_it_needs_nothing_but_python() -> None:
    """The builder of wheels has no numpy."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", ROOT / "tools" / "librknnrt.py", "--help"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def wheel(file: Path, *names: str) -> Path:
    with zipfile.ZipFile(file, "w") as made:
        for name in names:
            made.writestr(name, b"\0GLIBC_2.17\0GLIBC_2.4\0")
    return file


FILES = [
    f"rknnlite_librknnrt/lib/{machine}-linux-gnu/{name}"
    for machine in tool.MACHINES
    for name in (*LIBRARIES, "made-of")
]
FILES += [f"{ENGINE}/{each.machine}-linux-gnu/{each.name}.so" for each in recipe.VARIANTS]
FILES += [f"{ENGINE}/{machine}-linux-gnu/made-of" for machine in tool.MACHINES]


def test_a_wheel_has_libraries_that_a_wheel_of_the_sdist_lacks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, of_sdist = wheel(tmp_path / "whole", "a.py", *FILES), wheel(tmp_path / "sdist", "a.py")
    wheel_check.check_compiled(whole, of_sdist)
    assert capsys.readouterr().out.count("for glibc 2.17 and newer\n") == 31
    wheel_check.check_compiled(of_sdist, of_sdist)
    assert "of 35 files of compiled libraries it has 0" in capsys.readouterr().out
    with pytest.raises(AssertionError, match="lacks more than libraries"):
        wheel_check.check_compiled(whole, wheel(tmp_path / "less", "b.py"))


def test_what_comes_along_with_packages_belongs_into_a_wheel() -> None:
    """Each file that pyproject.toml names beside modules; else ``make pip-test`` refuses the wheel."""
    for package, patterns in package_data().items():
        inside = Path(*package.split("."))
        folder = (
            ROOT / inside
            if package.startswith("rknnlite.") or package == "rknnlite"
            else ROOT / "plugins" / inside
        )
        files = [path for pattern in patterns for path in folder.glob(pattern)]
        assert files and all(wheel_check.belongs(str(inside / path.relative_to(folder))) for path in files)


def test_nothing_else_that_is_compiled_belongs_into_a_wheel() -> None:
    assert all(wheel_check.belongs(name) for name in FILES)
    assert not wheel_check.belongs("rknnlite_librknnrt/lib/librknnrt.so")
    assert not wheel_check.belongs("rknnlite_cplugin/librknnrt.so")
    assert not wheel_check.belongs(f"{ENGINE}/aarch64-linux-gnu/avx2.so")
