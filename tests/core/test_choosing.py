"""Choosing a backend: explicit argument, then the environment, then priority; never a silent fallback.

One policy for models, language models and matrix products: every test here runs for all three.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rknnlite_llm import open_llm

import rknnlite
from rknnlite import plugins
from rknnlite.choosing import choose_backend, choose_llm_backend, choose_matmul_backend
from rknnlite.errors import BackendUnavailable, ModelInvalid, ParamInvalid
from rknnlite.formats import ModelFile
from rknnlite.spi import Backend, Probe
from rknnlite.spi.types import Options

from .test_plugins import EntryPoint, Offer, Toy, clear

MODEL = ModelFile(b"never read")
Choose = Callable[..., Backend]


class Able(Toy):
    """A toy that does everything; with ``library`` in the options it is available in any case."""

    def refuses_llm(self, model: Any) -> str | None:
        return self._refusal

    def open_llm(self, model: Any, weights: Any, options: Any) -> Any:
        raise NotImplementedError

    def matmul(self, spec: Any) -> Any:
        raise NotImplementedError

    def probe_for(self, options: Options) -> Probe:
        return Probe(True, "named", priority=200) if options.extra.get("library") else self.probe()


NPU = Able("npu", Probe(True, "found", priority=100))
OLD = Able("old", Probe(True, "found", priority=50))
REFERENCE = Able("reference", Probe(True, "always", priority=0))
AWAY = Able("away", Probe(False, "librknnrt.so is not installed", priority=200))
PICKY = Able("picky", Probe(True, "found", priority=300), refusal="wants another container")
LATER = Able("later", Probe(True, "found", priority=400))
LATER.generation = "rknpu3"


@pytest.fixture
def offer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Installs backends instead of the real plugins."""

    def install(*backends: Any, **broken: Exception) -> None:
        clear()
        found = [EntryPoint("toys", Offer(*backends)), *(EntryPoint(n, e) for n, e in broken.items())]
        monkeypatch.setattr(plugins, "_entry_points", lambda: found)

    yield install
    clear()


def of_model(name: str | None = None, options: Options = Options()) -> Backend:
    return choose_backend(MODEL, name, options)


def of_llm(name: str | None = None, options: Options = Options()) -> Backend:
    return choose_llm_backend(MODEL, name, options)


@pytest.fixture(params=[of_model, of_llm, choose_matmul_backend], ids=["model", "llm", "matmul"])
def choose(request: pytest.FixtureRequest) -> Choose:
    return request.param


def test_priority_decides(offer: Any, choose: Choose, caplog: pytest.LogCaptureFixture) -> None:
    offer(REFERENCE, OLD, AWAY, NPU)
    assert choose() is NPU
    assert not caplog.records


