"""C and C++ programs of static assertions about our headers, made from the tables of measured facts."""

from __future__ import annotations

import ctypes as ct
import json
import platform
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.corpus import FIXTURES, ROOT

__all__ = [
    "CPP_COMPILERS",
    "C_COMPILERS",
    "INCLUDE",
    "Compiler",
    "Library",
    "asserts",
    "compiled",
    "structs",
    "types",
]

HERE = "lp64" if ct.sizeof(ct.c_void_p) == 8 else "armv7"
"""The layout of this machine."""
INCLUDE = ROOT / "plugins" / "rknnlite_librknnrt" / "include"
_WARNINGS = ("-Wall", "-Wextra", "-pedantic", "-Werror")
_INLINE_UNION = {"u": "multimodal_input"}
"""Field of the table -> a member of the anonymous union that C has in its place, of the same offset and size."""
_OURS = ("rknn3_llm_input_union",)
"""Structures of the table that have no name in C."""


@dataclass(frozen=True)
class Compiler:
    """A command, and which layout of the tables it must find."""

    command: tuple[str, ...]
    model: str

    @property
    def present(self) -> bool:
        """Whether it is installed; -m32 is for x86-64."""
        fits = "-m32" not in self.command or platform.machine() == "x86_64"
        return fits and shutil.which(self.command[0]) is not None

    def __str__(self) -> str:
        return " ".join(self.command)


def _c(name: str, *flags: str, model: str = HERE) -> tuple[Compiler, ...]:
    return tuple(Compiler((name, f"-std={standard}", *flags), model) for standard in ("c99", "c11"))


def _cpp(name: str) -> tuple[Compiler, ...]:
    return tuple(Compiler((name, "-x", "c++", f"-std={standard}"), HERE) for standard in ("c++11", "c++17"))


C_COMPILERS = (
    *_c("gcc"),
    *_c("clang"),
    *_c("aarch64-linux-gnu-gcc", "-ffreestanding", model="lp64"),
    *_c("arm-linux-gnueabihf-gcc", "-ffreestanding", model="armv7"),
    *_c("gcc", "-ffreestanding", "-m32", "-malign-double", model="armv7"),
)
CPP_COMPILERS = (*_cpp("g++"), *_cpp("clang++"))


@dataclass(frozen=True)
class Library:
    """A library's headers, and where its facts are."""

    name: str
    headers: tuple[str, ...]
    golden: Path
    measured: Path

    def table(self) -> dict[str, Any]:
        """The committed facts: sizes, offsets, numbers."""
        found: dict[str, Any] = json.loads(self.golden.read_text(encoding="utf-8"))
        return found

    def includes(self) -> str:
        """The lines that include the headers."""
        return "".join(f'#include "{header}"\n' for header in self.headers)


RKNNRT = Library(
    "librknnrt",
    ("rknn_api.h", "rknn_matmul_api.h", "rknn_custom_op.h"),
    ROOT / "tests" / "rknnrt" / "data" / "abi.json",
    FIXTURES.parent / "reference" / "rknnrt-abi.json",
)
RKNN3 = Library(
    "librknn3_api",
    ("rknn3_api.h",),
    ROOT / "tests" / "rknn3rt" / "data" / "abi.json",
    FIXTURES.parent / "reference" / "rknn3-abi.json",
)


def structs(library: Library) -> list[str]:
    """Names of the structures that its headers declare."""
    return [name for name in library.table()["structs"] if name not in _OURS]


def asserts(library: Library, model: str) -> Iterator[tuple[str, int]]:
    """C expressions and what they must be: sizes, alignments, offsets, constants, members, codes."""
    table = library.table()
    for name in structs(library):
        entry = table["structs"][name]
        yield f"sizeof({name})", entry[model]["size"]
        yield f"ALIGNMENT({name})", entry[model]["align"]
        for field, (offset, size) in entry[model]["fields"].items():
            member = _INLINE_UNION.get(field, field) if name == "rknn3_llm_input" else field
            yield f"offsetof({name}, {member})", offset
            yield f"sizeof((({name} *)0)->{member})", size
    yield from table["constants"].items()
    for name, members in table["enums"].items():
        yield f"sizeof({name})", 4
        yield from members.items()
    yield from ((name, int(code)) for code, name in table["errors"].items())


def types(table: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """C++ types that must be the same: every field, every argument and result, every callback."""
    for name, entry in table["structs"].items():
        for field in entry["fields"] if name not in _OURS else ():
            if not (name == "rknn3_llm_input" and field["name"] == "u"):
                shape = field.get("shape") or ([field["count"]] if field["count"] > 1 else [])
                yield f"decltype({name}::{field['name']})", field["c"] + "".join(f"[{n}]" for n in shape)
    for name, entry in table["functions"].items():
        yield f"decltype(&{name})", _function(entry)
    for name, entry in table["callbacks"].items():
        yield name, _function(entry)


def _function(entry: dict[str, Any]) -> str:
    """The type of a pointer to the function."""
    words = [_argument(argument) for argument in entry["args"]]
    result = {"c_int": "int", "None": "void", "c_void_p": "rknn3_session *"}.get(entry["returns"])
    return f"{result or _pointer(entry['returns'])} (*)({', '.join(words)})"


def _argument(argument: Any) -> str:
    if isinstance(argument, list):  # name and ctypes type only
        return "uint32_t" if argument[1] == "c_uint32" else _pointer(argument[1])
    word: str = argument["c"]
    return f"{word[:-2]} *" if word.endswith("[]") else word


def _pointer(ctype: str) -> str:
    """``POINTER(x)`` -> ``x *``."""
    return ctype.replace("POINTER(", "").replace(")", "") + " *"


def compiled(compiler: Compiler, source: Path, *flags: str) -> None:
    """Check a file's syntax and assertions with every warning an error; raises AssertionError with the errors."""
    command = [*compiler.command, *_WARNINGS, *flags, "-fsyntax-only", f"-I{INCLUDE}", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{compiler}:\n{done.stderr[:3000]}"
