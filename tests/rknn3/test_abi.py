"""Structures against a C compiler: sizes and offsets of every field, in both known revisions of the header."""

from __future__ import annotations

import ctypes as ct
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from rknnlite_backend.abi import rknn3, rknn3_op

from rknnlite.abi import rknn3_enums, rknn3_llm, rknn3_types, rknn3_v104
from rknnlite.errors import ModelUnsupported
from tests.support.corpus import ROOT

HEADER = ROOT / "tests" / "doubles" / "rknn3" / "rknn3_abi.h"
FIRST = (rknn3_types, rknn3_llm, rknn3_op)
ANONYMOUS = {"input_union": "llm_input", "recurrent": "recurrent"}
"""Members that have no name in C -> the first of theirs."""


def structures(*modules: ModuleType) -> Iterator[tuple[str, Any, int]]:
    """C name, class and size, as the docstrings say; types that only the Python package has are left out."""
    for module in modules:
        for item in vars(module).values():
            if isinstance(item, type) and issubclass(item, (ct.Structure, ct.Union)):
                said = re.match(r"``(\w+)``, (\d+) bytes", item.__doc__ or "")
                if said and item.__module__ == module.__name__:
                    yield said[1], item, int(said[2])


def compiled(folder: Path, program: str, *flags: str) -> list[int]:
    """Numbers that a C program prints."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    (folder / "offsets.c").write_text(program)
    command = ["gcc", *flags, f"-I{HEADER.parent}", "-o", str(folder / "offsets"), str(folder / "offsets.c")]
    subprocess.run(command, check=True)
    return [int(word) for word in subprocess.check_output([folder / "offsets"]).split()]


@pytest.mark.parametrize(
    ("modules", "flags"), [(FIRST, ()), ((rknn3_v104,), ("-DLATER",))], ids=["1.0.0", "1.0.4"]
)
def test_layouts_are_those_of_the_compiler(
    modules: tuple[ModuleType, ...], flags: tuple[str, ...], tmp_path: Path
) -> None:
    header = HEADER.read_text()
    lines, expected, names = [], [], []
    for c_name, cls, size in structures(*modules):
        if f"}} {c_name};" not in header:  # the inner, nameless types: checked through what holds them
            continue
        assert ct.sizeof(cls) == size
        lines.append(f'printf("%zu ", sizeof({c_name}));')
        expected.append(ct.sizeof(cls))
        names.append(c_name)
        for field, *_ in cls._fields_:
            member = ANONYMOUS.get(field, field)
            lines.append(f'printf("%zu ", offsetof({c_name}, {member}));')
            expected.append(getattr(cls, field).offset)
            names.append(f"{c_name}.{field}")
    body = "\n".join(lines)
    includes = "#include <stddef.h>\n#include <stdio.h>\n"
    found = compiled(
        tmp_path, f'{includes}#include "rknn3_abi.h"\nint main(void) {{\n{body}\nreturn 0;\n}}\n', *flags
    )
    assert dict(zip(names, found)) == dict(zip(names, expected))
    assert len(found) > (230 if not flags else 90)


def test_the_nine_structures_that_the_vendor_package_has_wrong() -> None:
    sizes = {
        rknn3_types.RKNN3TensorMemory: 80,
        rknn3_types.RKNN3Config: 144,
        rknn3_types.RKNN3AllocationInfo: 456,
        rknn3_types.RKNN3ShapeInfo: 64,
        rknn3_types.RKNN3Device: 2200,
        rknn3_types.RKNN3Devices: 140808,
        rknn3_llm.RKNN3KVCachePolicyParam: 80,
        rknn3_llm.RKNN3Lora: 260,
        rknn3_llm.RKLLMCallback: 96,
    }
    assert {cls: ct.sizeof(cls) for cls in sizes} == sizes
    assert ct.sizeof(rknn3_types.Float16) == 2


def test_numbers_are_those_of_the_header(tmp_path: Path) -> None:
    members = [
        (member.name, int(member))
        for kind in (*vars(rknn3_enums).values(), *vars(rknn3_llm).values(), *vars(rknn3_op).values())
        if isinstance(kind, type) and issubclass(kind, rknn3_enums.enum.IntEnum)
        for member in kind
    ]
    known = [(name, value) for name, value in members if re.search(rf"\b{name}\b", HEADER.read_text())]
    assert len(known) > 100
    lines = "\n".join(f'printf("%lld ", (long long)(int32_t){name});' for name, _ in known)
    found = compiled(
        tmp_path, f'#include <stdio.h>\n#include "rknn3_abi.h"\nint main(void) {{\n{lines}\nreturn 0;\n}}\n'
    )
    different = {name for (name, value), number in zip(known, found) if value != number}
    assert different == {"RKNN3_NPU_CORE_ALL"}  # 255 in Python, all bits in C
    assert rknn3_enums.RKNN3_NPU_CORE_ALL == 0xFFFFFFFF


def test_every_function_is_declared() -> None:
    declared = set(re.findall(r"\b(rknn3_\w+)\s*\(", HEADER.read_text()))
    functions = {*rknn3.FIRST.functions, *rknn3.LATER.functions}
    assert {name for name in declared if not name.endswith(("_cb", "_func", "_plugin"))} <= functions
    assert set(rknn3.FIRST.functions) - set(rknn3.LATER.functions) == {
        "rknn3_dup_context", "rknn3_run_async", "rknn3_wait", "rknn3_create_mem_from_phys",
        "rknn3_session_query_lora", "rknn3_session_load_kvcache",
    }  # fmt: skip
    assert len(rknn3.FIRST.functions) == 43


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("1.0.0", "1.0.0"),
        ("1.0.0 (98a9b8f@2026-01-05T10:00:00)", "1.0.0"),
        ("1.0.4", "1.0.4"),
        ("librknn3 1.0.5b10", "1.0.4"),
        ("1.1.0", "1.0.4"),
    ],
)
def test_the_version_chooses_the_revision(text: str, name: str) -> None:
    abi = rknn3.revision(text)
    assert abi.name == name
    assert ct.sizeof(abi.RKNN3TensorAttr) == (512 if name == "1.0.0" else 584)
    assert abi.functions["rknn3_run"].argtypes[1] == ct.POINTER(abi.RKNN3Tensor)


@pytest.mark.parametrize("text", ["", "beta", "0.9.0", "1.0.1", "1.0.3", "1.2.0", "2.0.0"])
def test_an_unknown_version_is_refused(text: str) -> None:
    with pytest.raises(ModelUnsupported, match=r"known are the structures of 1\.0\.0"):
        rknn3.revision(text)
