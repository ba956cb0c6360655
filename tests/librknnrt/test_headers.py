"""Our headers of librknnrt and librknn3_api: complete, valid in C and C++, laid out as measured, written from the tables."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import TypeVar

import pytest
from rknnlite_rknnrt import abi

from tests.rknnrt.test_abi import layout
from tests.support.corpus import ROOT
from tools.headers import files
from tools.headers.parts import Constants, Enum, Header, Struct
from tools.headers.rknn import API
from tools.headers.rknn3 import API3
from tools.headers.rknn_custom_op import CUSTOM_OP
from tools.headers.rknn_matmul import MATMUL

from .declarations import (
    C_COMPILERS,
    CPP_COMPILERS,
    HERE,
    INCLUDE,
    RKNN3,
    RKNNRT,
    Compiler,
    Library,
    asserts,
    compiled,
    structs,
    types,
)

Kind = TypeVar("Kind")
LIBRARIES = (RKNNRT, RKNN3)
MADE: dict[str, tuple[Header, ...]] = {RKNNRT.name: (API, MATMUL, CUSTOM_OP), RKNN3.name: (API3,)}


@pytest.fixture(params=LIBRARIES, ids=lambda library: library.name)
def library(request: pytest.FixtureRequest) -> Library:
    found: Library = request.param
    return found


def parts(library: Library, kind: type[Kind]) -> list[Kind]:
    """Parts of one kind of a library's headers."""
    return [part for header in MADE[library.name] for part in header.parts if isinstance(part, kind)]


def need(compiler: Compiler) -> None:
    if not compiler.present:
        pytest.skip(f"{compiler.command[0]} is not installed")


def test_files_are_what_the_tables_say() -> None:
    for path, text in files.texts().items():
        assert (ROOT / path).read_text(encoding="utf-8") == text, f"run python -m tools.headers again: {path}"


def test_no_header_lies_beside_them() -> None:
    found = {
        file.relative_to(ROOT).as_posix() for folder in files.HEADERS for file in (ROOT / folder).iterdir()
    }
    assert found == set(files.texts())


def assertions(library: Library, model: str) -> str:
    """A type per fact, of negative length where the fact is wrong: C99 has no static_assert."""
    lines = [
        f"typedef char fact_{number}[(long long)({expression}) == {value}LL ? 1 : -1];"
        for number, (expression, value) in enumerate(asserts(library, model))
    ]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("compiler", C_COMPILERS, ids=str)
def test_layouts_and_numbers_in_c(compiler: Compiler, library: Library, tmp_path: Path) -> None:
    need(compiler)
    source = tmp_path / "facts.c"
    source.write_text(
        f"{library.includes()}#include <stddef.h>\n"
        "#define ALIGNMENT(type) offsetof(struct behind_##type, second)\n"
        + "".join(f"struct behind_{name} {{ char first; {name} second; }};\n" for name in structs(library))
        + assertions(library, compiler.model),
    )
    compiled(compiler, source)


@pytest.mark.parametrize("compiler", CPP_COMPILERS, ids=str)
def test_layouts_and_numbers_in_cpp(compiler: Compiler, library: Library, tmp_path: Path) -> None:
    need(compiler)
    source = tmp_path / "facts.cpp"
    source.write_text(
        f"{library.includes()}#include <cstddef>\n#define ALIGNMENT(type) alignof(type)\n{assertions(library, HERE)}"
    )
    compiled(compiler, source, "-Wno-unused-local-typedefs")


def test_a_wrong_number_is_found(library: Library, tmp_path: Path) -> None:
    """The assertions do assert."""
    compiler = C_COMPILERS[0]
    need(compiler)
    source = tmp_path / "facts.c"
    source.write_text(f"{library.includes()}typedef char fact[sizeof(int) == 5 ? 1 : -1];\n")
    with pytest.raises(AssertionError, match="fact"):
        compiled(compiler, source)


@pytest.mark.parametrize("compiler", CPP_COMPILERS, ids=str)
def test_types_of_fields_and_functions(compiler: Compiler, library: Library, tmp_path: Path) -> None:
    need(compiler)
    if not library.measured.exists():
        pytest.skip("the measured table lies beside the third-party fixtures, which are not here")
    table = json.loads(library.measured.read_text(encoding="utf-8"))
    pairs = list(types(table))
    assert len(pairs) > 150
    lines = [
        f'static_assert(std::is_same<{ours}, std::add_pointer<{theirs.replace(" (*)", "")}>::type>::value, "{ours}");'
        if "(*)" in theirs
        else f'static_assert(std::is_same<{ours}, {theirs}>::value, "{ours}");'
        for ours, theirs in pairs
    ]
    source = tmp_path / "types.cpp"
    source.write_text(f"{library.includes()}#include <type_traits>\n" + "\n".join(lines) + "\n")
    compiled(compiler, source)


