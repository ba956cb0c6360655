"""A server without keys tells programs from strangers' web pages."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("starlette")

from rknnlite_server.origins import refusal

from tests.support.needs import needs

from .conftest import MODEL, QUESTION, ServerSettings, running

RESNET = str(Path(__file__).parents[2] / "examples" / "resnet18" / "resnet18_for_RK3588.rknn")
UNLOAD = "/v2/repository/models/resnet18_for_RK3588/unload"
JSON = {"content-type": "application/json"}
HERE = {"host": "127.0.0.1:8080"}


def status(
    method: str,
    headers: dict[str, str],
    called: str = "127.0.0.1",
    hosts: tuple[str, ...] = (),
    origins: tuple[str, ...] = (),
) -> int:
    error = refusal(method, headers, called, ("127.0.0.1", *hosts), origins)
    return 200 if error is None else error.status


@pytest.mark.parametrize(
    ("host", "answer"),
    [
        ("127.0.0.1:8080", 200),
        ("127.0.0.2", 200),
        ("localhost", 200),
        ("LOCALHOST.:8080", 200),
        ("board.localhost:1", 200),
        ("[::1]:8080", 200),
        ("[::ffff:127.0.0.1]:8080", 200),
        ("192.168.1.5:8080", 200),  # what was called
        ("192.168.1.6:8080", 403),
        ("evil.example", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1.evil.example:8080", 403),
        ("user@localhost", 403),
        ("localhost/evil", 403),
        ("localhost:port", 403),
        ("", 200),  # HTTP/1.0: no browser
    ],
)
def test_hosts(host: str, answer: int) -> None:
    assert status("GET", {"host": host} if host else {}, called="192.168.1.5") == answer


def test_hosts_that_were_configured() -> None:
    assert status("GET", {"host": "Models.Example:443"}, hosts=("models.example",)) == 200
    assert status("GET", {"host": "other.example"}, hosts=("models.example",)) == 403
    assert status("GET", {"host": "other.example"}, hosts=("*",)) == 200


@pytest.mark.parametrize(
    ("origin", "answer"),
    [
        ("http://127.0.0.1:8080", 200),
        ("https://127.0.0.1:8080", 200),  # a proxy speaks TLS
        ("https://listed.example", 200),
        ("http://listed.example", 403),
        ("http://127.0.0.1:3000", 403),  # another server of this machine
        ("http://evil.example", 403),
        ("null", 403),
        ("", 403),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_origins(origin: str, answer: int, method: str) -> None:
    headers = {**HERE, **JSON, "origin": origin}
    assert status(method, headers, origins=("https://listed.example",)) == answer


@pytest.mark.parametrize(
    ("headers", "answer"),
    [
        (JSON, 200),
        ({"content-type": "application/json; charset=utf-8"}, 200),
        ({"content-type": "application/octet-stream"}, 200),
        ({}, 200),  # Triton's client sends none
        ({"sec-fetch-site": "same-origin"}, 415),
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "TEXT/plain;charset=UTF-8"}, 415),
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
        ({"content-type": "multipart/form-data; boundary=x"}, 415),
        ({"content-type": "application/x-www-form-urlencoded", "inference-header-content-length": "5"}, 200),
    ],
)
def test_content_types(headers: dict[str, str], answer: int) -> None:
    assert status("POST", {**HERE, **headers}) == answer
    for other in ("GET", "DELETE", "PUT"):  # no page sends the last two without a preflight
        assert status(other, {**HERE, **headers}) == 200


FORM = {"content-type": "multipart/form-data; boundary=x"}


@pytest.mark.parametrize(
    ("headers", "answer"),
    [
        (FORM, 200),  # OpenAI's clients
        ({**FORM, "origin": "http://127.0.0.1:8080"}, 200),  # a page of ours
        ({**FORM, "origin": "https://listed.example"}, 200),
        ({**FORM, "origin": "http://evil.example"}, 403),
        ({**FORM, "origin": "null"}, 403),
        ({**FORM, "sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}, 403),
        (
            {**FORM, "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"},
            415,
        ),  # a form of a page that is sent
        ({**FORM, "referer": "http://evil.example/"}, 415),
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
    ],
)
def test_forms_of_sound(headers: dict[str, str], answer: int) -> None:
    given = {**HERE, **headers}
    found = refusal("POST", given, "127.0.0.1", ("127.0.0.1",), ("https://listed.example",), form=True)
    assert (200 if found is None else found.status) == answer


@pytest.mark.parametrize(
    ("marks", "answer"),
    [
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}, 403),  # <img>
        ({"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors"}, 403),  # another port of this machine
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}, 200),  # a link to our page
        ({"sec-fetch-site": "same-origin", "sec-fetch-mode": "cors"}, 200),
        ({"sec-fetch-site": "none", "sec-fetch-mode": "navigate"}, 200),  # typed by the user
    ],
)
def test_parts_of_other_pages(marks: dict[str, str], answer: int) -> None:
    assert status("GET", {**HERE, **marks}) == answer


def test_every_route_of_a_server_without_keys() -> None:
    with running(
        ServerSettings(
            models=(MODEL,), networks=(RESNET,), grpc_port=-1, workers=1, backend="cpu", metrics=True
        )
    ) as served:
        for path in (
            "/",
            "/health",
            "/v1/models",
            "/metrics",
            "/openapi.json",
            "/v2",
            "/api/tags",
            "/inference.GRPCInferenceService/ModelInfer",
        ):
            for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}):
                response = served.http.get(path, headers=headers)
                assert response.status_code == 403 and "evil.example" in response.text, path
        for path in (
            UNLOAD,
            "/v1/chat/completions",
            "/tokenize",
            "/api/chat",
            "/v2/models/resnet18_for_RK3588/infer",
        ):
            evil = served.http.post(path, json={}, headers={"Origin": "http://evil.example"})
            plain = served.http.post(path, content="{}", headers={"Content-Type": "text/plain"})
            assert (evil.status_code, plain.status_code) == (403, 415), path
        twice = [("Origin", served.url), ("Origin", "http://evil.example")]
        assert served.http.get("/v1/models", headers=twice).status_code == 403
        assert served.chat(max_tokens=1).status_code == 200
        assert served.http.post(UNLOAD).status_code == 200, "as Triton's client does"


def test_with_keys_a_page_is_not_told_apart() -> None:
    """It has no key, and cannot send one unasked."""
    with running(ServerSettings(models=(MODEL,), api_keys=("k",))) as served:
        evil = {"Host": "board.example", "Origin": "http://evil.example"}
        assert served.http.get("/v1/models", headers=evil).status_code == 401
        assert served.http.get("/v1/models", headers={**evil, "Authorization": "Bearer k"}).status_code == 200


@contextmanager
def site(folder: Path) -> Iterator[str]:
    """A stranger's web site."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *given: object) -> None:
            super().__init__(*given, directory=str(folder))  # type: ignore[arg-type]

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://localhost:{server.server_port}"
        server.shutdown()
        thread.join()


