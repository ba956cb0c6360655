"""Slots, registers and types of nodes are named: no bare number and no taken-apart name outside of the tables of names."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import rknnlite
from rknnlite.formats import slots

CORE = Path(rknnlite.__file__).parent
FORMATS = sorted((CORE / "formats").glob("*.py"))
CPU = sorted((CORE.parent / "plugins" / "rknnlite_cpu").rglob("*.py"))
READERS = {
    "i8", "i32", "i32s", "f32", "f32s", "string", "strings", "table", "tables", "data", "span", "count", "has",
}  # fmt: skip
REGISTER_TABLES = {"register_map.py", "registers.py", "unverified_facts.py"}
NO_REGISTERS = {("__init__.py", "0x1000"), ("frame.py", "0x1004"), ("llm_weights.py", "0x7FFF")}
"""Container versions, and what rounds to bfloat16."""


def slot_numbers(tree: ast.AST) -> Iterator[str]:
    """Calls like ``table.i32s(3)``."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
            continue
        slot = node.args[0]
        if node.func.attr in READERS and isinstance(slot, ast.Constant) and type(slot.value) is int:
            yield ast.unparse(node)


def register_numbers(text: str) -> Iterator[str]:
    """Hexadecimal numbers where registers lie."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and type(node.value) is int and 0x1000 <= node.value < 0x8000:
            spelling = ast.get_source_segment(text, node) or ""
            if spelling.startswith("0x"):
                yield spelling


def taken_apart(tree: ast.AST) -> Iterator[str]:
    """Tests of parts of a node's type: ``op.startswith("Conv")``, ``"Relu" in node.op``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            cuts = node.func.attr in ("startswith", "endswith", "removeprefix", "removesuffix", "partition")
            words = [c.value for arg in node.args for c in ast.walk(arg) if isinstance(c, ast.Constant)]
            if cuts and any(str(word).startswith(("Conv", "BatchNorm", "Add", "Relu")) for word in words):
                yield ast.unparse(node)
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn)):
            texts = isinstance(node.left, ast.Constant) and isinstance(node.left.value, str)
            if texts and ast.unparse(node.comparators[0]) in ("op", "node.op", "view.node.op"):
                yield ast.unparse(node)


@pytest.mark.parametrize("path", FORMATS, ids=lambda path: path.name)
def test_slots_are_named(path: Path) -> None:
    assert list(slot_numbers(ast.parse(path.read_text("utf-8")))) == []


@pytest.mark.parametrize("path", [p for p in FORMATS if p.name not in REGISTER_TABLES], ids=lambda p: p.name)
def test_registers_are_named(path: Path) -> None:
    found = register_numbers(path.read_text("utf-8"))
    assert {(path.name, number) for number in found} <= NO_REGISTERS


@pytest.mark.parametrize("path", [*FORMATS, *CPU], ids=lambda path: path.name)
def test_types_of_nodes_are_taken_apart_in_one_place(path: Path) -> None:
    if path.name != "fused_ops.py":
        assert list(taken_apart(ast.parse(path.read_text("utf-8")))) == []


def test_bare_numbers_and_names_would_be_found() -> None:
    text = 'dims = table.i32s(3)\nshift = regs.get(0x4068, 0)\n"LeakyRelu" in op or op.startswith("Conv")'
    assert list(slot_numbers(ast.parse(text))) == ["table.i32s(3)"]
    assert list(register_numbers(text)) == ["0x4068"]
    assert len(list(taken_apart(ast.parse(text)))) == 2


@pytest.mark.parametrize("name", [name for name in slots.__all__ if name != "numbers"])
def test_no_two_names_share_a_number(name: str) -> None:
    numbers = slots.numbers(getattr(slots, name))
    single = [number for number in numbers.values() if isinstance(number, int)]
    assert len(single) == len(set(single)) and single


def test_the_mini_format_and_old_containers_use_names_of_container_6() -> None:
    """What differs is where a field lies, not what it is called."""
    for ours, mini in (
        ("RootSlot", "MiniRootSlot"),
        ("TensorSlot", "MiniTensorSlot"),
        ("NodeSlot", "MiniNodeSlot"),
    ):
        assert set(slots.numbers(getattr(slots, mini))) <= set(slots.numbers(getattr(slots, ours)))
    assert slots.numbers(slots.ClassicRootSlot)["BLOBS"] == slots.RootSlot.BLOBS
