"""Where the C library comes from: the wheel, Debian's package, the compiler; and which Python it starts."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from rknnlite_librknnrt import build, recipe
from rknnlite_librknnrt.build import Origin

from rknnlite._version import __version__
from rknnlite.errors import BackendUnavailable, ParamInvalid
from tests.support.needs import needs

FOLDER = f"{platform.machine()}-linux-gnu"
SYMBOLS = (
    "import ctypes, sys; dll = ctypes.CDLL(sys.argv[1]); dll.rknn_init, dll.rknn_destroy; print(dll._name)"
)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for these tests: compiling takes a second."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def nothing_installed(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No library but those that these tests make."""
    monkeypatch.setenv("RKNNLITE_CACHE", str(cache))
    monkeypatch.setattr(build, "_PREBUILT", tmp_path / "nothing")


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library, as the tool for wheels would have compiled it."""
    needs("gcc")
    file = tmp_path_factory.mktemp("compiled") / "librknnrt.so"
    subprocess.run(recipe.command(["cc"], file, __version__), check=True)
    return file


def put(compiled: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The library as package data in ``folder``."""
    file = folder / FOLDER / "librknnrt.so"
    file.parent.mkdir(parents=True)
    file.write_bytes(compiled.read_bytes())
    file.with_name("made-of").write_text(f"{recipe.digest()}\n")
    monkeypatch.setattr(build, "_PREBUILT", folder)
    return file


def starts(file: Path) -> str:
    """What the file beside a library says."""
    return file.with_name("interpreter").read_text()


