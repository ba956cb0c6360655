"""From what a caller hands over to one checked input per model input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rknnlite.errors import InputInvalid
from rknnlite.spi.inputs import RankMismatch, as_they_are, collect
from rknnlite.tensor import DType, Layout, TensorAttr

IMAGE = TensorAttr(0, "image", (1, 4, 6, 3), DType.INT8, Layout.NHWC)
DEPTH = TensorAttr(1, "depth", (1, 4, 6, 1), DType.INT8, Layout.NHWC)
STATE = TensorAttr(1, "state", (1, 8), DType.FLOAT16, Layout.UNDEFINED)
BATCH = TensorAttr(0, "image", (3, 4, 6, 3), DType.INT8, Layout.NHWC)

pixels = np.arange(72, dtype=np.uint8).reshape(1, 4, 6, 3)
planes = np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))
state = np.zeros((1, 8), np.float32)


@pytest.mark.parametrize("given_", [pixels, [pixels], (pixels,), {"image": pixels}, pixels.tolist()])
def test_one_input_in_every_wrapping(given_: Any) -> None:
    if isinstance(given_, list) and not isinstance(given_[0], np.ndarray):
        given_ = [given_]  # nested lists are data once they stand in a list of inputs
    (item,) = collect(given_, [IMAGE])
    assert item.index == 0 and item.layout is Layout.NHWC and not item.pass_through
    assert np.array_equal(item.data, pixels)


def test_several_inputs_by_order_and_by_name() -> None:
    for given_ in ([pixels, state], (pixels, state), {"state": state, "image": pixels}):
        items = collect(given_, [IMAGE, STATE])
        assert [item.index for item in items] == [0, 1]
        assert items[0].data.shape == (1, 4, 6, 3) and items[1].data.shape == (1, 8)
        assert items[1].layout is Layout.UNDEFINED


@pytest.mark.parametrize("word", ["nchw", "NCHW", ["nchw"], ("NcHw",), ["nchw", "nchw"]])
def test_layout_words(word: Any) -> None:
    attrs = [IMAGE, DEPTH] if len(word) == 2 or word == ["nchw", "nchw"] else [IMAGE]
    arrays = [planes, planes[:, :1]][: len(attrs)]
    for item in collect(arrays, attrs, layout=word):
        assert item.layout is Layout.NCHW


def test_one_layout_word_in_a_list_serves_all() -> None:
    items = collect([planes, planes[:, :1]], [IMAGE, DEPTH], layout=["nchw"])
    assert [item.layout for item in items] == [Layout.NCHW, Layout.NCHW]
    mixed = collect([planes, pixels[..., :1]], [IMAGE, DEPTH], layout=["nchw", None])
    assert [item.layout for item in mixed] == [Layout.NCHW, Layout.NHWC]


def test_layout_of_other_ranks_does_not_matter() -> None:
    (item,) = collect([state], [STATE], layout="nchw")
    assert item.layout is Layout.UNDEFINED


def test_a_flat_vector_may_be_a_plain_list() -> None:
    vector = TensorAttr(0, "v", (3,), DType.FLOAT16, Layout.UNDEFINED)
    (item,) = collect([1.0, 2.0, 3.0], [vector])
    assert item.data.tolist() == [1.0, 2.0, 3.0]


REFUSALS: dict[str, tuple[Any, list[TensorAttr], dict[str, Any], str]] = {
    "too many": ([pixels, pixels], [IMAGE], {}, r"has 1 inputs \(image\), but 2 were given"),
    "too few": ([pixels], [IMAGE, STATE], {}, r"has 2 inputs \(image, state\), but 1 were given"),
    "none": ([], [IMAGE], {}, "but 0 were given"),
    "nothing": (None, [IMAGE], {}, "element type object"),
    "unknown name": ({"picture": pixels}, [IMAGE], {}, r"named \['image'\], but \['picture'\] were given"),
    "missing name": ({"image": pixels}, [IMAGE, STATE], {}, r"named \['image', 'state'\]"),
    "odd name": ({7: pixels}, [IMAGE], {}, r"but \['7'\] were given"),
    "rank 5": (
        [pixels[None]],
        [IMAGE],
        {},
        r"image: expected 4 dimensions \[1, 4, 6, 3\], got 5 \[1, 1, 4, 6, 3\]",
    ),
    "rank 2": ([pixels[0, 0]], [IMAGE], {}, r"image: expected 4 dimensions \[1, 4, 6, 3\], got 2 \[6, 3\]"),
    "rank 3 for batch": ([pixels[0]], [BATCH], {}, r"expected 4 dimensions \[3, .*\], got 3 \["),
    "rank 1 of 2": ([state[0]], [STATE], {}, r"expected 2 dimensions \[.*\], got 1 \["),
    "height": ([pixels[:, :3]], [IMAGE], {}, r"image: expected shape \[1, 4, 6, 3\], got \[1, 3, 6, 3\]"),
    "nchw unsaid": ([planes], [IMAGE], {}, "looks like NCHW data, say so with data_format='nchw'"),
    "nhwc as nchw": ([pixels], [IMAGE], {"layout": "nchw"}, "looks like NHWC data, leave the layout out"),
    "wrong as nchw": ([planes[:, :2]], [IMAGE], {"layout": "nchw"}, r"expected NCHW shape \[1, 3, 4, 6\]"),
    "unknown layout": ([pixels], [IMAGE], {"layout": "hwc"}, "unknown layout 'hwc'; use 'nhwc' or 'nchw'"),
    "layout number": ([pixels], [IMAGE], {"layout": 4}, "unknown layout 4"),
    "many layouts": ([pixels], [IMAGE], {"layout": ["nhwc", "nhwc"]}, "2 layouts given for 1 inputs"),
    "many flags": (
        [pixels],
        [IMAGE],
        {"pass_through": [True] * 3},
        "3 pass_through flags given for 1 inputs",
    ),
    "text": (["picture.jpg"], [IMAGE], {}, "element type <U11; give an array of numbers"),
    "complex": ([pixels * 1j], [IMAGE], {}, "element type complex128"),
    "objects": ([np.array([{}, None], object)], [IMAGE], {}, "element type object"),
    "dates": ([pixels.astype("M8[s]")], [IMAGE], {}, "element type datetime64"),
    "ragged": ([[[1, 2], [3]]], [IMAGE], {}, "input image is no array|element type object"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refused(case: str) -> None:
    given_, attrs, options, message = REFUSALS[case]
    with pytest.raises(InputInvalid, match=message) as caught:
        collect(given_, attrs, **options)
    assert caught.value.code == -8


def test_three_dimensions_are_a_batch_of_one_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    (item,) = collect([pixels[0]], [IMAGE])
    assert item.data.shape == (1, 4, 6, 3)
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert (
        record.getMessage()
        == "input image needs 4 dimensions, but 3 were given (4, 6, 3); taken as a batch of one"
    )
    (item,) = collect([planes[0]], [IMAGE], layout="nchw")
    assert item.data.shape == (1, 3, 4, 6)


def test_passed_through_data_are_not_judged() -> None:
    native = np.zeros(123, np.int8)
    first, second = collect([native, state], [IMAGE, STATE], pass_through=[True, False])
    assert first.pass_through and first.data is native and not second.pass_through


def test_a_wrong_rank_carries_what_a_face_words() -> None:
    with pytest.raises(RankMismatch) as caught:
        collect([state[0], pixels][::-1], [IMAGE, STATE])
    assert (caught.value.attr, caught.value.shape) == (STATE, (8,))


@pytest.mark.parametrize("layout", ["nhwc", "NHWC", ["nhwc"], ("nhwc",), [None], ["nhwc", None]])
def test_saying_nhwc_is_as_quick_as_saying_nothing(layout: Any) -> None:
    arrays, attrs = ([pixels, state], [IMAGE, STATE]) if len(layout) == 2 else ([pixels], [IMAGE])
    plain = as_they_are(arrays, attrs, layout)
    assert plain is not None
    assert [item.layout for item in plain] == [item.layout for item in collect(arrays, attrs)]


@pytest.mark.parametrize("layout", ["nchw", "NCHW", ["nchw", None], ("nchw", "nhwc"), ["nchw", "nchw"]])
def test_nchw_that_is_said_is_as_quick(layout: Any) -> None:
    arrays, attrs = ([planes, state], [IMAGE, STATE]) if len(layout) == 2 else ([planes], [IMAGE])
    plain = as_they_are(arrays, attrs, layout)
    assert plain is not None and plain[0].layout is Layout.NCHW
    assert [item.layout for item in plain] == [item.layout for item in collect(arrays, attrs, layout)]


@pytest.mark.parametrize(
    "layout", ["nchw", "undefined", 7, [], ["nhwc"] * 2, ["nchw"], {"image": "nhwc"}, b"nhwc"]
)
def test_what_else_is_said_is_looked_at(layout: Any) -> None:
    assert as_they_are([pixels], [IMAGE], layout) is None


def test_shapes_of_a_dynamic_model_are_left_to_the_context() -> None:
    big = np.zeros((1, 9, 9, 3), np.uint8)
    (item,) = collect([big], [IMAGE], shapes=[[(1, 4, 6, 3)], [(1, 9, 9, 3)]])
    assert item.data is big
    with pytest.raises(InputInvalid, match="expected 4 dimensions"):
        collect([np.zeros((9, 9))], [IMAGE], shapes=[[(1, 4, 6, 3)]])


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-9, 9)
        | st.floats()
        | st.text(max_size=3)
        | st.binary(max_size=3),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
        max_leaves=6,
    )
)
def test_anything_else_is_an_input_error(given_: Any) -> None:
    with pytest.raises(InputInvalid):
        collect(given_, [IMAGE])
