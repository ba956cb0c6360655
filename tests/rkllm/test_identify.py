"""The version is told before anything is called: what is unknown or contradicts itself is not even loaded."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from rknnlite_backend.library import LibraryNotFound, LibraryUnusable, LibraryWrongArchitecture
from rknnlite_llm import open_llm
from rknnlite_rkllm import identify as module
from rknnlite_rkllm.abi.known_files import UNREADABLE_SHA256, KnownFile
from rknnlite_rkllm.abi.revisions import REVISIONS, VERSIONS
from rknnlite_rkllm.elf import exports
from rknnlite_rkllm.identify import LibraryUnknown, identify
from rknnlite_rkllm.loader import find

from rknnlite import plugins
from rknnlite.errors import BackendUnavailable
from rknnlite.spi.llm import PromptInput
from tests.doubles.double import compiler
from tests.doubles.rkllm.standin import build, model, records

if compiler() is None:
    pytest.skip("no C compiler is installed", allow_module_level=True)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_marker_tells(version: str) -> None:
    found = identify(build(version))
    assert (found.version, found.how) == (version, "marker in the file")
    assert version in found.abi.versions


@pytest.mark.parametrize("version", REVISIONS)
def test_without_a_marker_exports_tell_where_one_layout_has_them(version: str) -> None:
    path = build(version, marker="")
    if version in ("1.2.1", "1.3.0"):
        with pytest.raises(
            LibraryUnknown, match=r"any of 1\.2\.1, 1\.2\.2, 1\.2\.3, 1\.3\.0.*option version"
        ):
            identify(path)
        assert identify(path, version).abi is REVISIONS[version]
        return
    found = identify(path)
    assert found.how == "exports"
    assert found.abi is REVISIONS["1.2.1b1" if version == "1.2.0" else version]


@pytest.mark.parametrize(
    ("version", "marker", "match"),
    [
        ("1.3.0", "1.3.1", r"is version 1\.3\.1 .*not known; it was not called.*1\.2\.3, 1\.3\.0"),
        ("1.2.3", "2.0.0", r"is version 2\.0\.0"),
        ("1.1.4", "1.2.3", r"contradicts itself: it is version 1\.2\.3 .*functions of 1\.1\.0"),
        ("1.2.3", "1.2.0", r"contradicts itself.*functions of 1\.2\.1, 1\.3\.0"),
        ("1.2.3", "1.1.4+1.2.0", r"markers of versions 1\.1\.4, 1\.2\.0"),
    ],
)
def test_unknown_and_contradictory_libraries_are_not_called(
    version: str, marker: str, match: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "calls"
    monkeypatch.setenv("RKLLM_DOUBLE_LOG", str(log))
    path = build(version, marker=marker)
    (tmp_path / "m.rkllm").write_bytes(model("op echo"))
    for in_process in (False, True):
        with pytest.raises(BackendUnavailable, match=match):
            open_llm(tmp_path / "m.rkllm", backend="rkllm", library=str(path), in_process=in_process)
    assert records(log) == []
    assert str(path.resolve()) not in Path("/proc/self/maps").read_text()


def test_defaults_that_lie_elsewhere_refuse_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exports of 1.2.1 and 1.3.0 are the same: a file of one with the marker of the other is found out by its defaults."""
    log = tmp_path / "calls"
    monkeypatch.setenv("RKLLM_DOUBLE_LOG", str(log))
    (tmp_path / "m.rkllm").write_bytes(model("op echo"))
    path = build("1.2.3", marker="1.3.0")
    for in_process in (False, True):
        with (
            open_llm(
                tmp_path / "m.rkllm", backend="rkllm", library=str(path), in_process=in_process
            ) as context,
            pytest.raises(
                BackendUnavailable, match=r"default parameters lie where versions 1\.2\.0, 1\.2\.1b1, 1\.2\.1"
            ),
        ):
            context.session()
    assert {entry["call"] for entry in records(log)} <= {"rkllm_createDefaultParam"}


