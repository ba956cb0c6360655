"""Who gets in and what is told: keys, other sites' pages, unknown routes, logs."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest
from rknnlite_server.settings import ServerSettings

from .conftest import MODEL, QUESTION, Served, httpx, running, until

SITE = "https://chat.example"
KEY = "secret-of-mine"


@pytest.fixture(scope="module")
def locked() -> Any:
    with running(
        ServerSettings(models=(MODEL,), api_keys=("other", KEY), cors=(SITE,), metrics=True)
    ) as served:
        yield served


@pytest.mark.parametrize(
    "given", ["", "Bearer", "Bearer wrong", f"Basic {KEY}", f"Bearer {KEY}x", "Bearer \u00e9"]
)
def test_without_a_key_nothing_is_read(locked: Served, given: str) -> None:
    head = {"Authorization": given.encode()} if given else {}
    for method, path in (
        ("GET", "/v1/models"),
        ("POST", "/v1/chat/completions"),
        ("GET", "/metrics"),
        ("GET", "/x"),
    ):
        response = locked.http.request(method, path, headers=head)
        error = response.json()["error"]
        assert (response.status_code, error["type"], error["code"]) == (
            401,
            "authentication_error",
            "invalid_api_key",
        )
        assert response.headers["www-authenticate"] == "Bearer"
    assert locked.http.get("/api/tags", headers=head).json() == {"error": "Invalid API Key"}


def test_with_a_key_all_is_open(locked: Served) -> None:
    for scheme in ("Bearer", "bearer"):
        head = {"Authorization": f"{scheme} {KEY}"}
        assert locked.http.get("/v1/models", headers=head).status_code == 200
        assert locked.http.get("/api/tags", headers=head).status_code == 200
    for path in ("/", "/health"):  # what tells nothing needs no key
        assert locked.http.get(path).status_code == 200


def test_pages_of_allowed_sites_may_ask(locked: Served) -> None:
    asked = {
        "Origin": SITE,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization",
    }
    allowed = locked.http.options("/v1/chat/completions", headers=asked)
    assert allowed.status_code == 200 and allowed.headers["access-control-allow-origin"] == SITE
    assert "authorization" in allowed.headers["access-control-allow-headers"].lower()
    refused = locked.http.options("/v1/chat/completions", headers={**asked, "Origin": "https://else.example"})
    assert refused.status_code == 400 and "access-control-allow-origin" not in refused.headers
    without = locked.http.get("/v1/models", headers={"Origin": SITE})
    assert without.status_code == 401 and without.headers["access-control-allow-origin"] == SITE


def test_no_page_may_ask_where_none_is_allowed(server: Served) -> None:
    asked = {"Origin": SITE, "Access-Control-Request-Method": "POST"}
    assert "access-control-allow-origin" not in server.http.options("/v1/models", headers=asked).headers
    assert (
        "access-control-allow-origin" not in server.http.get("/v1/models", headers={"Origin": SITE}).headers
    )


def test_routes_that_do_not_exist_and_methods_that_do_not_fit(server: Served) -> None:
    for path in ("/v1/nothing", "/v2/chat/completions", "/metrics/x"):
        response = server.http.get(path)
        assert response.status_code == 404 and response.json()["error"]["type"] == "not_found_error"
    response = server.http.get("/v1/chat/completions")
    assert response.status_code == 405 and response.json()["error"]["type"] == "invalid_request_error"
    assert response.headers["allow"] == "POST"
    for path in ("/", "/health", "/v1/models", "/api/tags", "/api/version"):
        response = server.http.head(path)
        assert response.status_code == 200 and response.content == b""


def test_keys_are_in_no_log(caplog: pytest.LogCaptureFixture) -> None:
    """Neither those of headers, nor what careless clients put into addresses."""
    from rknnlite_server import control

    states: list[control.ServerStatus] = []
    settings = ServerSettings(models=(MODEL,), api_keys=(KEY,), port=0)
    server = control._Running(settings, lambda status, text: states.append(status), 3)
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    for name in ("uvicorn", "uvicorn.access", "uvicorn.error", "rknnlite"):
        logging.getLogger(name).addHandler(handler)
    thread = threading.Thread(target=server.run, daemon=True)
    try:
        thread.start()
        until(lambda: states or not thread.is_alive())
        with httpx.Client(base_url=server.url) as http:
            http.get("/v1/models", params={"api_key": KEY})
            http.post(
                "/v1/chat/completions",
                headers={"Authorization": f"Bearer {KEY}"},
                json={"messages": QUESTION},
            )
            http.post("/v1/chat/completions", headers={"Authorization": f"Bearer {KEY}z"}, content=KEY)
    finally:
        server.stop()
        thread.join(60)
        for name in ("uvicorn", "uvicorn.access", "uvicorn.error", "rknnlite"):
            logging.getLogger(name).removeHandler(handler)
    text = "\n".join([*lines, caplog.text])
    assert '"GET /v1/models HTTP/1.1" 401' in text and KEY not in text
    assert KEY not in repr(settings)
