"""A model behind Ray Serve speaks the Open Inference Protocol like ``rknnlite serve``."""

from __future__ import annotations

import importlib
import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

httpx = pytest.importorskip("httpx")

from rknnlite_ray import deployment, typed_errors  # noqa: E402

import rknnlite  # noqa: E402
from rknnlite.errors import ModelInvalid, ParamInvalid, TargetPlatformUnmatch  # noqa: E402
from tests.ray.conftest import BOARD  # noqa: E402
from tests.support.corpus import genuine  # noqa: E402

pytestmark = pytest.mark.slow
MODEL = genuine("conv_1x1.rk3588.i8")
SHAPE = (1, 9, 11, 20)
ONE_BYTE = b'{"inputs": [{"name": "in0", "shape": [1], "datatype": "UINT8", "data": [1]}]}'
NPU = {"resources": BOARD, "num_cpus": 0}


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture(scope="module")
def serve(cluster: Any) -> Any:
    """``ray.serve``, which takes a second to import."""
    return importlib.import_module("ray.serve")


@pytest.fixture(scope="module")
def http(serve: Any) -> Iterator[Any]:
    """The proxy of a Serve without applications."""
    port = free_port()
    serve.start(
        http_options={"host": "127.0.0.1", "port": port},
        proxy_location="HeadOnly",
        logging_config={"log_level": "ERROR"},
    )
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        yield client
    serve.shutdown()


@pytest.fixture(scope="module")
def served(http: Any, serve: Any) -> Iterator[Any]:
    """One replica of a small model at the root, beside the boards."""
    serve.run(
        deployment(MODEL, "conv", backend="cpu", max_body=1 << 20, resources={}, num_cpus=0),
        name="conv",
        route_prefix="/",
    )
    yield http
    serve.delete("conv")


def image(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 255, SHAPE).astype(np.uint8)


def local(given: np.ndarray) -> np.ndarray:
    with rknnlite.open(MODEL, backend="cpu") as context:
        (found,) = context.infer(given)
    return found


def binary(given: np.ndarray, **parameters: Any) -> dict[str, Any]:
    """Content and headers of a request with its tensor as bytes."""
    entry = {
        "name": "in0",
        "datatype": "UINT8",
        "shape": list(given.shape),
        "parameters": {"binary_data_size": given.nbytes},
    }
    head = json.dumps({"inputs": [entry], "parameters": {"binary_data_output": True, **parameters}}).encode()
    return {"content": head + given.tobytes(), "headers": {"Inference-Header-Content-Length": str(len(head))}}


def test_health_and_metadata(served: Any) -> None:
    assert served.get("/v2/health/live").json() == {"live": True}
    assert served.get("/v2/health/ready").json() == {"ready": True}
    assert served.get("/v2").json()["extensions"] == ["binary_tensor_data"]
    assert served.get("/v2/models/conv/ready").json() == {"name": "conv", "ready": True}
    told = served.get("/v2/models/conv").json()
    assert (told["name"], told["platform"]) == ("conv", "rknn_rk3588")
    assert [(entry["name"], entry["shape"]) for entry in told["inputs"]] == [("in0", list(SHAPE))]
    assert served.get("/v2/models/conv/versions/1").json() == told


def test_json_and_bytes_have_the_numbers_of_a_local_context(served: Any) -> None:
    given, expected = image(), local(image())
    entry = {"name": "in0", "datatype": "UINT8", "shape": list(SHAPE), "data": given.ravel().tolist()}
    told = served.post("/v2/models/conv/infer", json={"inputs": [entry], "id": "one"}).json()
    (output,) = told["outputs"]
    assert told["id"] == "one" and told["model_name"] == "conv" and output["shape"] == list(expected.shape)
    assert np.array(output["data"], np.float32).tobytes() == expected.tobytes()
    answered = served.post("/v2/models/conv/infer", **binary(given))
    head = int(answered.headers["Inference-Header-Content-Length"])
    assert answered.content[head:] == expected.tobytes()


