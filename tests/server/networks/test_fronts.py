"""Several servers behind one front: nginx and HAProxy with the configurations of examples/fronts."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np
import pytest
from rknnlite_protocol import grpc_codec, rest_codec
from rknnlite_protocol.grpc_messages import HEALTH, INFERENCE, methods
from rknnlite_protocol.requests import InferRequest, Tensor

import rknnlite

from ..conftest import until
from .conftest import RESNET, path_of
from .fronts import KEY, Front, Server, front, servers

grpc = pytest.importorskip("grpc")
pytestmark = pytest.mark.slow

PATH = f"/v2/models/{RESNET}/infer"
FRONTS = ("nginx", "haproxy")
RETRIES = (
    '{"methodConfig": [{"name": [{"service": "inference.GRPCInferenceService"}], "retryPolicy": {"maxAttempts": 5, '
    '"initialBackoff": "0.1s", "maxBackoff": "1s", "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE", "CANCELLED"]}}]}'
)
"""What docs/fronts.md advises clients of gRPC to have."""


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Server]]:
    folder = tmp_path_factory.mktemp("servers")
    with servers(folder, path_of(RESNET), "--workers", 1, "--queue", 8) as made:
        yield made


@pytest.fixture(scope="module", params=FRONTS)
def before(
    request: pytest.FixtureRequest, pair: tuple[Server, Server], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Front]:
    with front(request.param, tmp_path_factory.mktemp("front") / request.param, pair) as made:
        yield made


@pytest.fixture(scope="module")
def cases() -> list[tuple[Any, Any]]:
    """Pictures, each with what a context here makes of it."""
    pictures = np.random.default_rng(5).integers(0, 256, (4, 1, 224, 224, 3)).astype(np.uint8)
    with rknnlite.open(path_of(RESNET), backend="cpu") as context:
        return [(picture, context.infer([picture])[0]) for picture in pictures]


class Load:
    """Clients that ask for a while, each one after the other. ``outcomes`` counts."""

    def __init__(self, before: Front, cases: list[tuple[Any, Any]], clients: int = 4) -> None:
        self.outcomes: Counter[str] = Counter()
        self.slowest = 0.0
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._cases = cases
        self._threads = [
            threading.Thread(target=self._ask, args=(asking(before), number))
            for asking in (by_rest, by_grpc)
            for number in range(clients)
        ]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(120)
            assert not thread.is_alive()

    def goes_on(self, answers: int = 60) -> None:
        """Return when so many more have come."""
        end = sum(self.outcomes.values()) + answers
        until(lambda: sum(self.outcomes.values()) >= end)

    def _ask(self, infer: Callable[[Any], tuple[str, Any]], number: int) -> None:
        while not self._over.is_set():
            picture, wanted = self._cases[number % len(self._cases)]
            start = time.monotonic()
            outcome, found = infer(picture)
            if found is not None and not np.array_equal(found, wanted):
                outcome += " WRONG"
            with self._lock:
                self.outcomes[outcome] += 1
                self.slowest = max(self.slowest, time.monotonic() - start)


def by_rest(before: Front) -> Callable[[Any], tuple[str, Any]]:
    """A client that says what came, with the answer if there is one; asks once more when the connection breaks."""
    client = httpx.Client(base_url=before.url, verify=before.trusted, headers=KEY, timeout=60)

    def infer(picture: Any) -> tuple[str, Any]:
        body, length = rest_codec.request_body(InferRequest(RESNET, [Tensor("input", picture)]))
        headers, again = {rest_codec.HEADER_LENGTH: str(length)}, ""
        try:
            answer = client.post(PATH, content=b"".join(body), headers=headers)
        # the server died in the middle of its answer: nobody can take that back
        except httpx.RemoteProtocolError:
            answer, again = client.post(PATH, content=b"".join(body), headers=headers), " again"
        if answer.status_code != 200:
            return f"REST {answer.status_code}", None
        got = rest_codec.parse_response(answer.content, answer.headers.get(rest_codec.HEADER_LENGTH))
        return f"REST{again}", got.outputs[0].data

    return infer


def by_grpc(before: Front, policy: str = RETRIES) -> Callable[[Any], tuple[str, Any]]:
    """The same over gRPC, with the retries that gRPC has itself."""
    channel = before.channel([("grpc.service_config", policy), ("grpc.use_local_subchannel_pool", 1)])
    method = methods(INFERENCE)["ModelInfer"]
    call = channel.unary_unary(method.path, method.request.SerializeToString, method.response.FromString)

    def infer(picture: Any) -> tuple[str, Any]:
        message = grpc_codec.request_message(InferRequest(RESNET, [Tensor("input", picture)]))
        try:
            answer = call(message, metadata=tuple(KEY.items()), timeout=60)
        except grpc.RpcError as error:
            return f"gRPC {error.code().name} {error.details()}", None
        return "gRPC", grpc_codec.parse_response(answer).outputs[0].data

    return infer


# -- what comes through --------------------------------------------------------------------------------------


def test_answers_are_those_of_a_context_here(before: Front, cases: list[tuple[Any, Any]]) -> None:
    for infer in (by_rest(before), by_grpc(before)):
        for picture, wanted in cases:
            outcome, found = infer(picture)
            assert found is not None, outcome
            np.testing.assert_array_equal(found, wanted)


def test_clients_of_triton_pass(before: Front, cases: list[tuple[Any, Any]]) -> None:
    client = pytest.importorskip("tritonclient.http")
    rpc = pytest.importorskip("tritonclient.grpc")
    picture, wanted = cases[0]
    options = {"ssl": True, "ssl_context_factory": lambda: before.trusted}
    with client.InferenceServerClient(f"127.0.0.1:{before.port}", **options) as http:
        given = client.InferInput("input", picture.shape, "UINT8").set_data_from_numpy(picture)
        found = http.infer(RESNET, [given], headers=dict(KEY))
        np.testing.assert_array_equal(found.as_numpy("output"), wanted)
    address = f"127.0.0.1:{before.port}"
    with rpc.InferenceServerClient(address, ssl=True, root_certificates=str(before.cert)) as channel:
        given = rpc.InferInput("input", picture.shape, "UINT8").set_data_from_numpy(picture)
        found = channel.infer(RESNET, [given], headers=dict(KEY))
        np.testing.assert_array_equal(found.as_numpy("output"), wanted)


def test_health_is_open_and_everything_else_wants_the_key(before: Front) -> None:
    with httpx.Client(base_url=before.url, verify=before.trusted) as client:
        assert client.get("/v2/health/ready").status_code == 200
        assert client.get(f"/v2/models/{RESNET}").status_code == 401
        assert client.get(f"/v2/models/{RESNET}", headers=KEY).json()["name"] == RESNET
    with before.channel() as channel:
        check = methods(HEALTH)["Check"]
        call = channel.unary_unary(check.path, check.request.SerializeToString, check.response.FromString)
        assert call(check.request(), timeout=10).status == 1
        method = methods(INFERENCE)["ModelMetadata"]
        call = channel.unary_unary(method.path, method.request.SerializeToString, method.response.FromString)
        with pytest.raises(grpc.RpcError) as raised:
            call(method.request(name=RESNET), timeout=10)
        assert raised.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_one_server_is_not_loaded_or_unloaded_through_the_front(before: Front) -> None:
    answer = httpx.post(
        f"{before.url}/v2/repository/models/{RESNET}/unload", verify=before.trusted, headers=KEY
    )
    assert answer.status_code == 403 and "server itself" in answer.json()["error"]
    with before.channel() as channel:
        method = methods(INFERENCE)["RepositoryModelUnload"]
        call = channel.unary_unary(method.path, method.request.SerializeToString, method.response.FromString)
        with pytest.raises(grpc.RpcError) as raised:
            call(method.request(model_name=RESNET), timeout=10, metadata=tuple(KEY.items()))
        assert raised.value.code() is grpc.StatusCode.PERMISSION_DENIED


def test_a_body_over_the_limit_is_refused(before: Front) -> None:
    with httpx.Client(base_url=before.url, verify=before.trusted, headers=KEY, timeout=60) as client:
        with contextlib.suppress(httpx.TransportError):  # it may not be read to its end
            assert client.post(PATH, content=b"0" * (33 << 20)).status_code == 413
        assert client.get("/v2/health/ready").status_code == 200


def test_full_servers_say_when_to_come_again(before: Front, cases: list[tuple[Any, Any]]) -> None:
    """And are asked again at once: they are full, not dead."""
    body, length = rest_codec.request_body(InferRequest(RESNET, [Tensor("input", cases[0][0])]))
    barrier = threading.Barrier(48)

    def ask(_: int) -> httpx.Response:
        with httpx.Client(base_url=before.url, verify=before.trusted, headers=KEY, timeout=60) as client:
            client.get("/v2/health/live")
            barrier.wait(60)
            return client.post(PATH, content=b"".join(body), headers={rest_codec.HEADER_LENGTH: str(length)})

    for _ in range(5):  # where others keep the machine busy, requests may come too far apart to fill a queue
        with ThreadPoolExecutor(48) as threads:
            answers = list(threads.map(ask, range(48)))
        found = {answer.status_code for answer in answers}
        assert found <= {200, 503} and 200 in found
        if 503 in found:
            break
    assert 503 in found
    for answer in answers:
        if answer.status_code == 503:
            assert int(answer.headers["retry-after"]) >= 1 and "error" in answer.json()
    assert by_rest(before)(cases[0][0])[0] == "REST"


# -- servers that go -----------------------------------------------------------------------------------------


def test_a_server_that_is_killed_costs_no_answer(
    before: Front, pair: tuple[Server, Server], cases: list[tuple[Any, Any]]
) -> None:
    with Load(before, cases) as load:
        for server in pair:
            load.goes_on()
            server.kill()
            load.goes_on()
            load.goes_on()
            server.start()
    assert set(load.outcomes) - {"REST again"} == {"REST", "gRPC"}, load.outcomes
    assert load.outcomes["REST again"] <= 8  # clients of REST, times servers that died


def test_a_server_that_is_told_to_end_costs_no_answer(
    before: Front, pair: tuple[Server, Server], cases: list[tuple[Any, Any]]
) -> None:
    """Without a word to the front."""
    with Load(before, cases) as load:
        load.goes_on()
        assert pair[0].end() == 0
        load.goes_on()
        pair[0].start()
        load.goes_on()
    assert set(load.outcomes) == {"REST", "gRPC"}, load.outcomes


def test_a_server_is_taken_out_updated_and_put_back(
    before: Front, pair: tuple[Server, Server], cases: list[tuple[Any, Any]]
) -> None:
    with Load(before, cases) as load:
        load.goes_on()
        take_out(before, pair[0])
        until(lambda: not asked(pair[0]))
        assert pair[0].end() == 0
        load.goes_on()
        pair[0].start()
        put_back(before, pair[0])
        until(lambda: asked(pair[0]))
    again = load.outcomes.pop("REST again", 0)
    assert set(load.outcomes) == {"REST", "gRPC"}, load.outcomes
    assert again <= (8 if before.name == "nginx" else 0)  # clients of REST, times nginx read its file anew


def test_no_server_at_all_is_said_and_is_over_when_one_is_back(
    before: Front, pair: tuple[Server, Server], cases: list[tuple[Any, Any]]
) -> None:
    for server in pair:
        server.kill()
    try:
        answer = httpx.post(
            f"{before.url}{PATH}", verify=before.trusted, headers=KEY, content=b"{}", timeout=60
        )
        assert answer.status_code == 503
        outcome, _ = by_grpc(before, "{}")(cases[0][0])
        assert outcome.startswith("gRPC UNAVAILABLE")
    finally:
        for server in pair:
            server.start()
    until(lambda: by_rest(before)(cases[0][0])[0] == "REST", 20)
    until(lambda: by_grpc(before)(cases[0][0])[0] == "gRPC", 20)


def take_out(before: Front, server: Server) -> None:
    """As docs/fronts.md says."""
    if before.name == "haproxy":
        for backend in ("rest", "grpc"):
            assert before.told(f"set server {backend}/board1 state drain").strip() == ""
    else:
        before.change(rf"(server 127.0.0.1:({server.port}|{server.grpc_port})) ", r"\1 down ")


def put_back(before: Front, server: Server) -> None:
    """The other way."""
    if before.name == "haproxy":
        for backend in ("rest", "grpc"):
            assert before.told(f"set server {backend}/board1 state ready").strip() == ""
    else:
        before.change(" down ", " ")


def asked(server: Server) -> bool:
    """Whether inferences come to a server, within a second."""
    return count(server) < (time.sleep(1) or count(server))


def count(server: Server) -> int:
    """Inferences that a server has answered, as it counts them itself."""
    path = f"http://127.0.0.1:{server.port}/v2/models/{RESNET}/stats"
    return int(httpx.get(path, headers=KEY, timeout=60).json()["model_stats"][0]["inference_count"])
