"""What a C header is made of: constants, enumerations, structures, callback types, functions and text."""

from __future__ import annotations

import ctypes as ct
import enum
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

__all__ = ["Constants", "Enum", "Function", "Header", "Part", "Struct", "Text", "members_of", "strings"]

_WIDTH = 110
_KEPT = "\0"  # a blank at which no line may end
_WORDS: dict[Any, str] = {
    ct.c_int8: "int8_t", ct.c_uint8: "uint8_t", ct.c_int16: "int16_t", ct.c_uint16: "uint16_t",
    ct.c_int32: "int32_t", ct.c_uint32: "uint32_t", ct.c_int64: "int64_t", ct.c_uint64: "uint64_t",
    ct.c_float: "float", ct.c_char: "char", ct.c_bool: "bool", ct.c_void_p: "void *", ct.c_char_p: "const char *",
}  # fmt: skip
Members = Mapping[str, int]


def members_of(kind: type[enum.IntEnum] | type[enum.IntFlag], prefix: str = "") -> dict[str, int]:
    """Names in C and values of a Python enumeration, aliases too."""
    return {prefix + name: int(member) for name, member in kind.__members__.items()}


def _comment(text: str, indent: str = "") -> str:
    """A comment before what it is about; nothing for no text."""
    if not text:
        return ""
    lines = textwrap.wrap(text, _WIDTH - len(indent) - 6)
    return f"{indent}/* " + f"\n{indent} * ".join(lines) + " */\n"


def _after(text: str) -> str:
    """A comment on the same line."""
    return f" /* {text} */" if text else ""


@dataclass(frozen=True)
class Constants:
    """``#define`` per number."""

    members: Members
    about: str = ""
    notes: Mapping[str, str] = field(default_factory=dict)
    hexadecimal: bool = False

    def text(self) -> str:
        """C code."""
        lines = [
            f"#define {name} {self._number(value)}{_after(self.notes.get(name, ''))}\n"
            for name, value in self.members.items()
        ]
        return _comment(self.about) + "".join(lines)

    def _number(self, value: int) -> str:
        if value < 0:
            return f"({value})"
        return f"0x{value:x}" if self.hexadecimal else str(value)


@dataclass(frozen=True)
class Enum:
    """``typedef enum``; ``tag``: whether C also knows it as ``enum _NAME``."""

    name: str
    members: Members
    about: str = ""
    notes: Mapping[str, str] = field(default_factory=dict)

    def text(self) -> str:
        """C code; a value above INT_MAX is an extension before C23."""
        lines = []
        for number, (name, value) in enumerate(self.members.items(), 1):
            comma = "," if number < len(self.members) else ""
            lines.append(f"    {name} = {value}{comma}{_after(self.notes.get(name, ''))}\n")
        extension = "__extension__ " if max(self.members.values()) > 0x7FFFFFFF else ""
        return f"{_comment(self.about)}{extension}typedef enum _{self.name} {{\n{''.join(lines)}}} {self.name};\n"


@dataclass(frozen=True)
class Struct:
    """``typedef struct`` (or union) of a ctypes one; ``words``: field -> its C type where ctypes does not tell it."""

    name: str
    kind: Any
    words: Mapping[str, str] = field(default_factory=dict)
    about: str = ""
    notes: Mapping[str, str] = field(default_factory=dict)
    tag: str = ""
    anonymous: frozenset[str] = frozenset()
    """Fields whose members C finds in the structure itself."""

    def text(self, structs: Mapping[Any, str]) -> str:
        """C code; ``structs``: ctypes class -> C name."""
        unknown = {*self.words, *self.notes, *self.anonymous} - {name for name, *_ in self.kind._fields_}
        if unknown:
            raise ValueError(f"{self.name} has no field {', '.join(sorted(unknown))}")
        lines = [
            f"    {self._declared(name, kind, structs)};{_after(self.notes.get(name, ''))}\n"
            for name, kind in self.kind._fields_
        ]
        word = "union" if issubclass(self.kind, ct.Union) else "struct"
        tag = self.tag or f"_{self.name}"
        return f"{_comment(self.about)}typedef {word} {tag} {{\n{''.join(lines)}}} {self.name};\n"

    def _declared(self, name: str, kind: Any, structs: Mapping[Any, str]) -> str:
        if name in self.anonymous:
            members = "".join(
                f"        {self._declared(member, inner, structs)};\n" for member, inner in kind._fields_
            )
            return f"__extension__ union {{\n{members}    }}"
        shape = ""
        while isinstance(kind, type) and issubclass(kind, ct.Array):
            shape += f"[{kind._length_}]"
            kind = kind._type_
        word = self.words.get(name) or _word(kind, structs)
        return f"{word}{'' if word.endswith('*') else ' '}{name}{shape}"


