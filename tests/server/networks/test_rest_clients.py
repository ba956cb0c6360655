"""Clients that nobody here wrote, over HTTP: their answers are those of a context here, bit by bit."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_protocol.error_status import status_of

import rknnlite
from rknnlite.errors import RknnError
from tests.support.needs import needs

from ..conftest import running
from .conftest import (
    BATCH,
    LATER,
    LOADED,
    MANY,
    RESNET,
    ROOT,
    SOFT,
    WHOLE,
    Networks,
    arrays_of,
    inputs_of,
    local,
)

FILES = sorted({*ROOT.glob("tests/data/*.rknn"), *ROOT.glob("examples/*/*.rknn")})
WORDS = {
    "float32": "FP32",
    "int64": "INT64",
    "int32": "INT32",
    "uint8": "UINT8",
    "int8": "INT8",
    "bool": "BOOL",
}


@pytest.fixture(scope="module")
def triton(networks: Networks) -> Iterator[Any]:
    module = pytest.importorskip("tritonclient.http")
    client = module.InferenceServerClient(networks.url.partition("//")[2])
    client.module = module
    yield client
    client.close()


def triton_inputs(module: Any, arrays: dict[str, Any], binary: bool = True) -> list[Any]:
    made = []
    for name, array in arrays.items():
        one = module.InferInput(name, list(array.shape), WORDS[array.dtype.name])
        one.set_data_from_numpy(array, binary_data=binary)
        made.append(one)
    return made


def same(result: Any, expected: dict[str, Any]) -> None:
    for name, array in expected.items():
        found = result.as_numpy(name)
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array)


@pytest.mark.parametrize("name", LOADED)
@pytest.mark.parametrize("binary", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_triton(triton: Any, name: str, binary: bool) -> None:
    given = inputs_of(name, 3)
    expected = local(name, given)
    wanted = [triton.module.InferRequestedOutput(output, binary_data=binary) for output in expected]
    for packed in (None, "gzip", "deflate"):
        result = triton.infer(
            name, triton_inputs(triton.module, given, binary), "1", wanted, "id-7",
            request_compression_algorithm=packed, response_compression_algorithm=packed,
        )  # fmt: skip
        assert result.get_response()["id"] == "id-7" and result.get_response()["model_name"] == name
        same(result, expected)
    same(triton.infer(name, triton_inputs(triton.module, given)), expected)


def test_triton_in_parallel(triton: Any) -> None:
    seeds = range(6)
    waiting = [
        triton.async_infer(MANY, triton_inputs(triton.module, inputs_of(MANY, seed))) for seed in seeds
    ]
    for seed, one in zip(seeds, waiting):
        same(one.get_result(), local(MANY, inputs_of(MANY, seed)))


def test_triton_asks_about_the_server(triton: Any) -> None:
    assert triton.is_server_live() and triton.is_server_ready() and triton.is_model_ready(SOFT, "1")
    assert not triton.is_model_ready("none") and not triton.is_model_ready(SOFT, "2")
    assert "model_repository" in triton.get_server_metadata()["extensions"]
    assert [entry["name"] for entry in triton.get_model_metadata(MANY)["inputs"]] == ["in0", "in1"]
    assert triton.get_model_config(BATCH)["max_batch_size"] == 4


def test_triton_loads_and_unloads(triton: Any) -> None:
    name = LATER[1]
    states = {line["name"]: line["state"] for line in triton.get_model_repository_index()}
    assert states[SOFT] == "READY" and states[name] == "UNAVAILABLE"
    triton.load_model(name)
    try:
        assert triton.is_model_ready(name)
        given = inputs_of(name)
        same(triton.infer(name, triton_inputs(triton.module, given)), local(name, given))
    finally:
        triton.unload_model(name)
    assert not triton.is_model_ready(name)


def test_triton_hears_what_is_wrong(triton: Any) -> None:
    from tritonclient.utils import InferenceServerException

    given = triton_inputs(triton.module, inputs_of(SOFT))
    out = triton.module.InferRequestedOutput
    for act, status, text in (
        (lambda: triton.infer("none", given), "404", "does not exist here"),
        (lambda: triton.infer(SOFT, given, outputs=[out("x")]), "400", "no output 'x'"),
        (lambda: triton.infer(SOFT, given, outputs=[out("out0", class_count=3)]), "400", "classification"),
        (lambda: triton.infer(SOFT, given, parameters={"raw": "yes"}), "400", "parameter raw"),
        (lambda: triton.load_model("none"), "404", "does not exist here"),
        (lambda: triton.load_model(LATER[0], config="{}"), "501", "config"),
        (triton.get_system_shared_memory_status, "501", "shared memory"),
        (triton.get_cuda_shared_memory_status, "501", "shared memory"),
        (triton.get_trace_settings, "501", "traces"),
        (triton.get_log_settings, "501", "--log-level"),
    ):
        with pytest.raises(InferenceServerException) as caught:
            act()
        assert caught.value.status() == status and text in str(caught.value)


def test_triton_with_parameters(triton: Any) -> None:
    given = inputs_of(SOFT)
    result = triton.infer(SOFT, triton_inputs(triton.module, given), parameters={"raw": True, "core_mask": 2})
    expected = local(SOFT, given, raw=True)
    same(result, {name: raw.data for name, raw in expected.items()})
    for name, raw in expected.items():
        told = result.get_output(name)["parameters"]
        assert (told["scale"], told["zero_point"]) == (pytest.approx(raw.scale, rel=0), raw.zero_point)


@pytest.mark.slow
def test_triton_by_coroutines(networks: Networks) -> None:
    module = pytest.importorskip("tritonclient.http.aio")

    async def ask() -> None:
        async with module.InferenceServerClient(networks.url.partition("//")[2]) as client:
            assert await client.is_server_ready() and await client.is_model_ready(MANY)
            asked = [client.infer(MANY, triton_inputs(module, inputs_of(MANY, seed))) for seed in range(4)]
            for seed, result in enumerate(await asyncio.gather(*asked)):
                same(result, local(MANY, inputs_of(MANY, seed)))
            packed = await client.infer(
                WHOLE, triton_inputs(module, inputs_of(WHOLE)),
                request_compression_algorithm="gzip", response_compression_algorithm="deflate",
            )  # fmt: skip
            same(packed, local(WHOLE, inputs_of(WHOLE)))

    asyncio.run(ask())


KSERVE = """
import asyncio, json, sys
import numpy as np
import kserve
url, folder = sys.argv[1:3]
words = json.loads(sys.argv[3])

