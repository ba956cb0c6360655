"""A real server on the example model, on a port of its own, for all tests of a process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

uvicorn = pytest.importorskip("uvicorn")
pytest.importorskip("starlette")
pytest.importorskip("jinja2")
httpx = pytest.importorskip("httpx")

from rknnlite_server.app import make_app  # noqa: E402
from rknnlite_server.app_state import State  # noqa: E402
from rknnlite_server.settings import ModelSettings, ServerSettings  # noqa: E402

from tests.support.needs import needs  # noqa: E402

TINY = Path(__file__).parents[2] / "examples" / "llm_chat" / "models" / "tiny.rknn"
MODEL = ModelSettings(model=str(TINY), alias="tiny", temp=0.0)
QUESTION = [{"role": "user", "content": "What is 2 + 3?"}]


@dataclass
class Served:
    """A server that runs."""

    url: str
    state: State
    http: Any
    server: Any = None

    def post(self, path: str, **body: Any) -> Any:
        return self.http.post(path, json=body)

    def chat(self, **body: Any) -> Any:
        return self.post("/v1/chat/completions", **{"messages": QUESTION, **body})


@contextmanager
def running(
    settings: ServerSettings, wait: bool = True, told: Callable[[str, str], None] = lambda status, text: None
) -> Iterator[Served]:
    """Start a server on a free port, and end it."""
    from rknnlite_server.http_server import Connection, Server

    app = make_app(settings, on_status=told)
    config = uvicorn.Config(
        app, host="127.0.0.1", port=0, log_level="warning", lifespan="on", http=Connection, ws="none"
    )
    server = Server(config, settings.drain, app.state.rknnlite.end_runs, app.state.rknnlite.end_rpc)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        until(lambda: server.started or not thread.is_alive())
        port = server.servers[0].sockets[0].getsockname()[1]
        url = f"http://127.0.0.1:{port}"
        with httpx.Client(base_url=url, timeout=60) as http:
            served = Served(url, app.state.rknnlite, http, server)
            if wait:
                until(lambda: served.state.ready or served.state.failure)
                assert not served.state.failure
            yield served
    finally:
        server.should_exit = True
        thread.join(60)
        assert not thread.is_alive()


def until(true: Callable[[], Any], seconds: float = 60) -> None:
    """Wait for a condition."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


@pytest.fixture(scope="module")
def page() -> Iterator[Any]:
    """A tab of a headless Chromium."""
    needs("chromium")
    from tests.support.browser import browsing

    with browsing() as page:
        yield page


@pytest.fixture(scope="session")
def server() -> Iterator[Served]:
    with running(ServerSettings(models=(MODEL,), parallel=4, metrics=True)) as served:
        yield served
