"""Which head a network has."""

from __future__ import annotations

import numpy as np
import pytest
from rknnlite_vision.heads.head import Limits, Task, UnknownHead
from rknnlite_vision.heads.recognise import hint_of, recognise
from rknnlite_vision.results import Detections

from rknnlite.errors import InputInvalid
from rknnlite.tensor import DType, Layout, QuantParams, TensorAttr

IMAGE = [TensorAttr(0, "images", (1, 128, 128, 3), DType.UINT8, Layout.NHWC)]


def test_a_head_that_nobody_knows_is_refused_with_what_was_seen() -> None:
    odd = [TensorAttr(0, "odd", (1, 9, 7), DType.INT8, Layout.UNDEFINED, QuantParams(1.0, 0))]
    with pytest.raises(UnknownHead, match=r"input images \[1, 128, 128, 3\], output odd \[1, 9, 7\] INT8"):
        recognise(IMAGE, odd)


def test_a_hint_that_nobody_knows_is_refused_with_those_that_are() -> None:
    with pytest.raises(UnknownHead, match=r"yolov77.*yolov8"):
        recognise(IMAGE, [], hint="yolov77")


def test_a_file_name_gives_the_hint() -> None:
    assert hint_of("yolov8n_for_RK3588.rknn") == "yolov8"
    assert hint_of("net.rknn") == ""


def outputs(*shapes: tuple[int, ...]) -> list[TensorAttr]:
    """Floats of such shapes."""
    return [
        TensorAttr(
            n, f"output{n}", shape, DType.FLOAT32, Layout.NCHW if len(shape) == 4 else Layout.UNDEFINED
        )
        for n, shape in enumerate(shapes)
    ]


