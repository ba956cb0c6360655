"""The pages for authors name every hook and every member of the contracts."""

from __future__ import annotations

import ast
import inspect
import re
from typing import Any

import pytest

from rknnlite import hookspecs
from rknnlite.spi import (
    Backend,
    Context,
    CustomOp,
    GpuServices,
    Input,
    Memory,
    OpContext,
    OpHost,
    OpNode,
    PostProcess,
)
from rknnlite.spi.command import Command
from rknnlite.spi.matmul import MatmulContext
from rknnlite.tensor import TensorAttr
from tests.support.corpus import ROOT

GUIDE = "".join(
    (ROOT / "docs" / f"{page}-authors.md").read_text(encoding="utf-8") for page in ("plugin", "backend")
)


def members(contract: Any) -> list[str]:
    named = [name for name in vars(contract) if not name.startswith("_")]
    return sorted({*named, *(n for n in getattr(contract, "__annotations__", {}) if not n.startswith("_"))})


def arguments(function: Any) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name != "self"]


HOOKS = [
    name
    for name, value in vars(hookspecs).items()
    if inspect.isfunction(value) and name.startswith("rknnlite_")
]


@pytest.mark.parametrize("hook", HOOKS)
def test_every_hook_is_documented_with_its_arguments(hook: str) -> None:
    assert f"`{hook}({', '.join(arguments(getattr(hookspecs, hook)))})`" in GUIDE


@pytest.mark.parametrize(
    "contract",
    [
        Backend, Command, CustomOp, GpuServices, Input, MatmulContext, Memory, OpContext, OpHost, OpNode, PostProcess,
        TensorAttr,
    ],
)  # fmt: skip
def test_every_member_of_a_contract_is_documented(contract: Any) -> None:
    for name in members(contract):
        value = inspect.getattr_static(contract, name, None)
        if inspect.isfunction(value) and contract is not OpNode:
            assert f"`{name}({', '.join(arguments(value))})`" in GUIDE, f"{contract.__name__}.{name}"
        else:
            assert re.search(rf"`{name}(\(\))?`", GUIDE), f"{contract.__name__}.{name}"


def test_what_a_context_must_have_is_documented_and_the_example_has_no_more() -> None:
    obligatory = set(Context.__abstractmethods__)
    for name in obligatory:
        value = inspect.getattr_static(Context, name)
        shown = name if isinstance(value, property) else f"{name}({', '.join(arguments(value))})"
        assert f"`{shown}`" in GUIDE
    example = ast.parse((ROOT / "examples/backend_package/rknnlite_mean/backend.py").read_text("utf-8"))
    (cls,) = [node for node in example.body if isinstance(node, ast.ClassDef) and node.name == "MeanContext"]
    named = {node.name for node in cls.body if isinstance(node, ast.FunctionDef)}
    named |= {target.id for node in cls.body if isinstance(node, ast.Assign) for target in node.targets}
    assert named - {"__init__"} == obligatory


def test_there_is_something_to_document() -> None:
    assert len(HOOKS) >= 4
    assert {"op_type", "init", "compute", "destroy", "shape_infer"} <= set(members(CustomOp))


def test_links_lead_somewhere() -> None:
    for link in re.findall(r"\]\(\.\./([^)#]+)\)", GUIDE):
        assert (ROOT / link).exists(), link
