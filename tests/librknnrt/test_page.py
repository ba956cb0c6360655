"""docs/c-programs.md keeps its word: the recipe for CI and the lines for CMake are run as they stand there."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.librknnrt.clients import interpreter
from tests.support.corpus import EXAMPLES, ROOT
from tests.support.needs import needs

pytestmark = pytest.mark.slow

PAGE = (ROOT / "docs" / "c-programs.md").read_text("utf-8")
MODEL = EXAMPLES / "resnet18" / "resnet18_for_RK3588.rknn"
(PROGRAM,) = re.findall(r"^cat > main\.cc <<'END'\n(.*?)^END$", PAGE, re.MULTILINE | re.DOTALL)
SHELL = """\
rknnlite() { "$PYTHON" -m rknnlite "$@"; }
pip() { case "$*" in "install wheels/*.whl") ;; *) exit 1 ;; esac; }
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for these tests: compiling takes a second."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def project(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The program of the page, and a model."""
    needs("g++")
    monkeypatch.setenv("RKNNLITE_CACHE", str(cache))
    folder = tmp_path / "project"
    (folder / "models").mkdir(parents=True)
    (folder / "main.cc").write_text(PROGRAM)
    (folder / "models" / "net.rknn").symlink_to(MODEL)
    return folder


def run(line: str, project: Path) -> str:
    """A line in bash, as a runner has it."""
    path = os.pathsep.join(filter(None, sys.path))
    environment = {
        **os.environ, "PYTHON": sys.executable, "PYTHONPATH": path, "RKNNLITE_BACKEND": "cpu",
        "RKNNLITE_PYTHON": str(interpreter()),
    }  # fmt: skip
    done = subprocess.run(
        ["bash", "-eu", "-o", "pipefail", "-c", SHELL + line],
        cwd=project, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_the_recipe_compiles_and_runs_a_program(project: Path) -> None:
    (recipe,) = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert recipe.count("\n") <= 10
    lines = [step["run"] for step in YAML(typ="safe").load(recipe)["steps"] if "run" in step]
    assert [run(line, project) for line in lines][-1] == "inputs: 1, outputs: 1\n"


def test_cmake_finds_headers_and_library(project: Path) -> None:
    needs("cmake")
    lines = re.findall(r"^    ((?:find|target)_\w+\(.*\))$", PAGE, re.MULTILINE)
    assert len(lines) == 4
    begin = ["cmake_minimum_required(VERSION 3.13)", "project(program CXX)", "add_executable(main main.cc)"]
    (project / "CMakeLists.txt").write_text("\n".join([*begin, *lines]))
    (configure,) = re.findall(r"^    (cmake -B build .*)$", PAGE.replace("\\\n", ""), re.MULTILINE)
    run(configure, project)
    run("cmake --build build", project)
    assert run("./build/main models/net.rknn", project) == "inputs: 1, outputs: 1\n"


def test_pkg_config_finds_them_too(project: Path) -> None:
    needs("pkg-config")
    (line,) = re.findall(r"^    (PKG_CONFIG_PATH=.*)$", PAGE, re.MULTILINE)
    words = " ".join(map(shlex.quote, shlex.split(run(line, project))))
    run(f"g++ main.cc {words} -o main", project)
    assert run("rknnlite exec -- ./main models/net.rknn", project) == "inputs: 1, outputs: 1\n"


def test_messages_are_those_of_the_code() -> None:
    """Of the library in C, of this package, or of the dynamic linker."""
    code = "".join(
        path.read_text("utf-8")
        for folder in (
            ROOT / "plugins" / "rknnlite_librknnrt",
            ROOT / "plugins" / "rknnlite_backend",
            ROOT / "plugins" / "rknnlite_programs",
            ROOT / "rknnlite" / "native",
        )
        for path in folder.rglob("*.[cp]*")
        if path.suffix in (".c", ".py")
    )
    code += "librknnrt.so: cannot open shared object file" + "needs the compiler cc, which is not installed"
    messages = re.findall(r"^\| `([^`]+)` \|", PAGE.partition("## Messages")[2], re.MULTILINE)
    assert len(messages) >= 6
    assert [message for message in messages if message not in code] == []
