"""C declarations of one layout of librkllmrt, made of the ctypes table: structures, numbers, prototypes, descriptions.

No vendor header is needed or copied. What a layout has is told by ``HAS_`` macros (``HAS_RKLLMInput_role``,
``HAS_rkllm_abort``), and ``layout_RKLLMParam`` describes a structure at run time, so that C can write down every member.
"""

from __future__ import annotations

import ctypes as ct
from collections.abc import Iterator
from typing import Any

from rknnlite_rkllm.abi.revisions import Revision

__all__ = ["header", "layout_source", "places"]

WORDS = {
    ct.c_char_p: "const char *", ct.c_void_p: "void *", ct.c_int32: "int32_t", ct.c_uint32: "uint32_t",
    ct.c_int8: "int8_t", ct.c_uint8: "uint8_t", ct.c_bool: "bool", ct.c_float: "float", None: "void",
    ct.c_uint64: "uint64_t",
}  # fmt: skip
KINDS = {
    ct.c_char_p: "s", ct.c_void_p: "p", ct.c_int32: "i", ct.c_int8: "i", ct.c_uint32: "u", ct.c_uint8: "u",
    ct.c_size_t: "u", ct.c_bool: "u", ct.c_float: "f",
}  # fmt: skip
CALLBACKS = ("LLMResultCallback", "LLMTokenizerCallback", "LLMGetEmbedCallback")
ENUMS = ("LLMCallState", "RKLLMInputType", "RKLLMInferMode")
HEAD = """#ifndef RKLLM_ABI_H
#define RKLLM_ABI_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
"""
DESCRIPTION = """
typedef struct layout layout;
typedef struct { const char *name; size_t offset, size; char kind; const layout *of; } field;
struct layout { const char *name; size_t size; const field *fields; };
"""


def header(abi: Revision) -> str:
    """The whole header of a layout."""
    return "\n".join([HEAD, *_declarations(abi), DESCRIPTION, *_descriptions(abi), "#endif", ""])


def places(abi: Revision) -> Iterator[tuple[str, str]]:
    """Every structure and every member: ``("RKLLMParam", "top_k")``; ``""`` stands for the structure itself."""
    for name, struct in abi.structs.items():
        yield name, ""
        yield from ((name, member) for member, _ in struct._fields_)


def layout_source(abi: Revision) -> str:
    """C whose array ``numbers`` has sizeof, or offsetof and sizeof, of all ``places``."""
    numbers = (
        f"offsetof({name}, {member}), sizeof((({name} *)0)->{member})" if member else f"sizeof({name})"
        for name, member in places(abi)
    )
    return f'{header(abi)}__attribute__((visibility("default"))) const unsigned numbers[] = {{{", ".join(numbers)}}};\n'


def _declarations(abi: Revision) -> Iterator[str]:
    yield f'#define RKLLM_REVISION "{abi.name}"'
    for enum in filter(None, (getattr(abi, name) for name in ENUMS)):
        name = next(name for name in ENUMS if getattr(abi, name) is enum)
        yield f"enum {{ {', '.join(f'{name}_{member.name} = {member.value}' for member in enum)} }};"
        yield from (f"#define HAS_{name}_{member.name} 1" for member in enum)
    holds = "RKLLMCallback"  # functions, which take the other structures
    for name, struct in abi.structs.items():
        if name != holds:
            yield from _structure(abi, name, struct)
    yield from (_callback(abi, name) for name in CALLBACKS if getattr(abi, name) is not None)
    if abi.RKLLMCallback is not None:
        yield from _structure(abi, holds, abi.RKLLMCallback)
    if abi.callback_returns:
        yield "#define CALLBACK_RETURNS 1"
    yield f"#define FUNCTIONS(X) {' '.join(f'X({name})' for name in abi.functions)}"
    yield "#pragma GCC visibility push(default)"
    for name, signature in abi.functions.items():
        arguments = ", ".join(_word(abi, kind) for kind in signature.argtypes) or "void"
        yield f"#define HAS_{name} 1\n{_word(abi, signature.restype)} {name}({arguments});"
    yield "#pragma GCC visibility pop"


def _structure(abi: Revision, name: str, struct: Any) -> Iterator[str]:
    word = "union" if issubclass(struct, ct.Union) else "struct"
    members = " ".join(_member(abi, member, kind) for member, kind in struct._fields_)
    yield f"#define HAS_{name} 1\ntypedef {word} {{ {members} }} {name};"
    yield from (f"#define HAS_{name}_{member} 1" for member, _ in struct._fields_)


def _member(abi: Revision, name: str, kind: Any) -> str:
    if issubclass(kind, ct.Array):
        return f"{_word(abi, kind._type_)} {name}[{kind._length_}];"
    # ctypes knows one type for size_t and uint64_t: members are size_t everywhere, callbacks take uint64_t
    return f"{'size_t' if kind is ct.c_size_t else _word(abi, kind)} {name};"


def _word(abi: Revision, kind: Any) -> str:
    if kind in WORDS:
        return WORDS[kind]
    for names in (abi.structs, {name: getattr(abi, name) for name in CALLBACKS}):
        for name, value in names.items():
            if value is kind:
                return name
    return f"{_word(abi, kind._type_)} *"


def _callback(abi: Revision, name: str) -> str:
    kind = getattr(abi, name)
    arguments = ", ".join(_word(abi, argument) for argument in kind._argtypes_)
    return f"#define HAS_{name} 1\ntypedef {_word(abi, kind._restype_)} (*{name})({arguments});"


def _descriptions(abi: Revision) -> Iterator[str]:
    for name, struct in abi.structs.items():
        rows = [_description(abi, name, member, kind) for member, kind in struct._fields_]
        yield f"static const field fields_{name}[] = {{{', '.join(rows)}, {{0}}}};"
        yield (
            f"__attribute__((unused)) static const layout layout_{name} = "
            f'{{"{name}", sizeof({name}), fields_{name}}};'
        )


def _description(abi: Revision, name: str, member: str, kind: Any) -> str:
    """Kinds: s text, i u f numbers, x bytes, S structure, U union, P pointer to a structure, p any other pointer."""
    inside = getattr(kind, "_type_", None)
    held = next((key for key, value in abi.structs.items() if value in (kind, inside)), None)
    if held is None:
        letter = "x" if issubclass(kind, ct.Array) else KINDS.get(kind, "p")
    else:
        letter = ("U" if issubclass(kind, ct.Union) else "S") if abi.structs[held] is kind else "P"
    of = f"&layout_{held}" if held else "0"
    return f"{{\"{member}\", offsetof({name}, {member}), sizeof((({name} *)0)->{member}), '{letter}', {of}}}"
