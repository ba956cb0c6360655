"""Clients of gRPC that nobody here wrote, unchanged: Triton's and KServe's."""

from __future__ import annotations

import asyncio
import queue
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tritonclient.grpc")

import tritonclient.grpc as triton
import tritonclient.grpc.aio as triton_aio
from rknnlite_server.settings import ServerSettings

from tests.support.needs import needs

from ..conftest import running
from .conftest import LOADED, MANY, RESNET, WHOLE, Networks, inputs_of, local, path_of

DENSE = "dense.rk3588.i8"
SOFT = "softmaxes.rk3588.i8"
WORDS = {"float32": "FP32", "int64": "INT64", "uint8": "UINT8"}


@pytest.fixture(scope="module")
def client(networks: Networks) -> Iterator[Any]:
    with triton.InferenceServerClient(networks.grpc) as found:
        yield found


def _given(arrays: dict[str, Any], raw: bool = True) -> list[Any]:
    made = []
    for name, array in arrays.items():
        entry = triton.InferInput(name, list(array.shape), WORDS[array.dtype.name])
        if raw:
            entry.set_data_from_numpy(array)
        else:
            field = {"FP32": "fp32_contents", "INT64": "int64_contents", "UINT8": "uint_contents"}[
                entry.datatype()
            ]
            tensor = entry._get_tensor()
            getattr(tensor.contents, field).extend(array.ravel().tolist())
        made.append(entry)
    return made


def _same(result: Any, expected: dict[str, Any]) -> None:
    for name, array in expected.items():
        np.testing.assert_array_equal(result.as_numpy(name), array, err_msg=name)


@pytest.mark.parametrize("name", LOADED)
def test_infer(client: Any, name: str) -> None:
    inputs = inputs_of(name)
    _same(client.infer(name, _given(inputs)), local(name, inputs))


@pytest.mark.parametrize("name", [WHOLE, MANY])
def test_infer_with_numbers_that_are_not_raw(client: Any, name: str) -> None:
    inputs = inputs_of(name)
    _same(client.infer(name, _given(inputs, raw=False)), local(name, inputs))


