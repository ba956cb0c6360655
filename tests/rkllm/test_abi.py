"""Structures, numbers and prototypes of all seven layouts against a table of facts, and against compilers."""

from __future__ import annotations

import ctypes as ct
import itertools
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from rknnlite_rkllm.abi import known_files, params, revisions
from rknnlite_rkllm.abi.results import CallbackReturn
from rknnlite_rkllm.abi.revisions import REVISIONS, Revision

from rknnlite.errors import BackendUnavailable
from tests.doubles.double import compile_c
from tests.doubles.rkllm.declare import layout_source, places
from tests.rknnrt.make_table import text
from tests.support.corpus import FIXTURES
from tests.support.needs import needs

from .make_table import compact

DATA = Path(__file__).parent / "data" / "abi.json"
TABLE: dict[str, Any] = json.loads(DATA.read_text(encoding="utf-8"))
FILES = TABLE.pop("files")
CROSS = {
    "aarch64": ("aarch64-linux-gnu-gcc", "no compiler for 64-bit ARM: gcc-aarch64-linux-gnu"),
    "armv7": ("arm-linux-gnueabihf-gcc", "no compiler for 32-bit ARM: gcc-arm-linux-gnueabihf"),
}
each = pytest.mark.parametrize("abi", REVISIONS.values(), ids=list(REVISIONS))
wide = pytest.mark.skipif(ct.sizeof(ct.c_void_p) == 4, reason="the numbers of the structures are for 64 bits")


def answers(abi: Revision, narrow: bool = False) -> list[int]:
    """The table's numbers in the order of ``places``: sizes; offset and size of members, narrow: the offset only."""
    structs, numbers = TABLE[abi.name]["structs"], []
    for name, member in places(abi):
        if member:
            offset, size, narrow_offset = structs[name][2][member]
            numbers += [narrow_offset] if narrow else [offset, size]
        else:
            numbers.append(structs[name][1 if narrow else 0])
    return numbers


def test_all_layouts_are_here() -> None:
    assert list(REVISIONS) == list(TABLE)
    assert {abi.name: list(abi.versions) for abi in REVISIONS.values()} == {
        name: entry["versions"] for name, entry in TABLE.items()
    }


@wide
@each
def test_sizes_and_offsets(abi: Revision) -> None:
    wanted = TABLE[abi.name]["structs"]
    assert set(abi.structs) == set(wanted)
    for name, struct in abi.structs.items():
        size, _, members = wanted[name]
        ours = {
            member: [getattr(struct, member).offset, getattr(struct, member).size]
            for member, _ in struct._fields_
        }
        assert (ct.sizeof(struct), list(ours)) == (size, list(members)), name
        assert ours == {member: place[:2] for member, place in members.items()}, name


@each
def test_numbers(abi: Revision) -> None:
    wanted = TABLE[abi.name]["enums"]
    ours = {name: getattr(abi, name) for name in ("LLMCallState", "RKLLMInputType", "RKLLMInferMode")}
    assert {
        name: {member.name: member.value for member in enum} for name, enum in ours.items() if enum
    } == wanted


def spelled(abi: Revision, kind: Any) -> str:
    """A type of ours in the words of the table."""
    if kind is None:
        return "None"
    for name in (*abi.structs, "LLMResultCallback"):
        if getattr(abi, name) is kind:
            return name
    if hasattr(kind, "contents"):
        return f"POINTER({spelled(abi, kind._type_)})"
    plain = {ct.c_size_t: "c_uint64", ct.c_int: "c_int32"}
    return plain.get(kind, kind.__name__)


def same(word: str) -> str:
    """ctypes has one type for int and int32_t."""
    return re.sub(r"\bc_int\b", "c_int32", word)


@each
def test_prototypes(abi: Revision) -> None:
    wanted = TABLE[abi.name]["functions"]
    assert set(abi.functions) == set(wanted)
    for name, signature in abi.functions.items():
        ours = [spelled(abi, signature.restype), *(spelled(abi, kind) for kind in signature.argtypes)]
        assert ours == list(map(same, wanted[name])), name


@each
def test_callbacks(abi: Revision) -> None:
    for name, wanted in TABLE[abi.name]["callbacks"].items():
        kind = getattr(abi, name)
        ours = [spelled(abi, kind._restype_), *(spelled(abi, argument) for argument in kind._argtypes_)]
        assert ours == list(map(same, wanted)), name
    assert bool(abi.callback_returns) == (abi.LLMResultCallback._restype_ is not None)
    assert (CallbackReturn.RELEASE in abi.callback_returns) == (abi.name == "1.3.0")


@wide
@each
def test_a_compiler_agrees(abi: Revision, tmp_path: Path) -> None:
    needs("gcc")
    source = tmp_path / "layout.c"
    source.write_text(layout_source(abi))
    library = ct.CDLL(str(compile_c([source], ("-shared", "-fPIC"), "rkllm_layout.so")))
    expected = answers(abi)
    assert list((ct.c_uint * len(expected)).in_dll(library, "numbers")) == expected