async def ask(client, name, binary):
    assert await client.is_model_ready(url, name)
    inputs = []
    for key, array in dict(np.load(f"{folder}/{name}.npz")).items():
        one = kserve.InferInput(key, list(array.shape), words[array.dtype.name])
        one.set_data_from_numpy(array, binary_data=binary)
        inputs.append(one)
    asked = kserve.InferRequest(model_name=name, infer_inputs=inputs)
    answer = await client.infer(url, asked, model_name=name)
    np.savez(f"{folder}/{name}.{binary}.npz", **{output.name: output.as_numpy() for output in answer.outputs})

async def main():
    client = kserve.InferenceRESTClient(kserve.RESTConfig(protocol="v2"))
    assert await client.is_server_ready(url) and await client.is_server_live(url)
    for name in sys.argv[4:]:
        for binary in (True, False):
            await ask(client, name, binary)
    await client.close()

asyncio.run(main())
"""


@pytest.mark.slow
def test_kserve(networks: Networks, tmp_path: Path) -> None:
    """In a process of its own: its messages have the names of Triton's."""
    needs("kserve")
    names = (SOFT, MANY, WHOLE, BATCH)
    for name in names:
        np.savez(tmp_path / f"{name}.npz", **inputs_of(name, 5))
    words = json.dumps(WORDS)
    done = subprocess.run(
        [sys.executable, "-c", KSERVE, networks.url, str(tmp_path), words, *names],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    for name in names:
        expected = local(name, inputs_of(name, 5))
        for binary in (True, False):
            found = dict(np.load(tmp_path / f"{name}.{binary}.npz"))
            assert list(found) == list(expected)
            for output, array in expected.items():
                np.testing.assert_array_equal(np.asarray(found[output], array.dtype), array)


def test_curl(networks: Networks, tmp_path: Path) -> None:
    """The binary form by hand, as docs/server.md shows it."""
    needs("curl")
    given = inputs_of(RESNET)["input"]
    head = {
        "inputs": [
            {
                "name": "input",
                "shape": list(given.shape),
                "datatype": "FP32",
                "parameters": {"binary_data_size": given.nbytes},
            }
        ],
        "parameters": {"binary_data_output": True},
    }
    text = json.dumps(head).encode()
    (tmp_path / "body").write_bytes(text + given.tobytes())
    done = subprocess.run(
        ["curl", "-sS", "--fail", "--data-binary", "@body", "-H", f"Inference-Header-Content-Length: {len(text)}",
         "-D", "heads", "-o", "answer", f"{networks.url}/v2/models/{RESNET}/infer"],
        cwd=tmp_path, timeout=60, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    heads = dict(
        line.lower().split(": ", 1) for line in (tmp_path / "heads").read_text().splitlines() if ": " in line
    )
    length = int(heads["inference-header-content-length"])
    answer = (tmp_path / "answer").read_bytes()
    assert json.loads(answer[:length])["outputs"][0]["shape"] == [1, 10]
    assert answer[length:] == local(RESNET, {"input": given})["output"].tobytes()


@pytest.mark.slow
def test_every_file_gives_what_a_context_here_gives(tmp_path: Path) -> None:
    """By Triton's client, one loaded at a time; a file that does not open says why, in the same words."""
    module = pytest.importorskip("tritonclient.http")
    from rknnlite_server.settings import ServerSettings
    from tritonclient.utils import InferenceServerException

    names = {}
    for number, path in enumerate(FILES):
        names[f"m{number}"] = path
        shutil.copy(path, tmp_path / f"m{number}.rknn")
    settings = ServerSettings(repository=str(tmp_path), explicit=True, grpc_port=-1, workers=1, backend="cpu")
    opened = 0
    with running(settings) as served, module.InferenceServerClient(served.url.partition("//")[2]) as client:
        for name, path in names.items():
            try:
                context = rknnlite.open(path, backend="cpu")
            except RknnError as error:
                answer = served.http.post(f"/v2/repository/models/{name}/load")
                assert (answer.status_code, answer.headers["rknnlite-error"]) == (422, type(error).__name__)
                continue
            client.load_model(name)
            with context:
                given = arrays_of(context.inputs, opened)
                asked = triton_inputs(module, given)
                try:
                    expected = context.infer(given)
                except RknnError as error:  # custom operators, which nothing brings over the network
                    with pytest.raises(InferenceServerException, match="custom operator") as caught:
                        client.infer(name, asked)
                    assert caught.value.status() == str(status_of(error).http)
                    continue
                result = client.infer(name, asked)
                for attr, array in zip(context.outputs, expected):
                    found = result.as_numpy(attr.name)
                    assert found.dtype == array.dtype and found.tobytes() == array.tobytes(), (
                        path,
                        attr.name,
                    )
            client.unload_model(name)
            opened += 1
    assert opened >= 270
