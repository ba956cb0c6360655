"""``rknnlite top URL``: what a server does, from its figures."""

from __future__ import annotations

import http.server
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from rknnlite_insight.commands.server_figures import Figures, address_of, key_of, quantile
from rknnlite_insight.commands.top_server import ServerLooks

from rknnlite.errors import DeviceUnavailable, ParamInvalid
from rknnlite.spi.command import Exit

from .conftest import Call

FIGURES = """
# HELP rknnlite_running Requests that are computed
rknnlite_running{model="tiny"} 2.0
rknnlite_waiting{model="tiny"} 1.0
rknnlite_generated_tokens_total{model="tiny"} %(tokens)s
rknnlite_first_token_seconds_bucket{le="0.1",model="tiny"} %(fast)s
rknnlite_first_token_seconds_bucket{le="0.2",model="tiny"} %(all)s
rknnlite_first_token_seconds_bucket{le="+Inf",model="tiny"} %(all)s
rknnlite_first_token_seconds_count{model="tiny"} %(all)s
rknnlite_requests_total{route="/v1/chat/completions",status="200"} %(all)s
rknnlite_requests_total{route="/v1/chat/completions",status="429"} 3.0
rknnlite_requests_total{route="/inference/ModelInfer",status="OK"} 1.0
rknnlite_requests_total{route="/metrics",status="200"} 77.0
rknnlite_npu_load_percent{core="1"} 20.0
rknnlite_npu_load_percent{core="0"} 90.0
rknnlite_temperature_celsius{zone="npu-thermal"} 51.5
rknnlite_batches{status="in_progress"} 2.0
process_resident_memory_bytes 1.048576e+08
"""


def figures(tokens: int, fast: int, every: int) -> Figures:
    return Figures(FIGURES % {"tokens": tokens, "fast": fast, "all": every})


def looks(*found: Any) -> Iterator[Any]:
    """What ``top`` tells of a server that answers so, two seconds apart."""
    left, now = iter(found), iter(range(0, 100, 2))

    def get(address: str, key: str) -> Figures:
        one = next(left)
        if isinstance(one, Exception):
            raise one
        assert isinstance(one, Figures)
        return one

    made = ServerLooks("http://board:1", "", get, lambda: float(next(now)))
    for _ in found:
        yield made.look(False, 1.0)[0]


def test_counts_rates_and_times() -> None:
    first, second = looks(figures(100, 10, 10), figures(160, 10, 20))
    (model,) = first["models"]
    assert (model["requests"], model["tokens"], model["running"], model["waiting"]) == (10, 100, 2, 1)
    assert model["tokens_per_s"] is None and model["p50_us"] == pytest.approx(50000)
    (model,) = second["models"]
    assert (model["tokens_per_s"], model["requests_per_s"]) == (30.0, 5.0)
    assert model["p50_us"] == pytest.approx(150000) and model["p95_us"] == pytest.approx(195000)
    chat, infer = second["routes"]
    assert (chat["name"], chat["requests"], chat["failed"]) == ("/v1/chat/completions", 23, 3)
    assert infer["failed"] == 0
    assert second["load"] == [90, 20] and second["temperatures"] == {"npu-thermal": 51.5}
    assert second["memory_bytes"] == 100 << 20 and second["batches"] == {"in_progress": 2}


def test_a_server_that_began_anew_counts_from_nothing() -> None:
    _, second, third, fourth = looks(
        figures(100, 10, 10), figures(20, 0, 4), DeviceUnavailable("it is away"), figures(30, 0, 4)
    )
    assert second["models"][0]["tokens_per_s"] == 10.0
    assert second["models"][0]["p50_us"] == pytest.approx(150000)
    assert third["problem"] == "it is away" and third["models"] == []
    assert fourth["problem"] == "" and fourth["models"][0]["tokens_per_s"] is None


def test_one_that_has_never_answered_is_an_error() -> None:
    with pytest.raises(DeviceUnavailable, match="it is away"):
        next(looks(DeviceUnavailable("it is away")))


