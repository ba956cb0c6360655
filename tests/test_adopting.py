"""docs/adopting.md keeps its word: its files are put into a project, and every line of its recipes and Dockerfiles runs there."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.corpus import ROOT, genuine

PAGE = (ROOT / "docs" / "adopting.md").read_text(encoding="utf-8")
FENCED = re.compile(r'^```\w+ title="([^"]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)
FILES: dict[str, str] = dict(FENCED.findall(PAGE))
ONCE = "once, and whenever the outputs are meant to change"
DOCKERFILES = sorted((ROOT / "examples" / "docker").glob("*.Dockerfile"))
INSTRUCTIONS = {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "CMD"}

SHIM = '''\
#!{python}
"""pip looks at what it is to install; the others are our own, and this interpreter."""
import os, re, sys
name, words = os.path.basename(sys.argv[0]), sys.argv[1:]
if name == "pip":
    files = [words[i + 1] for i, word in enumerate(words) if word == "-r"]
    text = " ".join(words) + "".join(open(file).read() for file in files)
    unknown = set(re.findall(r"rknnlite\\[(\\w+)\\]", text)) - set({extras!r})
    sys.exit(f"no such extra: {{unknown}}" if unknown else 0)
if words[:2] == ["-m", "pytest"]:
    words = words[2:]
    name = "pytest"
modules = {{"rknnlite": ["-m", "rknnlite"], "pytest": ["-m", "pytest", "-p", "rknnlite_pytest"], "python3": []}}
os.execv(sys.executable, [sys.executable, *modules[name], *words])
'''
Run = Callable[..., str]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The project of the page."""
    for title in ("detect.py", "tests/test_detect.py", "requirements.txt", "pyproject.toml"):
        path = tmp_path / "project" / title
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(FILES[title], "utf-8")
    folder = tmp_path / "project"
    (folder / "wheels").mkdir()
    (folder / "models").mkdir()
    shutil.copy(genuine("lenet_like.rk3566.i8"), folder / "models" / "net.rknn")
    return folder


