"""Messages of gRPC: what is written is read again, and damage is an error of the input and nothing else."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest

pytest.importorskip("google.protobuf")
pytest.importorskip("hypothesis")

from hypothesis import example, given, settings
from hypothesis import strategies as st
from rknnlite_protocol.datatypes import DATATYPES
from rknnlite_protocol.grpc_codec import parse_request, parse_response, request_message, response_message
from rknnlite_protocol.grpc_messages import message
from rknnlite_protocol.requests import InferRequest, InferResponse, Requested, Tensor

from rknnlite.errors import InputInvalid
from tests.support.examples import examples

REQUEST = message("inference.ModelInferRequest")
TEXT = st.text(max_size=12).filter(lambda text: text.isprintable())
VALUES = st.one_of(
    st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False), TEXT
)
PARAMETERS = st.dictionaries(TEXT, VALUES, max_size=3)
WHOLE = {
    "INT8": "int_contents", "INT16": "int_contents", "INT32": "int_contents", "INT64": "int64_contents",
    "UINT8": "uint_contents", "UINT16": "uint_contents", "UINT32": "uint_contents", "UINT64": "uint64_contents",
}  # fmt: skip


@st.composite
def tensors(draw: Any) -> Tensor:
    dtype = DATATYPES[draw(st.sampled_from(sorted(DATATYPES)))]
    shape = draw(st.lists(st.integers(0, 4), max_size=4))
    count = int(np.prod(shape)) * dtype.itemsize
    raw = draw(st.binary(min_size=count, max_size=count))
    if dtype.kind == "b":
        raw = bytes(byte & 1 for byte in raw)
    return Tensor(draw(TEXT), np.frombuffer(raw, dtype).reshape(shape), draw(PARAMETERS))


@given(
    TEXT, st.lists(tensors(), max_size=3), st.lists(st.tuples(TEXT, PARAMETERS), max_size=3), TEXT, PARAMETERS
)
@settings(max_examples=examples(60), deadline=None)
def test_requests_come_back_as_they_went(
    name: str, inputs: Any, outputs: Any, given_id: str, extra: Any
) -> None:
    wanted = [Requested(*output) for output in outputs]
    sent = InferRequest(name, inputs, wanted, given_id, "1", extra)
    found = parse_request(REQUEST.FromString(request_message(sent).SerializeToString()))
    assert (found.model_name, found.id, found.model_version) == (name, given_id, "1")
    assert found.parameters == extra and [vars(o) for o in found.outputs] == [vars(o) for o in wanted]
    _same(found.inputs, inputs)


@given(st.lists(tensors(), max_size=3), PARAMETERS)
@settings(max_examples=examples(40), deadline=None)
def test_responses_come_back_as_they_went(outputs: Any, extra: Any) -> None:
    kind = message("inference.ModelInferResponse")
    sent = InferResponse("net", outputs, "7", parameters=extra)
    found = parse_response(kind.FromString(response_message(sent).SerializeToString()))
    assert (found.model_name, found.id, found.parameters) == ("net", "7", extra)
    _same(found.outputs, outputs)


@pytest.mark.parametrize("datatype", sorted(WHOLE))
def test_whole_numbers_that_are_not_raw_keep_their_value_or_are_refused(datatype: str) -> None:
    limits = np.iinfo(DATATYPES[datatype].name)
    wide = {"int_contents": np.int32, "int64_contents": np.int64, "uint_contents": np.uint32}
    field = WHOLE[datatype]
    found = parse_request(_contents(datatype, [int(limits.min), 1, int(limits.max)], field)).inputs[0].data
    assert found.dtype == DATATYPES[datatype] and found.tolist() == [limits.min, 1, limits.max]
    most = int(np.iinfo(wide.get(field, np.uint64)).max)
    if most > limits.max:
        with pytest.raises(InputInvalid, match=f"has {limits.min}..{limits.max}"):
            parse_request(_contents(datatype, [0, 1, most], field))


def test_numbers_and_flags_that_are_not_raw() -> None:
    assert parse_request(_contents("BOOL", [True, False, True], "bool_contents")).inputs[0].data.tolist() == [
        1,
        0,
        1,
    ]
    for datatype, field in (("FP32", "fp32_contents"), ("FP64", "fp64_contents")):
        found = parse_request(_contents(datatype, [0.5, -1.0, 3.0], field)).inputs[0].data
        assert found.dtype == DATATYPES[datatype] and found.tolist() == [0.5, -1.0, 3.0]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda m: m.raw_input_contents.append(b"x"), "1 inputs have 2 raw contents"),
        (lambda m: m.inputs[0].shape.append(-1), "whole numbers of 0 or more"),
        (lambda m: m.inputs[0].shape.extend([2**62, 2**62]), "less than 1099511627776"),
        (lambda m: m.inputs[0].shape.extend([0, 2**39, 2**39]), "less than 1099511627776"),
        (lambda m: m.inputs[0].shape.extend([1] * 99), "at most 16 numbers"),
        (lambda m: m.inputs[0].shape.append(2), "takes 24 bytes, 12 were given"),
        (lambda m: setattr(m.inputs[0], "datatype", "BYTES"), "datatype 'BYTES' is unknown here"),
        (lambda m: setattr(m.inputs[0], "datatype", "FP31"), "datatype 'FP31' is unknown here"),
        (lambda m: m.inputs[0].contents.fp32_contents.append(1), "contents beside raw contents"),
    ],
)
def test_a_tensor_that_does_not_fit_is_told_with_its_numbers(change: Any, text: str) -> None:
    made = request_message(InferRequest("net", [Tensor("in", np.zeros(3, np.float32))]))
    change(made)
    with pytest.raises(InputInvalid, match=text):
        parse_request(made)


def test_half_floats_are_raw_or_nothing() -> None:
    with pytest.raises(InputInvalid, match="FP16 are sent as raw contents"):
        parse_request(_contents("FP16", [1.0, 2.0, 3.0], "fp32_contents"))
    with pytest.raises(InputInvalid, match="3 elements, fp64_contents has 2"):
        parse_request(_contents("FP64", [1.0, 2.0], "fp64_contents"))


BASE = InferRequest(
    "net",
    [Tensor("a", np.arange(6, dtype=np.float32).reshape(2, 3), {"layout": "nhwc"}), Tensor("b", np.arange(4))],
    [Requested("x")], "id", parameters={"raw": True},
)  # fmt: skip


@given(st.data())
@settings(max_examples=examples(300), deadline=None)
def test_a_damaged_message_is_an_error_of_the_input_or_a_request(data: Any) -> None:
    from google.protobuf.message import DecodeError

    whole = bytearray(request_message(BASE).SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(whole) - 1))
        kind = data.draw(st.sampled_from(("change", "cut", "insert")))
        if kind == "change":
            whole[place] = data.draw(st.integers(0, 255))
        elif kind == "cut":
            del whole[place : place + data.draw(st.integers(1, 4))]
        else:
            whole[place:place] = data.draw(st.binary(min_size=1, max_size=4))
        if not whole:
            break
    try:
        made = REQUEST.FromString(bytes(whole))
    except DecodeError:
        return
    try:
        parse_request(made)
    except InputInvalid as error:
        assert len(str(error)) < 1000


@given(st.binary(max_size=200))
@example(b"\x3a\x00")
@settings(max_examples=examples(100), deadline=None)
def test_any_bytes_are_an_error_of_the_input_or_a_request(data: bytes) -> None:
    from google.protobuf.message import DecodeError

    with contextlib.suppress(DecodeError, InputInvalid):
        parse_request(REQUEST.FromString(data))


def _contents(datatype: str, values: list[Any], field: str) -> Any:
    made = REQUEST(model_name="net")
    entry = made.inputs.add(name="in", datatype=datatype, shape=[3])
    getattr(entry.contents, field).extend(values)
    return made


def _same(found: Any, sent: Any) -> None:
    assert len(found) == len(sent)
    for one, other in zip(found, sent):
        assert (one.name, one.data.dtype, one.data.shape) == (other.name, other.data.dtype, other.data.shape)
        assert one.data.tobytes() == other.data.tobytes() and one.parameters == other.parameters