@pytest.mark.parametrize("header", [file.name for file in sorted(INCLUDE.glob("*.h"))])
@pytest.mark.parametrize("compiler", [*C_COMPILERS, *CPP_COMPILERS], ids=str)
def test_each_header_stands_alone(compiler: Compiler, header: str, tmp_path: Path) -> None:
    need(compiler)
    source = tmp_path / "alone.c"
    source.write_text(f'#include "{header}"\n#include "{header}"\n')
    compiled(compiler, source)


def test_nothing_is_missing_and_nothing_invented(library: Library) -> None:
    table = library.table()
    structs = {part.name for part in parts(library, Struct)}
    assert structs == set(table["structs"]) - {"rknn3_llm_input_union"}
    enums = {part.name: dict(part.members) for part in parts(library, Enum)}
    assert enums == table["enums"]
    constants = {name: number for part in parts(library, Constants) for name, number in part.members.items()}
    assert constants == {**table["constants"], **{name: int(code) for code, name in table["errors"].items()}}
    text = "".join((INCLUDE / header).read_text(encoding="utf-8") for header in library.headers)
    declared = re.findall(r"^(?!typedef|static)\w[\w ]*[ *](\w+)\(", text, re.MULTILINE)
    assert sorted(declared) == sorted(table["functions"])


@pytest.mark.parametrize("struct", parts(RKNNRT, Struct), ids=lambda struct: struct.name)
def test_structures_of_ctypes(struct: Struct) -> None:
    assert layout(struct.kind) == RKNNRT.table()["structs"][struct.name][HERE]


def test_prototypes_of_ctypes_have_as_many_arguments() -> None:
    text = " ".join(
        (INCLUDE / "rknn_api.h").read_text().split() + (INCLUDE / "rknn_custom_op.h").read_text().split()
    )
    for name, (_, arguments) in abi.PROTOTYPES.items():
        found = re.search(rf"[ *]{name}\(([^)]*)\);", text)
        assert found and len(found[1].split(",")) == len(arguments), name


WORDS = {
    "get_type_string": "FP32 FP16 INT8 UINT8 INT16 UINT16 INT32 UINT32 INT64 BOOL INT4 BF16 UNKNOW",
    "get_qnt_type_string": "NONE DFP AFFINE UNKNOW",
    "get_format_string": "NCHW NHWC NC1HWC2 UNDEFINED UNKNOW",
    "rknn3_get_type_string": "FP32 FP16 INT8 UINT8 INT16 UINT16 INT32 UINT32 INT64 UNKNOW BOOL INT4 UNKNOW",
    "rknn3_get_qnt_type_string": "NONE PER_LAYER_SYMMETRIC PER_LAYER_ASYMMETRIC PER_CHANNEL_SYMMETRIC "
    "PER_CHANNEL_ASYMMETRIC PER_GROUP_SYMMETRIC PER_GROUP_ASYMMETRIC UNKNOWN",
    "rknn3_get_layout_string": "UNDEFINED NCHW NHWC NC1HWC2 CHWN HWIO OIHW O1I1HWI2O2 UNKNOW",
}  # fmt: skip
"""Function -> its answers to 0, 1, 2, ..., the last one a number past the known ones."""


def printed(lines: list[str], tmp_path: Path) -> list[str]:
    """What a C program with these statements prints."""
    need(C_COMPILERS[0])
    source, program = tmp_path / "words.c", tmp_path / "words"
    includes = RKNNRT.includes() + RKNN3.includes()
    source.write_text(
        f"{includes}#include <stdio.h>\nint main(void) {{\n" + "\n".join(lines) + "\nreturn 0; }\n"
    )
    subprocess.run(
        ["gcc", "-Wall", "-Wextra", "-Werror", f"-I{INCLUDE}", str(source), "-o", str(program)], check=True
    )
    return subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.parametrize("function", sorted(WORDS))
