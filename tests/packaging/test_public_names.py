"""What 1.0 promises is what the list has: nothing is lost, and what is new was meant to be."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import rknnlite
from rknnlite import hookspecs, plugins, spi
from rknnlite.extras import EntryPoint
from tests.support.corpus import ROOT

if not (ROOT / "tools" / "release").exists():
    pytest.skip("an installed package has no tools", allow_module_level=True)

from tools.release.public_names import LIST, lines, verdict
from tools.release.source_names import Module, described

LISTED = LIST.read_text("utf-8").splitlines()


def test_the_tree_has_what_the_list_has() -> None:
    assert not verdict(LISTED, lines())


def test_the_list_is_sorted_and_says_everything_once() -> None:
    assert sorted(set(LISTED)) == LISTED


def test_a_lost_parameter_is_told_with_what_to_do() -> None:
    text = verdict(["m.open(path, soc=)"], ["m.open(path)"])
    assert "deprecate it first and keep it (docs/stability.md):\n  m.open(path, soc=)" in text


def test_an_addition_asks_for_one_command() -> None:
    text = verdict([], ["m.open(path)"])
    assert text.startswith("new; tools/release/public_names.py --write") and "deprecate" not in text


def test_every_kind_of_promise_is_listed() -> None:
    for line in (
        "command run",
        f"contract {spi.CONTRACT}",
        "format package of a language model 2",
        "hook rknnlite_register_backends(register)",
        "rknnlite.Context.infer_async(*arrays, **options)",
        "rknnlite.CoreMask.CORE_0_1",
        "rknnlite.RawOutput.zero_point",
        "rknnlite_opencl.Kernel",
    ):
        assert line in LISTED


def test_every_name_of_the_room_is_listed() -> None:
    found = {line.split("(")[0] for line in LISTED}
    assert {f"rknnlite.{name}" for name in rknnlite.__all__} <= found


def test_parameters_are_those_that_python_sees() -> None:
    for name in ("open", "load_custom_ops"):
        (line,) = (line for line in LISTED if line.startswith(f"rknnlite.{name}("))
        told = [word.strip("*=") for word in line.partition("(")[2].rstrip(")").split(", ")]
        assert [word for word in told if word] == list(inspect.signature(getattr(rknnlite, name)).parameters)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("def f(a, /, b, *rest, c, d=1, **more): ...", "f(a, /, b, *rest, c, d=, **more)"),
        ("def f(*, c=None): ...", "f(*, c=)"),
        ("async def f(): ...", "f()"),
        ("f = 1", "f"),
    ],
)
def test_a_line_has_all_kinds_of_parameters(text: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(text)
    assert list(described("f", Module("m", tmp_path / "m.py"), "f")) == [told]


def test_members_of_base_classes_count(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(
        "class A:\n    size: int\n    def __init__(self, x): ...\n"
        "class B(A):\n    @property\n    def name(self): ...\n    def _own(self): ...\n"
    )
    found = sorted(described("B", Module("m", tmp_path / "m.py"), "B"))
    assert found == ["B", "B.__init__(x)", "B.name", "B.size"]


class Plugin:
    """Stands for the module of a plugin."""

    RKNNLITE_CONTRACT: object = spi.CONTRACT


def test_a_plugin_of_these_contracts_is_taken_and_one_that_names_none() -> None:
    hookspecs.check_contract(Plugin())
    hookspecs.check_contract(object())


@pytest.mark.parametrize(
    ("theirs", "remedy"),
    [
        (spi.CONTRACT + 1, "update rknnlite"),
        (spi.CONTRACT - 1, "update that plugin"),
        ("x", "update rknnlite"),
    ],
)
def test_a_plugin_of_other_contracts_is_left_out_and_named(
    theirs: object, remedy: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Plugin, "RKNNLITE_CONTRACT", theirs)
    monkeypatch.setattr(EntryPoint, "load", lambda self: Plugin())
    monkeypatch.setattr(plugins, "_entry_points", lambda: [EntryPoint("strange", "json")])
    plugins.manager.cache_clear()
    try:
        assert plugins.enter("strange") is None
        told = plugins.problems()["strange"]
        assert f"made for contract {theirs!r}, rknnlite.spi has {spi.CONTRACT}; {remedy}" in told
    finally:
        monkeypatch.undo()
        plugins.manager.cache_clear()
