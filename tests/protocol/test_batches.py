"""Requests that share a run: joined and taken apart, each gets his own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rknnlite_protocol.requests import InferRequest, InferResponse, Requested, Tensor
from rknnlite_server.networks.batches import Batches, answer_together

from rknnlite.errors import InputInvalid
from rknnlite.tensor import DType, Layout, TensorAttr
from tests.support.corpus import genuine, golden_of, open_cpu
from tests.support.examples import examples


def attr(name: str, *dims: int) -> TensorAttr:
    return TensorAttr(0, name, dims, DType.FLOAT32, Layout.NHWC if len(dims) == 4 else Layout.UNDEFINED)


IMAGE, PAIRS = attr("image", 4, 2, 3, 1), attr("pairs", 8, 5)  # a row of pairs is two entries
SUM, COPY = attr("sum", 4, 7), attr("copy", 8, 5)
MODEL = Batches([IMAGE, PAIRS], [SUM, COPY], 4)


def request(rows: int, number: int = 0, **parameters: Any) -> InferRequest:
    image = np.arange(rows * 6, dtype=np.float32).reshape(rows, 2, 3, 1) + 1000 * number
    pairs = np.arange(rows * 10, dtype=np.float32).reshape(rows * 2, 5) + 1000 * number
    return InferRequest(
        "m", [Tensor("image", image), Tensor("pairs", pairs)], id=str(number), parameters=parameters
    )


def run(asked: InferRequest) -> InferResponse:
    """A model whose rows do not touch each other."""
    image, pairs = (tensor.data for tensor in asked.inputs)
    assert image.shape == IMAGE.dims and pairs.shape == PAIRS.dims
    totals = np.repeat(image.reshape(4, -1).sum(1, keepdims=True), 7, 1)
    return InferResponse("m", [Tensor("sum", totals, {"scale": 0.5}), Tensor("copy", pairs * 2)])


def shares(draw_rows: Sequence[int]) -> list[list[int]]:
    """Rows of requests as groups of at most four."""
    groups: list[list[int]] = [[]]
    for rows in draw_rows:
        if sum(groups[-1]) + rows > 4:
            groups.append([])
        groups[-1].append(rows)
    return groups


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.integers(1, 3), min_size=1, max_size=8), st.randoms())
def test_each_gets_exactly_his_rows(rows: list[int], draw: Any) -> None:
    for group in shares(rows):
        requests = [request(count, draw.randrange(50)) for count in group]
        for asked, found in zip(requests, MODEL.split(requests, run(MODEL.join(requests)))):
            image, pairs = (tensor.data for tensor in asked.inputs)
            total, copy = found.outputs
            assert found.id == asked.id and total.parameters == {"scale": 0.5}
            assert np.array_equal(total.data, np.repeat(image.reshape(len(image), -1).sum(1)[:, None], 7, 1))
            assert np.array_equal(copy.data, pairs * 2)


def test_room_that_is_left_holds_the_last_row_again() -> None:
    joined = MODEL.join([request(1, 1), request(1, 2)])
    image, pairs = (tensor.data for tensor in joined.inputs)
    assert all(np.array_equal(image[1], image[n]) for n in (2, 3))
    assert all(np.array_equal(pairs[2:4], pairs[n : n + 2]) for n in (4, 6))
    assert joined.outputs == () and not np.array_equal(image[0], image[1])


def test_outputs_are_those_that_each_asked_for() -> None:
    first, second = request(1, 1), request(2, 2)
    first.outputs, second.outputs = [Requested("copy")], [Requested("copy"), Requested("sum")]
    found = MODEL.split([first, second], run(MODEL.join([first, second])))
    assert [[tensor.name for tensor in each.outputs] for each in found] == [["copy"], ["copy", "sum"]]


def key(asked: InferRequest) -> Any:
    found = MODEL.of(asked)
    assert found is not None
    return found.key


def test_what_is_not_alike_never_shares() -> None:
    same = key(request(1))
    assert key(request(3, 2)) == same
    assert key(request(1, timeout=100, binary_data_output=True)) == same
    others = [request(1, raw=True), request(1, core_mask=1), request(1, core_mask=2), request(1, other="x")]
    for dtype in (np.uint8, np.float16, np.int32):
        others.append(request(1))
        others[-1].inputs[0].data = others[-1].inputs[0].data.astype(dtype)
    others += [request(1), request(1)]
    others[-1].inputs[0].parameters = {"layout": "nchw"}
    others[-2].inputs[0].data = np.zeros((1, 1, 2, 3), np.float32)
    keys = [same, *map(key, others)]
    assert len(set(keys)) == len(keys)
    assert key(request(1, raw=False)) != key(request(1, raw=True))
    assert key(request(1, other=True)) != key(request(1, other=1)) != key(request(1, other=1.0))


def test_whole_batches_and_data_passed_through_run_as_they_are() -> None:
    passed = request(1)
    passed.inputs[1].parameters = {"pass_through": True}
    assert MODEL.of(request(4)) is None and MODEL.of(passed) is None


def test_rows_that_cannot_be_told_apart_are_not_joined() -> None:
    assert Batches([IMAGE], [attr("sum", 3, 7)], 4).size == 1
    assert Batches([IMAGE], [attr("sum")], 4).size == 1
    assert Batches([IMAGE], [attr("sum", 7)], 1).of(request(1)) is None


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda r: r.inputs.pop(), "the model has the inputs image, pairs; given were"),
        (lambda r: r.inputs.append(r.inputs[0]), "image' is given twice"),
        (lambda r: setattr(r, "outputs", [Requested("none")]), "no output 'none'"),
        (lambda r: r.parameters.update(raw=1), "parameter raw is 1, must be true or false"),
        (lambda r: setattr(r.inputs[0], "data", np.zeros((5, 2, 3, 1))), r"or 1 to 4 rows of it, got \[5, 2"),
        (lambda r: setattr(r.inputs[0], "data", np.zeros((0, 2, 3, 1))), r"got \[0, 2, 3, 1\]"),
        (lambda r: setattr(r.inputs[0], "data", np.zeros((2, 3, 1))), r"expected shape \[4, 2, 3, 1\]"),
        (lambda r: setattr(r.inputs[0], "data", np.zeros((1, 2, 3, 2))), r"got \[1, 2, 3, 2\]"),
        (lambda r: setattr(r.inputs[1], "data", np.zeros((3, 5))), r"1 to 4 rows of 2 of it, got \[3, 5\]"),
        (lambda r: setattr(r.inputs[1], "data", np.zeros((4, 5))), r"different numbers of rows: \[1, 2\]"),
    ],
)
def test_a_request_is_judged_before_it_meets_others(change: Any, text: str) -> None:
    wrong = request(1)
    change(wrong)
    with pytest.raises(InputInvalid, match=text):
        MODEL.of(wrong)


@pytest.mark.parametrize("name", ["batch_four.rk3588.i8", "batch_three.rk3576.i8", "batch_three.rk3588.fp16"])
@pytest.mark.parametrize("raw", [False, True])
def test_a_genuine_file_gives_each_row_what_it_gives_it_alone(name: str, raw: bool) -> None:
    ((image,),) = [golden_of(name).inputs]
    with open_cpu(genuine(name)) as context:
        batches = Batches(context.inputs, context.outputs, context.batch)
        (whole,) = context.infer(image, raw=raw)
        wanted = whole.data if raw else whole
        for rows in ([1], [2], [1, 2], [2, 1], [1, 1, 1]):
            picks = [np.arange(count)[::-1] for count in rows]
            requests = [
                InferRequest("m", [Tensor("any", image[pick])], parameters={"raw": raw}) for pick in picks
            ]
            for pick, found in zip(picks, answer_together(context, batches, requests)):
                assert np.array_equal(found.outputs[0].data, wanted[pick])