def test_what_the_library_prints_of_itself_is_the_last_word(tmp_path: Path) -> None:
    """A file of 1.1.4 that claims to be 1.1.0 has the same layout; one that prints a version of another layout is closed."""
    (tmp_path / "m.rkllm").write_bytes(model("op echo"))
    same = build("1.1.4", marker="1.1.0")
    with open_llm(tmp_path / "m.rkllm", backend="rkllm", library=str(same)) as context:
        context.session().close()
    other = build("1.3.1", layout="1.3.0", marker="1.3.0")
    with (
        open_llm(tmp_path / "m.rkllm", backend="rkllm", library=str(other)) as context,
        pytest.raises(BackendUnavailable, match=r"taken for version 1\.3\.0 .*but says that it is 1\.3\.1"),
    ):
        context.session()


def test_what_is_stated_does_not_overrule_the_file() -> None:
    with pytest.raises(LibraryUnknown, match=r"is version 1\.2\.3 .* not 1\.3\.0"):
        identify(build("1.2.3"), "1.3.0")
    with pytest.raises(LibraryUnknown, match=r"is version 9\.9\.9 \(as stated\)"):
        identify(build("1.2.3", marker=""), "9.9.9")


def test_a_published_file_is_certain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "known_file", lambda blob: KnownFile(blob, "1.2.2", "linux-aarch64"))
    found = identify(build("1.2.3"))
    assert (found.version, found.how) == ("1.2.2", "known file")


def test_a_published_file_without_a_header_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import hashlib

    path = build("1.3.0", marker="")
    monkeypatch.setitem(UNREADABLE_SHA256, hashlib.sha256(path.read_bytes()).hexdigest(), "1.3.1")
    with pytest.raises(LibraryUnknown, match=r"is version 1\.3\.1 \(known file\)"):
        identify(path)


def test_files_that_are_no_library(tmp_path: Path) -> None:
    path = tmp_path / "librkllmrt.so"
    path.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 7\n")
    with pytest.raises(LibraryUnusable, match="pointer of Git LFS"):
        find(path)
    path.write_bytes(b"\x7fELF nonsense")
    with pytest.raises(LibraryUnusable, match="no shared library"):
        find(path)
    whole = bytearray(build("1.2.3").read_bytes())
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(LibraryUnusable, match="truncated"):
        find(path)
    whole[18:20] = b"\xf3\x00"
    path.write_bytes(whole)
    with pytest.raises(LibraryWrongArchitecture, match="for riscv"):
        find(path)


def test_another_library_is_none(tmp_path: Path) -> None:
    found = Path(sys.modules["_ctypes"].__file__ or "")
    if found.suffix != ".so":
        pytest.skip("this Python has no extension modules in files")
    assert "PyInit__ctypes" in exports(found)
    with pytest.raises(LibraryUnknown, match="exports the functions of no known librkllmrt"):
        identify(found)


def test_a_probe_names_version_and_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RKNNLITE_RKLLM_LIBRARY", str(build("1.2.3")))
    probe = plugins.backend("rkllm").probe()
    assert (probe.available, probe.version) == (True, "1.2.3")
    monkeypatch.setenv("RKNNLITE_RKLLM_LIBRARY", "/nowhere/librkllmrt.so")
    probe = plugins.backend("rkllm").probe()
    assert not probe.available
    assert "RKNNLITE_RKLLM_LIBRARY" in probe.reason


def test_the_wrong_place_is_told_before_any_call(tmp_path: Path) -> None:
    (tmp_path / "m.rkllm").write_bytes(model("op echo"))
    with open_llm(
        tmp_path / "m.rkllm", backend="rkllm", library=str(build("1.2.3", marker="")), version="1.2.3"
    ) as context:
        assert context.versions.api == "1.2.3"
        assert context.session().run(PromptInput("x")).n_decode_tokens == 1