def test_lines_that_are_none_are_passed_over() -> None:
    found = Figures('a{x="1\\"\\n\\\\2"} 3\nb NaN\nc{\nd{x="1"} many\n{} 4\n\x00\na{x="3"} 1 1700000000\n')
    assert found.of("a", "x") == {'1"\n\\2': 3.0, "3": 1.0}
    assert found.of("c", "x") == found.of("d", "x") == {} and not found.known


def test_quantiles_are_those_of_prometheus() -> None:
    inf = float("inf")
    assert quantile(0.5, {0.1: 0, 0.2: 0, inf: 4}, {}) == 0.2  # the last bound that is known
    assert quantile(0.5, {0.1: 4, inf: 4}, {0.1: 4, inf: 4}) is None
    assert quantile(0.5, {}, {}) is None and quantile(0.5, {inf: float("nan")}, {}) is None


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("board", "http://board"),
        ("board:8000/", "http://board:8000"),
        ("https://[::1]:8000/behind/", "https://[::1]:8000/behind"),
    ],
)
def test_addresses(given: str, wanted: str) -> None:
    assert address_of(given) == wanted


@pytest.mark.parametrize(
    "given", ["ftp://board", "", "board:99999", "http://user:key@board", "a b", "file:///etc"]
)
def test_what_is_none(given: str) -> None:
    with pytest.raises(ParamInvalid, match="no address of a server"):
        address_of(given)


def test_a_file_of_keys_of_the_server_is_one(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("# ours\n\nsecret name=alice tokens=5\nother\n")
    assert key_of(str(path)) == "secret"
    path.write_text("# none\n")
    with pytest.raises(ParamInvalid, match="holds no key"):
        key_of(str(path))


@contextmanager
def answering(status: int, body: bytes = b"", **headers: str) -> Iterator[tuple[str, list[Any]]]:
    """A server that says this, and the requests that it got."""
    asked: list[Any] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, self.headers.get("Authorization")))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}", asked
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("status", "why"),
    [
        (501, "--metrics"),
        (401, "--key-file"),
        (429, "too often"),
        (302, "status 302"),
        (200, "no figures of rknnlite"),
    ],
)
def test_what_a_server_says_instead(call: Call, status: int, why: str) -> None:
    with answering(status, b"<html>", Location="http://127.0.0.1:1/") as (address, asked):
        done = call("top", address, "--once")
    assert done.code == Exit.UNAVAILABLE and why in done.err and len(asked) == 1


def test_the_key_is_sent_and_never_shown(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("topsecret\n")
    text = (FIGURES % {"tokens": 1, "fast": 1, "all": 1}).encode()
    with answering(200, text) as (address, asked):
        done = call("top", address, "--once", "--key-file", path)
    assert asked == [("/metrics", "Bearer topsecret")] and "topsecret" not in done.out + done.err
    assert "core0 90%  core1 20%" in done.out and "batches 2 in progress" in done.out
    assert "topsecret" not in repr(ServerLooks("http://a", "topsecret"))


def test_url_and_boards_are_two_things(call: Call) -> None:
    assert call("top", "a:1", "--device", "b:1").code == Exit.USAGE


@pytest.mark.skipif(os.name != "posix", reason="needs a terminal")
def test_it_fits_on_a_terminal_of_80_columns_and_24_lines() -> None:
    rows = "".join(
        f'rknnlite_requests_total{{route="/v1/a/rather/long/path/of/a/route/{n}",status="200"}} 1\n'
        for n in range(30)
    )
    text = (FIGURES % {"tokens": 1, "fast": 1, "all": 1} + rows).encode()
    with answering(200, text) as (address, _):
        ours, theirs = pty.openpty()
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "24", "NO_COLOR": "1"}
        command = [sys.executable, "-m", "rknnlite", "top", address, "--once"]
        done = subprocess.run(command, stdout=theirs, stderr=subprocess.PIPE, env=environment, timeout=60)
        os.close(theirs)
        shown = os.read(ours, 1 << 16).decode()
        os.close(ours)
    assert done.returncode == 0, done.stderr
    lines = shown.removeprefix("\x1b[H\x1b[J").splitlines()
    assert len(lines) <= 24 and max(map(len, lines)) <= 80
    assert any("tiny" in line for line in lines)
