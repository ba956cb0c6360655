"""What the promises are tried on: the backend that the command line names, and models that it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import rknnlite
from rknnlite import Context, plugins
from rknnlite.errors import BackendUnavailable
from rknnlite.formats import ModelFile
from rknnlite.spi import Backend

__all__ = ["backend", "context", "model", "opened", "pytest_generate_tests", "unopened"]

OWN = Path(__file__).parent


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each test of a model runs on each of ``--rknnlite-model``, else on the kit's own."""
    if "model" in metafunc.fixturenames and metafunc.module.__name__.startswith("rknnlite_pytest.contract."):
        files = metafunc.config.getoption("rknnlite_model") or sorted(map(str, OWN.glob("*.rknn")))
        metafunc.parametrize("model", files, indirect=True, ids=[Path(file).name for file in files])


@pytest.fixture(scope="session")
def unopened(request: pytest.FixtureRequest) -> Backend:
    """The backend, whether this machine can use it or not."""
    name = str(request.config.getoption("rknnlite_backend"))
    try:
        return plugins.backend(name)
    except BackendUnavailable as error:
        pytest.fail(
            f"{error}; is its package installed, and does its entry point stand in group rknnlite?",
            pytrace=False,
        )


@pytest.fixture(scope="session")
def backend(unopened: Backend) -> Backend:
    """The backend, where this machine can use it."""
    probe = plugins.probe(unopened)
    if not probe.available:
        pytest.skip(f"backend {unopened.name} cannot be used here: {probe.reason}")
    return unopened


@pytest.fixture
def model(backend: Backend, request: pytest.FixtureRequest) -> ModelFile:
    """A model that the backend does not refuse."""
    file = ModelFile(request.param)
    reason = backend.refuses(file)
    if reason is not None:
        pytest.skip(
            f"backend {backend.name} refuses the model: {reason} (name one of yours: --rknnlite-model FILE)"
        )
    return file


@pytest.fixture
def opened(backend: Backend, model: ModelFile) -> Iterator[Callable[..., Context]]:
    """``opened(**options)``: the model on the backend, closed behind the test."""
    with ExitStack() as stack:

        def open_one(**options: Any) -> Context:
            return stack.enter_context(rknnlite.open(model, backend=backend.name, **options))

        yield open_one


@pytest.fixture
def context(opened: Callable[..., Context]) -> Context:
    """The model on the backend."""
    return opened()
