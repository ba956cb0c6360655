"""Finding, checking and loading the runtime library; what is wrong with it has its own error."""

from __future__ import annotations

import ctypes
import dataclasses
import shutil
from pathlib import Path

import pytest
from rknnlite_backend.library import (
    FunctionMissing,
    LibraryIncomplete,
    LibraryIsOurs,
    LibraryNotFound,
    LibraryUnusable,
    LibraryWrongArchitecture,
)
from rknnlite_rknnrt import loader
from rknnlite_rknnrt.backend import RknnrtBackend
from rknnlite_rknnrt.loader import load

import rknnlite
from rknnlite.api import RKNNLite
from rknnlite.cli.health.runtimes import backends
from rknnlite.errors import BackendUnavailable, ParamInvalid
from rknnlite.spi.finding import Level
from rknnlite.spi.types import Options
from tests.doubles.double import Double, compile_c, compiler, model, own_library
from tests.support.corpus import genuine

from .conftest import built
from .models import AFFINE, picture


@pytest.fixture(autouse=True)
def no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without the runtime."""
    monkeypatch.delenv("RKNNLITE_LIBRARY", raising=False)
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    usual_places(monkeypatch)


def usual_places(monkeypatch: pytest.MonkeyPatch, *directories: str) -> None:
    monkeypatch.setattr(loader, "SEARCH", dataclasses.replace(loader.SEARCH, directories=directories))


def copy(library: Path, to: Path) -> Path:
    to.parent.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy(library, to))


def test_an_explicit_path_comes_first(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RKNNLITE_LIBRARY", "/nowhere/librknnrt.so")
    assert load(library).path == library
    assert load(copy(library, tmp_path / "librknnrt.so").parent).path == tmp_path / "librknnrt.so"


def test_then_the_variable(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/nowhere")
    monkeypatch.setenv("RKNNLITE_LIBRARY", str(library))
    assert load().path == library


def test_then_the_path_of_the_linker_and_the_usual_places(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = copy(library, tmp_path / "usr" / "librknnrt.so")
    usual_places(monkeypatch, "/nowhere", str(usual.parent))
    assert load().path == usual
    mini = copy(library, tmp_path / "opt" / "librknnmrt.so")
    monkeypatch.setenv("LD_LIBRARY_PATH", f":{mini.parent}")
    assert load().path == mini


def test_not_found_says_where_it_was_looked_for_and_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    usual_places(monkeypatch, "/none")
    with pytest.raises(
        LibraryNotFound, match=r"no librknnrt.so or librknnmrt.so in /none; install the runtime"
    ):
        load()
    with pytest.raises(LibraryNotFound, match=r"there is no runtime library /nowhere/x.so; install"):
        load("/nowhere/x.so")
    monkeypatch.setenv("RKNNLITE_LIBRARY", "/nowhere/y.so")
    with pytest.raises(LibraryNotFound, match=r"/nowhere/y.so \(from RKNNLITE_LIBRARY\)"):
        load()


def test_a_folder_that_may_not_be_read_is_no_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_file", refuse)
    monkeypatch.setenv("LD_LIBRARY_PATH", "/root/lib")
    assert RknnrtBackend().probe().reason.startswith("no librknnrt.so")


OTHER_ARM = (40, "armhf") if ctypes.sizeof(ctypes.c_void_p) == 8 else (183, "aarch64")


@pytest.mark.parametrize("machine, name", [OTHER_ARM, (243, "riscv"), (21, "ELF machine 21")])
def test_wrong_architecture(library: Path, tmp_path: Path, machine: int, name: str) -> None:
    wrong = copy(library, tmp_path / "librknnrt.so")
    content = bytearray(wrong.read_bytes())
    content[18:20] = machine.to_bytes(2, "little")
    wrong.write_bytes(content)
    with pytest.raises(
        LibraryWrongArchitecture, match=f"is for {name}, this Python is .*; install the library"
    ):
        load(wrong)


@pytest.mark.parametrize("content, why", [(b"", "no ELF header"), (b"!<arch>\n" * 9, "no ELF header")])
def test_not_a_library(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "librknnrt.so"
    path.write_bytes(content)
    with pytest.raises(LibraryUnusable, match=why):
        load(path)


def test_a_library_that_was_copied_in_part(library: Path, tmp_path: Path) -> None:
    """dlopen would kill the process."""
    path, whole = tmp_path / "librknnrt.so", library.read_bytes()
    for size in (64, 4000, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(
            LibraryUnusable, match=f"is truncated: it has {size} bytes of {len(whole)}; copy it again"
        ):
            load(path)


def test_a_library_that_the_linker_refuses(library: Path, tmp_path: Path) -> None:
    path = tmp_path / "librknnrt.so"
    program = bytearray(library.read_bytes())
    program[16] = 1  # an object file, not a shared library
    path.write_bytes(program)
    with pytest.raises(LibraryUnusable, match=r"librknnrt.so cannot be loaded: .*only ET_DYN"):
        load(path)


def stub(tmp_path: Path, *functions: str) -> Path:
    """A library that exports some functions only."""
    if compiler() is None:
        pytest.skip("no C compiler is installed")
    source = tmp_path / "stub.c"
    source.write_text("\n".join(f"int {name}(void) {{ return -1; }}" for name in functions))
    return compile_c([source], ("-shared", "-fPIC"), "librknnrt.so")


def test_a_library_of_another_product(tmp_path: Path) -> None:
    with pytest.raises(LibraryIncomplete, match=r"does not export rknn_destroy, rknn_query, rknn_run"):
        load(stub(tmp_path, "rknn_init"))


# -- rknnlite's own library --------------------------------------------------------------------------------

NEEDED = ("rknn_init", "rknn_destroy", "rknn_query", "rknn_run", "rknn_dup_context")
WAYS = ["explicit", "variable", "linker", "usual"]


@pytest.fixture
def ours() -> Path:
    """A stand-in for it: what it exports, of version 9.8.7."""
    return own_library("librknnrt.so", "rknnlite_librknnrt_marker", NEEDED)


def found_by(way: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> Path | None:
    """Let the library be found that way; what is to be named explicitly."""
    if way == "variable":
        monkeypatch.setenv("RKNNLITE_LIBRARY", str(path))
    elif way == "linker":
        monkeypatch.setenv("LD_LIBRARY_PATH", str(path.parent))
    elif way == "usual":
        usual_places(monkeypatch, str(path.parent))
    return path if way == "explicit" else None


@pytest.mark.parametrize("way", WAYS)
def test_our_own_library_is_refused(ours: Path, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would start a server that opens it again."""
    named = found_by(way, ours, monkeypatch)
    words = rf"{ours} is rknnlite's own library 9\.8\.7 .*CPU reference; use backend cpu.*RKNNLITE_LIBRARY"
    with pytest.raises(LibraryIsOurs, match=words):
        load(named)
    options = Options(extra={"library": str(named)} if named else {})
    probe = RknnrtBackend().probe_for(options)
    assert not probe.available
    assert "rknnlite's own library 9.8.7" in probe.reason
    with rknnlite.open(genuine("conv_relu.rk3588.i8"), **options.extra) as context:
        assert context.backend_name == "cpu"
    with pytest.raises(BackendUnavailable, match="rknnlite's own library"):
        rknnlite.open(genuine("conv_relu.rk3588.i8"), backend="rknnrt", **options.extra)