def test_words(function: str, tmp_path: Path) -> None:
    wanted = WORDS[function].split()
    kind = re.search(
        rf"\b{function}\((\w+) value\)", "".join(file.read_text() for file in INCLUDE.glob("*.h"))
    )
    assert kind
    lines = [f"puts({function}(({kind[1]}){number}));" for number in range(len(wanted))]
    assert printed(lines, tmp_path) == wanted


def test_words_of_matmul_types(tmp_path: Path) -> None:
    """Every member's own name, but for the one that the vendor's function does not know either."""
    members = RKNNRT.table()["enums"]["rknn_matmul_type"]
    found = printed([f"puts(get_matmul_type_string({name}));" for name in members], tmp_path)
    assert found == [name if value != 15 else "UNKNOW" for name, value in members.items()]


PROGRAM = """
#include <stdio.h>
#include <string.h>

struct _rknn_tensor_attr;
struct _rknn_tensor_memory;

static int compute(rknn_custom_op_context *op, rknn_custom_op_tensor *inputs, uint32_t n_inputs,
                   rknn_custom_op_tensor *outputs, uint32_t n_outputs)
{
    const float *from = (const float *)((char *)inputs[0].mem.virt_addr + inputs[0].mem.offset);
    return op->target == RKNN_TARGET_TYPE_CPU && n_inputs == 1 && n_outputs == 1 && from != NULL &&
           outputs[0].attr.type == RKNN_TENSOR_FLOAT32 ? RKNN_SUCC : RKNN_ERR_FAIL;
}

int main(int argc, char **argv)
{
    rknn_context context = 0;
    rknn_matmul_info info;
    rknn_custom_op op;
    rknn_input_output_num number;
    rknn_tensor_attr attr;
    rknn_input input;
    struct _rknn_tensor_memory *memory;
    if (argc < 2 || rknn_init(&context, argv[1], 0, RKNN_FLAG_COLLECT_PERF_MASK | RKNN_FLAG_PRIOR_HIGH, NULL) < 0)
        return 1;
    memset(&info, 0, sizeof(info));
    memset(&op, 0, sizeof(op));
    memset(&input, 0, sizeof(input));
    info.type = RKNN_INT8_MM_INT8_TO_INT32;
    info.B_layout = RKNN_MM_LAYOUT_NATIVE;
    op.version = 1;
    op.target = RKNN_TARGET_TYPE_CPU;
    op.compute = compute;
    strncpy(op.op_type, "Mine", RKNN_MAX_NAME_LEN - 1);
    if (rknn_register_custom_ops(context, &op, 1) != RKNN_SUCC) return 2;
    rknn_query(context, RKNN_QUERY_IN_OUT_NUM, &number, sizeof(number));
    attr.index = 0;
    rknn_query(context, RKNN_QUERY_INPUT_ATTR, &attr, sizeof(attr));
    printf("%s %s %s %s\\n", get_type_string(attr.type), get_qnt_type_string(attr.qnt_type),
           get_format_string(attr.fmt), get_matmul_type_string(info.type));
    input.type = RKNN_TENSOR_UINT8;
    input.fmt = RKNN_TENSOR_NHWC;
    rknn_inputs_set(context, 1, &input);
    memory = rknn_create_mem2(context, attr.size_with_stride, RKNN_FLAG_MEMORY_NON_CACHEABLE);
    rknn_mem_sync(context, memory, RKNN_MEMORY_SYNC_TO_DEVICE);
    rknn_set_core_mask(context, RKNN_NPU_CORE_0_1);
    return rknn_destroy(context);
}
"""


@pytest.mark.parametrize(
    "compiler", [c for c in (*C_COMPILERS, *CPP_COMPILERS) if "-ffreestanding" not in c.command], ids=str
)
def test_a_program_as_people_write_them(compiler: Compiler, tmp_path: Path) -> None:
    need(compiler)
    source = tmp_path / "program.c"
    source.write_text(RKNNRT.includes() + PROGRAM)
    compiled(compiler, source)


@pytest.mark.parametrize("header", ["rknn_op.h", "rknn3_op.h"])
@pytest.mark.parametrize("compiler", [*C_COMPILERS, *CPP_COMPILERS], ids=str)
def test_headers_of_plugins_stand_alone(compiler: Compiler, header: str, tmp_path: Path) -> None:
    need(compiler)
    source = tmp_path / "plugin.c"
    source.write_text(f'#include "{ROOT}/rknnlite/abi/include/{header}"\n')
    compiled(compiler, source)
