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
from rknnlite_rknnrt import abi

from rknnlite.errors import ERROR_NAMES
from rknnlite.tensor import DType, Layout
from tests.doubles.double import HERE, compile_c, compiler
from tests.support.corpus import FIXTURES

from .make_table import compact, text

DATA = Path(__file__).parent / "data" / "abi.json"
TABLE: dict[str, Any] = json.loads(DATA.read_text(encoding="utf-8"))
MODEL = "lp64" if ct.sizeof(ct.c_void_p) == 8 else "armv7"
NAMES = sorted(abi.STRUCTURES)
ARM_COMPILER = shutil.which("arm-linux-gnueabihf-gcc")
_POINTERS = (ct.c_void_p, ct.c_char_p)


def narrowed(kind: Any) -> Any:
    """A ctypes type as 32-bit ARM has it: pointers and contexts of 4 bytes, the rest unchanged."""
    if isinstance(kind, type) and issubclass(kind, ct.Structure):
        fields = [(name, narrowed_field(kind, name, inner)) for name, inner in kind._fields_]
        return type(kind.__name__, (ct.Structure,), {"_fields_": fields})
    if isinstance(kind, type) and issubclass(kind, ct.Array):
        return narrowed(kind._type_) * kind._length_
    is_pointer = kind in _POINTERS or issubclass(kind, (ct._Pointer, ct._CFuncPtr))  # type: ignore[attr-defined]
    return ct.c_uint32 if is_pointer else kind


def narrowed_field(struct: Any, name: str, kind: Any) -> Any:
    return ct.c_uint32 if (kind is abi.CONTEXT and name in ("ctx", "internal_ctx")) else narrowed(kind)


def layout(struct: Any) -> dict[str, Any]:
    """Size, alignment and ``{field: [offset, size]}`` of a ctypes structure."""
    places = {
        name: [getattr(struct, name).offset, getattr(struct, name).size] for name, *_ in struct._fields_
    }
    return {"size": ct.sizeof(struct), "align": ct.alignment(struct), "fields": places}


@pytest.mark.parametrize("name", NAMES)
def test_structure_is_laid_out_as_the_table_says(name: str) -> None:
    assert layout(abi.STRUCTURES[name]) == TABLE["structs"][name][MODEL]


@pytest.mark.skipif(MODEL == "armv7", reason="checked directly here")
@pytest.mark.parametrize("name", NAMES)
def test_structure_on_32_bit_arm(name: str) -> None:
    assert layout(narrowed(abi.STRUCTURES[name])) == TABLE["structs"][name]["armv7"]


def in_header(name: str) -> bool:
    return re.search(rf"\b{name};", (HERE / "rknn_abi.h").read_text(encoding="utf-8")) is not None


def questions() -> str:
    """C initialisers in the order of the table: size and alignment per structure, offset and size per field."""
    found = []
    for name, entry in TABLE["structs"].items():
        if not in_header(name):
            continue
        found += [f"sizeof({name})", f"_Alignof({name})"]
        for field in entry["lp64"]["fields"]:
            found += [f"offsetof({name}, {field})", f"sizeof((({name} *)0)->{field})"]
    return ", ".join(found)


def answers(model: str) -> list[int]:
    """What the table says to ``questions``."""
    found = []
    for name, entry in TABLE["structs"].items():
        if in_header(name):
            found += [entry[model]["size"], entry[model]["align"]]
            found += [number for place in entry[model]["fields"].values() for number in place]
    return found


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """C code whose array ``layout`` answers ``questions``."""
    if compiler() is None:
        pytest.skip("no C compiler is installed")
    path = tmp_path / "layout.c"
    path.write_text(
        '#include "rknn_abi.h"\n#include <stddef.h>\n'
        f'__attribute__((visibility("default"))) const unsigned layout[] = {{{questions()}}};\n'
    )
    return path


def test_the_header_of_the_double_agrees(source: Path) -> None:
    library = ct.CDLL(str(compile_c([source], ("-shared", "-fPIC"), "layout.so")))
    expected = answers(MODEL)
    assert list((ct.c_uint * len(expected)).in_dll(library, "layout")) == expected