def test_doctor_explains_our_own_library(ours: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(ours.parent))
    (finding,) = [found for found in backends(None) if found.text.startswith("rknnrt: ")]
    assert finding.level is Level.INFO
    assert f"{ours} is rknnlite's own library 9.8.7" in finding.text
    assert finding.remedy.startswith("use backend cpu")
    (finding,) = [found for found in backends("rknnrt") if found.text.startswith("rknnrt (chosen): ")]
    assert finding.level is Level.FAIL


def test_functions_are_asked_for_when_they_are_used(tmp_path: Path) -> None:
    old = load(stub(tmp_path, "rknn_init", "rknn_destroy", "rknn_query", "rknn_run"))
    assert not old.has("rknn_wait")
    with pytest.raises(
        FunctionMissing, match=r"rknn_wait is not supported by this library version.*update the"
    ):
        old.function("rknn_wait")
    later = old.quick("rknn_inputs_set")
    with pytest.raises(FunctionMissing, match=r"rknn_inputs_set is not supported"):
        later(1, 2, 3)


def test_the_mini_library_says_what_it_lacks(double: Double, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RKNNLITE_LIBRARY", str(built(mini=True)))
    monkeypatch.setenv("RKNNLITE_SOC", "rv1106")
    with rknnlite.open(model(*AFFINE)) as context:
        assert context.versions.library == "librknnmrt"
        for call in (lambda: context.set_core_mask(1), lambda: context.set_batch_core_num(1)):
            with pytest.raises(
                FunctionMissing, match=r"not supported by this library version \(librknnmrt.so 2.3.2"
            ) as caught:
                call()
            assert str(caught.value).endswith("no version of librknnmrt has it: do without the feature")
        with pytest.raises(ParamInvalid, match=r"the rv1106 has the zero-copy path only: use bind and run"):
            context.infer(picture())


def test_a_library_is_loaded_once(library: Path, tmp_path: Path) -> None:
    assert load(library) is load(library)
    assert load(copy(library, tmp_path / "librknnrt.so")) is not load(library)


def test_version_line(library: Path, tmp_path: Path) -> None:
    assert load(library).version == "2.3.2 (double@2026-11-21T00:00:00)"
    assert load(built('VERSION="1.4.0"')).version.startswith("1.4.0 ")
    assert load(stub(tmp_path, "rknn_init", "rknn_destroy", "rknn_query", "rknn_run")).version == ""
    assert repr(load(library)) == f"<Library {library} 2.3.2 (double@2026-11-21T00:00:00)>"


def test_versions_as_the_library_answers(double: Double) -> None:
    with rknnlite.open(model(*AFFINE)) as context:
        assert context.versions.api == "2.3.2 (double@2026-11-21T00:00:00)"
        assert context.versions.driver == "0.9.8"
        assert context.versions.library == "librknnrt"


# -- as an option ------------------------------------------------------------------------------------------


def test_a_program_names_the_library(double: Double, library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RKNNLITE_LIBRARY")
    with pytest.raises(BackendUnavailable, match=r"backend rknnrt cannot be used here: no librknnrt.so"):
        rknnlite.open(model(*AFFINE))
    with rknnlite.open(model(*AFFINE), library=str(library)) as context:
        assert context.backend_name == "rknnrt"
    monkeypatch.delenv("RKNNLITE_BACKEND")  # naming the runtime's library is enough to get that backend
    with rknnlite.open(model(*AFFINE), library=str(library)) as context:
        assert context.backend_name == "rknnrt"


def test_a_face_that_names_the_library(
    double: Double, library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rknnlite.api.rknn_runtime import RKNNRuntime

    monkeypatch.delenv("RKNNLITE_LIBRARY")
    monkeypatch.delenv("RKNNLITE_BACKEND")
    monkeypatch.setattr(RKNNRuntime, "_get_rknn_api_lib_path", lambda self: str(library))
    path = tmp_path / "model.rknn"
    path.write_bytes(model(*AFFINE))
    rknn = RKNNLite()
    assert (rknn.load_rknn(str(path)), rknn.init_runtime()) == (0, 0)
    assert "API: 2.3.2 (double" in str(rknn.get_sdk_version())
    rknn.release()


def test_a_face_without_a_library_says_so(
    double: Double, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("RKNNLITE_LIBRARY")
    path = tmp_path / "model.rknn"
    path.write_bytes(model(*AFFINE))
    rknn = RKNNLite()
    assert (rknn.load_rknn(str(path)), rknn.init_runtime()) == (0, -1)
    (line,) = [line for line in capfd.readouterr().err.splitlines() if line.startswith("E ")]
    assert line.startswith("E Catch exception when init runtime! RKNN init failed.")
    assert "install the runtime of your board's SDK" in line