ATTACK = """(async () => {
  const tried = [];
  const attempt = async (what, path, options) => {
    try {
      const answer = await fetch(SERVER + path, options);
      tried.push(what + ": " + (answer.type === "opaque" ? "sent" : answer.status));
    } catch (error) { tried.push(what + ": refused"); }
  };
  const body = JSON.stringify({messages: [{role: "user", content: "hi"}], max_tokens: 1});
  for (const mode of ["cors", "no-cors"]) {
    await attempt("models", "/v1/models", {mode});
    await attempt("unload", UNLOAD, {mode, method: "POST"});
    await attempt("unload text", UNLOAD, {mode, method: "POST", body: ""});
    await attempt("unload blob", UNLOAD, {mode, method: "POST", body: new Blob(["{}"])});
    await attempt("chat text", "/v1/chat/completions", {mode, method: "POST", body});
  }
  await attempt("chat json", "/v1/chat/completions", {method: "POST", headers: {"Content-Type": "application/json"}, body});
  navigator.sendBeacon(SERVER + UNLOAD, "");
  const form = document.createElement("form");
  form.method = "POST"; form.action = SERVER + UNLOAD; form.target = "frame"; form.enctype = "text/plain";
  document.body.append(form); form.submit();
  await new Promise(done => setTimeout(done, 500));
  return tried.join("; ");
})()"""


@pytest.mark.slow
def test_a_strangers_page_in_a_browser(tmp_path: Path) -> None:
    needs("chromium")
    from tests.support.browser import browsing

    (tmp_path / "evil.html").write_text(
        "<!doctype html><title>evil</title><body><iframe name=frame></iframe>"
    )
    with running(
        ServerSettings(models=(MODEL,), networks=(RESNET,), grpc_port=-1, workers=1, backend="cpu")
    ) as served:
        ran = served.state.repository.loaded[0]
        with site(tmp_path) as address, browsing() as page:
            page.open(f"{address}/evil.html")
            script = ATTACK.replace("SERVER", repr(served.url)).replace("UNLOAD", repr(UNLOAD))
            tried = page.run(script)
            assert "200" not in tried and "chat json: refused" in tried, tried
            assert served.state.repository.loaded == [ran], "the network is still there"
            page.open(f"{served.url}/")
            asked = json.dumps(json.dumps({"messages": QUESTION, "max_tokens": 1}))
            sent = f"{{method: 'POST', headers: {{'Content-Type': 'application/json'}}, body: {asked}}}"
            assert page.run(f"fetch('/v1/chat/completions', {sent}).then(answer => answer.status)") == 200
    unlisted = running(ServerSettings(models=(MODEL,), cors=(address,)))
    with unlisted as served, site(tmp_path) as again, browsing() as page:
        assert again != address
        page.open(f"{again}/evil.html")
        assert page.run(f"fetch('{served.url}/v1/models').then(a => a.status, () => 'refused')") == "refused"