@each
@pytest.mark.parametrize("target", CROSS)
def test_a_compiler_for_arm_agrees(abi: Revision, target: str, tmp_path: Path) -> None:
    """The assembly of the array holds a ``.word`` per number, ``.zero`` or ``.space`` bytes for numbers 0."""
    command, reason = CROSS[target]
    if shutil.which(command) is None:
        pytest.skip(reason)
    source = tmp_path / "layout.c"
    source.write_text(layout_source(abi))
    made = subprocess.run(
        [command, "-std=gnu11", "-S", "-o", "-", str(source)], capture_output=True, text=True, check=True
    )
    numbers = re.findall(r"\.(word|space|zero)\s+(\d+)", made.stdout.split("numbers:")[1])
    words = ([int(number)] if kind == "word" else [0] * (int(number) // 4) for kind, number in numbers)
    found = list(itertools.chain.from_iterable(words))
    if target == "armv7":  # the table has no sizes of members for it
        members = [bool(member) for _, member in places(abi)]
        values = iter(found)
        found = [(next(values), next(values))[0] if member else next(values) for member in members]
    assert found == answers(abi, target == "armv7")


def test_the_version_of_a_layout() -> None:
    assert {version: revisions.revision_of(version).name for version in revisions.VERSIONS} == {
        version: name for name, entry in TABLE.items() for version in entry["versions"]
    }


@pytest.mark.parametrize("version", ["1.3.1", "1.2", "1.2.4", "1.2.1b2", "1.0.2", "1.4.0", "", "unknown"])
def test_a_version_that_nobody_has_seen(version: str) -> None:
    with pytest.raises(BackendUnavailable, match=r"known are 1\.0\.0, 1\.0\.1, 1\.0\.2-beta, .*, 1\.3\.0"):
        revisions.revision_of(version)


def test_members_can_be_asked_for() -> None:
    later, first = REVISIONS["1.3.0"], REVISIONS["1.0.0"]
    assert later.has_field("RKLLMInferParam", "sampling_params")
    assert not REVISIONS["1.2.1"].has_field("RKLLMInferParam", "sampling_params")
    assert not first.has_field("RKLLMInput", "role") and first.RKLLMInput is None


def test_known_files() -> None:
    ours = {known.blob: [known.version, known.platform] for known in known_files.KNOWN_FILES}
    assert len(ours) == len(known_files.KNOWN_FILES) == 36 and ours == FILES
    assert {version for version, _ in ours.values()} == set(revisions.VERSIONS)
    assert known_files.known_file("f96c82ba91731e14905d95bda44555b191dbe996") is not None
    assert known_files.known_file(known_files.git_blob_id(b"")) is None
    assert not set(known_files.UNREADABLE_SHA256.values()) & set(revisions.VERSIONS)


def test_the_marker() -> None:
    one = b"\0RKLLM SDK (version: 1.2.1b1 | target: Linux | build: f8ca3ae8 2025-04-08)\0"
    formats = b"rkllm-runtime version: %s\0rknn llm lib version: 2.3.3b0 (x)\0"
    assert known_files.markers(formats + one + one) == ("1.2.1b1",)
    assert known_files.markers(one + one.replace(b"1.2.1b1", b"1.0.2-beta")) == ("1.0.2-beta", "1.2.1b1")
    assert known_files.markers(formats) == ()


def test_layouts_by_exports() -> None:
    def names(version: str, *more: str) -> list[str]:
        found = known_files.revisions_exporting([*REVISIONS[version].exports, *more])
        return [abi.name for abi in found]

    assert [names(version) for version in REVISIONS] == [
        ["1.0.0"], ["1.0.1"], ["1.1.0"], *[["1.2.0", "1.2.1b1"]] * 2, *[["1.2.1", "1.3.0"]] * 2,
    ]  # fmt: skip
    assert names("1.1.0", "main", *known_files.UNDECLARED_EXPORTS) == ["1.1.0"]
    assert names("1.3.0", "rkllm_something_new") == []
    assert known_files.revisions_exporting(["main"]) == ()


def test_the_space_for_the_default_call() -> None:
    space = ct.sizeof(params.RKLLMDefaultParamSpace)
    assert all(ct.sizeof(abi.RKLLMParam) < space for abi in REVISIONS.values())
    assert all(abi.has_field("RKLLMParam", name) for abi in REVISIONS.values() for name in params.DEFAULTS)


def test_the_table_says_what_was_measured() -> None:
    measured = FIXTURES.parent / "reference" / "rkllm-abi.json"
    if not measured.exists():
        pytest.skip("the measured table lies beside the third-party fixtures, which are not here")
    assert text(compact(json.loads(measured.read_text(encoding="utf-8")))) == DATA.read_text(encoding="utf-8")
