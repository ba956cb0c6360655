"""The plugin manager: entry points, switched off and broken plugins, who offers what."""

from __future__ import annotations

import importlib
import importlib.metadata
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from rknnlite import hookimpl, plugins
from rknnlite.errors import BackendUnavailable
from rknnlite.extras import OWN_PLUGINS
from rknnlite.spi import Backend, Context, CustomOp, OpenOptions, Probe
from tests.support.corpus import ROOT
from tests.support.entry_points import EntryPoint

OURS = {plugin.name: plugin.hooks for plugin in OWN_PLUGINS.values() if plugin.hooks}
"""Plugins of ours that have hooks: those with an entry point."""


class Toy(Backend):
    """A backend for tests; ``probe`` and ``refuses`` answer what they were told."""

    def __init__(self, name: str, probe: Probe, refusal: str | None = None) -> None:
        self.name, self._probe, self._refusal = name, probe, refusal

    def probe(self) -> Probe:
        return self._probe

    def refuses(self, model: Any) -> str | None:
        return self._refusal

    def open(self, model: Any, options: OpenOptions) -> Context:
        raise NotImplementedError


class Offer:
    """A plugin that offers backends."""

    def __init__(self, *offered: Backend) -> None:
        self._offered = offered

    @hookimpl
    def rknnlite_register_backends(self, register: Any) -> None:
        for backend in self._offered:
            register(backend)


