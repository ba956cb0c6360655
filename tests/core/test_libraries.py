"""Commands of our own plugins: one row each, and a plugin that brings one is imported alone."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys

import pytest

from rknnlite import plugins
from rknnlite.extras import OWN_PLUGINS
from rknnlite.libraries import COMMANDS, command, commands_of
from tests.support.corpus import ROOT


def run(words: list[str], **settings: str) -> subprocess.CompletedProcess[str]:
    """``rknnlite`` with these words; which of our plugins are imported at its end is the last line of stdout."""
    code = (
        "import sys\nfrom rknnlite.cli import main\nfrom rknnlite.extras import OWN_PLUGINS\n"
        "code = main(sys.argv[1:])\n"
        "print(*sorted(name for name in OWN_PLUGINS if f'rknnlite_{name}' in sys.modules))\nsys.exit(code)"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **settings}
    return subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, env=env, cwd=ROOT, check=False
    )


@pytest.mark.parametrize("word", COMMANDS)
def test_a_row_names_the_module_of_its_command(word: str) -> None:
    found = command(word)
    assert found is not None and found.name == word


@pytest.mark.parametrize("name", [name for name, plugin in OWN_PLUGINS.items() if plugin.commands])
def test_what_a_plugin_offers_is_what_its_rows_say(name: str) -> None:
    offered = dict(plugins.offers("rknnlite_register_commands", name))[name]
    assert [one.name for one in offered] == [one.name for one in commands_of(name)]
    assert {one.name for one in offered} == set(OWN_PLUGINS[name].commands)


def test_other_words_are_no_commands_of_ours() -> None:
    assert command("info") is None and command("nonsense") is None


@pytest.mark.parametrize("word", ["perf", "top", "check"])
def test_a_command_imports_its_plugin_alone(word: str) -> None:
    done = run([word, "--help"])
    assert done.returncode == 0, done.stderr
    assert "insight" in done.stdout.splitlines()[-1].split()
    assert not {"llm", "server", "onnx", "ray", "authoring", "cpu", "rknnrt"} & set(
        done.stdout.splitlines()[-1].split()
    )


def test_without_its_plugin_a_command_says_what_to_do() -> None:
    done = run(["perf", "model.rknn"], RKNNLITE_DISABLE="insight")
    assert done.returncode == 4
    assert "the command perf is not here" in done.stderr and "RKNNLITE_DISABLE" in done.stderr


FORMER = {
    "rknnlite.llm": ("rknnlite_llm", "Chat"),
    "rknnlite.llm.stream": ("rknnlite_llm.streaming", "astream"),
    "rknnlite.llm.constraints": ("rknnlite_llm.constraints", "JsonSchema"),
    "rknnlite.llm.grammars": ("rknnlite_llm.grammars", "Grammars"),
    "rknnlite.llm.host_sampling": ("rknnlite_llm.host_sampling", "HostSampling"),
    "rknnlite.llm.quality": ("rknnlite_llm.quality", "evaluate"),
    "rknnlite.accuracy": ("rknnlite_insight", "judge"),
    "rknnlite.protocol.requests": ("rknnlite_protocol.requests", "InferRequest"),
    "rknnlite.native.addresses": ("rknnlite_backend.addresses", "view"),
    "rknnlite.native.crash": ("rknnlite_backend.crash", "caller"),
    "rknnlite.native.objects": ("rknnlite_backend.native_objects", "Native"),
    "rknnlite.spi.dumps": ("rknnlite_insight.dumps", "Dump"),
    "rknnlite.spi.lowering": ("rknnlite_graph.lowering", "Lowering"),
    "rknnlite.spi.one_node": ("rknnlite_insight.one_node", "run_op"),
    "rknnlite.spi.perf": ("rknnlite_backend.perf", "PerfTable"),
    "rknnlite.abi.init_flags": ("rknnlite_backend.abi.init_flags", ""),
}
"""Paths that earlier documents named, and where they lead."""


@pytest.mark.parametrize("former", FORMER)
def test_former_paths_lead_to_the_same_things(former: str) -> None:
    now, name = FORMER[former]
    found, there = importlib.import_module(former), importlib.import_module(now)
    if name:
        assert getattr(found, name) is getattr(there, name)
    assert sys.modules[now] is there, "the module itself was not loaded a second time"


def test_a_function_stays_one_beside_the_module_of_its_name() -> None:
    importlib.import_module("rknnlite.llm.stream")
    from rknnlite.llm import stream

    assert callable(stream)
