"""The Open Inference Protocol's routes over HTTP, without any client's help."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from .conftest import BATCH, DYNAMIC, LOADED, MANY, SOFT, Networks, inputs_of, local


@pytest.mark.parametrize("name", LOADED)
def test_json_in_and_json_out(networks: Networks, name: str) -> None:
    given = inputs_of(name)
    answer = networks.http.post(f"/v2/models/{name}/infer", json={"inputs": tensors(given)})
    assert answer.status_code == 200, answer.text
    expected = local(name, given)
    found = {output["name"]: output for output in answer.json()["outputs"]}
    assert list(found) == list(expected)
    for output, array in expected.items():
        got = np.array(found[output]["data"], array.dtype).reshape(found[output]["shape"])
        np.testing.assert_array_equal(got, array)


def tensors(arrays: dict[str, Any]) -> list[dict[str, Any]]:
    """Inputs as JSON."""
    words = {"float32": "FP32", "int64": "INT64", "uint8": "UINT8"}
    return [
        {
            "name": name,
            "shape": list(array.shape),
            "datatype": words[array.dtype.name],
            "data": array.tolist(),
        }
        for name, array in arrays.items()
    ]


@pytest.mark.parametrize(
    ("path", "plain"),
    [
        ("/v2/models/none", True),
        ("/v2/repository/none", True),
        ("/v2/health", True),
        ("/v2/else", False),
        ("/v2/chat/completions", False),
        ("/v2x", False),
        ("/v2/modelsx", False),
    ],
)
def test_the_shape_of_an_error_is_that_of_the_paths_protocol(
    networks: Networks, path: str, plain: bool
) -> None:
    """Only what begins as a route of the Open Inference Protocol answers with a text for its error."""
    answer = networks.http.get(path)
    assert answer.status_code == 404
    assert isinstance(answer.json()["error"], str if plain else dict)


@pytest.mark.parametrize("prefix", ["/v2/models/{}", "/v2/models/{}/versions/1"])
@pytest.mark.parametrize("name", LOADED)
def test_what_is_told_of_a_network(networks: Networks, prefix: str, name: str) -> None:
    path = prefix.format(name)
    told = networks.http.get(path).json()
    assert told["name"] == name and told["versions"] == ["1"] and told["platform"] == "rknn_rk3588"
    assert networks.http.get(f"{path}/ready").json() == {"name": name, "ready": True}
    config = networks.http.get(f"{path}/config").json()
    rows = config["max_batch_size"]
    assert rows == (4 if name == BATCH else 0)
    for kind, entries in (("input", told["inputs"]), ("output", told["outputs"])):
        for entry, other in zip(entries, config[kind]):
            shape = entry["shape"]
            assert other["name"] == entry["name"] and other["data_type"] == f"TYPE_{entry['datatype']}"
            assert other["dims"] == (shape[1:] if rows else shape) and (not rows or shape[0] == -1)
    assert [len(told["inputs"]), len(told["outputs"])] == [len(config["input"]), len(config["output"])]
    given = {"inputs": tensors(inputs_of(name))}
    assert networks.http.post(f"{path}/infer", json=given).json()["model_version"] == "1"


def test_dimensions_that_vary_are_told(networks: Networks) -> None:
    told = networks.http.get(f"/v2/models/{DYNAMIC}").json()
    assert told["inputs"][0]["shape"] == [1, -1, -1, 3]
    small = np.random.default_rng(1).normal(size=(1, 16, 20, 3)).astype(np.float32)
    answer = networks.http.post(
        f"/v2/models/{DYNAMIC}/infer", json={"inputs": tensors({"in0": small})}
    ).json()
    assert answer["outputs"][0]["shape"] == [1, 5, 4, 5]
    expected = local(DYNAMIC, {"in0": small})["out0"]
    np.testing.assert_array_equal(np.float32(answer["outputs"][0]["data"]), expected.reshape(-1))


@pytest.mark.parametrize("version", ["2", "0", "01", "x", "%31%30", "1" * 500])
@pytest.mark.parametrize("end", ["", "/ready", "/config", "/infer"])
def test_versions_that_do_not_exist(networks: Networks, version: str, end: str) -> None:
    method = "POST" if end == "/infer" else "GET"
    answer = networks.http.request(method, f"/v2/models/{SOFT}/versions/{version}{end}")
    assert answer.status_code == 404 and "has the version 1" in answer.json()["error"]


def test_about_the_server(networks: Networks) -> None:
    for path in ("/v2", "/v2/"):
        told = networks.http.get(path).json()
        assert told["name"] == "rknnlite" and "binary_tensor_data" in told["extensions"]
    assert networks.http.get("/v2/health/live").json() == {"live": True}
    assert networks.http.get("/v2/health/ready").json() == {"ready": True}


def test_the_outputs_that_are_asked_for(networks: Networks) -> None:
    given = inputs_of(SOFT)
    expected = local(SOFT, given)

    def asked(*outputs: Any) -> Any:
        body = {"inputs": tensors(given), "outputs": list(outputs), "id": "ä7"}
        return networks.http.post(f"/v2/models/{SOFT}/infer", json=body)

    answer = asked({"name": "out3"}, {"name": "out0"}).json()
    assert answer["id"] == "ä7" and answer["parameters"]["run_us"] > 0
    assert [output["name"] for output in answer["outputs"]] == ["out3", "out0"]
    np.testing.assert_array_equal(np.float32(answer["outputs"][0]["data"]), expected["out3"].reshape(-1))
    mixed = asked({"name": "out1", "parameters": {"binary_data": True}}, {"name": "out2"})
    length = int(mixed.headers["inference-header-content-length"])
    assert mixed.content[length:] == expected["out1"].tobytes()
    for wrong, text in (
        ([{"name": "out9"}], "no output 'out9'"),
        ([{"name": "out0"}, {"name": "out0"}], "asked for twice"),
    ):
        refused = asked(*wrong)
        assert refused.status_code == 400 and text in refused.json()["error"]


def test_parameters(networks: Networks) -> None:
    given = {"in0": inputs_of(SOFT)["in0"]}
    turned = {"in0": np.ascontiguousarray(given["in0"].transpose(0, 3, 1, 2))}
    path = f"/v2/models/{SOFT}/infer"

    def entry(arrays: Any, **parameters: Any) -> Any:
        return [{**tensor, "parameters": parameters} for tensor in tensors(arrays)]

    raw = networks.http.post(path, json={"inputs": tensors(given), "parameters": {"raw": True}}).json()
    expected = local(SOFT, given, raw=True)
    words = {"int8": "INT8", "float16": "FP16"}
    for output in raw["outputs"]:
        array = expected[output["name"]].data
        assert output["datatype"] == words[array.dtype.name]
        assert set(output["parameters"]) == {"scale", "zero_point"}
        np.testing.assert_array_equal(np.array(output["data"], array.dtype), array.reshape(-1))
    assert {output["datatype"] for output in raw["outputs"]} == {"INT8", "FP16"}
    nchw = networks.http.post(path, json={"inputs": entry(turned, layout="nchw")}).json()
    plain = networks.http.post(path, json={"inputs": tensors(given)}).json()
    assert nchw["outputs"] == plain["outputs"]
    stored = np.random.default_rng(0).integers(-128, 128, given["in0"].shape).astype(np.int8)
    through = [{"name": "in0", "shape": stored.shape, "datatype": "INT8", "data": stored.tolist()}]
    through[0]["parameters"] = {"pass_through": True}
    answer = networks.http.post(path, json={"inputs": through}).json()
    np.testing.assert_array_equal(
        np.float32(answer["outputs"][0]["data"]),
        local(SOFT, {"in0": stored}, pass_through=True)["out0"].reshape(-1),
    )
    for mask in (0, 1, 2, 4, 3, 7):
        masked = {"inputs": tensors(given), "parameters": {"core_mask": mask, "timeout": 10_000_000}}
        assert networks.http.post(path, json=masked).json()["outputs"] == plain["outputs"]


@pytest.mark.parametrize(
    ("parameters", "of_input", "text"),
    [
        ({"raw": 1}, {}, "parameter raw is 1"),
        ({"raw": "true"}, {}, "parameter raw is 'true'"),
        ({"core_mask": -1}, {}, "parameter core_mask is -1"),
        ({"core_mask": True}, {}, "parameter core_mask is True"),
        ({"core_mask": 1 << 40}, {}, "core_mask"),
        ({"core_mask": 8}, {}, "core mask 0x8"),
        ({"timeout": "1"}, {}, "parameter timeout is '1'"),
        ({"timeout": -1}, {}, "parameter timeout is -1"),
        ({}, {"layout": 5}, "parameter layout is 5"),
        ({}, {"layout": "nhcw"}, "unknown layout"),
        ({}, {"pass_through": "yes"}, "parameter pass_through is 'yes'"),
    ],
)
def test_parameters_that_mean_nothing(networks: Networks, parameters: Any, of_input: Any, text: str) -> None:
    given = [{**tensor, "parameters": of_input} for tensor in tensors(inputs_of(SOFT))]
    answer = networks.http.post(f"/v2/models/{SOFT}/infer", json={"inputs": given, "parameters": parameters})
    assert answer.status_code == 400 and text in answer.json()["error"], answer.text
    assert "rknnlite-error" in answer.headers and "rknnlite-code" in answer.headers


def test_inputs_of_other_names(networks: Networks) -> None:
    """The only input of a network may have any name; several have their own, each once."""
    one = tensors(inputs_of(SOFT))
    assert networks.http.post(
        f"/v2/models/{SOFT}/infer", json={"inputs": [{**one[0], "name": "x"}]}
    ).is_success
    first, second = tensors(inputs_of(MANY))
    for wrong in ([first], [first, first], [first, {**second, "name": "x"}], [first, second, one[0]], []):
        answer = networks.http.post(f"/v2/models/{MANY}/infer", json={"inputs": wrong})
        assert answer.status_code == 400 and "in" in answer.json()["error"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v2/systemsharedmemory/status"),
        ("GET", "/v2/systemsharedmemory/region/x/status"),
        ("POST", "/v2/systemsharedmemory/unregister"),
        ("POST", "/v2/cudasharedmemory/region/x/register"),
        ("GET", "/v2/cudasharedmemory/status"),
        ("GET", "/v2/trace/setting"),
        ("POST", f"/v2/models/{SOFT}/trace/setting"),
        ("GET", "/v2/logging"),
        ("POST", "/v2/logging"),
    ],
)
def test_extensions_that_are_not_offered_say_so(networks: Networks, method: str, path: str) -> None:
    answer = networks.http.request(method, path)
    assert answer.status_code == 501 and len(answer.json()["error"].split()) > 5
