"""Trained networks that packages ship as ONNX files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from network import Exporter, image, network, packaged, signal, text

_FILE: dict[str, Any] = {"exporter": Exporter.FILE, "trained": True}
_HALVES: dict[str, Any] = {"mean": (127.5,), "std": (127.5,)}


@network("ppocr_cls", text(48, 192, name="x"), **_FILE, **_HALVES)
def _ppocr_cls() -> Path:
    return packaged("rapidocr_onnxruntime", "models/ch_ppocr_mobile_v2.0_cls_infer.onnx")


@network("ppocr_det", text(160, name="x"), **_FILE)
def _ppocr_det() -> Path:
    return packaged("rapidocr_onnxruntime", "models/ch_PP-OCRv4_det_infer.onnx")


@network("ppocr_rec", text(48, 160, name="x"), **_FILE, **_HALVES)
def _ppocr_rec() -> Path:
    return packaged("rapidocr_onnxruntime", "models/ch_PP-OCRv4_rec_infer.onnx")


@network("nudenet_yolov8n", image(160, name="images"), mean=(0.0,), std=(255.0,), **_FILE)
def _nudenet() -> Path:
    return packaged("nudenet", "320n.onnx")


@network("basic_pitch", signal(1, 43844, 1, name="serving_default_input_2:0"), **_FILE)
def _basic_pitch() -> Path:
    return packaged("basic_pitch", "saved_models/icassp_2022/nmp.onnx")


@network("wakeword_embedding", signal(1, 76, 32, 1, name="input_1"), **_FILE)
def _embedding() -> Path:
    return packaged("openwakeword", "resources/models/embedding_model.onnx")


@network("wakeword_melspectrogram", signal(1, 17280, name="input"), **_FILE)
def _melspectrogram() -> Path:
    return packaged("openwakeword", "resources/models/melspectrogram.onnx")


@network("wakeword_alexa", signal(1, 16, 96, name="onnx::Flatten_0"), **_FILE)
def _alexa() -> Path:
    return packaged("openwakeword", "resources/models/alexa_v0.1.onnx")


@network("wakeword_timer", signal(1, 34, 96, name="onnx::Flatten_0"), **_FILE)
def _timer() -> Path:
    return packaged("openwakeword", "resources/models/timer_v0.1.onnx")


@network("wakeword_mycroft_lstm", signal(1, 16, 96, name="input_1"), **_FILE)
def _mycroft() -> Path:
    return packaged("openwakeword", "resources/models/hey_mycroft_v0.1.onnx")


@network("silero_vad", signal(1, 576, name="input"), signal(2, 1, 128, name="state"), **_FILE)
def _silero() -> Path:
    return packaged("silero_vad", "data/silero_vad_openvino_16k.onnx")
