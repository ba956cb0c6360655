"""A queue that is full, requests that will not wait for ever, and memory that is bounded."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("grpc")

import grpc
from rknnlite_protocol.grpc_codec import parse_response, request_message
from rknnlite_protocol.grpc_messages import INFERENCE, methods
from rknnlite_protocol.requests import InferRequest, Tensor
from rknnlite_server.errors import ApiError
from rknnlite_server.networks.network import ServedNetwork
from rknnlite_server.queueing import Room
from rknnlite_server.settings import ServerSettings

from rknnlite import plugins
from rknnlite.errors import ParamInvalid
from tests.doubles.stand_in import rknnlite_stand_in as stand_in
from tests.support.entry_points import EntryPoint

from ..conftest import Served, running, until

DIMS = (1, 4, 6, 3)
QUEUE = 3


@dataclass
class Gated:
    """A server whose only network, of one worker, answers while the gate is open."""

    served: Served
    gate: Path

    @property
    def network(self) -> Any:
        return self.served.state.repository.network("gated")

    def open(self) -> None:
        self.gate.touch()

    def shut(self) -> None:
        self.gate.unlink(missing_ok=True)

    def ask(self, value: int = 0, **parameters: Any) -> Any:
        body = {"inputs": [given(value)], "parameters": parameters}
        return self.served.http.post("/v2/models/gated/infer", json=body)

    def call(self, value: int = 0, **parameters: Any) -> Any:
        method = methods(INFERENCE)["ModelInfer"]
        with grpc.insecure_channel(f"127.0.0.1:{self.served.state.rpc.port}") as channel:
            call = channel.unary_unary(
                method.path, method.request.SerializeToString, method.response.FromString
            )
            image = np.full(DIMS, value, np.uint8)
            asked = InferRequest("gated", [Tensor("x", image)], parameters=parameters)
            return parse_response(call(request_message(asked), timeout=30)).outputs[0].data


def given(value: int) -> dict[str, Any]:
    return {"name": "x", "datatype": "UINT8", "shape": list(DIMS), "data": [value] * int(np.prod(DIMS))}


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gated]:
    folder = tmp_path_factory.mktemp("gated")
    gate = folder / "open"
    model = stand_in.write_model(folder / "gated.rknn", input=DIMS, gate=str(gate))
    own = plugins._entry_points()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plugins, "_entry_points", lambda: [*own, EntryPoint("stand_in", stand_in)])
        forget()
        settings = ServerSettings(
            networks=(model,), backend="stand_in", workers=1, queue=QUEUE, grpc_port=0,
            max_body=1 << 20, queue_bytes=1 << 20,
        )  # fmt: skip
        with running(settings) as served:
            yield Gated(served, gate)
            gate.touch()
    forget()


def forget() -> None:
    for cached in (plugins.manager, plugins.backends, plugins.commands, plugins.op_hosts):
        cached.cache_clear()


@pytest.fixture
def full(gated: Gated) -> Iterator[list[Any]]:
    """As many requests as find room: two in the worker's reach, three in the queue."""
    gated.shut()
    with ThreadPoolExecutor(16) as pool:
        asked = [pool.submit(gated.ask, value) for value in range(2 + QUEUE)]
        try:
            until(lambda: gated.network.turnstile.waiting == QUEUE)
            yield asked
        finally:
            gated.open()
    assert all(answer.result().status_code == 200 for answer in asked)
    assert gated.network.turnstile.running == gated.network.turnstile.waiting == 0
    assert gated.served.state.repository.room.used == 0


def test_a_full_queue_sends_away_and_says_when_to_come_again(gated: Gated, full: list[Any]) -> None:
    answer = gated.ask()
    assert answer.status_code == 503 and int(answer.headers["Retry-After"]) >= 1
    assert "2 requests run and 3 wait" in answer.json()["error"]
    with pytest.raises(grpc.RpcError) as caught:
        gated.call()
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert int(dict(caught.value.trailing_metadata())["retry-after"]) >= 1
    gated.open()
    for value, asked in enumerate(full):
        assert asked.result().json()["outputs"][0]["data"] == [value] * 8