def test_the_environment_beats_priority(offer: Any, choose: Choose, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(NPU, OLD)
    monkeypatch.setenv("RKNNLITE_BACKEND", "old")
    assert choose() is OLD


def test_the_argument_beats_the_environment(
    offer: Any, choose: Choose, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(NPU, OLD, REFERENCE)
    monkeypatch.setenv("RKNNLITE_BACKEND", "old")
    assert choose("reference") is REFERENCE


@pytest.mark.parametrize("by_variable", [True, False])
def test_a_named_backend_that_is_away_is_an_error(
    offer: Any, choose: Choose, monkeypatch: pytest.MonkeyPatch, by_variable: bool
) -> None:
    offer(NPU, AWAY)
    if by_variable:
        monkeypatch.setenv("RKNNLITE_BACKEND", "away")
    with pytest.raises(
        BackendUnavailable, match=r"backend away cannot be used here: librknnrt\.so is not installed"
    ):
        choose(None if by_variable else "away")


def test_options_count_for_probing(offer: Any, choose: Choose) -> None:
    """A library that the call names makes a backend available, named or not."""
    offer(NPU, AWAY)
    named = Options(extra={"library": "/opt/librknnrt.so"})
    assert choose("away", named) is AWAY
    assert choose(None, named).probe_for(named).reason == "named"


def test_an_unknown_name_is_an_error(offer: Any, choose: Choose) -> None:
    offer(NPU)
    with pytest.raises(BackendUnavailable, match="no backend named 'gpu'; there are: npu"):
        choose("gpu")


def test_the_generation_of_the_soc_counts(offer: Any, choose: Choose) -> None:
    offer(NPU, LATER)
    assert choose() is LATER
    assert choose(None, Options(soc="rk3588")) is NPU
    assert choose(None, Options(soc="rk1820")) is LATER


@pytest.mark.parametrize("name", [None, "npu"])
def test_an_unknown_soc_is_an_error(offer: Any, choose: Choose, name: str | None) -> None:
    offer(NPU)
    with pytest.raises(ParamInvalid, match="rk9999"):
        choose(name, Options(soc="rk9999"))


@pytest.mark.parametrize("choose", [of_model, of_llm])
def test_a_backend_that_refuses_the_model_is_passed_over(offer: Any, choose: Choose) -> None:
    offer(PICKY, NPU)
    assert choose() is NPU


@pytest.mark.parametrize("choose", [of_model, of_llm])
def test_when_all_refuse_the_file_itself_says_what_is_wrong(offer: Any, choose: Choose) -> None:
    offer(PICKY)
    with pytest.raises(ModelInvalid, match="it starts with b'never re', not b'RKNN'"):
        choose()


def test_a_backend_that_does_no_such_thing_is_passed_over_and_named(offer: Any) -> None:
    plain = Toy("plain", Probe(True, "found", priority=500))
    offer(plain, NPU)
    assert (of_model(), of_llm(), choose_matmul_backend()) == (plain, NPU, NPU)
    for choose in (of_llm, choose_matmul_backend):
        with pytest.raises(BackendUnavailable, match=r"backend plain cannot be used here: it (runs|has) no"):
            choose("plain")
    offer(plain)
    with pytest.raises(BackendUnavailable, match="no backend can multiply here; plain: has no matmul"):
        choose_matmul_backend()


def test_one_warning_line_on_the_reference(
    offer: Any, choose: Choose, caplog: pytest.LogCaptureFixture
) -> None:
    offer(AWAY, REFERENCE)
    assert choose() is REFERENCE
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "on the CPU reference (backend reference)" in record.getMessage()


def test_no_warning_when_the_reference_was_asked_for(
    offer: Any, choose: Choose, caplog: pytest.LogCaptureFixture
) -> None:
    offer(AWAY, REFERENCE)
    assert choose("reference") is REFERENCE
    assert not caplog.records


def test_nothing_here_names_every_reason(offer: Any, choose: Choose) -> None:
    offer(AWAY, broken=ImportError("no numpy"))
    with pytest.raises(BackendUnavailable) as caught:
        choose()
    assert "away: librknnrt.so is not installed" in str(caught.value)
    assert "plugin broken: ImportError: no numpy" in str(caught.value)


def test_no_plugin_is_installed(offer: Any, choose: Choose) -> None:
    offer()
    with pytest.raises(
        BackendUnavailable, match=r"no backend can (run|multiply).* here; no plugin is installed"
    ):
        choose()


# -- through the doors ----------------------------------------------------------------------------------------


def test_every_door_asks_with_its_options(offer: Any, tmp_path: Path) -> None:
    """A named library reaches the probe of models, language models and matrix products alike."""
    offer(AWAY)
    with pytest.raises(NotImplementedError):
        rknnlite.open(b"never read", backend="away", library="/opt/librknnrt.so")
    with pytest.raises(NotImplementedError):
        open_llm(b"never read", backend="away", library="/opt/librknnrt.so")
    with pytest.raises(NotImplementedError):
        rknnlite.Matmul(4, 64, 32, backend="away", library="/opt/librknnrt.so")


def test_every_door_refuses_an_unknown_soc(offer: Any) -> None:
    offer(NPU)
    for door in (
        lambda: rknnlite.open(b"never read", soc="rk9999"),
        lambda: open_llm(b"never read", soc="rk9999"),
        lambda: rknnlite.Matmul(4, 64, 32, soc="rk9999"),
    ):
        with pytest.raises(ParamInvalid, match="rk9999"):
            door()