@pytest.mark.skipif(ARM_COMPILER is None, reason="no compiler for 32-bit ARM: gcc-arm-linux-gnueabihf")
def test_the_header_of_the_double_agrees_for_32_bit_arm(source: Path) -> None:
    """The assembly of the array holds a ``.word`` per number, and ``.space 8`` for two numbers 0 in a row."""
    command = [str(ARM_COMPILER), "-std=gnu11", "-ffreestanding", "-S", "-o", "-", f"-I{HERE}", str(source)]
    made = subprocess.run(command, capture_output=True, text=True, check=True)
    numbers = re.findall(r"\.(word|space)\s+(\d+)", made.stdout.split("layout:")[1])
    words = ([0] * (int(number) // 4) if kind == "space" else [int(number)] for kind, number in numbers)
    assert list(itertools.chain.from_iterable(words)) == answers("armv7")


def test_numbers_of_the_api() -> None:
    named = {**TABLE["constants"], **{k: v for enum in TABLE["enums"].values() for k, v in enum.items()}}
    for number in abi.Query:
        assert named[f"RKNN_QUERY_{number.name}"] == number
    for mask in abi.CoreMask:
        assert named[f"RKNN_NPU_{'CORE_' if mask.name in ('AUTO', 'ALL') else ''}{mask.name}"] == mask
    for dtype in DType:
        assert named[f"RKNN_TENSOR_{dtype.name}"] == dtype
    for order in Layout:
        assert named[f"RKNN_TENSOR_{order.name}"] == order
    for mode in abi.MemSync:
        assert named[f"RKNN_MEMORY_SYNC_{mode.name}"] == mode
    for kind in abi.QntType:
        assert named[f"RKNN_TENSOR_QNT_{kind.name}"] == kind
    for target in abi.Target:
        assert named[f"RKNN_TARGET_TYPE_{target.name}"] == target
    assert named["RKNN_MAX_DIMS"] == abi.MAX_DIMS
    assert named["RKNN_MAX_NAME_LEN"] == abi.MAX_NAME
    assert named["RKNN_MAX_DYNAMIC_SHAPE_NUM"] == abi.MAX_DYNAMIC_SHAPES


FLAGS = {
    "FALLBACK_GPU": "EXECUTE_FALLBACK_PRIOR_DEVICE_GPU",
    "DISABLE_FLUSH_INPUT": "DISABLE_FLUSH_INPUT_MEM_CACHE",
    "DISABLE_FLUSH_OUTPUT": "DISABLE_FLUSH_OUTPUT_MEM_CACHE",
    "ASYNC": "ASYNC_MASK",
    "COLLECT_PERF": "COLLECT_PERF_MASK",
}


def test_flags_of_the_api() -> None:
    for flag in abi.InitFlag:
        assert TABLE["constants"][f"RKNN_FLAG_{FLAGS.get(flag.name, flag.name)}"] == flag
    # HIGH is no bit
    assert len(abi.InitFlag) == sum(n.startswith("RKNN_FLAG_") for n in TABLE["constants"]) - 1
    for flag in abi.MemAlloc:
        name = {"DEFAULT": "MEMORY_FLAGS_DEFAULT", "NO_CONTEXT": ""}.get(flag.name, f"MEMORY_{flag.name}")
        known = {**TABLE["enums"]["rknn_mem_alloc_flags"], "RKNN_FLAG_": 0x20000}
        assert known[f"RKNN_FLAG_{name}"] == flag
    assert TABLE["constants"]["RKNN_MEM_FLAG_ALLOC_NO_CONTEXT"] == abi.MemAlloc.NO_CONTEXT


def test_every_error_has_its_name() -> None:
    assert {str(code): name for code, name in ERROR_NAMES.items()} == TABLE["errors"]


def size_of(ctype: str) -> int:
    """Bytes of an argument by its name in the table."""
    if ctype.startswith("POINTER(") or ctype.endswith("*"):
        return ct.sizeof(ct.c_void_p)
    if ctype in ("rknn_context", "rknn_matmul_ctx"):
        return ct.sizeof(abi.CONTEXT)
    return ct.sizeof(getattr(ct, ctype))


@pytest.mark.parametrize("name", sorted(abi.PROTOTYPES))
def test_prototype(name: str) -> None:
    result, *arguments = TABLE["functions"][name]
    ours, types = abi.PROTOTYPES[name]
    assert [ct.sizeof(kind) for kind in types] == [size_of(ctype) for ctype in arguments]  # type: ignore[arg-type]
    assert (None if result == "None" else size_of(result)) == (ours and ct.sizeof(ours))  # type: ignore[arg-type]


def test_every_function_has_a_prototype() -> None:
    plain = {name for name in TABLE["functions"] if "matmul" not in name and "B_normal" not in name}
    assert plain <= set(abi.PROTOTYPES)


def test_the_table_says_what_was_measured() -> None:
    measured = FIXTURES.parent / "reference" / "rknnrt-abi.json"
    if not measured.exists():
        pytest.skip("the measured table lies beside the third-party fixtures, which are not here")
    assert text(compact(json.loads(measured.read_text(encoding="utf-8")))) == DATA.read_text(encoding="utf-8")
