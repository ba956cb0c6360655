"""Which head a network has."""

from __future__ import annotations

import pytest
from rknnlite_vision.heads.head import UnknownHead
from rknnlite_vision.heads.recognise import hint_of, recognise

from rknnlite.tensor import DType, Layout, QuantParams, TensorAttr

IMAGE = [TensorAttr(0, "images", (1, 128, 128, 3), DType.UINT8, Layout.NHWC)]


def test_a_head_that_nobody_knows_is_refused_with_what_was_seen() -> None:
    odd = [TensorAttr(0, "odd", (1, 9, 7), DType.INT8, Layout.UNDEFINED, QuantParams(1.0, 0))]
    with pytest.raises(UnknownHead, match=r"input images \[1, 128, 128, 3\], output odd \[1, 9, 7\] INT8"):
        recognise(IMAGE, odd)


def test_a_hint_that_nobody_knows_is_refused_with_those_that_are() -> None:
    with pytest.raises(UnknownHead, match="yolov77.*yolov8"):
        recognise(IMAGE, [], hint="yolov77")


def test_a_file_name_gives_the_hint() -> None:
    assert hint_of("yolov8n_for_RK3588.rknn") == "yolov8"
    assert hint_of("net.rknn") == ""
