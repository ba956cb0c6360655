"""Sixty-four clients of all kinds at once, and a thousand requests: none is lost, none gets another one's answer."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from .conftest import TINY, until
from .test_control import Child, child

psutil = pytest.importorskip("psutil")
pytestmark = pytest.mark.slow

CLIENTS, REQUESTS = 64, 600
KEY = {"Authorization": "Bearer right"}
CHAT = "/v1/chat/completions"


class Crowd:
    """Clients of one server; ``count`` says how many of each kind were satisfied, ``wrong`` what should not be."""

    def __init__(self, url: str) -> None:
        self.url, self.address = url, ("127.0.0.1", int(url.rpartition(":")[2]))
        self.count: dict[str, int] = {}
        self.wrong: list[str] = []
        self.known: list[tuple[dict[str, Any], str]] = []
        self.right = 0
        self._lock = threading.Lock()
        self._own = threading.local()

    @property
    def http(self) -> httpx.Client:
        if not hasattr(self._own, "http"):
            self._own.http = httpx.Client(base_url=self.url, headers=KEY, timeout=300)
        return self._own.http

    def one(self, number: int) -> None:
        """One client's request, of a kind that its number draws."""
        draw = random.Random(number)
        kind = draw.choices(
            [self.asks, self.streams, self.leaves, self.breaks_off, self.errs, self.is_wrong],
            [40, 25, 15, 8, 8, 4],
        )[0]
        try:
            kind(draw)
        except Exception as error:
            self.wrong.append(f"{kind.__name__}: {error!r}")
            return
        with self._lock:
            self.count[kind.__name__] = self.count.get(kind.__name__, 0) + 1

    def learn(self) -> None:
        """What the model says to each question when it is alone; it is wrong at times, and then it always is."""
        sums = random.Random(1)
        for _ in range(64):
            a, b = sums.randrange(1, 50), sums.randrange(1, 50)
            body = {"messages": [{"role": "user", "content": f"What is {a} + {b}?"}], "temperature": 0}
            answer = self.http.post(CHAT, json=body).json()["choices"][0]["message"]["content"]
            self.known.append((body, answer))
            self.right += answer == f"{a} + {b} = {a + b}"

    def question(self, draw: random.Random) -> tuple[dict[str, Any], str]:
        return draw.choice(self.known)

    def asks(self, draw: random.Random) -> None:
        body, answer = self.question(draw)
        found = self.http.post(CHAT, json=body)
        assert found.json()["choices"][0]["message"]["content"] == answer, found.text

    def streams(self, draw: random.Random) -> None:
        body, answer = self.question(draw)
        with self.http.stream("POST", CHAT, json={**body, "stream": True}) as response:
            text = "".join(response.iter_lines())
        parts = [part.split('"')[0] for part in text.split('"content": "')[1:]]
        assert "".join(parts) == answer and text.endswith("[DONE]"), text

    def leaves(self, draw: random.Random) -> None:
        body, _ = self.question(draw)
        body = {**body, "stream": True, "temperature": 100, "top_k": 0, "top_p": 1}
        with self.http.stream("POST", CHAT, json=body) as response:
            for _, _line in zip(range(draw.randrange(4)), response.iter_lines()):
                pass

    def breaks_off(self, draw: random.Random) -> None:
        """In the middle of the request, or while its answer is computed."""
        whole = b'{"messages": [{"role": "user", "content": "What is 2 + 3?"}]}'
        head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer right\r\n"
        text = head + b"Content-Length: %d\r\n\r\n" % len(whole) + whole
        with socket.create_connection(self.address, timeout=60) as made:
            made.sendall(text[: draw.choice([10, len(head), len(text) - 5, len(text)])])
            time.sleep(draw.random() / 10)

    def errs(self, draw: random.Random) -> None:
        body = draw.choice([b"{", b"[]", b"\xff", b'{"messages": 1}', b" " * 70_000])
        found = self.http.post(CHAT, content=body)
        assert found.status_code == (413 if len(body) > 65536 else 400), found.text

    def is_wrong(self, draw: random.Random) -> None:
        found = self.http.get("/v1/models", headers={"Authorization": "Bearer wrong"})
        assert found.status_code == 401


def slow_reader(address: tuple[str, int], end: threading.Event) -> None:
    """Asks for a long answer and reads a byte a second."""
    body = b'{"messages": [{"role": "user", "content": "x"}], "stream": true, "temperature": 100, "top_k": 0}'
    with contextlib.suppress(OSError), socket.create_connection(address, timeout=60) as made:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        made.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer right\r\n")
        made.sendall(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        while not end.wait(1) and made.recv(1):
            pass


def test_a_crowd(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("right\n")
    words = ["--llm", TINY, "--port", 0, "--queue", 1000, "--max-body", 65536, "--api-key-file", keys]
    with child(*words) as server:
        server.ready()
        crowd = Crowd(server.url)
        process = psutil.Process(server.process.pid)
        crowd.learn()
        assert crowd.right > 60
        round_of(crowd, range(300))
        before = settled(process)
        end = threading.Event()
        readers = [threading.Thread(target=slow_reader, args=(crowd.address, end)) for _ in range(8)]
        half_open = [socket.create_connection(crowd.address) for _ in range(16)]
        for reader in readers:
            reader.start()
        round_of(crowd, range(1000, 1000 + REQUESTS))
        end.set()
        for reader in readers:
            reader.join()
        for made in half_open:
            made.close()
        after = settled(process)
        assert not crowd.wrong, crowd.wrong[:5]
        assert sum(crowd.count.values()) == 300 + REQUESTS
        print(crowd.count, "MiB, threads:", before, after)
        assert after[0] < before[0] * 1.1 + 8, "memory grew"
        assert after[1] <= before[1] and after[2] <= before[2], "threads or files are left"
        assert answers_well(server)
        assert server.end() == 0


def round_of(crowd: Crowd, numbers: range) -> None:
    with ThreadPoolExecutor(CLIENTS) as clients:
        list(clients.map(crowd.one, numbers))
        list(clients.map(lambda _: crowd.http.close(), range(CLIENTS * 4)))


def settled(process: Any) -> tuple[float, int, int]:
    """MiB, threads and connections when all requests are over."""
    until(lambda: len(connections(process)) <= 1, 120)
    time.sleep(2)
    return process.memory_info().rss / 2**20, process.num_threads(), process.num_fds()


def connections(process: Any) -> list[Any]:
    listed = getattr(process, "net_connections", None) or process.connections  # psutil before 6
    return [made for made in listed("tcp") if made.status != "CLOSE_WAIT"]


def answers_well(server: Child) -> bool:
    found = httpx.post(
        f"{server.url}{CHAT}", headers=KEY, timeout=60,
        json={"messages": [{"role": "user", "content": "What is 2 + 3?"}], "temperature": 0},
    )  # fmt: skip
    return found.json()["choices"][0]["message"]["content"] == "2 + 3 = 5"
