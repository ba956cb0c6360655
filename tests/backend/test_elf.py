"""A damaged library is refused by what its tables say, or ends a child; it never ends this process."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rknnlite_backend.elf import ElfInvalid, Kind, check_contents, of_this_python, read_header
from rknnlite_backend.library import LibraryUnusable, open_library

from tests.doubles.double import compile_c
from tests.support.examples import examples
from tests.support.needs import needs

SOURCE = """
#include <stdlib.h>
#include <string.h>
static int table[16] = {1, 2, 3};
int *pointer = &table[3];
const char *names[] = {"one", "two"};
double (*parsed)(const char *) = atof;
__attribute__((constructor)) static void begin(void) { table[4] = (int)strlen(getenv("PATH")); }
int its_function(void) { return *pointer; }
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    needs("gcc")
    source = tmp_path_factory.mktemp("elf") / "lib.c"
    source.write_text(SOURCE)
    return compile_c([source], ("-shared", "-fPIC"), "libits.so")


def changed(library: Path, folder: Path, at: int, content: bytes) -> Path:
    data = bytearray(library.read_bytes())
    data[at : at + len(content)] = content
    file = folder / "changed.so"
    file.write_bytes(data)
    return file


def test_the_header_says_for_whom(library: Path) -> None:
    header = read_header(library)
    assert header.kind == Kind.SHARED and header == of_this_python() and header.fits(of_this_python())


def test_whole_libraries_pass(library: Path) -> None:
    check_contents(library)
    mapped = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if ".so" in line}
    libraries = [Path(name) for name in mapped if Path(name).is_file()]
    assert len(libraries) > 5
    for path in libraries:
        check_contents(path)


@pytest.mark.skipif(of_this_python().bits != 64, reason="places in a file of 64 bits")
@pytest.mark.parametrize(
    ("at", "content", "why"),
    [
        (32, b"\xff\xff\xff\x7f", "truncated: it has"),  # program headers
        (40, b"\xff\xff\xff\x7f", "truncated: it has"),  # section headers
        (54, b"\x39\0", "program headers of 57 bytes instead of 56"),
        (64 + 16, b"\1", "a segment at 0x1 that cannot be mapped"),
        (64 + 48, b"\3", "a segment at 0x0 that cannot be mapped"),
        (64, b"\0", "segments"),
    ],
)
def test_what_contradicts_itself_is_named(
    library: Path, tmp_path: Path, at: int, content: bytes, why: str
) -> None:
    with pytest.raises(ElfInvalid, match=f"{why}.*; copy it again"):
        check_contents(changed(library, tmp_path, at, content))


@pytest.mark.parametrize("size", [0, 3, 51, 63])
def test_less_than_a_header(library: Path, tmp_path: Path, size: int) -> None:
    (tmp_path / "cut.so").write_bytes(library.read_bytes()[:size])
    with pytest.raises(ElfInvalid, match=r"no ELF header|truncated"):
        check_contents(tmp_path / "cut.so")


def test_every_cut_is_seen(library: Path, tmp_path: Path) -> None:
    whole = library.read_bytes()
    for size in range(64, len(whole), 211):
        (tmp_path / "cut.so").write_bytes(whole[:size])
        with pytest.raises(ElfInvalid, match="truncated"):
            check_contents(tmp_path / "cut.so")


@settings(max_examples=examples(300), deadline=None)
@given(changes=st.dictionaries(st.integers(0, 900), st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]), max_size=8))
def test_only_its_own_error_comes_of_damage(
    library: Path, tmp_path_factory: pytest.TempPathFactory, changes: dict[int, int]
) -> None:
    data = bytearray(library.read_bytes())
    for at, value in changes.items():
        data[at] = value
    file = tmp_path_factory.getbasetemp() / "some.so"
    file.write_bytes(data)
    try:
        check_contents(file)
    except ElfInvalid as error:
        assert "\n" not in str(error)


MUTANTS = """
import os, random, sys
from collections import Counter
from pathlib import Path
from rknnlite.errors import BackendUnavailable
from rknnlite_backend.library import check_elf, open_library
WORDS = ["loaded", "refused by its tables", "ended a child", "refused by the linker"]
def outcome(file):
    try:
        open_library(file, ["its_function"], "library")
        return 0
    except BackendUnavailable as error:
        return 2 if "process of its own" in str(error) else 1 if "copy it again" in str(error) else 3
whole, folder, count = Path(sys.argv[1]).read_bytes(), Path(sys.argv[2]), int(sys.argv[3])
draw, outcomes = random.Random(count), Counter()
for number in range(count):
    data = bytearray(whole)
    for _ in range(draw.choice((1, 2, 8))):
        at = draw.randrange(draw.choice((64, 1200, 4000, len(data))))
        content = draw.choice((bytes([draw.randrange(256)]), draw.randbytes(8), bytes(256)))
        data[at : at + len(content)] = content[: len(data) - at]
    file = folder / f"m{number}.so"
    file.write_bytes(data)
    program = os.fork()
    if not program:
        os._exit(outcome(file))
    code = os.waitstatus_to_exitcode(os.waitpid(program, 0)[1])
    outcomes[WORDS[code] if 0 <= code < 4 else "ended the program"] += 1
print(dict(outcomes))
"""


@pytest.mark.parametrize("count", [60, pytest.param(300, marks=pytest.mark.slow)])
def test_a_damaged_library_never_ends_the_program(library: Path, tmp_path: Path, count: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", MUTANTS, str(library), str(tmp_path), str(count)],
        env={**os.environ, "RKNNLITE_CACHE": str(tmp_path / "cache")}, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    outcomes = ast.literal_eval(done.stdout)
    assert sum(outcomes.values()) == count and "ended the program" not in outcomes, outcomes
    assert outcomes["loaded"] and outcomes["refused by its tables"] and outcomes["ended a child"], outcomes


def test_what_ended_a_child_is_remembered_until_the_file_changes(
    tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RKNNLITE_CACHE", str(tmp_path / "cache"))
    source = tmp_path / "bad.c"
    source.write_text(
        "#include <stdlib.h>\n__attribute__((constructor)) static void first(void) { abort(); }\n"
    )
    bad = tmp_path / "bad.so"
    bad.write_bytes(compile_c([source], ("-shared", "-fPIC"), "libbad.so").read_bytes())
    words = rf"{bad}: loading it in a process of its own ended with signal 6 \(SIGABRT\)"
    with pytest.raises(LibraryUnusable, match=words):
        open_library(bad, [], "library")
    monkeypatch.setattr("rknnlite_backend.trial.end_of_trial", None)
    with pytest.raises(LibraryUnusable, match=words):
        open_library(bad, [], "library")
    monkeypatch.undo()
    monkeypatch.setenv("RKNNLITE_CACHE", str(tmp_path / "cache"))
    bad.write_bytes(library.read_bytes())
    open_library(bad, ["its_function"], "library")
