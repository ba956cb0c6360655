"""A board for all tests of a process: a server with the CPU reference, in threads of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("grpc")
pytest.importorskip("starlette")

from rknnlite_remote import RemoteBackend
from rknnlite_server.settings import ServerSettings

import rknnlite
from rknnlite import config
from rknnlite.formats import ModelFile
from rknnlite.spi import Context, OpenOptions
from tests.server.conftest import running
from tests.support.corpus import ROOT

RESNET = ROOT / "examples" / "resnet18" / "resnet18_for_RK3588.rknn"


@contextlib.contextmanager
def served(folder: Path, **settings: Any) -> Iterator[str]:
    """The address of a board that takes uploads into ``folder``."""
    wanted = ServerSettings(
        grpc_port=0, workers=1, backend="cpu", allow_upload=True, upload_dir=str(folder), upload_models=3
    )
    with pytest.MonkeyPatch.context() as environment:  # as tests have it, which begin later
        environment.setenv("RKNNLITE_CONFIG", "")
        environment.setenv("RKNNLITE_ENGINE", "numpy")
        started = contextlib.ExitStack()
        server = started.enter_context(running(replace(wanted, **settings)))
    with started:
        yield f"127.0.0.1:{server.state.rpc.port}"


@pytest.fixture(scope="session")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(tmp_path_factory.mktemp("uploads")) as address:
        yield address


@pytest.fixture
def remotes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Writes a configuration file that is in force."""

    def write(text: str) -> None:
        config._read.cache_clear()
        file = tmp_path / "config.yaml"
        file.write_text(text)
        monkeypatch.setenv("RKNNLITE_CONFIG", str(file))

    return write


@pytest.fixture
def there(board: str) -> Iterator[Context]:
    """The example network on the board."""
    with rknnlite.open(RESNET, device_id=board) as context:
        yield context


@pytest.fixture
def here() -> Iterator[Context]:
    """The same network on the CPU reference of this process."""
    with rknnlite.open(RESNET, backend="cpu") as context:
        yield context


@pytest.fixture
def opening_there(board: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Lets ``open_cpu`` of a module of tests open on the board; what it opens is closed."""
    opened: list[Context] = []

    def open_there(source: Any, **options: Any) -> Context:
        model = source if isinstance(source, ModelFile) else ModelFile(source)
        opened.append(RemoteBackend().open(model, OpenOptions(device_id=board, **options)))
        return opened[-1]

    yield lambda module: monkeypatch.setattr(module, "open_cpu", open_there)
    for context in opened:
        context.close()