def _word(kind: Any, structs: Mapping[Any, str]) -> str:
    """The C spelling of a ctypes type."""
    if kind in structs:
        return structs[kind]
    if isinstance(kind, type) and issubclass(kind, ct._Pointer):
        return f"{_word(kind._type_, structs)} *"
    return _WORDS[kind]


@dataclass(frozen=True)
class Function:
    """A prototype, or the type of a callback (``typedef``)."""

    prototype: str
    about: str = ""

    def text(self) -> str:
        """C code."""
        start = self.prototype.index("(", self.prototype.find("(*") + 1) + 1
        head, rest = self.prototype[:start], self.prototype[start:]
        kept = ", ".join(argument.replace(" ", _KEPT) for argument in rest.split(", "))
        lines = textwrap.wrap(head.replace(" ", _KEPT) + kept + ";", _WIDTH, subsequent_indent=" " * start)
        return _comment(self.about) + "\n".join(lines).replace(_KEPT, " ") + "\n"


@dataclass(frozen=True)
class Text:
    """C code as it is."""

    code: str

    def text(self) -> str:
        """C code."""
        return self.code.strip("\n") + "\n"


def strings(function: str, kind: str, words: Mapping[str, str], unknown: str = "UNKNOW") -> Text:
    """``static inline`` function: a member of the enumeration ``kind`` -> its word; other numbers: ``unknown``."""
    cases = "".join(f'    case {name}: return "{word}";\n' for name, word in words.items())
    return Text(
        f"static inline const char *{function}({kind} value)\n{{\n    switch (value) {{\n{cases}"
        f'    default: return "{unknown}";\n    }}\n}}'
    )


Part = Union[Constants, Enum, Struct, Function, Text]


@dataclass(frozen=True)
class Header:
    """One file. Structures of ``others`` may be named in it."""

    file: str
    about: str
    includes: Sequence[str]
    parts: Sequence[Part]
    others: Sequence[Header] = ()
    aliases: Mapping[Any, str] = field(default_factory=dict)
    """Other ctypes types -> their C names."""

    def structs(self) -> dict[Any, str]:
        """ctypes class -> C name, of this header and of those that it includes."""
        known: dict[Any, str] = {part.kind: part.name for part in self.parts if isinstance(part, Struct)}
        known.update(self.aliases)
        for other in self.others:
            known.update(other.structs())
        return known

    def text(self) -> str:
        """The file."""
        guard = f"RKNNLITE_{self.file.upper().replace('.', '_')}"
        structs = self.structs()
        body = [part.text(structs) if isinstance(part, Struct) else part.text() for part in self.parts]
        includes = "".join(f"#include {name}\n" for name in self.includes)
        return (
            f"{_comment(self.about)}/* SPDX-License-Identifier: Apache-2.0. Written by: python -m tools.headers */\n"
            f"#ifndef {guard}\n#define {guard}\n\n{includes}\n"
            '#ifdef __cplusplus\nextern "C" {\n#endif\n\n'
            + "\n".join(body)
            + "\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n"
        )