@pytest.mark.slow
def test_it_is_compiled_where_there_is_none(cache: Path) -> None:
    needs("gcc")
    file, origin = build.find()
    assert origin is Origin.BUILT and file.is_relative_to(cache / "librknnrt")
    assert starts(file) == f"{sys.executable}\n"
    assert __version__.encode() in file.read_bytes()
    done = subprocess.run(
        [sys.executable, "-c", SYMBOLS, str(file)], check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == str(file)
    before = file.stat()
    assert build.library() == file
    assert file.stat().st_ino == before.st_ino, "what is the same stays: it may be in use"


def test_what_was_damaged_is_made_whole() -> None:
    needs("gcc")
    file = build.library()
    whole = file.read_bytes()
    file.write_bytes(whole[:100])
    file.with_name("interpreter").write_text("/usr/bin/false\n")
    assert build.library() == file
    assert (file.read_bytes(), starts(file)) == (whole, f"{sys.executable}\n")


def test_each_python_has_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs("gcc")
    pythons = [sys.executable, str(tmp_path / "python3")]
    files = []
    for python in pythons:
        monkeypatch.setattr(sys, "executable", python)
        files.append(build.library())
    assert files[0].parent != files[1].parent
    assert [starts(file) for file in files] == [f"{python}\n" for python in pythons]


def test_each_machine_and_c_library_has_one_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Homes and caches are shared: with a container of another C library, with other machines."""
    here = build.own_folder()
    monkeypatch.setattr(os, "confstr", lambda name: None)
    musl = build.own_folder()
    monkeypatch.setattr("rknnlite.native.processors.machine", lambda: "another")
    assert len({here, musl, build.own_folder()}) == 3


def test_without_a_compiler_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(
        BackendUnavailable, match=r"no-such-compiler, which is not installed; install one .apt install gcc"
    ):
        build.library()


def test_nothing_is_handed_out_that_goes_with_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the cache cannot be written a temporary folder would serve, whose path is of no use to others."""
    needs("gcc")
    (tmp_path / "file").touch()
    monkeypatch.setenv("RKNNLITE_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(ParamInvalid, match=r"nothing can be kept: .*name a folder in RKNNLITE_CACHE"):
        build.library()


@pytest.mark.slow
def test_a_library_of_the_wheel_is_linked_to(
    compiled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder that names this Python: where the wheel lies the library could not know it."""
    prebuilt = put(compiled, tmp_path / "package", monkeypatch)
    monkeypatch.setenv("CC", "no-such-compiler")
    file, origin = build.find()
    assert origin is Origin.PREBUILT
    assert (file.resolve(), starts(file)) == (prebuilt.resolve(), f"{sys.executable}\n")
    assert build.find() == (file, origin)
    assert build.find(interpreter_is_named=True).file == prebuilt
    newer = put(compiled, tmp_path / "newer", monkeypatch)
    assert build.library() == file and file.resolve() == newer.resolve()


def test_a_library_in_an_environment_is_used_where_it_lies(
    compiled: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It finds the environment's Python by its own path, so nothing has to be written."""
    version = f"python{sysconfig.get_python_version()}"
    prefix = tmp_path / "venv"
    (prefix / "bin").mkdir(parents=True)
    python = prefix / "bin" / version
    python.symlink_to(sys.executable)
    package = prefix / "lib" / version / "site-packages" / "rknnlite_librknnrt" / "lib"
    prebuilt = put(compiled, package, monkeypatch)
    monkeypatch.setattr(sys, "prefix", str(prefix))
    monkeypatch.setattr(sys, "executable", str(prefix / "bin" / version))
    monkeypatch.setenv("RKNNLITE_CACHE", "/proc/nothing")
    assert build.find() == (prebuilt, Origin.PREBUILT)
    python.unlink()
    python.symlink_to("/bin/false")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "elsewhere" / "python3"))
    monkeypatch.setenv("RKNNLITE_CACHE", str(cache))
    assert starts(build.library()) == f"{tmp_path}/elsewhere/python3\n", "that Python is another one"


@pytest.mark.slow
@pytest.mark.parametrize(
    "wrong", ["cut off", "of another machine", "for a newer glibc", "no glibc here", "other sources"]
)
def test_a_library_that_does_not_load_is_not_taken(
    compiled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    file = put(compiled, tmp_path / "package", monkeypatch)
    assert build.find().origin is Origin.PREBUILT
    content = bytearray(file.read_bytes())
    if wrong == "cut off":
        del content[-200:]
    elif wrong == "of another machine":
        content[18] = 243
    elif wrong == "for a newer glibc":
        content += b"\0GLIBC_9.1\0"
    elif wrong == "no glibc here":
        monkeypatch.setattr(os, "confstr", lambda name: None)
    else:
        file.with_name("made-of").write_text("0" * 64)
    file.write_bytes(content)
    assert build.find().origin is Origin.BUILT


def test_the_oldest_glibc_is_read_from_the_file(tmp_path: Path) -> None:
    file = tmp_path / "library"
    file.write_bytes(b"\0GLIBC_2.9\0GLIBC_2.17\0GLIBC_2.2.5\0GLIBC_PRIVATE\0")
    assert recipe.glibc_needed(file) == (2, 17)


@pytest.mark.parametrize("ours", [True, False])
def test_debians_library_serves_debians_python(
    compiled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ours: bool
) -> None:
    """And no other: one of an environment would get messages of another version's process."""
    packages = tmp_path / "usr" / "lib" / "python3" / "dist-packages"
    library = tmp_path / "usr" / "lib" / FOLDER / "rknnlite" / "librknnrt.so"
    library.parent.mkdir(parents=True)
    library.write_bytes(compiled.read_bytes())
    python = tmp_path / "usr" / "bin" / "python3"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    library.with_name("interpreter").write_text(f"{python}\n")
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "usr" if ours else tmp_path))
    monkeypatch.setattr(build, "_HERE", packages / "rknnlite_librknnrt")
    monkeypatch.setattr(build, "_SYSTEM_PACKAGES", packages)
    monkeypatch.setattr(build, "_SYSTEM_LIBRARIES", tmp_path / "usr" / "lib")
    assert (build.find() == (library, Origin.SYSTEM)) is ours


def test_a_python_inside_another_program_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    needs("gcc")
    monkeypatch.setattr(sys, "executable", "")
    with pytest.raises(BackendUnavailable, match="runs inside another program"):
        build.library()


MANY = "from rknnlite_librknnrt import build; import ctypes; print(build.library()); ctypes.CDLL(str(build.library()))"


@pytest.mark.slow
def test_many_at_once_get_one_whole_library(tmp_path: Path) -> None:
    needs("gcc")
    environment = {
        **os.environ,
        "RKNNLITE_CACHE": str(tmp_path),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }

    def one(_: int) -> str:
        done = subprocess.run(
            [sys.executable, "-c", MANY], env=environment, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    with ThreadPoolExecutor(3) as pool:
        (file,) = {Path(path) for path in pool.map(one, range(3))}
    assert sorted(path.name for path in file.parent.iterdir()) == ["interpreter", "librknnrt.so"]
