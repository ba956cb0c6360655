"""The families of heads that are recognised: one row each."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Optional

from . import embeddings, faces, heat_maps, nanodet, rtdetr, whole, yolo_tables, yolo_zoo
from .head import Head
from .ppyoloe import ppyoloe
from .seen import Seen
from .text_boxes import text_boxes
from .yolo_anchors import anchored, anchored_masks
from .yolox import yolox

__all__ = ["FAMILIES", "Family"]


class Family(NamedTuple):
    """A family of heads.

    Attributes:
        name: as messages call it, e.g. ``"YOLOv8 (maps of each stride)"``.
        hints: words that choose it where shapes are those of several; parts between ``-`` are found apart in a file's name.
        build: the head for what is seen, or None where it is not of this family. May look at ``seen.hint``, which is one of
            ``hints``, in small letters and digits only, or empty.
    """

    name: str
    hints: tuple[str, ...]
    build: Callable[[Seen], Optional[Head]]


_SIDES = ("yolov8", "yolov9", "yolov11", "yolo11", "yolov12", "yolo12", "yolo26", "yolo-world")
_BINNED = tuple(
    word for word in _SIDES if word != "yolo26"
)  # which has four numbers of sides where the others have 64

FAMILIES: list[Family] = [
    Family(
        "YOLOv6, 8 to 12, 26, World, PP-YOLOE (maps of each stride)",
        ("yolov6", "yolov10", *_SIDES, "ppyoloe"),
        yolo_zoo.separate,
    ),
    Family("YOLOv8 with masks (maps)", tuple(f"{w}-seg" for w in _SIDES), yolo_zoo.masked),
    Family("YOLOv8 (joined maps)", _BINNED, yolo_zoo.joined),
    Family("YOLOv8 with keypoints (joined maps)", tuple(f"{w}-pose" for w in _BINNED), yolo_zoo.joined_pose),
    Family(
        "YOLOv8 with turned boxes (joined maps)", tuple(f"{w}-obb" for w in _BINNED), yolo_zoo.joined_rotated
    ),
    Family("YOLOv5 (maps of each stride)", ("yolov5",), partial(anchored, "yolov5")),
    Family("YOLOv7 (maps of each stride)", ("yolov7",), partial(anchored, "yolov7")),
    Family("YOLOv5 with masks (maps)", ("yolov5-seg",), anchored_masks),
    Family("YOLOv8 (table)", (*_SIDES, *(f"{w}-seg" for w in _SIDES)), yolo_tables.table),
    Family("YOLOv8 with keypoints (table)", tuple(f"{w}-pose" for w in _SIDES), yolo_tables.table_pose),
    Family("YOLOv8 with turned boxes (table)", tuple(f"{w}-obb" for w in _SIDES), yolo_tables.table_rotated),
    Family(
        "YOLOv5, v7 (table)",
        ("yolov5", "yolov7", "yolov5-seg", "yolov7-seg"),
        partial(yolo_tables.with_objectness, "YOLOv5 form (5, 7), decoded", 3),
    ),
    Family("YOLOv6 (table)", ("yolov6",), partial(yolo_tables.with_objectness, "YOLOv6, decoded", 1)),
    Family(
        "YOLOv10, 26 (rows)",
        ("yolov10", "yolo26", "yolo26-seg", "yolo26-pose", "yolo26-obb"),
        yolo_tables.rows,
    ),
    Family("YOLOX", ("yolox",), yolox),
    Family("PP-YOLOE, PicoDet (decoded)", ("ppyoloe", "picodet"), ppyoloe),
    Family("NanoDet", ("nanodet",), nanodet.nanodet),
    Family("NanoDet-Plus", ("nanodet-plus", "nanodet"), nanodet.nanodet_plus),
    Family("PicoDet", ("picodet",), nanodet.picodet),
    Family(
        "classification",
        ("classify", "resnet", "mobilenet", "efficientnet"),
        whole.classification,
    ),
    Family("semantic masks", ("semantic", "deeplab", "ppseg", "unet"), whole.regions),
    Family("mask of one channel", ("binary-mask", "u2net", "semantic", "unet"), whole.one_mask),
    Family("DB (map of text)", ("text-boxes", "ppocr-det", "dbnet"), text_boxes),
    Family("CTC text", ("ctc", "ppocr", "crnn", "lprnet"), whole.text),
    Family("RetinaFace", ("retinaface",), faces.retinaface),
    Family("SCRFD", ("scrfd",), faces.scrfd),
    Family("YuNet", ("yunet",), faces.yunet),
    Family("RT-DETR", ("rtdetr",), rtdetr.rtdetr),
    Family("RT-DETR (rows)", ("rtdetr",), rtdetr.rtdetr_rows),
    Family("heat maps of keypoints", ("heatmap", "hrnet", "simplebaseline"), heat_maps.heat_maps),
    Family("keypoints by axes (SimCC)", ("rtmpose", "simcc"), heat_maps.simcc),
    Family("embedding", ("embedding", "arcface", "facenet"), embeddings.embedding),
]
"""All rows. Where several fit, the caller must say which."""
