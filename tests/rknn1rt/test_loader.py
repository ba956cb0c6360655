"""Which library and which backend: librknn_api and librknnrt are told apart by what they export."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from rknnlite_backend.library import FunctionMissing, LibraryIncomplete, LibraryNotFound, LibraryUnusable
from rknnlite_rknn1rt.abi import Flavour
from rknnlite_rknn1rt.backend import Rknn1Backend
from rknnlite_rknn1rt.loader import load
from rknnlite_rknnrt.backend import RknnrtBackend
from rknnlite_rknnrt.loader import load as load_rknnrt

import rknnlite
from rknnlite import config
from rknnlite.choosing import choose_backend
from rknnlite.cli.devices import probes
from rknnlite.errors import ModelUnsupported, TargetPlatformUnmatch
from rknnlite.formats import ModelFile
from rknnlite.spi import OpenOptions
from tests.doubles.double import build as build_rknnrt
from tests.doubles.double import compile_c, compiler
from tests.doubles.rknn1.double1 import Double1, model
from tests.support.corpus import ROOT

from .conftest import built

NEW = ROOT / "examples" / "resnet18" / "resnet18_for_RK3588.rknn"


@pytest.mark.parametrize("flavour", Flavour)
def test_flavours(flavour: Flavour) -> None:
    library = load(built(flavour is Flavour.HOST))
    assert library.flavour is flavour
    assert library.version == "1.7.3 (abcdef0 build: 2022-07-07 10:00:00)"
    assert library.has("rknn_inputs_map") is (flavour is Flavour.BOARD)
    missing = "rknn_init2" if flavour is Flavour.BOARD else "rknn_inputs_map"
    with pytest.raises(FunctionMissing, match=rf"{missing} is not in this library.*{flavour.value} flavour"):
        library.function(missing)


def test_librknnrt_under_the_old_name(tmp_path: Path) -> None:
    """Boards of the RK356x family had such a link."""
    if compiler() is None:
        pytest.skip("no C compiler is installed")
    renamed = shutil.copy(build_rknnrt(), tmp_path / "librknn_api.so")
    with pytest.raises(LibraryIncomplete, match=r"is librknnrt.*rknn_dup_context.*RKNNLITE_RKNN1_LIBRARY"):
        load(renamed)
    assert load_rknnrt(renamed).has("rknn_dup_context"), "its own backend takes it under any name"


@pytest.mark.parametrize("host", [False, True])
def test_the_old_library_under_the_new_name(tmp_path: Path, host: bool) -> None:
    renamed = shutil.copy(built(host), tmp_path / "librknnrt.so")
    with pytest.raises(LibraryIncomplete, match=r"librknn_api of the first NPU generation.*backend rknn1rt"):
        load_rknnrt(renamed)
    assert load(renamed).flavour is (Flavour.HOST if host else Flavour.BOARD)


def test_a_library_without_newer_functions(tmp_path: Path) -> None:
    """The oldest drivers have the common path only."""
    if compiler() is None:
        pytest.skip("no C compiler is installed")
    names = ["init", "destroy", "query", "inputs_set", "run", "outputs_get", "outputs_release"]
    source = tmp_path / "stub.c"
    source.write_text("\n".join(f"int rknn_{name}(void) {{ return -1; }}" for name in names))
    path = compile_c([source], ("-shared", "-fPIC"), "librknn_api.so")
    assert load(path).flavour is Flavour.BOARD and load(path).version == ""
    with pytest.raises(LibraryIncomplete, match="of the first NPU generation"):
        load_rknnrt(path)


def test_what_is_no_library(tmp_path: Path) -> None:
    with pytest.raises(LibraryNotFound, match="there is no runtime library"):
        load(tmp_path / "librknn_api.so")
    (tmp_path / "librknn_api.so").write_bytes(b"text")
    with pytest.raises(LibraryUnusable, match="no shared library"):
        load(tmp_path)


def test_probe_names_the_library(double: Double1) -> None:
    probe = Rknn1Backend().probe()
    assert probe.available and probe.library == str(double.path) and probe.version.startswith("1.7.3")
    assert "board" in probe.reason


def test_a_library_that_was_only_found_is_not_enough(
    double: Double1, monkeypatch: pytest.MonkeyPatch
) -> None:
    """librknn_api on a machine that is no such board: RK3588 images carry old files about."""
    monkeypatch.delenv("RKNNLITE_RKNN1_LIBRARY")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(double.path.parent))
    monkeypatch.setenv("RKNNLITE_SOC", "rk3588")
    probe = Rknn1Backend().probe()
    assert not probe.available and "this is an rk3588; it drives RK1808" in probe.reason
    monkeypatch.setenv("RKNNLITE_SOC", "rv1126")
    assert Rknn1Backend().probe().available


def test_doctor_and_devices_know_it(double: Double1) -> None:
    (found,) = [entry for entry in probes() if entry.backend == "rknn1rt"]
    assert found.available and found.generation == "rknpu1"
    assert config.KEYS["rknn1_library"].variable == "RKNNLITE_RKNN1_LIBRARY"


def test_files_go_to_their_own_library(double: Double1, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RKNNLITE_BACKEND")
    monkeypatch.setenv("RKNNLITE_LIBRARY", str(build_rknnrt()))
    old, new = ModelFile(model(), "old.rknn"), ModelFile(NEW)
    assert choose_backend(old).name == "rknn1rt"
    assert choose_backend(new).name == "rknnrt"
    with rknnlite.open(model(pre_compile=1)) as context:
        assert context.backend_name == "rknn1rt"


def test_neither_library_gets_files_of_the_other(double: Double1, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RKNNLITE_LIBRARY", str(build_rknnrt()))
    with pytest.raises(
        TargetPlatformUnmatch, match=r"old.rknn is a file of RKNN-Toolkit 1.*librknnrt does not run"
    ):
        RknnrtBackend().open(ModelFile(model(), "old.rknn"), OpenOptions())
    with pytest.raises(
        TargetPlatformUnmatch, match=r"was made by rknn-toolkit2 for.*runs files of RKNN-Toolkit 1"
    ):
        rknnlite.open(NEW)
    assert double.count("rknn_init") == 0


def test_another_board(double: Double1, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RKNNLITE_SOC", "rk1808")
    with pytest.raises(TargetPlatformUnmatch, match=r"built for rv1126/rv1109, this board is an rk1808"):
        rknnlite.open(model())
    monkeypatch.setenv("RKNNLITE_SOC", "rv1109")
    with rknnlite.open(model()) as context:
        assert context.soc.name == "rv1109"


def test_the_cpu_refuses_precompiled_files() -> None:
    with pytest.raises(ModelUnsupported, match=r"pre-compiled.*librknn_api.*pre_compile=False"):
        rknnlite.open(model(pre_compile=1), backend="cpu")
