"""Structures, numbers and prototypes of both revisions against a table of facts, and the table against a compiler."""

from __future__ import annotations

import ctypes as ct
import json
import re
from pathlib import Path
from typing import Any

import pytest
from rknnlite_backend.abi import rknn3, rknn3_op

from rknnlite.abi import rknn3_enums, rknn3_llm, rknn3_types, rknn3_v104
from rknnlite.errors import ModelUnsupported
from tests.doubles.double import compile_c, compiler
from tests.doubles.rknn3.double3 import HERE
from tests.rknnrt.make_table import text
from tests.support.corpus import FIXTURES

from .make_table import compact

DATA = Path(__file__).parent / "data" / "abi.json"
TABLE: dict[str, Any] = json.loads(DATA.read_text(encoding="utf-8"))
FIRST, LATER = TABLE["structs"], {**TABLE["structs"], **TABLE["later structs"]}
SPECIAL = {
    "rknn3_tensor_mem": "RKNN3TensorMemory",
    "rknn3_node_mem_info": "RKN3NodeMemInfo",
    "rknn3_kvcache_recurrent": "RECURRENT",
    "rknn3_llm_image": "RKNN3Image",
    "rknn3_llm_audio": "RKNN3Audio",
    "rknn3_llm_video": "RKNN3Video",
    "rknn3_llm_multimodal_tensor": "RKNN3LLMMultiModelTensor",
}
FIELDS = {"u": "input_union"}
WORDS = {"llm": "LLM", "sdk": "SDK", "kvcache": "KVCache"}
wide = pytest.mark.skipif(ct.sizeof(ct.c_void_p) == 4, reason="the table is for 64 bits")


def class_name(name: str) -> str:
    """``rknn3_llm_config`` -> ``RKNN3LLMConfig``."""
    words = name.replace("rknn3_", "", 1).split("_")
    plain = "RKNN3" + "".join(WORDS.get(word, word.capitalize()) for word in words)
    return SPECIAL.get(name, plain if name.startswith("rknn3_") else name)


def structure(name: str, revision: str) -> Any:
    """The ctypes structure of a C one."""
    rooms = [rknn3_types, rknn3_llm, rknn3_op]
    rooms = [rknn3_v104, *rooms] if revision == "later" else rooms
    return next(getattr(room, class_name(name)) for room in rooms if hasattr(room, class_name(name)))


def layout(struct: Any) -> dict[str, Any]:
    """Size, alignment and ``[offset, size]`` of every field."""
    places = [[getattr(struct, name).offset, getattr(struct, name).size] for name, *_ in struct._fields_]
    return {"size": ct.sizeof(struct), "align": ct.alignment(struct), "fields": places}


@wide
@pytest.mark.parametrize("name", sorted(FIRST))
def test_first_revision(name: str) -> None:
    wanted = FIRST[name]["lp64"]
    assert layout(structure(name, "first")) == {**wanted, "fields": list(wanted["fields"].values())}


@wide
@pytest.mark.parametrize("name", sorted(TABLE["later structs"]))
def test_later_revision(name: str) -> None:
    wanted = LATER[name]["lp64"]
    struct = structure(name, "later")
    assert layout(struct) == {**wanted, "fields": list(wanted["fields"].values())}
    assert [field[0] for field in struct._fields_] == list(wanted["fields"])


def test_names_of_fields() -> None:
    for name, entry in FIRST.items():
        ours = [field[0] for field in structure(name, "first")._fields_]
        assert ours == [FIELDS.get(field, field) for field in entry["lp64"]["fields"]], name