def maps(*channels: int) -> list[TensorAttr]:
    """Outputs of such channels for each of three strides."""
    return outputs(*((1, c, 128 // s, 128 // s) for s in (8, 16, 32) for c in channels))


@pytest.mark.parametrize(
    ("seen", "family"),
    [
        (maps(64, 80, 1), "YOLOv8 form (8, 9, 11, 12, World; or v10, by hint), 9 outputs, 80 classes"),
        (maps(64, 64), "YOLOv8 form (8, 9, 11, 12, World; or v10, by hint), 6 outputs, 64 classes"),
        (maps(64, 1, 1), "YOLOv8 form (8, 9, 11, 12, World; or v10, by hint), 9 outputs, 1 class"),
        (maps(4, 80), "YOLOv6 form (or 26, by hint), 6 outputs, 80 classes"),
        (maps(68, 80, 1), "YOLOv6 form (6, PP-YOLOE), 9 outputs, 80 classes"),
        (maps(8), "YOLOX, 3 outputs, 3 classes"),
        (maps(80, 32), "NanoDet, 6 outputs, 80 classes"),
        (outputs((1, 336, 4), (1, 80, 336)), "PP-YOLOE form (also PicoDet), decoded, 2 outputs, 80 classes"),
        (outputs((1, 84, 336)), "YOLOv8 form (8, 9, 11, 12, 26, World), decoded, 1 output, 80 classes"),
        (outputs((1, 1008, 85)), "YOLOv5 form (5, 7), decoded, 1 output, 80 classes"),
        (outputs((1, 300, 6)), "YOLOv10 form (10, 26), rows, not suppressed, 1 output"),
        (outputs((1, 300, 57)), "YOLOv10 form (10, 26), rows, not suppressed, 1 output, 17 keypoints"),
        (outputs((1, 300, 7)), "YOLOv10 form (10, 26), rows, not suppressed, 1 output, turned boxes"),
    ],
)
def test_what_was_recognised_is_said(seen: list[TensorAttr], family: str) -> None:
    assert recognise(IMAGE, seen).family == family


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (maps(255), ("yolov5", "yolov7", "yolov8")),  # anchors are not to be seen in shapes
        (maps(145), ("yolov8", "yolox", "nanodet")),
        (maps(64, 32), ("yolov8", "nanodet")),
        (outputs((1, 336, 85)), ("yolov6", "yolox", "ppyoloe", "nanodet")),
        (outputs((1, 340, 112)), ("yolov6", "yolox", "ppyoloe", "nanodet-plus")),
        (outputs((1, 56, 336)), ("yolov8", "yolov8-pose")),
        (outputs((1, 20, 336)), ("yolov8", "yolov8-obb")),
    ],
)
def test_shapes_of_several_families_need_a_hint(seen: list[TensorAttr], words: tuple[str, ...]) -> None:
    with pytest.raises(UnknownHead, match="shapes do not tell which") as error:
        recognise(IMAGE, seen)
    for word in words:
        assert word in str(error.value)
        assert recognise(IMAGE, seen, hint=word)


def test_a_hint_for_other_outputs_is_refused() -> None:
    with pytest.raises(UnknownHead, match="not those of yolov8-seg; seen"):
        recognise(IMAGE, maps(64, 80), hint="yolov8-seg")


def test_pixels_and_scores_in_one_coarse_scale_are_refused_with_the_remedy() -> None:
    coarse = [TensorAttr(0, "output0", (1, 84, 336), DType.INT8, Layout.UNDEFINED, QuantParams(2.6, -128))]
    with pytest.raises(UnknownHead, match=r"steps of 2.6.*before boxes and scores are joined"):
        recognise(IMAGE, coarse)


@pytest.mark.parametrize(
    ("dtype", "quant"),
    [
        (DType.INT64, None),  # what an ArgMax gives
        (DType.INT8, None),
        (DType.INT32, QuantParams(0.1, 0)),
        (DType.INT8, QuantParams(0.0, 0)),
        (DType.INT8, QuantParams(-0.1, 0)),
        (DType.UINT8, QuantParams(float("nan"), 0)),
    ],
)
@pytest.mark.parametrize("dims", [(1, 1, 128, 128), (1, 1000), (1, 84, 336)])
def test_integers_that_mean_no_real_numbers_are_refused(
    dtype: DType, quant: QuantParams, dims: tuple[int, ...]
) -> None:
    whole = [TensorAttr(0, "output0", dims, dtype, Layout.UNDEFINED, quant)]
    with pytest.raises(UnknownHead, match=rf"output0 .* is {dtype.short} with .*scale"):
        recognise(IMAGE, whole, tasks=[Task.SEMANTIC])


@pytest.mark.parametrize("dims", [(2, 84, 336), (26, 1, 37), (), (8, 1000), (1, 0)])
def test_outputs_of_another_batch_than_the_input_are_refused(dims: tuple[int, ...]) -> None:
    with pytest.raises(UnknownHead, match=r"must be the 1 of the input|no decoder here knows|no numbers"):
        recognise(IMAGE, outputs(dims))


def test_sides_on_strides_of_other_detectors_are_not_taken_for_yolos() -> None:
    fcos = outputs(*((1, c, 256 // s, 256 // s) for s in (8, 16, 32, 64, 128) for c in (80, 4, 1)))
    picture = [TensorAttr(0, "images", (1, 256, 256, 3), DType.UINT8, Layout.NHWC)]
    with pytest.raises(UnknownHead, match="no decoder here knows"):
        recognise(picture, fcos)


def test_joined_maps_with_four_sides_are_not_those_of_sixty_four() -> None:
    with pytest.raises(UnknownHead, match="not those of yolo26"):
        recognise(IMAGE, maps(84), "yolo26")


def test_joined_maps_hold_logits_whatever_the_hint() -> None:
    with pytest.raises(UnknownHead, match="not those of yolov8-probabilities"):
        recognise(IMAGE, maps(144), "yolov8-probabilities")


def test_semantic_masks_go_by_the_layout_where_classes_are_as_many_as_pixels() -> None:
    dims, numbers = (1, 128, 128, 128), np.zeros((1, 128, 128, 128), np.float32)
    numbers[0, 3, 5, 7] = 1
    found = {}
    for layout in (Layout.NCHW, Layout.NHWC):
        head = recognise(IMAGE, [TensorAttr(0, "output", dims, DType.FLOAT32, layout)], "semantic")
        (found[layout],) = head.decode([numbers])
    assert (found[Layout.NCHW].classes[5, 7], found[Layout.NHWC].classes[3, 5]) == (3, 7)


def test_arrays_of_another_element_type_are_refused() -> None:
    quant = QuantParams(1 / 256, -128)
    scores = [TensorAttr(0, "scores", (1, 10), DType.INT8, Layout.UNDEFINED, quant)]
    head = recognise(IMAGE, scores)
    with pytest.raises(InputInvalid, match="output scores is uint8, must be int8 as stored, or a float"):
        head.decode([np.zeros((1, 10), np.uint8)])
    for kind in (np.float32, np.float16, np.int8):
        assert head.decode([np.zeros((1, 10), kind)])


@pytest.mark.parametrize("hint", ["yolov8-logits", "rtdetr-logits"])
def test_scores_behind_a_sigmoid_are_compared_behind_it(hint: str) -> None:
    dims = [(1, 84, 336)] if "yolo" in hint else [(1, 300, 4), (1, 300, 80)]
    head = recognise(IMAGE, outputs(*dims), hint)
    arrays = [np.full(d, -9, np.float32) for d in dims]
    places = arrays[0][0, :4, 7] if "yolo" in hint else arrays[0][0, 7]
    places[:] = 50, 50, 20, 20
    scores = arrays[0][0, 4:, 7] if "yolo" in hint else arrays[1][0, 7]
    least = np.log(0.3 / 0.7)
    scores[1] = least - 2e-5
    assert len(head.decode(arrays, Limits(score=0.3))[0]) == 0
    scores[1] = least + 2e-5
    assert len(head.decode(arrays, Limits(score=0.3))[0]) == 1


@pytest.mark.parametrize("dims", [(1, 84, 336), (1, 1008, 85)])
def test_floats_of_tables_that_are_shares_of_the_picture_are_refused(dims: tuple[int, ...]) -> None:
    table = np.zeros(dims, np.float32)
    numbers = table[0] if dims[1] == 84 else table[0].T
    numbers[:, 9] = 0.9
    head = recognise(IMAGE, outputs(dims))
    with pytest.raises(
        InputInvalid, match=r"all 1 boxes lie within 0.9 pixels of the corner.*in pixels, as for ONNX"
    ):
        head.decode([table])
    numbers[:4, 9] = 50, 60, 20, 30
    (found,) = head.decode([table])
    assert isinstance(found, Detections) and found.boxes.tolist() == [[40, 45, 60, 75]]


def test_longer_words_of_a_name_go_first() -> None:
    assert hint_of("yolov8n-pose_rk3588.rknn") == "yolov8-pose"
    assert hint_of("yolov8s-worldv2.rknn") == "yolo-world"
    assert hint_of("YOLO26n_seg.rknn") == "yolo26-seg"
    assert hint_of("nanodet-plus-m_320.rknn") == "nanodet-plus"
    assert hint_of("ppyoloe_plus_crn_s_80e_coco.rknn") == "ppyoloe"
    assert hint_of("yolox_s.rknn") == "yolox"
    assert hint_of("yolox_s_logits.rknn") == "yolox-logits"
    assert hint_of("logits.rknn") == ""


def test_a_hint_may_say_of_the_scores_alone_what_they_are() -> None:
    outputs = maps(64, 80)
    for hint in ("logits", "yolov8-logits", "YOLOv8 logits"):
        assert recognise(IMAGE, outputs, hint).family.endswith("80 classes, sigmoid to come")
    for hint in ("probabilities", "yolov8-probabilities"):
        assert recognise(IMAGE, outputs, hint).family.endswith("80 classes")


def test_a_file_name_decides_where_shapes_do_not_and_the_family_says_so() -> None:
    assert recognise(IMAGE, maps(255), name="yolov7-tiny_RK3588.rknn").family.endswith(
        "(yolov7 by the file's name)"
    )
    assert "not suppressed" in recognise(IMAGE, maps(64, 80), name="yolov10n.rknn").family
    assert recognise(IMAGE, maps(64, 80, 1), name="yolov5su.rknn").family.startswith("YOLOv8 form")


@pytest.mark.parametrize(
    ("shapes", "hint"),
    [
        ([(1, 84, 336)], ""),
        ([(1, 336, 4), (1, 80, 336)], ""),
        ([(1, 1008, 85)], ""),
        ([(1, 56, 336)], "yolov8-pose"),
        ([(1, 300, 6)], "rtdetr"),
        ([(1, 300, 4), (1, 300, 80)], ""),
        ([(1, 672, 4), (1, 672, 2), (1, 672, 10)], "retinaface"),
    ],
)
def test_tables_of_older_toolkits_have_a_last_dimension_of_1(
    shapes: list[tuple[int, ...]], hint: str
) -> None:
    plain, older = (recognise(IMAGE, outputs(*dims), hint) for dims in (shapes, [(*s, 1) for s in shapes]))
    assert older.family == plain.family
    arrays = [np.ones(shape, np.float32) for shape in shapes]
    if hint != "rtdetr":  # whose places are shares of the picture
        (arrays[0][:, :4] if shapes[0][1] < 100 else arrays[0][..., :4])[:] = 9
    (ours,), (theirs,) = older.decode([a[..., None] for a in arrays]), plain.decode(arrays)
    assert isinstance(ours, Detections) and isinstance(theirs, Detections) and len(ours) > 0
    np.testing.assert_array_equal(ours.boxes, theirs.boxes)
    with pytest.raises(InputInvalid, match=r"output output0 is \[1, 5\], must be"):
        older.decode([np.zeros((1, 5), np.float32), *arrays[1:]])
