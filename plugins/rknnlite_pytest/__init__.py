"""pytest plugin: tests of programs for the NPU, on a backend that the command line names, against stored outputs.

pytest loads it in every session of everybody who has rknnlite installed, so nothing of rknnlite and no numpy is imported
before a test asks for one of its fixtures. ``-p no:rknnlite_pytest`` leaves it out.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Callable

import pytest

if TYPE_CHECKING:
    from rknnlite import Context

    from .golden import Golden

_AUTO = "auto"
_SETTINGS = {"rknn_backend": "RKNNLITE_BACKEND", "rknn_soc": "RKNNLITE_SOC"}
"""Options and ini values, and the variables by which everything in the session, child processes too, learns them."""
_CONTRACT = Path(__file__).with_name("contract")
_before = pytest.StashKey[dict[str, "str | None"]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options and ini values of the plugin."""
    group = parser.getgroup("rknnlite", "models for Rockchip NPUs")
    group.addoption(
        "--rknn-backend",
        metavar="NAME",
        help="what computes: cpu, rknnrt, ...; auto: the best one available; one that is absent fails the tests",
    )
    group.addoption("--rknn-soc", metavar="NAME", help="SoC that the CPU reference plays, e.g. rk3588")
    group.addoption(
        "--rknn-update-golden",
        action="store_true",
        help="store the outputs that rknn_golden is given instead of comparing them",
    )
    group.addoption(
        "--rknnlite-backend",
        metavar="NAME",
        help="run the tests of what every backend promises on this one; beside the tests that the command line names",
    )
    group.addoption(
        "--rknnlite-model",
        metavar="FILE",
        action="append",
        help="a model for these tests, may be given several times; without one they have their own for RK3588",
    )
    parser.addini("rknn_backend", "as --rknn-backend, but tests are skipped where it is absent", default="")
    parser.addini("rknn_soc", "as --rknn-soc", default="")
    parser.addini("rknn_golden_dir", "folder of golden outputs, beside the test file", default="golden")


def pytest_configure(config: pytest.Config) -> None:
    """Tell the backend and the SoC to the whole session: option, else variable, else ini value."""
    config.stash[_before] = {variable: os.environ.get(variable) for variable in _SETTINGS.values()}
    for setting, variable in _SETTINGS.items():
        value = config.getoption(setting) or os.environ.get(variable) or config.getini(setting)
        if value == _AUTO:
            os.environ.pop(variable, None)
        elif value:
            os.environ[variable] = value
    if config.getoption("rknnlite_backend"):
        _add_contract(config)


def _add_contract(config: pytest.Config) -> None:
    """Collect the contract test kit: alone, or behind what the command line names."""
    from .contract import fixtures

    if config.pluginmanager.hasplugin("rknnlite_contract"):
        return
    config.pluginmanager.register(fixtures, "rknnlite_contract")
    named = [word for word in config.args if word in config.invocation_params.args]
    config.args[:] = [*named, *map(str, sorted(_CONTRACT.glob("test_*.py")))]


def pytest_unconfigure(config: pytest.Config) -> None:
    """Leave the environment as it was."""
    for variable, value in config.stash.get(_before, {}).items():
        if value is None:
            os.environ.pop(variable, None)
        else:
            os.environ[variable] = value


@pytest.fixture
def rknn_backend(request: pytest.FixtureRequest) -> str:
    """Name of the backend that computes in this test, ``auto`` where the best one is chosen for each model.

    ``RKNNLite`` and ``rknnlite.open`` use it without being told. Where it is absent the test fails if the command line
    or the environment names it, and is skipped if the ini file does.
    """
    from rknnlite import plugins
    from rknnlite.errors import BackendUnavailable

    name = os.environ.get(_SETTINGS["rknn_backend"])
    if not name:
        return _AUTO
    try:
        probe = plugins.probe(plugins.backend(name))
    except BackendUnavailable as error:
        pytest.fail(str(error), pytrace=False)
    if not probe.available:
        demanded = request.config.getoption("rknn_backend") or _variable_before(request.config)
        stop = pytest.fail if demanded else pytest.skip
        stop(f"backend {name} cannot be used here: {probe.reason}")
    return name


def _variable_before(config: pytest.Config) -> str | None:
    return config.stash[_before][_SETTINGS["rknn_backend"]]


@pytest.fixture
def rknn_open(rknn_backend: str) -> Iterator[Callable[..., Context]]:
    """``rknn_open(model, **options)`` as ``rknnlite.open``, on the backend of the session; closed behind the test."""
    import rknnlite

    with contextlib.ExitStack() as opened:
        yield lambda model, **options: opened.enter_context(rknnlite.open(model, **options))


@pytest.fixture
def rknn_golden(request: pytest.FixtureRequest) -> Golden:
    """``rknn_golden(outputs, steps=1)``: outputs held against those that ``--rknn-update-golden`` stored.

    See ``rknnlite_pytest.golden.Golden`` for what it takes.
    """
    from .golden import Golden, file_stem

    folder = request.path.parent / str(request.config.getini("rknn_golden_dir"))
    _, _, inside = request.node.nodeid.partition("::")
    return Golden(
        folder / file_stem(request.path.stem, inside), bool(request.config.getoption("rknn_update_golden"))
    )
