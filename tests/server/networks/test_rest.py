"""The Open Inference Protocol's routes over HTTP, without any client's help."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from .conftest import LOADED, Networks, inputs_of, local


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