@pytest.fixture
def run(project: Path, tmp_path: Path) -> Run:
    """``run(line, **variables)``: a line in bash, in the project; what it printed."""
    from rknnlite.extras import EXTRAS

    tools = tmp_path / "bin"
    tools.mkdir()
    for command in ("pip", "rknnlite", "python3", "pytest"):
        (tools / command).write_text(SHIM.format(python=sys.executable, extras=[*EXTRAS, "all"]))
        (tools / command).chmod(0o755)

    def line(text: str, **variables: str) -> str:
        environment = {
            **os.environ, "PATH": f"{tools}:/usr/bin:/bin", "PYTHONPATH": f"{ROOT}:{ROOT / 'plugins'}:{project}",
            "PYTEST_ADDOPTS": "-p no:cacheprovider", "RKNN_LOG_LEVEL": "0", **variables,
        }  # fmt: skip
        done = subprocess.run(
            ["bash", "-eu", "-o", "pipefail", "-c", text], cwd=project, env=environment, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return line


def yaml(title: str) -> Any:
    return pytest.importorskip("ruamel.yaml").YAML(typ="safe").load(FILES[title])


def github() -> tuple[list[str], dict[str, str]]:
    job = yaml(".github/workflows/npu.yml")["jobs"]["cpu-reference"]
    assert all(("uses" in step) != ("run" in step) for step in job["steps"])
    assert job["steps"][0]["with"] == {"lfs": True}
    return [step["run"] for step in job["steps"] if "run" in step], job["env"]


def gitlab() -> tuple[list[str], dict[str, str]]:
    job = yaml(".gitlab-ci.yml")["npu"]
    return job["script"], job["variables"]


def test_each_file_of_the_page_is_tried() -> None:
    here = Path(__file__).read_text("utf-8")
    assert len(FILES) == PAGE.count('title="')
    assert [title for title in FILES if f'"{title}"' not in here and title != ONCE] == []


@pytest.mark.slow
@pytest.mark.parametrize("recipe", [github, gitlab])
def test_a_recipe(run: Run, recipe: Callable[[], tuple[list[str], dict[str, str]]]) -> None:
    """Without golden outputs it fails; once they are stored all of it passes."""
    lines, variables = recipe()
    with pytest.raises(AssertionError, match="no outputs were stored yet"):
        run(lines[-1], **variables)
    run(FILES[ONCE])
    printed = [run(line, **variables) for line in lines]
    assert re.search(r"^class \d$", "\n".join(printed), re.MULTILINE)
    assert "fine, RK3566/RK3568" in printed[1] and "2 passed" in printed[-1]


def test_the_hook_of_pre_commit() -> None:
    (hook,) = yaml(".pre-commit-config.yaml")["repos"][0]["hooks"]
    (offered,) = (
        pytest.importorskip("ruamel.yaml")
        .YAML(typ="safe")
        .load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    )
    assert hook["id"] == offered["id"]
    from rknnlite.cli import main

    command = [*offered["entry"].split()[1:], *hook["args"], str(genuine("lenet_like.rk3566.i8"))]
    assert main(command) == 0


# -- dependencies ------------------------------------------------------------------------------------------

MACHINES = {"x86_64": "rknnlite", "aarch64": "rknn-toolkit-lite2"}


def installed(lines: list[str], machine: str) -> list[str]:
    """What pip would install on a machine, by name."""
    packaging = pytest.importorskip("packaging.requirements")
    found = [packaging.Requirement(line) for line in lines]
    return [r.name for r in found if r.marker is None or r.marker.evaluate({"platform_machine": machine})]


@pytest.mark.parametrize("machine", MACHINES)
def test_requirements(machine: str) -> None:
    assert installed(FILES["requirements.txt"].splitlines(), machine) == ["rknnlite"]
    assert installed(FILES["requirements-both.txt"].splitlines(), machine) == [MACHINES[machine]]


@pytest.mark.parametrize("machine", MACHINES)
def test_tables_of_projects(machine: str) -> None:
    tomllib = pytest.importorskip("tomllib")
    project = tomllib.loads(FILES["pyproject.toml"])["project"]
    assert installed(project["dependencies"], machine) == [MACHINES[machine]]
    poetry = tomllib.loads(FILES["pyproject.toml of Poetry"])["tool"]["poetry"]["dependencies"]
    assert poetry.pop("python") == ">=3.9"
    lines = [f"{name}; {entry['markers']}" for name, entry in poetry.items()]
    assert installed(lines, machine) == [MACHINES[machine]]


# -- Dockerfiles -------------------------------------------------------------------------------------------


def instructions(path: Path) -> list[tuple[str, str]]:
    """``(word, rest)`` of each, comments left out, lines that end with a backslash joined."""
    text = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", path.read_text("utf-8"), flags=re.MULTILINE))
    return [tuple(line.split(None, 1)) for line in text.splitlines() if line.strip()]  # type: ignore[misc]


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda p: p.name)
def test_a_dockerfile(path: Path, project: Path, run: Run) -> None:
    """What it copies is there; what it runs while the image is made runs; its program starts, where the CPU computes."""
    steps = instructions(path)
    assert steps[0][0] == "FROM" and {word for word, _ in steps} <= INSTRUCTIONS
    for word, rest in steps:
        if word == "COPY":
            assert all((project / source).exists() for source in shlex.split(rest)[:-1]), rest
        if word == "RUN":
            run(rest)
    variables = dict(rest.split("=", 1) for word, rest in steps if word == "ENV")
    command = [rest for word, rest in steps if word == "CMD"]
    assert len(command) == 1 and command[0].startswith("[")
    program = " ".join(map(shlex.quote, json.loads(command[0])))
    if variables["RKNNLITE_BACKEND"] == "cpu":
        assert run(program, **variables).startswith("class ")
    else:
        with pytest.raises(AssertionError, match="the model cannot be used"):
            run(program, **{**variables, "RKNNLITE_LIBRARY": "/nowhere/librknnrt.so"})


def test_the_page_names_the_dockerfiles() -> None:
    assert len(DOCKERFILES) == 2
    assert all(f"`{path.relative_to(ROOT).as_posix()}`" in PAGE for path in DOCKERFILES)
