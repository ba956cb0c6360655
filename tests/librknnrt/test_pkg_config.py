"""The pkg-config files: what they say, and what pkg-config and a compiler make of them."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from rknnlite_librknnrt.headers import LIBRARIES, include_dir, pkg_config

from rknnlite.errors import ParamInvalid

PROGRAM = "#include <rknn_api.h>\nint main(void) { return sizeof(rknn_tensor_attr) == 376 ? 0 : 1; }\n"


def flags(folder: Path, library: str, *what: str) -> list[str]:
    """What pkg-config answers."""
    if shutil.which("pkg-config") is None:
        pytest.skip("pkg-config is not installed")
    environment = {**os.environ, "PKG_CONFIG_PATH": str(folder)}
    done = subprocess.run(
        ["pkg-config", *what, library], env=environment, capture_output=True, text=True, check=True
    )
    return shlex.split(done.stdout)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", ["plain", "two words"])
def test_flags(library: str, name: str, tmp_path: Path) -> None:
    folder = tmp_path / name
    folder.mkdir()
    (tmp_path / f"{library}.pc").write_text(pkg_config(folder, library))
    assert flags(tmp_path, library, "--cflags") == [f"-I{include_dir()}"]
    assert flags(tmp_path, library, "--libs") == [f"-L{folder}", f"-l{library[3:]}"]
    assert flags(tmp_path, library, "--modversion") == ["1.0.0" if library == "librknn3_api" else "2.3.2"]


def test_a_program_is_compiled_with_them(tmp_path: Path) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    (tmp_path / "librknnrt.pc").write_text(pkg_config(tmp_path))
    (tmp_path / "program.c").write_text(PROGRAM)
    command = ["gcc", *flags(tmp_path, "librknnrt", "--cflags"), "program.c", "-o", "program"]
    subprocess.run(command, cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "program"], check=False).returncode == 0


def test_headers_elsewhere(tmp_path: Path) -> None:
    text = pkg_config("/usr/lib/rknnlite", include="/usr/include/rknnlite")
    assert "libdir=/usr/lib/rknnlite\n" in text and "includedir=/usr/include/rknnlite\n" in text
    assert "@" not in text


def test_refused() -> None:
    with pytest.raises(
        ParamInvalid, match="no pkg-config file of 'librknn'; there are librknnrt, librknnmrt, librknn3_api"
    ):
        pkg_config("/tmp", "librknn")
    with pytest.raises(ParamInvalid, match=r"cannot hold '\$', which '/tmp/a\$b' has; choose another folder"):
        pkg_config("/tmp/a$b")
