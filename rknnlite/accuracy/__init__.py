"""Accuracy analysis: how far apart two runs of a network are, tensor by tensor."""

from __future__ import annotations

from .comparison import BoardRun, Comparison, Group
from .judgement import judge
from .onnx_export import to_onnx
from .session import compare
from .tensor_error import Distance, TensorError
from .verdict import Kind, LayerError, Quantisation, Verdict

__all__ = [
    "BoardRun",
    "Comparison",
    "Distance",
    "Group",
    "Kind",
    "LayerError",
    "Quantisation",
    "TensorError",
    "Verdict",
    "compare",
    "judge",
    "to_onnx",
]
