"""Requests and responses as bodies of HTTP: there and back again, and whatever else arrives as one."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from rknnlite_protocol.datatypes import DATATYPES
from rknnlite_protocol.requests import InferRequest, InferResponse, Requested, Tensor
from rknnlite_protocol.rest_codec import parse_request, parse_response, request_body, response_body, tensor_of

from rknnlite.errors import InputInvalid

PARAMETERS = st.dictionaries(
    st.sampled_from(["scale", "layout", "x", "é"]),
    st.one_of(st.booleans(), st.integers(-(1 << 62), 1 << 62), st.floats(allow_nan=False, allow_infinity=False), st.text()),
    max_size=3,
)  # fmt: skip
DATA = arrays.arrays(
    st.sampled_from(list(DATATYPES.values())), arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
)  # fmt: skip
TENSORS = st.lists(st.builds(Tensor, st.text(), DATA, PARAMETERS), max_size=4)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.sampled_from(
            ["inputs", "outputs", "name", "shape", "datatype", "data", "parameters", "binary_data_size", "id"]
        ), inner, max_size=5)
    ),
    max_leaves=20,
)  # fmt: skip


def joined(made: tuple[list[Any], Any]) -> tuple[bytes, Any]:
    parts, length = made
    return b"".join(parts), None if length is None else str(length)


def same(found: Any, expected: Any) -> None:
    assert [(t.name, dict(t.parameters)) for t in found] == [(t.name, dict(t.parameters)) for t in expected]
    for one, other in zip(found, expected):
        assert one.data.dtype == other.data.dtype and one.data.shape == other.data.shape
        assert one.data.tobytes() == other.data.tobytes()


@given(TENSORS, st.text(), PARAMETERS, st.lists(st.text(), max_size=3))
def test_a_request_arrives_as_it_was(
    tensors: list[Tensor], id: str, parameters: dict[str, Any], names: list[str]
) -> None:
    asked = InferRequest("m", tensors, [Requested(name) for name in names], id, parameters=parameters)
    found = parse_request("m", *joined(request_body(asked)))
    same(found.inputs, tensors)
    assert (found.id, [output.name for output in found.outputs], found.binary_outputs) == (id, names, True)
    assert found.parameters == {**parameters, "binary_data_output": True}


@given(TENSORS, st.text(), PARAMETERS, st.booleans())
def test_a_response_arrives_as_it_was(
    tensors: list[Tensor], id: str, parameters: dict[str, Any], binary: bool
) -> None:
    answer = InferResponse("m", tensors, id, parameters=parameters)
    asked = InferRequest("m", [], binary_outputs=binary)
    odd = [t for t in tensors if t.data.dtype.kind == "f" and not np.isfinite(t.data).all()]
    if odd and not binary:
        with pytest.raises(InputInvalid, match="ask for it as bytes"):
            response_body(asked, answer)
        return
    found = parse_response(*joined(response_body(asked, answer)))
    same(found.outputs, tensors)
    assert (found.id, found.parameters, found.model_name) == (id, parameters, "m")


@given(
    st.one_of(st.binary(max_size=200), JSON.map(lambda value: json.dumps(value).encode())),
    st.text(max_size=4),
)
def test_no_bytes_raise_anything_else(body: bytes, length: str) -> None:
    for given_length in (None, length):
        for parse in (lambda b, n: parse_request("m", b, n), parse_response):
            try:
                parse(body, given_length)
            except InputInvalid as error:
                assert len(str(error)) < 2000


@given(
    st.dictionaries(st.sampled_from(["name", "shape", "datatype", "data", "parameters"]), JSON),
    st.binary(max_size=16),
)
def test_no_tensor_raises_anything_else(entry: dict[str, Any], behind: bytes) -> None:
    whole = {
        "name": "a",
        "shape": [2, 2],
        "datatype": "UINT8",
        "parameters": {"binary_data_size": len(behind)},
    }
    for fields in (entry, {**whole, **entry}, {**whole, "parameters": {}, **entry}):
        text = json.dumps({"inputs": [fields]}).encode()
        with contextlib.suppress(InputInvalid):
            parse_request("m", text + behind, str(len(text)))


ONE = {"name": "a", "shape": [2], "datatype": "FP32", "data": [1, 2.5]}
RAW = {"name": "a", "shape": [2], "datatype": "UINT8", "parameters": {"binary_data_size": 2}}


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ({**ONE, "shape": [3]}, "3 elements, 2 were given"),
        ({**ONE, "shape": [-1, 2]}, "0 or more"),
        ({**ONE, "shape": [2.0]}, "whole numbers"),
        ({**ONE, "shape": [True, 2]}, "whole numbers"),
        ({**ONE, "shape": [1 << 50]}, "whole numbers"),
        ({**ONE, "shape": [1] * 17}, "at most 16"),
        ({**ONE, "shape": "2"}, "must be a list"),
        ({**ONE, "shape": [1 << 39] * 16}, "elements, 2 were given"),
        ({**ONE, "shape": [0, 1 << 39, 1 << 39], "data": []}, "shape"),
        ({**RAW, "shape": [0, 1 << 39, 1 << 39], "parameters": {"binary_data_size": 0}}, "shape"),
        ({**ONE, "datatype": "FP8"}, "datatype 'FP8' is unknown"),
        ({**ONE, "datatype": "BYTES"}, "'BYTES' is unknown"),
        ({**ONE, "datatype": ["FP32"]}, "must be text"),
        ({**ONE, "name": 3}, "must be text"),
        ({**ONE, "data": [1, "2"]}, "no element of datatype FP32"),
        ({**ONE, "data": [1, None]}, "no element of datatype FP32"),
        ({**ONE, "data": [1, True]}, "no element of datatype FP32"),
        ({**ONE, "data": [1, 10**400]}, "too large"),
        ({**ONE, "data": [[1], 2]}, "beside each other"),
        ({**ONE, "data": [1, [2]]}, "no element"),
        ({**ONE, "data": {"0": 1}}, "must be a list"),
        ({**ONE, "datatype": "UINT8"}, "no element of datatype UINT8"),
        ({**ONE, "datatype": "UINT8", "data": [1, 256]}, "0..255"),
        ({**ONE, "datatype": "INT8", "data": [-129, 0]}, "-128..127"),
        ({**ONE, "datatype": "BOOL", "data": [1, 0]}, "no element of datatype BOOL"),
        ({key: ONE[key] for key in ("name", "shape", "datatype")}, "data is missing"),
        ({**RAW, "data": [1, 2]}, "both data and binary_data_size"),
        ({**RAW, "parameters": {"binary_data_size": 3}}, "2 bytes are left"),
        ({**RAW, "parameters": {"binary_data_size": -1}}, "2 bytes are left"),
        ({**RAW, "parameters": {"binary_data_size": True}}, "2 bytes are left"),
        ({**RAW, "parameters": {"binary_data_size": "2"}}, "2 bytes are left"),
        ({**RAW, "parameters": {"binary_data_size": 1}}, "takes 2 bytes, 1 were given"),
        ({**RAW, "datatype": "INT16"}, "takes 4 bytes, 2 were given"),
        ({**RAW, "datatype": "BYTES"}, "'BYTES' is unknown"),
        ({**RAW, "parameters": {"shared_memory_region": "x"}}, "not offered"),
        ({**ONE, "parameters": [1]}, "must be an object"),
        ({**ONE, "parameters": {"a": [1]}}, "must be an object"),
    ],
)
def test_what_is_wrong_with_a_tensor_is_said(entry: dict[str, Any], text: str) -> None:
    head = json.dumps({"inputs": [entry]}).encode()
    behind = b"\1\2" if "data" not in entry or "binary_data_size" in entry.get("parameters", {}) else b""
    if entry.get("parameters", {}) == {"binary_data_size": 0} or text == "data is missing":
        behind = b""
    with pytest.raises(InputInvalid) as caught:
        parse_request("m", head + behind, str(len(head)))
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"inputs": {}}, "inputs must be a list"),
        ({"inputs": [1]}, "inputs must be a list"),
        ({"inputs": [ONE] * 1025}, "at most 1024"),
        ({"outputs": [{}]}, "output 0: name"),
        ({"outputs": [{"name": "a", "parameters": {"binary_data": "true"}}]}, "must be true or false"),
        ({"outputs": [{"name": "a", "parameters": {"classification": 3}}]}, "not offered"),
        ({"outputs": [{"name": "a", "parameters": {"shared_memory_region": "r"}}]}, "not offered"),
        ({"parameters": {"binary_data_output": 1}}, "must be true or false"),
        ({"id": 5}, "id is 5"),
        ([], "must be a JSON object"),
    ],
)
def test_what_is_wrong_with_a_request_is_said(fields: Any, text: str) -> None:
    with pytest.raises(InputInvalid) as caught:
        parse_request("m", json.dumps(fields).encode())
    assert text in str(caught.value)


def test_bytes_that_belong_to_nobody() -> None:
    head = json.dumps({"inputs": [RAW]}).encode()
    with pytest.raises(InputInvalid, match="1 bytes follow"):
        parse_request("m", head + b"\1\2\3", str(len(head)))
    two = json.dumps({"inputs": [RAW, {**RAW, "name": "b"}]}).encode()
    with pytest.raises(InputInvalid, match="1 bytes are left"):
        parse_request("m", two + b"\1\2\3", str(len(two)))


@pytest.mark.parametrize("length", ["", "-1", "+5", "1e2", " 2", "٢", "9" * 30, "100000"])
def test_where_the_json_ends_is_a_number_within_the_body(length: str) -> None:
    with pytest.raises(InputInvalid, match="Inference-Header-Content-Length"):
        parse_request("m", b"{}", length)


def test_deep_nesting_is_refused() -> None:
    for text in (
        b"[" * 100_000,
        b'{"inputs":' * 50_000,
        b'{"inputs": [{"data": ' + b"[" * 40 + b"1" + b"]" * 40 + b"}]}",
    ):
        with pytest.raises(InputInvalid):
            parse_request("m", text)


def test_lists_of_nothing_take_no_memory() -> None:
    """Four megabytes of them would be eighty."""
    with pytest.raises(InputInvalid, match="give data as flat lists"):
        parse_request("m", b'{"inputs": [' + b"[]," * 1_400_000 + b"0]}")


def test_a_bool_is_0_or_1() -> None:
    assert tensor_of(b"\0\2\xff", "BOOL", [3], "x").tolist() == [False, True, True]


@pytest.mark.slow
def test_others_go_on_while_megabytes_are_read_and_written() -> None:
    """One call of the json module holds the interpreter for half a second; ours give way, here to a thread that counts."""
    values = np.random.default_rng(0).normal(size=1_000_000).astype(np.float32)
    head = {"name": "a", "shape": [len(values)], "datatype": "FP32", "data": values.tolist()}
    body = json.dumps({"inputs": [head]}).encode()
    turns = 0
    done = threading.Event()

    def count() -> None:
        nonlocal turns
        while not done.is_set():
            time.sleep(0.001)
            turns += 1

    def during(function: Any, *arguments: Any) -> tuple[Any, int]:
        before = turns
        found = function(*arguments)
        return found, turns - before

    counter = threading.Thread(target=count)
    counter.start()
    try:
        asked, reading = during(parse_request, "m", body)
        _, writing = during(response_body, asked, InferResponse("m", asked.inputs))
    finally:
        done.set()
        counter.join()
    np.testing.assert_array_equal(asked.inputs[0].data, values)
    assert reading > 30 and writing > 30
