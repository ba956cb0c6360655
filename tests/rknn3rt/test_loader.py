"""Finding and loading the library: what is wrong with one has its own error; versions choose structures."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rknnlite_backend.library import (
    FunctionMissing,
    LibraryIncomplete,
    LibraryIsOurs,
    LibraryNotFound,
    LibraryUnusable,
    LibraryWrongArchitecture,
)
from rknnlite_rknn3rt import loader
from rknnlite_rknn3rt.backend import Rknn3Backend

import rknnlite
from rknnlite.errors import ModelUnsupported, RknnError
from tests.doubles.double import compile_c, own_library
from tests.doubles.rknn3.double3 import Double3, model
from tests.support.needs import needs

from .conftest import CNN


def test_a_named_library_is_never_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RKNNLITE_RKNN3_LIBRARY", str(tmp_path / "none.so"))
    with pytest.raises(LibraryNotFound, match=r"none\.so \(from RKNNLITE_RKNN3_LIBRARY\)"):
        loader.load()
    with pytest.raises(LibraryNotFound, match="other"):
        loader.load(tmp_path / "other")
    assert not Rknn3Backend().probe().available


def test_the_usual_places_are_listed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("RKNNLITE_RKNN3_LIBRARY", raising=False)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    monkeypatch.setattr(
        loader, "SEARCH", loader.Search(("librknn3_api.so",), "NOBODY_SETS_THIS", "buy one", ("/none",))
    )
    with pytest.raises(LibraryNotFound, match=f"{tmp_path}, /none; buy one"):
        loader.load()


def test_a_folder_may_be_named(double: Double3) -> None:
    assert loader.load(double.path.parent).path == double.path.resolve()


def test_ld_library_path(double: Double3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RKNNLITE_RKNN3_LIBRARY")
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/none:{double.path.parent}")
    assert loader.load().path == double.path.resolve()


@pytest.mark.parametrize("content", [b"", b"not a library at all", b"\x7fELF" + bytes(8)])
def test_junk(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "librknn3_api.so").write_bytes(content)
    with pytest.raises(LibraryUnusable, match="no shared library"):
        loader.load(tmp_path)


def test_another_processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rknnlite_backend.elf.machine", lambda: "x86_64")
    path = tmp_path / "librknn3_api.so"
    path.write_bytes(b"\x7fELF\2" + bytes(13) + struct.pack("<H", 183) + bytes(44))
    with pytest.raises(LibraryWrongArchitecture, match="is for aarch64, this Python is x86_64"):
        loader.load(path)


def test_a_library_of_something_else(tmp_path: Path) -> None:
    needs("gcc")
    source = tmp_path / "other.c"
    source.write_text("int rknn3_init(void *c, void *e) { return c == e; }\n")
    with pytest.raises(LibraryIncomplete, match="does not export rknn3_load_model_from_path"):
        loader.load(compile_c([source], ("-shared", "-fPIC"), "other.so"))


def test_our_own_library_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """It computes on the CPU reference, and would open itself."""
    path = own_library("librknn3_api.so", "rknnlite_librknn3_marker", loader._NEEDED)
    words = rf"{path} is rknnlite's own library 9\.8\.7 .*; use backend cpu.*RKNNLITE_RKNN3_LIBRARY"
    with pytest.raises(LibraryIsOurs, match=words):
        loader.load(path)
    monkeypatch.setenv("RKNNLITE_RKNN3_LIBRARY", str(path))
    probe = Rknn3Backend().probe()
    assert (probe.available, probe.reason.startswith(f"{path} is rknnlite's own library")) == (False, True)
    assert Rknn3Backend().devices() == []


def test_a_truncated_library(double: Double3, tmp_path: Path) -> None:
    path = tmp_path / "librknn3_api.so"
    path.write_bytes(double.path.read_bytes()[:-1])
    with pytest.raises(LibraryUnusable, match="is truncated"):
        loader.load(path)


def test_the_version_chooses_the_structures(start: Callable[..., Any], version: str) -> None:
    context = start(*CNN)
    assert context.versions.api.startswith(version)
    assert context.handle.abi.name == ("1.0.0" if version == "1.0.0" else "1.0.4")


@pytest.mark.parametrize("told", ["1.0.2", "1.3.0", "9.9.9", "junk"])
def test_an_unknown_version_is_refused(double: Double3, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RKNN3_DOUBLE_VERSION", told)
    with pytest.raises(ModelUnsupported, match=told):
        rknnlite.open(model(*CNN))
    assert double.live() == {}


def test_a_library_that_lies_about_its_version(
    double: Double3, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RKNN3_DOUBLE_VERSION", "1.0.5" if version == "1.0.0" else "1.0.0")
    with pytest.raises(RknnError, match="INPUT_ATTR"):
        rknnlite.open(model(*CNN))


def test_a_function_that_this_version_lacks(start: Callable[..., Any], version: str) -> None:
    context = start(*CNN)
    if version == "1.0.0":
        with pytest.raises(FunctionMissing, match=r"rknn3_mem_sync_range is not supported .*1\.0\.0"):
            mem = context.create_mem(64)
            context.sync(mem, "to_device", 8, 8)
    else:
        with pytest.raises(FunctionMissing, match="rknn3_dup_context"):
            context.dup()
        context.set_inputs([])


def test_a_library_is_loaded_once(double: Double3) -> None:
    assert loader.load() is loader.load(str(double.path))
    assert loader.load().version.startswith(os.environ.get("RKNN3_DOUBLE_VERSION", "1.0."))


def test_probe(double: Double3) -> None:
    backend = Rknn3Backend()
    double.devices(2)
    probe = backend.probe()
    assert probe.available and probe.priority == 100 and probe.devices == ("pcie-0", "pcie-1")
    assert [(d.soc, d.memory_free) for d in backend.devices()] == [("rk1820", 2000 << 20)] * 2


def test_probe_without_a_device(double: Double3, monkeypatch: pytest.MonkeyPatch) -> None:
    double.devices(0)
    assert Rknn3Backend().probe().available  # somebody named the library: let opening say what is wrong
    monkeypatch.delenv("RKNNLITE_RKNN3_LIBRARY")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(double.path.parent))
    assert Rknn3Backend().probe().reason == "no coprocessor is plugged in"
    double.fault("rknn3_find_devices", -13)
    assert "COMMUNICATION" in Rknn3Backend().probe().reason
    double.short("rknn3_find_devices")
    assert "1000 devices" in Rknn3Backend().probe().reason