@pytest.mark.parametrize(
    ("method", "path", "content", "status", "text"),
    [
        ("POST", "/v2/models/conv/infer", b"{", 400, "no JSON"),
        ("POST", "/v2/models/conv/infer", b'{"inputs": []}', 400, "the model has the inputs in0"),
        ("POST", "/v2/models/conv/infer", ONE_BYTE, 400, "input in0"),
        ("POST", "/v2/models/conv/infer", b" " * (2 << 20), 413, "more than 1048576 bytes"),
        ("POST", "/v2/models/other/infer", b"{}", 404, "no model 'other' here, but 'conv'"),
        ("GET", "/v2/models/conv/versions/2", b"", 404, "has the version 1"),
        ("GET", "/v2/models/conv/infer", b"", 405, "answers POST"),
        ("POST", "/v2/models/conv", b"", 405, "answers GET"),
        ("GET", "/v2/nothing", b"", 404, "no such path"),
    ],
)  # fmt: skip
def test_bad_requests_are_answered(
    served: Any, method: str, path: str, content: bytes, status: int, text: str
) -> None:
    answered = served.request(method, path, content=content)
    assert answered.status_code == status, answered.text
    assert text in answered.json()["error"]
    if status == 400:
        assert answered.headers["rknnlite-error"] == "InputInvalid"


def test_the_client_of_triton_works_unchanged(served: Any) -> None:
    client_of = pytest.importorskip("tritonclient.http")
    client = client_of.InferenceServerClient(f"{served.base_url.host}:{served.base_url.port}")
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("conv")
    given = client_of.InferInput("in0", list(SHAPE), "UINT8")
    given.set_data_from_numpy(image(3))
    (output,) = client.get_model_metadata("conv")["outputs"]
    found = client.infer("conv", [given]).as_numpy(output["name"])
    assert found.tobytes() == local(image(3)).tobytes()
    client.close()


def test_replicas_grow_with_the_load_and_no_answer_is_crossed(http: Any, serve: Any) -> None:
    """From one to three boards; every answer belongs to its question."""
    app = deployment(
        MODEL, backend="cpu", replicas=(1, 3), queue=64, **NPU,
        autoscaling={"target_ongoing_requests": 1, "upscale_delay_s": 0.5, "metrics_interval_s": 0.2, "look_back_period_s": 1},
    )  # fmt: skip
    name = MODEL.stem
    serve.run(app, name="grows", route_prefix=f"/v2/models/{name}")
    expected = {seed: local(image(seed)).tobytes() for seed in range(5)}

    def ask(seed: int) -> bool:
        answered = http.post(f"/v2/models/{name}/infer", **binary(image(seed)))
        assert answered.status_code == 200, answered.text
        return bool(answered.content.endswith(expected[seed]))

    def running() -> int:
        (state,) = serve.status().applications["grows"].deployments.values()
        return int(state.replica_states.get("RUNNING", 0))

    assert running() == 1
    end = time.monotonic() + 300
    with ThreadPoolExecutor(12) as pool:
        while running() < 3:
            assert time.monotonic() < end, "it does not grow"
            assert all(pool.map(ask, [number % 5 for number in range(60)]))
    serve.delete("grows")


def test_what_cannot_run_is_said_before_it_is_deployed(cluster: Any, tmp_path: Any) -> None:
    with pytest.raises(TargetPlatformUnmatch, match="rk3576"):
        deployment(genuine("conv_1x1.rk3576.i8"))
    with pytest.raises(ParamInvalid, match="needs a name"):
        deployment(MODEL.read_bytes())
    with pytest.raises(ParamInvalid, match=r"replicas=\(3, 1\)"):
        deployment(MODEL, replicas=(3, 1))
    with pytest.raises(ModelInvalid, match="cannot be read"):
        deployment(tmp_path / "none.rknn")


def test_a_model_that_a_node_lacks_is_a_typed_error(http: Any, serve: Any, tmp_path: Any) -> None:
    model = tmp_path / "gone.rknn"
    model.write_bytes(MODEL.read_bytes())
    app = deployment(model, backend="cpu", ship=False, **NPU)
    model.unlink()
    with pytest.raises(ModelInvalid, match=r"model gone cannot be opened .*cannot be read"), typed_errors():
        serve.run(app, name="gone", route_prefix="/gone")
    serve.delete("gone")
