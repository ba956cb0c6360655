"""The calls of gRPC by a bare client: answers, errors, order, keys, health."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("grpc")

import grpc
from rknnlite_protocol.grpc_codec import parse_response
from rknnlite_protocol.grpc_messages import BOARD, HEALTH, INFERENCE, message, methods
from rknnlite_protocol.requests import Requested
from rknnlite_server.settings import ServerSettings

import rknnlite

from ..conftest import running
from .conftest import (
    BATCH,
    DATA,
    DYNAMIC,
    LATER,
    LOADED,
    MANY,
    ROOT,
    WHOLE,
    Networks,
    inputs_of,
    local,
    path_of,
)
from .grpc_client import Client, connected, request_of, told

DENSE = "dense.rk3588.i8"


@pytest.fixture(scope="module")
def client(networks: Networks) -> Iterator[Client]:
    with connected(networks.grpc) as found:
        yield found


@pytest.mark.parametrize("name", LOADED)
def test_numbers_are_those_of_a_context_here(client: Client, name: str) -> None:
    inputs = inputs_of(name)
    _same(client.infer(name, inputs), local(name, inputs))


@pytest.mark.slow
def test_every_file_gives_what_it_gives_here(tmp_path: Any) -> None:
    """Those of tests/data and of the examples that the CPU reference opens, loaded and unloaded one after the other."""
    compared, refused = 0, []
    folder = tmp_path / "repository"
    folder.mkdir()
    files = sorted([*DATA.glob("*.rknn"), *(ROOT / "examples").rglob("*.rknn")])
    for number, path in enumerate(files):
        (folder / f"n{number}.rknn").write_bytes(path.read_bytes())
    with (
        running(
            ServerSettings(repository=str(folder), explicit=True, grpc_port=0, workers=1, backend="cpu")
        ) as served,
        connected(f"127.0.0.1:{served.state.rpc.port}") as client,
    ):
        for number, path in enumerate(files):
            compared += _compared(client, f"n{number}", path, refused)
    assert compared > 250, refused


def _compared(client: Client, name: str, path: Any, refused: list[str]) -> bool:
    from .conftest import arrays_of

    try:
        with rknnlite.open(path, backend="cpu") as context:
            inputs = arrays_of(context.inputs)
            expected = {a.name: array for a, array in zip(context.outputs, context.infer(dict(inputs)))}
    except rknnlite.RknnError as error:
        refused.append(f"{path.name}: {error}")
        with pytest.raises(grpc.RpcError):
            client.call("RepositoryModelLoad", model_name=name)
            client.infer(name, inputs)
        return False
    client.call("RepositoryModelLoad", model_name=name)
    _same(client.infer(name, inputs), expected)
    client.call("RepositoryModelUnload", model_name=name)
    return True


def test_a_request_names_its_outputs_and_gets_its_id_back(client: Client) -> None:
    inputs = inputs_of(MANY)
    expected = local(MANY, inputs)
    wanted = list(expected)[2:0:-1]
    request = request_of(MANY, inputs, outputs=[Requested(name) for name in wanted], id="seven")
    answer = client.prepared("ModelInfer")(request)
    assert (answer.id, answer.model_name, answer.model_version) == ("seven", MANY, "1")
    _same({t.name: t.data for t in parse_response(answer).outputs}, {name: expected[name] for name in wanted})


def test_metadata_and_configuration_agree(client: Client) -> None:
    for name in LOADED:
        found = client.call("ModelMetadata", name=name)
        config = client.call("ModelConfig", name=name).config
        assert (found.name, config.name, config.platform) == (name, name, found.platform)
        rows = 1 if config.max_batch_size else 0
        assert [list(entry.shape)[rows:] for entry in found.inputs] == [
            list(entry.dims) for entry in config.input
        ]
        assert [entry.name for entry in found.outputs] == [entry.name for entry in config.output]
    assert client.call("ModelConfig", name=BATCH).config.max_batch_size > 1
    assert -1 in client.call("ModelMetadata", name=DYNAMIC).inputs[0].shape
    assert client.call("ModelMetadata", name=WHOLE).inputs[0].datatype == "INT64"
    told_of = client.call("ServerMetadata")
    assert (told_of.name, told_of.version) == ("rknnlite", rknnlite.__version__)


def test_models_of_the_repository_come_and_go(client: Client) -> None:
    def index(ready: bool = False) -> dict[str, str]:
        return {entry.name: entry.state for entry in client.call("RepositoryIndex", ready=ready).models}

    assert index() == {**dict.fromkeys(LOADED, "READY"), **dict.fromkeys(LATER, "UNAVAILABLE")}
    inputs = inputs_of(DENSE)
    assert not client.call("ModelReady", name=DENSE).ready
    answer = client.call("RepositoryModelLoad", model_name=DENSE)
    assert (answer.model_name, answer.isLoaded) == (DENSE, True)
    try:
        assert client.call("ModelReady", name=DENSE).ready and DENSE in index(ready=True)
        _same(client.infer(DENSE, inputs), local(DENSE, inputs))
    finally:
        answer = client.call("RepositoryModelUnload", repository_name=DENSE)  # KServe's definition: field 1
    assert (answer.model_name, answer.isUnloaded) == (DENSE, True)
    assert index()[DENSE] == "UNAVAILABLE" and DENSE not in index(ready=True)
    code, text, metadata = _failed(client.infer, DENSE, inputs)
    assert code == "NOT_FOUND" and "not loaded" in text and metadata["rknnlite-error"] == "ParamInvalid"


def test_a_configuration_for_loading_is_refused(client: Client) -> None:
    given = {"config": message("inference.ModelRepositoryParameter")(string_param="{}")}
    code, text, _ = _failed(client.call, "RepositoryModelLoad", model_name=DENSE, parameters=given)
    assert code == "INVALID_ARGUMENT" and "'config'" in text
    assert _failed(client.call, "RepositoryModelLoad", model_name="../secret")[0] == "NOT_FOUND"


# -- errors ---------------------------------------------------------------------------------------------------


def test_what_does_not_fit_is_told_by_code_text_and_class(client: Client) -> None:
    name = "softmaxes.rk3588.i8"
    good = inputs_of(name)
    first = next(iter(good))
    for inputs, text in (
        ({first: good[first][..., :1]}, "shape"),
        ({first: np.full_like(good[first], np.nan)}, "NaN"),
        ({**good, "more": good[first]}, "inputs"),
        ({}, "inputs"),
    ):
        code, said, metadata = _failed(client.infer, name, inputs)
        assert code == "INVALID_ARGUMENT" and text in said, said
        assert metadata["rknnlite-error"] == "InputInvalid" and int(metadata["rknnlite-code"]) < 0
    code, said, metadata = _failed(client.infer, name, good, outputs=[Requested("none")])
    assert code == "INVALID_ARGUMENT" and "'none'" in said
    for wrong in ({"name": "nobody"}, {"name": name, "version": "2"}, {"name": "../x"}):
        code, said, metadata = _failed(client.call, "ModelMetadata", **wrong)
        assert code == "NOT_FOUND" and metadata["rknnlite-error"] == "ParamInvalid"


def test_a_long_name_makes_no_long_error(client: Client) -> None:
    """What does not fit into trailing metadata would reach nobody."""
    code, text, metadata = _failed(client.infer, "\u20ac" * 50_000, {"x" * 50_000: np.zeros(1)})
    assert code == "NOT_FOUND" and len(text) < 3000 and "rknnlite-error" in metadata


@pytest.mark.parametrize("data", [b"\xff" * 50, b"\x0a\xff", b"\x0a\x02\xc3\x28", b"\x2a\x05\x22\x03abc"])
def test_bytes_that_are_no_message(client: Client, data: bytes) -> None:
    code, text, metadata = _failed(client.prepared("ModelInfer", raw=True), data)
    assert (code, metadata["rknnlite-error"]) == ("INVALID_ARGUMENT", "InputInvalid")
    assert "are no ModelInferRequest" in text
    assert client.call("ServerLive").live


def test_a_call_without_a_message(networks: Networks, client: Client) -> None:
    path = methods(INFERENCE)["ModelInfer"].path
    code, text, _ = _failed(client.channel.stream_unary(path), iter(()))
    assert code == "INVALID_ARGUMENT" and "no message" in text


def test_calls_that_do_not_exist(client: Client) -> None:
    for path in ("/inference.GRPCInferenceService/TraceSetting", "/no.Service/Call"):
        assert _failed(client.channel.unary_unary(path), b"")[0] == "UNIMPLEMENTED"


# -- streams --------------------------------------------------------------------------------------------------


def test_answers_of_a_stream_come_in_the_order_of_requests(client: Client) -> None:
    inputs = {name: inputs_of(name) for name in (WHOLE, "softmaxes.rk3588.i8")}
    expected = {name: local(name, arrays) for name, arrays in inputs.items()}
    names = [WHOLE, "softmaxes.rk3588.i8", "nobody", WHOLE] * 12
    requests = [request_of(name, inputs.get(name, {}), id=str(number)) for number, name in enumerate(names)]
    answers = list(client.prepared("ModelStreamInfer")(iter(requests), timeout=60))
    assert [answer.infer_response.id for answer in answers] == [str(number) for number in range(len(names))]
    for name, answer in zip(names, answers):
        if name == "nobody":
            assert "'nobody' does not exist" in answer.error_message
            assert answer.infer_response.parameters["rknnlite-error"].string_param == "ParamInvalid"
        else:
            assert not answer.error_message
            _same({t.name: t.data for t in parse_response(answer.infer_response).outputs}, expected[name])


def test_a_final_answer_is_marked_where_a_client_asks_for_it(client: Client) -> None:
    asked = {"triton_enable_empty_final_response": True}
    requests = [request_of(WHOLE, inputs_of(WHOLE), parameters=extra) for extra in (asked, {})]
    first, second = client.prepared("ModelStreamInfer")(iter(requests), timeout=60)
    assert first.infer_response.parameters["triton_final_response"].bool_param
    assert "triton_final_response" not in second.infer_response.parameters


def test_garbage_in_a_stream_ends_it_behind_the_answers_before(client: Client) -> None:
    good = request_of(WHOLE, inputs_of(WHOLE), id="good").SerializeToString()
    answers = client.prepared("ModelStreamInfer", raw=True)(iter([good, b"\xff" * 9]), timeout=60)
    assert next(answers).infer_response.id == "good"
    code, text, _ = _failed(lambda: next(answers))
    assert code == "INVALID_ARGUMENT" and "are no ModelInferRequest" in text


# -- keys and health ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def locked() -> Iterator[str]:
    settings = ServerSettings(
        networks=(str(path_of(DENSE)),), api_keys=("other", "secret-of-mine"), grpc_port=0, workers=1, backend="cpu",
        metrics=True,
    )  # fmt: skip
    with running(settings) as served:
        yield f"127.0.0.1:{served.state.rpc.port}"


@pytest.mark.parametrize(
    "given", ["", "Bearer", "Bearer wrong", "Basic secret-of-mine", "Bearer secret-of-minex"]
)
def test_without_a_key_nothing_is_told(locked: str, given: str) -> None:
    head = (("authorization", given),) if given else ()
    with connected(locked) as client:
        for name in ("ModelMetadata", "ModelInfer", "RepositoryIndex", "ServerMetadata"):
            code, text, metadata = _failed(
                client.prepared(name), methods(INFERENCE)[name].request(), metadata=head
            )
            assert (code, text) == ("UNAUTHENTICATED", "Invalid API Key")
            assert metadata["rknnlite-error"] == "BackendUnavailable"
        waiting = threading.Event()
        answers = client.prepared("ModelStreamInfer")(iter(waiting.wait, True), metadata=head, timeout=30)
        assert _failed(lambda: next(answers))[0] == "UNAUTHENTICATED"  # and no message was waited for
        waiting.set()
        assert (
            client.health() == "SERVING"
            and client.call("ServerReady").ready
            and client.call("ServerLive").live
        )


def test_with_a_key_calls_are_answered(locked: str) -> None:
    request = request_of(DENSE, inputs_of(DENSE))
    with connected(locked) as client:
        for scheme in ("Bearer", "bearer"):
            answer = client.prepared("ModelInfer")(
                request, metadata=(("authorization", f"{scheme} secret-of-mine"),)
            )
            assert answer.model_name == DENSE


def test_a_key_has_limits_and_administrative_calls_are_told(tmp_path: Path) -> None:
    audit = tmp_path / "audit.log"
    settings = ServerSettings(
        networks=(str(path_of(DENSE)),), api_keys=("free name=boss", "few name=few requests=3"), audit_file=str(audit),
        grpc_port=0, workers=1, backend="cpu",
    )  # fmt: skip
    request = request_of(DENSE, inputs_of(DENSE))
    few, free = ((("authorization", f"Bearer {key}"),) for key in ("few", "free"))
    load = methods(INFERENCE)["RepositoryModelLoad"].request
    with running(settings) as served, connected(f"127.0.0.1:{served.state.rpc.port}") as client:
        answers = list(client.prepared("ModelStreamInfer")(iter([request] * 4), metadata=few, timeout=60))
        assert ["3 requests a minute" in answer.error_message for answer in answers] == [False] * 2 + [
            True
        ] * 2
        code, text, metadata = _failed(client.prepared("ModelInfer"), request, metadata=few)
        assert (code, "3 requests a minute" in text) == ("RESOURCE_EXHAUSTED", True)
        assert int(metadata["retry-after"]) > 0
        for head in (few, free, ()):
            _failed(client.prepared("RepositoryModelLoad"), load(model_name="none"), metadata=head)
        client.prepared("ModelInfer")(request, metadata=free)
        lines = [json.loads(line) for line in audit.read_text().splitlines()]
    assert [(line["key"], line["status"]) for line in lines] == [
        ("few", "RESOURCE_EXHAUSTED"), ("boss", "NOT_FOUND"), ("", "UNAUTHENTICATED"),
    ]  # fmt: skip
    assert {line["call"] for line in lines} == {f"/{INFERENCE}/RepositoryModelLoad"}


def test_health_by_service(client: Client) -> None:
    assert [client.health(name) for name in ("", INFERENCE, BOARD)] == ["SERVING"] * 3
    assert _failed(client.health, "no.such.Service")[0] == "NOT_FOUND"
    watch = client.prepared("Watch", HEALTH)
    asked = message("grpc.health.v1.HealthCheckRequest")
    for name, status in (("", 1), ("no.such.Service", 3)):
        answers = watch(asked(service=name), timeout=30)
        assert next(answers).status == status
        answers.cancel()


def _failed(call: Any, *arguments: Any, **options: Any) -> tuple[str, str, dict[str, Any]]:
    with pytest.raises(grpc.RpcError) as caught:
        call(*arguments, **options)
    return told(caught.value)


def _same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert list(found) == list(expected)
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array, err_msg=name)


@pytest.mark.parametrize("given", ["Bearer \u20ac", "Bearer \udcff", b"Bearer \xff\xfe", "Bearer \u00e9"])
def test_a_key_of_any_bytes_is_a_wrong_key(given: Any) -> None:
    """gRPC gives text where it can read it as UTF-8, and what it gives must not be an error of ours."""
    from rknnlite_server.app_state import State
    from rknnlite_server.networks.rpc_access import authorization

    state = State(ServerSettings(api_keys=("secret", "\u00e9")))
    assert state.allows(authorization((("authorization", given),))) is (given == "Bearer \u00e9")
    assert not state.allows(authorization(None))
