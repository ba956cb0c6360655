"""Vision towers: written as ONNX beside a language model, and run on pictures.

* Export: ``export`` (files beside the package); ``layouts`` (one row for each model), ``tensors``, ``network`` (operators),
  ``geometry`` (where patches lie), ``onnx_writer``.
* ``settings`` (``PREFIX.vision.json``), ``encoder`` (pictures through the tower).
"""

from __future__ import annotations

from .encoder import VisionEncoder
from .export import Vision, export_vision, has_tower
from .settings import FORMS, VisionSettings, vision_path

__all__ = ["FORMS", "Vision", "VisionEncoder", "VisionSettings", "export_vision", "has_tower", "vision_path"]
