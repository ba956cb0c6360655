"""``rknnlite librknnrt``: words that compilers, linkers and pkg-config understand."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from rknnlite_librknnrt import build, flags
from rknnlite_librknnrt.headers import include_dir, pkg_config

from tests.cli.conftest import Call, call
from tests.support.needs import needs

pytestmark = pytest.mark.slow

__all__ = ["call"]

PROGRAM = """\
#include <rknn_api.h>
#include <stdio.h>
int main(void) { printf("%d\\n", rknn_init(0, 0, 0, 0, 0) < 0); return 0; }
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a space in its name; one for these tests, as compiling takes a second."""
    return tmp_path_factory.mktemp("my cache")


@pytest.fixture(autouse=True)
def nothing_installed(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No library of the wheel's."""
    needs("gcc")
    monkeypatch.setenv("RKNNLITE_CACHE", str(cache))
    monkeypatch.setattr(build, "_PREBUILT", tmp_path / "nothing")


def test_a_program_is_compiled_and_run(call: Call, tmp_path: Path) -> None:
    words = shlex.split(call("librknnrt", "--libs", "--cflags").out)
    assert words[0] == f"-I{include_dir()}", "headers come first, whatever the order of the options"
    (tmp_path / "program.c").write_text(PROGRAM)
    subprocess.run(["cc", "program.c", *words, "-o", "program"], cwd=tmp_path, check=True)
    folder = call("librknnrt", "--dir").out.rstrip("\n")
    assert Path(folder, "librknnrt.so").is_file()
    done = subprocess.run(
        [tmp_path / "program"], env={"LD_LIBRARY_PATH": folder}, capture_output=True, text=True, check=True
    )
    assert done.stdout == "1\n"
    linked = subprocess.run(
        ["ldd", tmp_path / "program"], env={}, capture_output=True, text=True, check=False
    ).stdout
    assert "librknnrt.so => not found" in linked, "no path of this machine is left in the program"


def test_a_program_for_a_host_of_rk182x_is_compiled_and_run(call: Call, tmp_path: Path) -> None:
    words = shlex.split(call("librknnrt", "--rknn3", "--libs", "--cflags").out)
    assert words[-1] == "-lrknn3_api"
    text = PROGRAM.replace("rknn_api.h", "rknn3_api.h").replace(
        "rknn_init(0, 0, 0, 0, 0)", "rknn3_init(0, 0)"
    )
    (tmp_path / "program.c").write_text(text)
    subprocess.run(["cc", "program.c", *words, "-o", "program"], cwd=tmp_path, check=True)
    folder = call("librknnrt", "--dir").out.rstrip("\n")
    names = {file.name for file in Path(folder).iterdir()}
    assert names == {
        "interpreter",
        "librknnrt.so",
        "librknnmrt.so",
        "librknn_api.so",
        "librknn3_api.so",
        "board",
    }
    done = subprocess.run(
        [tmp_path / "program"], env={"LD_LIBRARY_PATH": folder}, capture_output=True, text=True, check=True
    )
    assert done.stdout == "1\n"
    assert call("librknnrt", "--rknn3", "--json").data["library"] == f"{folder}/librknn3_api.so"


@pytest.mark.parametrize(
    ("package", "words"),
    [(flags.PACKAGE, ()), (flags.MINI_PACKAGE, ("--mini",)), (flags.RKNN3_PACKAGE, ("--rknn3",))],
)
def test_pkg_config_answers_the_same(package: str, words: tuple[str, ...], call: Call) -> None:
    needs("pkg-config")
    folder = call("librknnrt", "--pkg-config-dir").out.rstrip("\n")
    done = subprocess.run(
        ["pkg-config", "--cflags", "--libs", package],
        env={"PKG_CONFIG_PATH": folder, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    told = shlex.split(done.stdout)
    assert told == shlex.split(call("librknnrt", *words, "--cflags", "--libs").out)
    libraries, library = Path(told[1][2:]), f"lib{told[2][2:]}.so"
    assert (libraries / library).is_file(), "what is linked by it is there"


def test_one_document_says_it_all(call: Call) -> None:
    data = call("librknnrt", "--pkg-config-dir", "--json").data
    assert data["library"] == f"{data['dir']}/librknnrt.so"
    assert (data["origin"], data["interpreter"]) == ("built", sys.executable)
    assert Path(data["include_dir"], "rknn_api.h").is_file()
    names = {file.name for file in Path(data["pkg_config_dir"]).iterdir()}
    assert names == {"librknnrt-rknnlite.pc", "librknnmrt-rknnlite.pc", "librknn3_api-rknnlite.pc"}
    text = call("librknnrt").out
    assert data["library"] in text and sys.executable in text


def test_headers_are_there_without_a_compiler(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    assert call("librknnrt", "--cflags").out == f"-I{include_dir()}\n"
    assert call("librknnrt", "--include-dir").out == f"{include_dir()}\n"
    done = call("librknnrt", "--libs")
    assert (done.code, done.out) == (4, "")
    assert "apt install gcc libc6-dev" in done.err


def test_it_hides_no_file_of_the_vendors() -> None:
    """Neither from pkg-config, nor by being found without having been asked for."""
    assert flags.PACKAGE not in ("rknn", "rknnrt", "librknnrt", "rknpu2", "rknn_api")
    assert flags.MINI_PACKAGE not in ("rknnmrt", "librknnmrt")
    assert flags.RKNN3_PACKAGE not in ("rknn3", "rknn3_api", "librknn3_api", "rknpu3")
    assert "rpath" not in pkg_config("/usr/lib/x/rknnlite", include="/usr/include/rknnlite")


@pytest.mark.parametrize("version", ["1.1.4", "1.2.2", ""])
def test_a_program_with_a_language_model_is_compiled_and_run(
    call: Call, tmp_path: Path, version: str
) -> None:
    """Each version of librkllmrt.so has a folder of its own, and a header."""
    said = ["--rkllm", version] if version else ["--rkllm"]
    words = shlex.split(call("librknnrt", *said, "--libs", "--cflags").out)
    (tmp_path / "program.c").write_text(
        '#include <rkllm.h>\n#include <stdio.h>\nint main(void) { printf("%d\\n", RKLLM_HEADER_VERSION + rkllm_destroy(0)); }\n'
    )
    subprocess.run(["cc", "program.c", *words, "-o", "program"], cwd=tmp_path, check=True)
    folder = call("librknnrt", *said, "--dir").out.rstrip("\n")
    done = subprocess.run(
        [tmp_path / "program"], env={"LD_LIBRARY_PATH": folder}, capture_output=True, text=True, check=True
    )
    wanted = {"1.1.4": 10104, "1.2.2": 10203, "": 10300}[version]
    assert done.stdout == f"{wanted - 1}\n"


def test_a_version_that_there_is_none_of(call: Call) -> None:
    assert "there is no librkllmrt.so of version '1.4'" in call("librknnrt", "--rkllm", "1.4").err