@pytest.fixture(autouse=True)
def fresh_manager(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test starts with a manager that has not looked yet, and leaves none behind."""
    clear()
    yield
    clear()


def clear() -> None:
    plugins.manager.cache_clear()
    plugins.backends.cache_clear()


def install(monkeypatch: pytest.MonkeyPatch, **found: Any) -> None:
    monkeypatch.setattr(plugins, "_entry_points", lambda: [EntryPoint(n, p) for n, p in found.items()])


HERE = Probe(True, "here", priority=5)


def test_our_own_backend_comes_in_by_an_entry_point() -> None:
    pytest.importorskip("rknnlite_cpu")
    if not [entry for entry in plugins._entry_points() if entry.name == "cpu"]:
        pytest.skip("the distribution is not installed: pip install -e .")
    assert plugins.backend("cpu").probe().available
    assert plugins.backend("cpu") is plugins.backends()["cpu"]


def test_backends_of_several_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, one=Offer(Toy("a", HERE), Toy("b", HERE)), two=Offer(Toy("c", HERE)))
    assert sorted(plugins.backends()) == ["a", "b", "c"]
    assert plugins.problems() == {}


SLOW = """
import time
import rknnlite
from tests.core.test_plugins import HERE, Toy

time.sleep(0.2)

@rknnlite.hookimpl
def rknnlite_register_backends(register):
    register(Toy(__name__, HERE))
"""


@pytest.mark.slow
def test_threads_that_ask_while_plugins_are_imported_find_all_of_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    names = ["slow_one", "slow_two", "slow_three"]
    for name in names:
        (tmp_path / f"{name}.py").write_text(SLOW)
    monkeypatch.syspath_prepend(tmp_path)
    entries = [importlib.metadata.EntryPoint(name, name, plugins.GROUP) for name in names]
    monkeypatch.setattr(plugins, "_entry_points", lambda: entries)
    together = threading.Barrier(8)

    def ask(number: int) -> str:
        together.wait(60)
        return plugins.backend(names[number % 3]).name + ",".join(sorted(plugins.backends()))

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(ask, range(8)))
    assert found == [names[number % 3] + "slow_one,slow_three,slow_two" for number in range(8)]
    assert plugins.problems() == {}


def test_a_broken_plugin_is_named_and_skipped(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    install(monkeypatch, broken=ImportError("no module named cl"), good=Offer(Toy("a", HERE)))
    assert sorted(plugins.backends()) == ["a"]
    assert plugins.problems() == {"broken": "ImportError: no module named cl"}
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage() == (
        "plugin broken (broken_package) could not be loaded and is skipped: no module named cl"
    )


def test_disabled_plugins_are_not_even_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RKNNLITE_DISABLE", " one ,, two")
    install(
        monkeypatch, one=RuntimeError("must not load"), two=Offer(Toy("b", HERE)), three=Offer(Toy("c", HERE))
    )
    assert sorted(plugins.backends()) == ["c"]
    assert plugins.problems() == dict.fromkeys(("one", "two"), "switched off by RKNNLITE_DISABLE")


def test_unknown_backend_says_what_there_is_and_what_went_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    install(
        monkeypatch, broken=OSError("librknnrt.so: not found"), good=Offer(Toy("a", HERE), Toy("b", HERE))
    )
    with pytest.raises(BackendUnavailable) as caught:
        plugins.backend("npu")
    assert str(caught.value) == (
        "no backend named 'npu'; there are: a, b; plugin broken: OSError: librknnrt.so: not found"
    )


def test_no_plugin_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    with pytest.raises(BackendUnavailable, match="no backend named 'cpu'; there are: none"):
        plugins.backend("cpu")
    assert plugins.custom_ops() == []


def test_custom_ops_are_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    class Double(CustomOp):
        op_type = "cstDouble"

        def compute(self, ctx: Any, inputs: list[Any], outputs: list[Any]) -> None:
            outputs[0][...] = 2 * inputs[0]

    class Ops:
        @hookimpl
        def rknnlite_register_custom_ops(self, register: Any) -> None:
            register(Double())

    install(monkeypatch, ops=Ops())
    assert [op.op_type for op in plugins.custom_ops()] == ["cstDouble"]


def test_a_plugin_that_misspells_a_hook_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    class Misspelt:
        @hookimpl
        def rknnlite_register_backends(self, register: Any, surprise: Any) -> None:
            """Asks for an argument that the hook does not have."""

    install(monkeypatch, misspelt=Misspelt(), good=Offer(Toy("a", HERE)))
    assert sorted(plugins.backends()) == ["a"]
    assert "surprise" in plugins.problems()["misspelt"]


def test_plugins_of_ours_are_imported_for_their_hooks() -> None:
    loaded = (
        "import sys\nfrom rknnlite import plugins\nfrom rknnlite.extras import OWN_PLUGINS\n"
        "def there(): return sorted(n for n, p in OWN_PLUGINS.items() if p.hooks and 'rknnlite_' + n in sys.modules)\n"
        "plugins.manager()\nassert there() == [], there()\n"
        "plugins.backend('cpu')\nassert there() == ['cpu'], there()\n"
        "plugins.custom_ops()\nassert there() == ['cplugin', 'cpu'], there()\n"
        "plugins.op_hosts()\nassert there() == ['cplugin', 'cpu', 'opencl', 'riscv'], there()\n"
        "plugins.backends()\nassert not {'insight', 'llm', 'server', 'onnx'} & {*there()}, there()\n"
        "plugins.problems()\nassert there() == sorted(n for n, p in OWN_PLUGINS.items() if p.hooks), there()"
    )
    subprocess.run([sys.executable, "-c", loaded], check=True)


OURS = {name: plugin.hooks for name, plugin in OWN_PLUGINS.items() if plugin.hooks}
"""Hooks of plugins; libraries that have none have no entry point either."""


@pytest.mark.parametrize("name", OURS)
def test_the_hooks_of_plugins_of_ours_are_known(name: str) -> None:
    plugin = importlib.import_module(f"rknnlite_{name}")
    hooks = {hook for hook in vars(plugin) if hook.startswith("rknnlite_register_")}
    assert hooks == {f"rknnlite_register_{hook}" for hook in OURS[name]}


def test_every_entry_point_of_ours_has_a_row() -> None:
    tomllib = pytest.importorskip("tomllib")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["entry-points"][plugins.GROUP] == {name: f"rknnlite_{name}" for name in OURS}


def test_backends_of_ours_have_the_names_of_their_plugins() -> None:
    """Or begin with it and a dash: ``npu-machine`` is of the plugin ``npu``."""
    for plugin in (name for name, hooks in OURS.items() if "backends" in hooks):
        offered = dict(plugins.offers("rknnlite_register_backends", plugin))[plugin]
        assert offered
        for name in (backend.name for backend in offered):
            assert name == plugin or name.startswith(f"{plugin}-")
            assert plugins.backend(name) is plugins.backend(name)
    assert all(plugins.backend(name) is backend for name, backend in plugins.backends().items())