def test_requested_outputs_id_and_raw_integers(client: Any) -> None:
    inputs = inputs_of(SOFT)
    expected = local(SOFT, inputs)
    chosen = list(expected)[1]
    wanted = [triton.InferRequestedOutput(chosen)]
    result = client.infer(SOFT, _given(inputs), outputs=wanted, request_id="nine", client_timeout=60)
    assert result.get_response().id == "nine" and len(result.get_response().outputs) == 1
    _same(result, {chosen: expected[chosen]})
    stored = {name: output.data for name, output in local(SOFT, inputs, raw=True).items()}
    result = client.infer(
        SOFT, _given(inputs), parameters={"raw": True}, sequence_id=3, priority=1, timeout=10**7
    )
    _same(result, stored)
    found = result.get_output(chosen).parameters
    real = (stored[chosen].astype(np.float32) - found["zero_point"].int64_param) * found["scale"].double_param
    np.testing.assert_allclose(real, expected[chosen], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("algorithm", ["gzip", "deflate"])
def test_compressed(client: Any, algorithm: str) -> None:
    from rknnlite_server.networks.rpc import inflates

    inputs = inputs_of(RESNET)
    if inflates():
        _same(client.infer(RESNET, _given(inputs), compression_algorithm=algorithm), local(RESNET, inputs))
    else:
        with pytest.raises(triton.InferenceServerException, match="UNIMPLEMENTED"):
            client.infer(RESNET, _given(inputs), compression_algorithm=algorithm)


def test_many_asynchronous_calls(client: Any) -> None:
    cases = [(SOFT, inputs_of(SOFT, seed)) for seed in range(4)] * 4
    expected = [local(*case) for case in cases[:4]]
    done: queue.Queue[Any] = queue.Queue()
    for number, (name, inputs) in enumerate(cases):
        client.async_infer(
            name, _given(inputs), lambda result, error, number=number: done.put((number, result, error))
        )
    for _ in cases:
        number, result, error = done.get(timeout=60)
        assert error is None
        _same(result, expected[number % 4])


def test_a_stream(client: Any) -> None:
    inputs = inputs_of(SOFT)
    expected = local(SOFT, inputs)
    done: queue.Queue[Any] = queue.Queue()
    client.start_stream(lambda result, error: done.put((result, error)))
    try:
        for number in range(30):
            name = "nobody" if number % 10 == 5 else SOFT
            client.async_stream_infer(name, _given(inputs), request_id=str(number))
        for number in range(30):
            result, error = done.get(timeout=60)
            if number % 10 == 5:
                assert result is None and "'nobody' does not exist" in str(error)
            else:
                assert error is None and result.get_response().id == str(number)
                _same(result, expected)
    finally:
        client.stop_stream()


def test_the_asyncio_client(networks: Networks) -> None:
    inputs = inputs_of(SOFT)
    expected = local(SOFT, inputs)

    async def run() -> None:
        async with triton_aio.InferenceServerClient(networks.grpc) as client:
            assert await client.is_server_ready()
            for result in await asyncio.gather(*(client.infer(SOFT, _given(inputs)) for _ in range(8))):
                _same(result, expected)

            async def requests() -> Any:
                for number in range(9):
                    yield {"model_name": SOFT, "inputs": _given(inputs), "request_id": str(number)}

            ids = []
            async for result, error in client.stream_infer(requests()):
                assert error is None
                ids.append(result.get_response().id)
            assert ids == [str(number) for number in range(9)]

    asyncio.run(run())


def test_what_the_server_tells(client: Any) -> None:
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready(RESNET)
    assert not client.is_model_ready("nobody") and client.is_model_ready(RESNET, "1")
    assert client.get_server_metadata(as_json=True)["name"] == "rknnlite"
    metadata = client.get_model_metadata(RESNET, as_json=True)
    config = client.get_model_config(RESNET, as_json=True)["config"]
    assert metadata["inputs"][0]["shape"] == config["input"][0]["dims"]
    assert config["input"][0]["data_type"] == f"TYPE_{metadata['inputs'][0]['datatype']}"
    states = {
        entry["name"]: entry.get("state")
        for entry in client.get_model_repository_index(as_json=True)["models"]
    }
    assert states[RESNET] == "READY" and states[DENSE] == "UNAVAILABLE"
    client.load_model(DENSE)
    try:
        assert client.is_model_ready(DENSE)
    finally:
        client.unload_model(DENSE)
    assert not client.is_model_ready(DENSE)
    for call in (lambda: client.get_model_metadata("nobody"), lambda: client.load_model(DENSE, config="{}")):
        with pytest.raises(triton.InferenceServerException) as caught:
            call()
        assert caught.value.status() in ("StatusCode.NOT_FOUND", "StatusCode.INVALID_ARGUMENT")


def test_tls_and_a_key(tmp_path: Path) -> None:
    certificate, key = certificate_in(tmp_path)
    settings = ServerSettings(
        networks=(str(path_of(DENSE)),), grpc_port=0, workers=1, backend="cpu", api_keys=("a-key",),
        tls_cert=str(certificate), tls_key=str(key),
    )  # fmt: skip
    inputs = inputs_of(DENSE)
    with running(settings) as served:
        address = f"localhost:{served.state.rpc.port}"
        with triton.InferenceServerClient(address, ssl=True, root_certificates=str(certificate)) as client:
            _same(
                client.infer(DENSE, _given(inputs), headers={"authorization": "Bearer a-key"}),
                local(DENSE, inputs),
            )
            with pytest.raises(triton.InferenceServerException, match="Invalid API Key"):
                client.infer(DENSE, _given(inputs))
        other, _ = certificate_in(tmp_path, "other")
        for options in ({"ssl": True, "root_certificates": str(other)}, {}):
            with (
                triton.InferenceServerClient(address, **options) as client,
                pytest.raises(triton.InferenceServerException, match="UNAVAILABLE"),
            ):
                client.infer(DENSE, _given(inputs), client_timeout=20)


def certificate_in(folder: Path, name: str = "server") -> tuple[Path, Path]:
    """A certificate of localhost that signs itself, and its key."""
    needs("openssl")
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
         "-out", certificate, "-keyout", key],
        check=True, capture_output=True,
    )  # fmt: skip
    return certificate, key


KSERVE = """
import asyncio, sys
import numpy as np
from kserve import InferInput, InferRequest, InferenceGRPCClient
address, model, folder = sys.argv[1:]

async def main():
    client = InferenceGRPCClient(address)
    assert await client.is_server_live() and await client.is_server_ready() and await client.is_model_ready(model)
    given = dict(np.load(folder + "/inputs.npz"))
    answers = []
    for raw in (True, False):
        inputs = []
        for name, array in given.items():
            entry = InferInput(name, list(array.shape), {"float32": "FP32", "int64": "INT64"}[array.dtype.name])
            entry.set_data_from_numpy(array, binary_data=raw)
            inputs.append(entry)
        answers.append(await client.infer(InferRequest(model, inputs, request_id="four")))
    assert answers[0].id == "four"
    for number, answer in enumerate(answers):
        np.savez(f"{folder}/outputs{number}.npz", **{output.name: output.as_numpy() for output in answer.outputs})
    try:
        await client.infer(InferRequest("nobody", inputs))
    except Exception as error:
        print(type(error).__name__, error.code().name, error.details())
    await client.close()

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", [RESNET, MANY, WHOLE])
def test_kserves_client(networks: Networks, tmp_path: Path, name: str) -> None:
    """In a process of its own: its messages have the names of Triton's."""
    needs("kserve")
    inputs = inputs_of(name)
    np.savez(tmp_path / "inputs.npz", **inputs)
    done = subprocess.run(
        [sys.executable, "-c", KSERVE, networks.grpc, name, str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "NOT_FOUND" in done.stdout and "'nobody' does not exist" in done.stdout
    expected = local(name, inputs)
    for number in range(2):
        found = dict(np.load(tmp_path / f"outputs{number}.npz"))
        assert list(found) == list(expected)
        for output, array in expected.items():
            np.testing.assert_array_equal(found[output], array)
