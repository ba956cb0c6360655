"""The library of this very tree, programs compiled against it, and the environment that they run in.

Programs lie in ``programs``; each checks itself, against numbers that a test wrote with rknnlite in this process, and
ends with status 0. What is compiled is kept in the temporary directory, by the content of all that it is made from.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from rknnlite_librknnrt import recipe

from tests.support.corpus import ROOT
from tests.support.needs import needs

__all__ = [
    "HEADERS",
    "PROGRAMS",
    "WATCHED",
    "environment",
    "errors",
    "interpreter",
    "library",
    "made",
    "program",
    "run",
]

PLUGIN = ROOT / "plugins" / "rknnlite_librknnrt"
HEADERS = PLUGIN / "include"
PROGRAMS = Path(__file__).parent / "programs"
PACKAGES = {
    "gcc": "gcc",
    "g++": "g++",
    "clang": "clang",
    "clang++": "clang",
    "go": "golang-go",
    "rustc": "rustc",
}
"""Compiler -> Debian package."""

SANITIZER = os.environ.get("CLIENT_SANITIZER", "")
"""``thread``, ``address`` or ``undefined``: library and programs are compiled with it, and a report fails the program."""
WATCHED = (
    (f"-fsanitize={SANITIZER}", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer") if SANITIZER else ()
)
_STRICT = ("-O1", "-g", "-Wall", "-Wextra", "-Werror", f"-I{HEADERS}")
_LIBRARY = ("-shared", "-fPIC", "-fvisibility=hidden", "-pthread", "-std=gnu99")
_TIME_LIMIT = 60.0


@functools.cache
def library(*flags: str, name: str = recipe.LIBRARY) -> Path:
    """A library from the sources of this tree, with further flags for the compiler."""
    needs("gcc")
    files = recipe.files(name)
    sources = [str(file) for file in files if file.suffix == ".c"]
    soname = f"-Wl,-soname,{Path(name).name}"
    version = recipe.flags(name)[len(recipe.flags()) :]  # what this library has besides
    command = [
        "gcc",
        *_LIBRARY,
        soname,
        *_STRICT,
        *recipe.include_flags(name),
        *WATCHED,
        *flags,
        *version,
        *sources,
        "-ldl",
        "-o",
        "{out}",
    ]
    return made(Path(name).name, command, files)


@functools.cache
def program(
    name: str, *flags: str, compiler: str = "", libraries: tuple[str, ...] = (recipe.LIBRARY,)
) -> Path:
    """A program of ``programs`` by its file name, linked with the library, or with others of the recipe."""
    compiler = compiler or {".c": "gcc", ".cc": "g++", ".go": "go", ".rs": "rustc"}[Path(name).suffix]
    needs(PACKAGES[compiler])
    source, folder = PROGRAMS / name, library().parent
    environment = None
    if compiler == "go":
        command = ["go", "build", "-o", "{out}", str(source)]
        environment = {
            "CGO_CFLAGS": f"-I{HEADERS}", "CGO_LDFLAGS": f"-L{folder} -lrknnrt", "GOFLAGS": "-mod=mod", "GO111MODULE": "off",
            "GOCACHE": str(_cache() / "go"),
        }  # fmt: skip
    elif compiler == "rustc":
        command = [_rustc(), "-O", "--edition", "2021", "-L", str(folder), "-o", "{out}", str(source)]
    else:
        standard = "-std=c++14" if source.suffix == ".cc" else "-std=c99"
        command = [
            compiler, standard, *_STRICT, *WATCHED, "-pthread", *flags, "-o", "{out}", str(source),
            *(str(library(name=name)) for name in libraries),
            *(flag for flag in flags if flag.startswith("-l")),
        ]  # fmt: skip
    inputs = [
        source,
        *(library(name=name) for name in libraries),
        *PROGRAMS.glob("*.h"),
        *HEADERS.glob("*.h"),
    ]
    return made(source.stem, command, inputs, environment)


def made(
    name: str, command: Sequence[str], inputs: Sequence[Path], variables: dict[str, str] | None = None
) -> Path:
    """The result of a compiler run (``{out}`` in the command), kept by command and content of its inputs."""
    digest = hashlib.sha256(repr((name, command, variables)).encode())
    for path in sorted(inputs):
        digest.update(path.read_bytes())
    target = _cache() / digest.hexdigest()[:16] / name
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as work:
            out = Path(work) / name
            done = subprocess.run(
                [part.replace("{out}", str(out)) for part in command],
                env={**os.environ, **(variables or {})},
                cwd=work,
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
            assert done.returncode == 0, f"{command[0]} fails:\n{done.stderr[-4000:]}"
            out.replace(target)
    return target


def interpreter() -> Path:
    """A Python whose rknnlite is that of this tree: the library starts it with -E, so that PYTHONPATH says nothing to it."""
    paths = repr([str(ROOT), str(ROOT / "plugins")])
    script = f'#!/bin/sh\nexec "{sys.executable}" "$1" "$2" "import sys; sys.path[1:1] = {paths}\n$3"\n'
    target = _cache() / hashlib.sha256(script.encode()).hexdigest()[:16] / "python3"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=target.parent, delete=False) as file:
            file.write(script)
        Path(file.name).chmod(0o755)
        Path(file.name).replace(target)
    return target


def environment(*libs: Path, **variables: str) -> dict[str, str]:
    """What a program needs to find the library, and the library its interpreter; nothing of the virtual environment."""
    plain = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV", "LD_PRELOAD")}
    folders = ":".join(str(lib.parent) for lib in libs or [library()])
    return {**plain, "LD_LIBRARY_PATH": folders, "RKNNLITE_PYTHON": str(interpreter()), **variables}


def run(
    command: Sequence[Any], status: int = 0, env: dict[str, str] | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; one that hangs is killed. Its status must be the one given."""
    words = [str(word) for word in command]
    env = environment() if env is None else env
    with subprocess.Popen(
        words,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **options,
    ) as process:
        try:
            out, err = process.communicate(timeout=_TIME_LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            pytest.fail(f"{Path(words[0]).name} hangs:\n{out[-2000:]}\n{err[-4000:]}")
    assert process.returncode == status, f"{words}: status {process.returncode}\n{out[-2000:]}\n{err[-6000:]}"
    assert not re.search(r"(Sanitizer|runtime error): ", err), f"{words}:\n{err[-6000:]}"
    return subprocess.CompletedProcess(words, process.returncode, out, err)


def _cache() -> Path:
    return Path(tempfile.gettempdir()) / f"rknnlite-native-{os.getuid()}"


def _rustc() -> str:
    """Debian's, where there is another one, too."""
    return "/usr/bin/rustc" if Path("/usr/bin/rustc").exists() else "rustc"


def errors(stderr: str) -> list[str]:
    """The library's own lines on stderr."""
    return re.findall(r"^E librknnrt \(rknnlite\): .*$", stderr, re.MULTILINE)
