"""Thirty-two clients at once, then again while workers fail and hang: each answer belongs to its question.

``RKNNLITE_LOAD_SECONDS`` says how long each part takes (5).
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("grpc")
psutil = pytest.importorskip("psutil")
stand_in = pytest.importorskip("tests.doubles.stand_in.rknnlite_stand_in")
pytestmark = pytest.mark.slow

CLIENTS, WORKERS, BATCH = 32, 3, 4
SECONDS = float(os.environ.get("RKNNLITE_LOAD_SECONDS", "5"))
DIMS = (24, 24, 3)
PATIENCE = 30.0  # seconds within which every question has its answer, or an error


class Crowd:
    """Clients of one server; ``count`` says how questions ended, ``wrong`` what must not be."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self.count: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._lock = threading.Lock()

    def work(self, seconds: float) -> None:
        """All of them for so long."""
        end = time.monotonic() + seconds
        threads = [threading.Thread(target=self._client, args=(number, end)) for number in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(seconds + 2 * PATIENCE)
        assert not any(thread.is_alive() for thread in threads), "a client still waits for its answer"

    def _client(self, number: int, end: float) -> None:
        draw = random.Random(number)
        with contextlib.ExitStack() as stack:
            way = self._rest if number % 2 else self._grpc
            ask = stack.enter_context(way())
            while time.monotonic() < end:
                self._one(ask, draw)

    def _one(self, ask: Callable[[str, Any], Any], draw: random.Random) -> None:
        model = draw.choice(["one", "rows"])
        rows = 1 if model == "one" else draw.randint(1, BATCH)
        image = np.frombuffer(draw.randbytes(rows * int(np.prod(DIMS))), np.uint8).reshape(rows, *DIMS)
        try:
            found = ask(model, image)
        except Exception as error:  # a client must see errors of the protocol only
            with self._lock:
                self.wrong.append(f"{type(error).__name__}: {error}")
            return
        if isinstance(found, str):
            with self._lock:
                self.count[found] += 1
            return
        good = found.shape == (rows, 8) and np.array_equal(found, image.reshape(rows, -1)[:, :8])
        with self._lock:
            self.count["right"] += good
            if not good:
                self.wrong.append(f"{model}: {found.shape} {found[0]} for {image.reshape(rows, -1)[0, :8]}")

    @contextlib.contextmanager
    def _grpc(self) -> Iterator[Callable[[str, Any], Any]]:
        import grpc
        from rknnlite_protocol.grpc_codec import parse_response, request_message
        from rknnlite_protocol.grpc_messages import INFERENCE, methods
        from rknnlite_protocol.requests import InferRequest, Tensor

        method = methods(INFERENCE)["ModelInfer"]
        with grpc.insecure_channel(self._server.grpc) as channel:
            call = channel.unary_unary(
                method.path, method.request.SerializeToString, method.response.FromString
            )

            def ask(model: str, image: Any) -> Any:
                try:
                    found = call(request_message(InferRequest(model, [Tensor("x", image)])), timeout=PATIENCE)
                except grpc.RpcError as error:
                    assert error.code() in (
                        grpc.StatusCode.INTERNAL, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.RESOURCE_EXHAUSTED,
                    ) and "Deadline Exceeded" not in error.details(), error  # fmt: skip
                    return error.code().name
                return parse_response(found).outputs[0].data

            yield ask

    @contextlib.contextmanager
    def _rest(self) -> Iterator[Callable[[str, Any], Any]]:
        from rknnlite_protocol.requests import InferRequest, Tensor
        from rknnlite_protocol.rest_codec import HEADER_LENGTH, parse_response, request_body

        connection = HTTPConnection(self._server.http, timeout=PATIENCE)

        def ask(model: str, image: Any) -> Any:
            parts, length = request_body(InferRequest(model, [Tensor("x", image)]))
            path, headers = f"/v2/models/{model}/infer", {HEADER_LENGTH: str(length)}
            connection.request("POST", path, b"".join(parts), headers)
            response = connection.getresponse()
            body = response.read()
            if response.status != 200:
                assert response.status in (500, 503, 504) and json.loads(body)["error"], body
                return str(response.status)
            return parse_response(body, response.headers[HEADER_LENGTH]).outputs[0].data

        yield ask
        connection.close()


def models(folder: Path, **faults: Any) -> list[str]:
    one = stand_in.write_model(folder / "one.rknn", input=[1, *DIMS], output=[1, 8], latency_ms=2, **faults)
    rows = stand_in.write_model(
        folder / "rows.rknn", input=[BATCH, *DIMS], output=[BATCH, 8], batch=BATCH, latency_ms=3, **faults
    )
    return [one, rows]


@contextlib.contextmanager
def served(folder: Path, *words: object, **faults: Any) -> Iterator[Any]:
    from tests.support.served import serve, stand_in_path

    words = (*models(folder, **faults), "--backend", "stand_in", "--workers", WORKERS, *words)
    with serve(*words, path=stand_in_path(folder)) as server:
        yield server


def held(server: Any) -> tuple[int, int, int]:
    """Resident bytes, threads, descriptors, once the clients have gone."""
    process = psutil.Process(server.process.pid)
    time.sleep(1)
    return process.memory_info().rss, process.num_threads(), process.num_fds()


def check_flat(before: tuple[int, int, int], after: tuple[int, int, int]) -> None:
    assert after[0] - before[0] < 24 << 20, f"resident memory grew from {before[0]} to {after[0]}"
    assert after[1] <= before[1] + 2, f"threads grew from {before[1]} to {after[1]}"
    assert after[2] <= before[2] + 4, f"descriptors grew from {before[2]} to {after[2]}"


def statistics_of(server: Any) -> dict[str, Any]:
    connection = HTTPConnection(server.http, timeout=PATIENCE)
    connection.request("GET", "/v2/models/stats")
    found = json.loads(connection.getresponse().read())["model_stats"]
    connection.close()
    return {entry["name"]: entry for entry in found}


def test_no_answer_is_wrong_lost_or_crossed(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        warm = Crowd(server)
        warm.work(max(2.0, SECONDS / 4))
        before = held(server)
        crowd = Crowd(server)
        crowd.work(SECONDS)
        after = held(server)
        found = statistics_of(server)
    assert not crowd.wrong, crowd.wrong[:5]
    assert set(crowd.count) == {"right"} and crowd.count["right"] > 20 * SECONDS
    check_flat(before, after)
    assert sum(entry["inference_stats"]["success"]["count"] for entry in found.values()) == (
        warm.count["right"] + crowd.count["right"]
    )
    assert found["rows"]["execution_count"] < found["rows"]["inference_count"]


def test_workers_that_fail_and_hang_take_no_answer_with_them(tmp_path: Path) -> None:
    faults = {"fail": 0.02, "hang": 0.002, "hang_s": 2}
    with served(tmp_path, "--timeout", 0.5, "--metrics", **faults) as server:
        Crowd(server).work(max(3.0, SECONDS / 4))
        time.sleep(faults["hang_s"])
        before = held(server)
        crowd = Crowd(server)
        crowd.work(SECONDS)
        time.sleep(faults["hang_s"])
        after = held(server)
        figures = text_of(server, "/metrics")
    assert not crowd.wrong, crowd.wrong[:5]
    assert crowd.count["right"] > 0.9 * sum(crowd.count.values()), crowd.count
    check_flat(before, after)
    replaced = [
        line for line in figures.splitlines() if line.startswith("rknnlite_network_workers_replaced_t")
    ]
    assert len(replaced) == 2 and all(float(line.rpartition(" ")[2]) > 0 for line in replaced)


def text_of(server: Any, path: str) -> str:
    connection = HTTPConnection(server.http, timeout=PATIENCE)
    connection.request("GET", path)
    text = connection.getresponse().read().decode()
    connection.close()
    return text