@pytest.mark.parametrize("in_process", [False, True])
def test_a_library_that_is_replaced_while_a_model_is_open(
    in_process: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "calls"
    monkeypatch.setenv("RKLLM_DOUBLE_LOG", str(log))
    (tmp_path / "m.rkllm").write_bytes(model("op echo"))
    library = tmp_path / "librkllmrt.so"
    shutil.copy(build("1.2.3"), library)
    with open_llm(
        tmp_path / "m.rkllm", backend="rkllm", library=str(library), in_process=in_process
    ) as context:
        library.unlink()
        shutil.copy(build("1.3.0"), library)
        with pytest.raises(
            LibraryUnknown, match=r"was version 1\.2\.3 .* is version 1\.3\.0 now; it was not called"
        ):
            context.session()
    assert records(log) == []


CONSTRUCTOR = """
#include <stdio.h>
#include <stdlib.h>
__attribute__((constructor)) static void loaded(void) { fclose(fopen(getenv("LOADED"), "w")); }
"""
NAMES = sorted(REVISIONS["1.3.0"].exports)


@pytest.mark.parametrize(
    ("exported", "claims"),
    [
        (NAMES, ("1.2.3", "1.3.0")),
        (NAMES, ()),
        (NAMES, ("1.3.1",)),
        (NAMES, ("1.4.0",)),
        (NAMES, ("1.2.3-rc1",)),
        (NAMES[:9], ("1.3.0",)),
        ([*NAMES, "rkllm_of_tomorrow"], ("1.2.3",)),
        ([], ("1.3.0",)),
    ],
)
@pytest.mark.parametrize("cut", ["as it is", "stripped", "no sections"])
def test_what_is_unknown_is_not_even_loaded(
    exported: list[str], claims: tuple[str, ...], cut: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOADED", str(tmp_path / "loaded"))
    monkeypatch.setenv("LD_BIND_NOW", "1")
    (tmp_path / "m.rkllm").write_bytes(model("op echo"))
    library, source = tmp_path / "librkllmrt.so", tmp_path / "library.c"
    functions = "".join(f"int {name}(void) {{ return 0; }}\n" for name in exported)
    markers = "".join(
        f'__attribute__((used)) static const char marker{i}[] = "RKLLM SDK (version: {claim} | target: Linux)";\n'
        for i, claim in enumerate(claims)
    )
    source.write_text(CONSTRUCTOR + functions + markers)
    flags = ["-s"] if cut == "stripped" else []
    subprocess.run([str(compiler()), "-shared", "-fPIC", "-o", str(library), str(source), *flags], check=True)
    if cut == "no sections":
        data = bytearray(library.read_bytes())
        data[40:48], data[58:64] = bytes(8), bytes(6)
        library.write_bytes(data)
    for in_process in (False, True):
        with pytest.raises(BackendUnavailable):
            open_llm(tmp_path / "m.rkllm", backend="rkllm", library=str(library), in_process=in_process)
    assert not (tmp_path / "loaded").exists()


def test_the_proof_that_a_library_was_loaded_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOADED", str(tmp_path / "loaded"))
    library, source = tmp_path / "any.so", tmp_path / "library.c"
    source.write_text(CONSTRUCTOR)
    subprocess.run([str(compiler()), "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    ctypes.CDLL(str(library))
    assert (tmp_path / "loaded").exists()


def test_paths_that_are_no_files(tmp_path: Path) -> None:
    pipe, folder, nowhere = tmp_path / "pipe.so", tmp_path / "folder.so", tmp_path / "link.so"
    os.mkfifo(pipe)
    folder.mkdir()
    nowhere.symlink_to("nothing")
    for path in (pipe, folder, nowhere, Path("/dev/null"), "a\0b"):
        with pytest.raises(LibraryNotFound, match="there is no runtime library"):
            find(path)
