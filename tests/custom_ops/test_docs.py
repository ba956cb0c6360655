"""docs/plugin-authors.md names every hook and every member of the contracts."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

from rknnlite import hookspecs
from rknnlite.spi import CustomOp, GpuServices, OpContext, OpHost, OpNode, PostProcess
from rknnlite.spi.command import Command
from tests.support.corpus import ROOT

GUIDE = (ROOT / "docs" / "plugin-authors.md").read_text(encoding="utf-8")


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


@pytest.mark.parametrize("contract", [CustomOp, OpContext, OpNode, OpHost, PostProcess, GpuServices, Command])
def test_every_member_of_a_contract_is_documented(contract: Any) -> None:
    for name in members(contract):
        value = inspect.getattr_static(contract, name, None)
        if inspect.isfunction(value) and contract is not OpNode:
            assert f"`{name}({', '.join(arguments(value))})`" in GUIDE, f"{contract.__name__}.{name}"
        else:
            assert re.search(rf"`{name}(\(\))?`", GUIDE), f"{contract.__name__}.{name}"


def test_there_is_something_to_document() -> None:
    assert len(HOOKS) >= 4
    assert {"op_type", "init", "compute", "destroy", "shape_infer"} <= set(members(CustomOp))


def test_links_lead_somewhere() -> None:
    for link in re.findall(r"\]\(\.\./([^)#]+)\)", GUIDE):
        assert (ROOT / link).exists(), link