def test_whoever_will_not_wait_is_told_so(gated: Gated, full: list[Any]) -> None:
    assert gated.ask().status_code == 503
    gated.network.turnstile._most += 2
    try:
        answer = gated.ask(timeout=20_000)
        assert answer.status_code == 504 and "within 0.02 s" in answer.json()["error"]
        with pytest.raises(grpc.RpcError) as caught:
            gated.call(timeout=20_000)
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    finally:
        gated.network.turnstile._most -= 2
    assert gated.network.turnstile.waiting == QUEUE


def test_time_to_wait_is_a_number(gated: Gated) -> None:
    answer = gated.ask(timeout="soon")
    assert answer.status_code == 400 and "parameter timeout is 'soon'" in answer.json()["error"]


def test_a_body_that_finds_no_room_is_not_read(gated: Gated) -> None:
    gated.open()
    port = int(gated.served.url.rpartition(":")[2])
    room = gated.served.state.repository.room
    head = "POST /v2/models/gated/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n"
    with (
        socket.create_connection(("127.0.0.1", port)) as slow,
        socket.create_connection(("127.0.0.1", port)) as refused,
    ):
        slow.sendall(head.format(1_000_000).encode())
        until(lambda: room.used == 1_000_000)
        refused.sendall(head.format(100_000).encode())  # and nothing behind it
        refused.settimeout(20)
        answer = refused.recv(4096).decode()
        assert answer.startswith("HTTP/1.1 503") and "retry-after: 1" in answer.lower()
    until(lambda: room.used == 0)
    assert gated.ask(5).status_code == 200


def test_parts_without_a_length_count_as_they_come(gated: Gated) -> None:
    gated.open()
    room, port = gated.served.state.repository.room, int(gated.served.url.rpartition(":")[2])
    head = "POST /v2/models/gated/infer HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port)) as slow:
        slow.sendall(head.encode() + b"400\r\n" + bytes(1024) + b"\r\n")
        until(lambda: room.used == 1024)
    until(lambda: room.used == 0)


def test_grpc_finds_no_room_either(gated: Gated) -> None:
    gated.open()
    room = gated.served.state.repository.room
    room.used += 1 << 20
    try:
        with pytest.raises(grpc.RpcError) as caught:
            gated.call()
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    finally:
        room.used -= 1 << 20
    assert (gated.call(7) == 7).all()


def test_room_is_given_back() -> None:
    room = Room(100)
    wanted = "requests of 60 bytes are under way, 41 more do not fit into 100"
    with pytest.raises(ApiError, match=wanted), room.hold(50) as held:
        held.take(10)
        with room.hold(41):
            pass
    assert room.used == 0


def test_one_request_has_to_fit() -> None:
    with pytest.raises(ParamInvalid, match="queue-bytes is 10, must be at least max-body"):
        ServerSettings(queue_bytes=10).checked()


def test_a_network_retires_when_those_in_its_queue_are_answered(gated: Gated) -> None:
    gated.shut()
    model = gated.served.state.settings.networks[0]

    async def go() -> list[Any]:
        network = ServedNetwork("gated", model, replace(gated.served.state.settings, queue=8))
        image = np.zeros(DIMS, np.uint8)
        asked = [
            asyncio.ensure_future(network.infer(InferRequest("gated", [Tensor("x", image)])))
            for _ in range(6)
        ]
        await asyncio.sleep(0.05)
        assert network.turnstile.waiting == 4
        retiring = asyncio.ensure_future(network.retire())
        await asyncio.sleep(0.05)
        gated.open()
        await retiring
        return await asyncio.gather(*asked)

    assert len(asyncio.run(go())) == 6
