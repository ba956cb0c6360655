"""gRPC under bad conditions: a full queue, clients that go, do not read or never speak, and the server's own end."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("grpc")

import grpc
from rknnlite_protocol.grpc_messages import HEALTH, INFERENCE, message, methods
from rknnlite_server import request_body
from rknnlite_server.networks import rpc
from rknnlite_server.settings import ServerSettings

from ..conftest import Served, running, until
from .conftest import inputs_of, path_of
from .grpc_client import Client, connected, request_of, told

DENSE = "dense.rk3588.i8"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = bytes(9).replace(b"\0\0\0\0", b"\0\0\0\4", 1)  # an empty frame of type 4


@contextmanager
def serving(**options: Any) -> Iterator[Served]:
    """One worker, two requests in the queue, messages of a mebibyte."""
    chosen: dict[str, Any] = {"workers": 1, "queue": 2, "max_body": 1 << 20, "window_ms": 0.0, **options}
    settings = ServerSettings(networks=(str(path_of(DENSE)),), grpc_port=0, backend="cpu", **chosen)
    with running(settings) as served:
        yield served


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving() as found:
        yield found


@pytest.fixture
def client(served: Served) -> Iterator[Client]:
    with connected(address_of(served)) as found:
        yield found


def address_of(served: Served) -> str:
    return f"127.0.0.1:{served.state.rpc.port}"


@contextmanager
def busy(served: Served) -> Iterator[threading.Event]:
    """The worker does something else until the event is set, or the block is left."""
    free, begun = threading.Event(), threading.Event()
    pool = served.state.repository.network(DENSE).pool

    def wait(context: Any) -> None:
        begun.set()
        free.wait(60)

    done = pool.call(wait)
    begun.wait(60)
    try:
        yield free
    finally:
        free.set()
        done.result(60)


def runs(served: Served) -> int:
    return int(served.state.repository.network(DENSE).pool.stats().calls)


def quiet(served: Served) -> bool:
    turnstile = served.state.repository.network(DENSE).turnstile
    return not turnstile.running and not turnstile.waiting


def request() -> Any:
    return request_of(DENSE, inputs_of(DENSE))


def test_a_full_queue_says_when_to_come_back(served: Served, client: Client) -> None:
    asked, infer = request(), client.prepared("ModelInfer")
    most = served.state.repository.network(DENSE).turnstile.most
    with busy(served) as free:
        waiting = [infer.future(asked, timeout=60) for _ in range(most)]
        turnstile = served.state.repository.network(DENSE).turnstile
        until(lambda: turnstile.running + turnstile.waiting == most)
        with pytest.raises(grpc.RpcError) as caught:
            infer(asked, timeout=60)
        code, text, metadata = told(caught.value)
        assert code == "RESOURCE_EXHAUSTED" and "try again later" in text
        assert int(metadata["retry-after"]) >= 1 and metadata["rknnlite-error"] == "DeviceUnavailable"
        free.set()
        assert all(future.result().outputs for future in waiting)


def test_calls_that_are_cancelled_or_late_before_they_begin_are_not_computed(
    served: Served, client: Client
) -> None:
    asked, infer = request(), client.prepared("ModelInfer")
    infer(asked)
    before = runs(served)
    turnstile = served.state.repository.network(DENSE).turnstile
    with busy(served):
        late = infer.future(asked, timeout=0.3)
        gone = infer.future(asked, timeout=60)
        stream = client.prepared("ModelStreamInfer")(iter([asked] * 2), timeout=60)
        until(lambda: turnstile.running + turnstile.waiting == 4)
        gone.cancel()
        stream.cancel()
        assert late.exception().code() is grpc.StatusCode.DEADLINE_EXCEEDED
        until(lambda: quiet(served))
    assert runs(served) == before + 1  # what kept the worker busy


def test_a_message_over_the_limit(client: Client) -> None:
    for data in (bytes(2 << 20), bytes(1 << 26)):
        if len(data) > 1 << 24 and not rpc.inflates():
            continue
        compressed = grpc.Compression.Gzip if len(data) > 1 << 24 else None
        with pytest.raises(grpc.RpcError) as caught:
            client.prepared("ModelInfer", raw=True)(data, compression=compressed, timeout=60)
        assert told(caught.value)[0] == "RESOURCE_EXHAUSTED"
        assert client.call("ServerLive").live


def test_a_stream_whose_answers_nobody_reads_is_not_read_either(served: Served) -> None:
    # an unknown field of 16 KiB
    asked = request().SerializeToString() + b"\xfa\x7f\x80\x80\x01" + bytes(1 << 14)
    sent = 0

    def requests() -> Iterator[bytes]:
        nonlocal sent
        for _ in range(20_000):
            sent += 1
            yield asked

    before, seen = runs(served), [-1, -2]
    method = methods(INFERENCE)["ModelStreamInfer"]
    small = {
        "grpc.http2.bdp_probe": 0,
        "grpc.http2.lookahead_bytes": 1024,
    }  # what the client takes without reading
    with connected(address_of(served), **small) as client:
        call = client.channel.stream_stream(method.path)(requests(), timeout=60)
        while seen[-1] != seen[-2] or not sent:
            time.sleep(0.3)
            seen.append(runs(served))
        assert seen[-1] - before <= sent < 2000
        answers = [method.response.FromString(next(call)) for _ in range(200)]
        assert all(answer.infer_response.outputs for answer in answers)
        call.cancel()
    until(lambda: quiet(served))


def test_a_message_that_never_comes(monkeypatch: pytest.MonkeyPatch, served: Served, client: Client) -> None:
    monkeypatch.setattr(request_body, "BODY_SECONDS", 0.3)
    never = threading.Event()
    call = client.channel.stream_unary(methods(INFERENCE)["ModelInfer"].path)
    with pytest.raises(grpc.RpcError) as caught:
        call(iter(never.wait, True), timeout=30)
    never.set()
    code, text, _ = told(caught.value)
    assert code == "DEADLINE_EXCEEDED" and "not complete within 0.3 s" in text


def test_more_calls_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    from rknnlite_server.networks import rpc_calls

    monkeypatch.setattr(rpc_calls, "_ROOM", 2)
    with serving() as served, connected(address_of(served)) as client:
        watch = client.prepared("Watch", HEALTH)
        asked = message("grpc.health.v1.HealthCheckRequest")()
        held = [watch(asked, timeout=60) for _ in range(2)]
        assert [next(call).status for call in held] == [1, 1]
        with pytest.raises(grpc.RpcError) as caught:
            next(watch(asked, timeout=60))
        assert told(caught.value)[0] == "RESOURCE_EXHAUSTED"
        held.pop().cancel()
        until(lambda: _answers(watch, asked))
        held.pop().cancel()


def _answers(watch: Any, asked: Any) -> bool:
    call = watch(asked, timeout=60)
    try:
        return bool(next(call).status == 1)
    except grpc.RpcError:
        return False
    finally:
        call.cancel()


# -- connections that are none ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_half_open_and_slow_connections_are_closed_and_leave_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rpc, "HEAD_SECONDS", 0.5)
    monkeypatch.setattr(rpc, "IDLE_SECONDS", 1.0)
    with serving() as served:
        with connected(address_of(served)) as client:
            client.prepared("ModelInfer")(request())
        until(lambda: quiet(served))
        time.sleep(1.5)  # until that connection is idle for long
        files, threads = _files(), threading.active_count()
        for first in (b"", b"\xff" * 64, b"GET / HTTP/1.1\r\n\r\n", PREFACE[:7], PREFACE, PREFACE + SETTINGS):
            made = [_open(served, first) for _ in range(5)]
            until(lambda made=made: all(map(_closed, made)), 20)
            for one in made:
                one.close()
        slow = [_open(served, PREFACE + SETTINGS) for _ in range(5)]
        until(lambda: all(_drips(one) for one in slow), 20)
        for one in slow:
            one.close()
        with connected(address_of(served)) as client:
            assert client.health() == "SERVING"
        until(lambda: _files() <= files + 2 and threading.active_count() <= threads + 2, 20)


def _open(served: Served, first: bytes) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", served.state.rpc.port), timeout=20)
    made.sendall(first)
    made.setblocking(False)
    return made


def _closed(made: socket.socket) -> bool:
    try:
        while made.recv(1 << 16):
            pass
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


def _drips(made: socket.socket) -> bool:
    """A byte at a time of the head of a call; whether that is over."""
    time.sleep(0.02)
    try:
        made.send(b"\0")
    except OSError:
        return True
    return _closed(made)


def _files() -> int:
    return len(list(Path("/proc/self/fd").glob("*")))


# -- the end ---------------------------------------------------------------------------------------------------


def test_the_end_of_the_server_finishes_what_runs_and_tells_those_who_watch() -> None:
    with ThreadPoolExecutor(1) as threads:
        with serving(drain=20.0) as served, connected(address_of(served)) as client:
            infer, asked = client.prepared("ModelInfer"), request()
            watch = client.prepared("Watch", HEALTH)(
                message("grpc.health.v1.HealthCheckRequest")(), timeout=60
            )
            assert next(watch).status == 1
            more = threading.Event()
            stream = client.prepared("ModelStreamInfer")(_then_waits(asked, more), timeout=60)
            assert next(stream).infer_response.outputs
            over_http = None
            with busy(served) as free:
                waiting = infer.future(asked, timeout=60)
                over_http = threads.submit(served.http.post, f"/v2/models/{DENSE}/infer", json=_json())
                turnstile = served.state.repository.network(DENSE).turnstile
                until(lambda: turnstile.running + turnstile.waiting == 2)
                began = time.monotonic()
                served.server.should_exit = True
                assert [answer.status for answer in watch] == [2]  # NOT_SERVING, then the end
                with pytest.raises(grpc.RpcError) as caught:
                    next(stream)
                assert told(caught.value)[0] == "UNAVAILABLE"
                with connected(address_of(served)) as other, pytest.raises(grpc.RpcError) as caught:
                    other.prepared("ModelInfer")(asked, timeout=20)
                assert told(caught.value)[0] == "UNAVAILABLE"
                assert not waiting.done()
                free.set()
                assert waiting.result().outputs and over_http.result(60).status_code == 200
            more.set()
        assert time.monotonic() - began < 15  # nobody waited for the whole of ``drain``


def _then_waits(asked: Any, more: threading.Event) -> Iterator[Any]:
    yield asked
    more.wait(60)


def _json() -> dict[str, Any]:
    arrays = inputs_of(DENSE)
    return {
        "inputs": [
            {"name": name, "shape": list(array.shape), "datatype": "FP32", "data": array.ravel().tolist()}
            for name, array in arrays.items()
        ]
    }


def test_calls_that_last_longer_than_the_end_may_are_cut_off() -> None:
    with serving(drain=0.3) as served, connected(address_of(served)) as client, busy(served) as free:
        waiting = client.prepared("ModelInfer").future(request(), timeout=60)
        turnstile = served.state.repository.network(DENSE).turnstile
        until(lambda: turnstile.running == 1)
        served.server.should_exit = True
        assert waiting.exception(30).code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
        free.set()
