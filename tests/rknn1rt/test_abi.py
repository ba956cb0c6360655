"""Structures, numbers and prototypes against a table of measured facts, and the table against C compilers."""

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
from rknnlite_rknn1rt import abi, errors

from rknnlite.tensor import DType, Layout
from tests.doubles.double import compile_c, compiler
from tests.doubles.rknn1.double1 import HERE
from tests.rknnrt.make_table import text
from tests.support.corpus import FIXTURES

from .make_table import compact

DATA = Path(__file__).parent / "data" / "abi.json"
TABLE: dict[str, Any] = json.loads(DATA.read_text(encoding="utf-8"))
STRUCTS = {**TABLE["structs"], **TABLE["host_structs"]}
MODEL = "lp64" if ct.sizeof(ct.c_void_p) == 8 else "armv7"
ARM_COMPILER = shutil.which("arm-linux-gnueabihf-gcc")


def narrowed(kind: Any) -> Any:
    """A ctypes type as 32-bit ARM has it: pointers of 4 bytes, the rest unchanged."""
    if issubclass(kind, ct.Structure):
        fields = [(name, narrowed(inner)) for name, inner in kind._fields_]
        return type(kind.__name__, (ct.Structure,), {"_fields_": fields})
    return ct.c_uint32 if kind in (ct.c_void_p, ct.c_char_p) else kind


def layout(struct: Any) -> dict[str, Any]:
    """Size, alignment and ``{field: [offset, size]}`` of a ctypes structure."""
    places = {
        name: [getattr(struct, name).offset, getattr(struct, name).size] for name, *_ in struct._fields_
    }
    return {"size": ct.sizeof(struct), "align": ct.alignment(struct), "fields": places}


def test_every_structure_is_declared() -> None:
    assert set(STRUCTS) == set(abi.STRUCTURES)


@pytest.mark.parametrize("name", sorted(STRUCTS))
def test_structure_is_laid_out_as_the_table_says(name: str) -> None:
    assert layout(abi.STRUCTURES[name]) == STRUCTS[name][MODEL]


@pytest.mark.skipif(MODEL == "armv7", reason="checked directly here")
@pytest.mark.parametrize("name", sorted(STRUCTS))
def test_structure_on_32_bit_arm(name: str) -> None:
    assert layout(narrowed(abi.STRUCTURES[name])) == STRUCTS[name]["armv7"]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """C code whose array ``layout`` holds size, alignment and places of all structures of the double's header."""
    if compiler() is None:
        pytest.skip("no C compiler is installed")
    asked = []
    for name, entry in STRUCTS.items():
        asked += [f"sizeof({name})", f"_Alignof({name})"]
        for field in entry["lp64"]["fields"]:
            asked += [f"offsetof({name}, {field})", f"sizeof((({name} *)0)->{field})"]
    path = tmp_path / "layout.c"
    path.write_text(
        '#include "rknn1/rknn1_abi.h"\n#include <stddef.h>\n'
        f'__attribute__((visibility("default"))) const unsigned layout[] = {{{", ".join(asked)}}};\n'
    )
    return path


def answers(model: str) -> list[int]:
    """What the table says to what the C code asks."""
    found = []
    for entry in STRUCTS.values():
        found += [entry[model]["size"], entry[model]["align"]]
        found += [number for place in entry[model]["fields"].values() for number in place]
    return found


def test_a_compiler_agrees(source: Path) -> None:
    library = ct.CDLL(str(compile_c([source], ("-shared", "-fPIC"), "layout1.so")))
    expected = answers(MODEL)
    assert list((ct.c_uint * len(expected)).in_dll(library, "layout")) == expected


@pytest.mark.skipif(ARM_COMPILER is None, reason="no compiler for 32-bit ARM: gcc-arm-linux-gnueabihf")
def test_a_compiler_for_32_bit_arm_agrees(source: Path) -> None:
    """The assembly of the array holds a ``.word`` per number, and ``.space 8`` for two numbers 0 in a row."""
    command = [
        str(ARM_COMPILER), "-std=gnu11", "-ffreestanding", "-S", "-o", "-", f"-I{HERE.parent}", str(source),
    ]  # fmt: skip
    made = subprocess.run(command, capture_output=True, text=True, check=True)
    numbers = re.findall(r"\.(word|space)\s+(\d+)", made.stdout.split("layout:")[1])
    words = ([0] * (int(number) // 4) if kind == "space" else [int(number)] for kind, number in numbers)
    assert list(itertools.chain.from_iterable(words)) == answers("armv7")


def test_numbers_of_the_api() -> None:
    named = {**TABLE["constants"], **{k: v for enum in TABLE["enums"].values() for k, v in enum.items()}}
    for query in abi.Query:
        assert named[f"RKNN_QUERY_{query.name}"] == query
    assert len(abi.Query) == named["RKNN_QUERY_CMD_MAX"]
    for flag in abi.InitFlag:
        masked = flag.name in ("ASYNC", "COLLECT_PERF", "PRECOMPILE")
        assert named[f"RKNN_FLAG_{flag.name}{'_MASK' * masked}"] == flag
    for kind in abi.QntType:
        assert named[f"RKNN_TENSOR_QNT_{kind.name}"] == kind
    for number in range(named["RKNN_TENSOR_TYPE_MAX"]):
        assert named[f"RKNN_TENSOR_{DType(number).name}"] == number
    for number in range(named["RKNN_TENSOR_FORMAT_MAX"]):
        assert named[f"RKNN_TENSOR_{Layout(number).name}"] == number
    assert named["RKNN_MAX_DIMS"] == abi.MAX_DIMS and named["RKNN_MAX_NAME_LEN"] == abi.MAX_NAME
    assert named["RKNN_MAX_DEVS"] == abi.MAX_DEVICES


def test_every_error_has_its_name() -> None:
    assert {str(row.code): row.name for row in errors.CODES} == TABLE["errors"]


def size_of(ctype: str, flavour: abi.Flavour) -> int:
    """Bytes of an argument by its name in the table."""
    if ctype.startswith("POINTER("):
        return ct.sizeof(ct.c_void_p)
    return ct.sizeof(abi.context_type(flavour) if ctype == "rknn_context" else getattr(ct, ctype))


@pytest.mark.parametrize("flavour", abi.Flavour)
def test_prototypes(flavour: abi.Flavour) -> None:
    known = dict(TABLE["functions"])
    if flavour is abi.Flavour.HOST:
        known = {name: entry for name, entry in known.items() if name not in TABLE["host_lacks"]["functions"]}
        known.update(TABLE["host_functions"])
    ours = abi.prototypes(flavour)
    assert set(ours) == set(known)
    for name, (result, *arguments) in known.items():
        assert [ct.sizeof(kind) for kind in ours[name][1]] == [
            size_of(kind, flavour) for kind in arguments
        ], name
        assert ct.sizeof(ours[name][0]) == size_of(result, flavour)


def test_the_table_says_what_was_measured() -> None:
    measured = FIXTURES.parent / "reference" / "rknn1-abi.json"
    if not measured.exists():
        pytest.skip("the measured table lies beside the third-party fixtures, which are not here")
    assert text(compact(json.loads(measured.read_text(encoding="utf-8")))) == DATA.read_text(encoding="utf-8")