@wide
@pytest.mark.parametrize("revision", ["first", "later"])
def test_the_header_of_the_double_agrees(revision: str, tmp_path: Path) -> None:
    if compiler() is None:
        pytest.skip("no C compiler is installed")
    questions, answers = [], []
    header = (HERE / "rknn3_abi.h").read_text(encoding="utf-8")
    for name, entry in (LATER if revision == "later" else FIRST).items():
        if not re.search(rf"\}} {name};", header):
            continue
        questions += [f"sizeof({name})", f"_Alignof({name})"]
        answers += [entry["lp64"]["size"], entry["lp64"]["align"]]
        for field, place in entry["lp64"]["fields"].items():
            if field != "u":  # anonymous in C
                questions += [f"offsetof({name}, {field})", f"sizeof((({name} *)0)->{field})"]
                answers += place
    source = tmp_path / "layout.c"
    source.write_text(
        f'#include "{HERE}/rknn3_abi.h"\n#include <stddef.h>\n'
        f'__attribute__((visibility("default"))) const unsigned layout[] = {{{", ".join(questions)}}};\n'
    )
    flags = ("-shared", "-fPIC", *(("-DLATER",) if revision == "later" else ()))
    library = ct.CDLL(str(compile_c([source], flags, "layout.so")))
    assert len(answers) > 300
    assert list((ct.c_uint * len(answers)).in_dll(library, "layout")) == answers


def known_numbers(*rooms: Any) -> dict[str, int]:
    found: dict[str, int] = {}
    for room in rooms:
        for value in vars(room).values():
            if isinstance(value, type) and issubclass(value, rknn3_enums.enum.IntEnum):
                found.update({name: member.value for name, member in value.__members__.items()})
    return found


def test_numbers_of_the_api() -> None:
    ours = known_numbers(rknn3_enums, rknn3_llm, rknn3_op)
    for enum in TABLE["enums"].values():
        for name, number in enum.items():
            if name == "RKNN3_NPU_CORE_ALL":  # the vendor's Python package has another one
                assert number == rknn3_enums.RKNN3_NPU_CORE_ALL
            else:
                assert ours[name] == number
    for name, number in TABLE["constants"].items():
        assert getattr(rknn3_enums, name) == number
    assert {str(e.value): e.name for e in rknn3_enums.RKNN3Error} == TABLE["errors"]


def test_numbers_of_the_later_revision() -> None:
    ours = known_numbers(rknn3_v104)
    for enum in TABLE["later enums"].values():
        for name, number in enum.items():
            assert ours[name] == number
    both = {**TABLE["errors"], **TABLE["later errors"]}
    assert {str(e.value): e.name for e in rknn3_v104.RKNN3Error} == both


def size_of(ctype: str) -> int:
    """Bytes of an argument by its name in the table."""
    if ctype.startswith("POINTER(") or ctype.endswith("*"):
        return ct.sizeof(ct.c_void_p)
    return ct.sizeof(rknn3_types.rknn3_context if ctype == "rknn3_context" else getattr(ct, ctype))


@pytest.mark.parametrize("name", sorted(TABLE["functions"]))
def test_prototype(name: str) -> None:
    result, *arguments = TABLE["functions"][name]
    ours = rknn3.FIRST.functions[name]
    assert [ct.sizeof(kind) for kind in ours.argtypes] == [size_of(ctype) for ctype in arguments]
    assert ct.sizeof(ours.restype) == size_of(result)


def test_functions_of_the_later_revision() -> None:
    change = TABLE["later functions"]
    wanted = (set(TABLE["functions"]) - set(change["removed"])) | set(change["added"])
    assert set(rknn3.LATER.functions) == wanted
    assert len(rknn3.LATER.functions["rknn3_dump_features"].argtypes) == 8


@pytest.mark.parametrize(
    ("text_", "name"),
    [("1.0.0 (abc@2026)", "1.0.0"), ("1.0.4", "1.0.4"), ("V1.0.5b10", "1.0.4"), ("1.1.0", "1.0.4")],
)
def test_revision_of_a_version(text_: str, name: str) -> None:
    assert rknn3.revision(text_).name == name


@pytest.mark.parametrize("version_", ["0.5.0", "1.0.1", "1.0.3", "1.2.0", "2.0.0", "", "unknown"])
def test_a_version_that_nobody_has_seen(version_: str) -> None:
    with pytest.raises(ModelUnsupported, match=r"1\.0\.0 and of 1\.0\.4"):
        rknn3.revision(version_)


def test_the_table_says_what_was_measured() -> None:
    measured = FIXTURES.parent / "reference" / "rknn3-abi.json"
    if not measured.exists():
        pytest.skip("the measured table lies beside the third-party fixtures, which are not here")
    assert text(compact(json.loads(measured.read_text(encoding="utf-8")))) == DATA.read_text(encoding="utf-8")
