"""Comparing and insight: how far apart two runs of a network are, tensor by tensor; how fast it is, and why.

* Comparing: ``run_comparison`` (``compare``), ``compared_run``, ``board_comparison``, ``tensor_matching``, ``tensor_error``,
  ``comparison``; ``error_analysis`` and ``verdict``: where an error is born, and in words; ``plot``. ``ways``: one
  file in float, as the simulator, as a chip. ``causes``: why the accuracy is gone; ``stored_values``: what a tensor keeps.
* Tensors of a run: ``dumps``. Networks in ONNX: ``onnx_run``, ``onnx_inputs``, ``onnx_custom_nodes``, ``onnx_export``.
  ``one_node``: an operator alone.
* ``commands`` and ``health``: ``compare``, ``perf``, ``bench``, ``top``, ``check``, and what ``doctor`` says of machine and
  models; ``remote_board``: the same from afar.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rknnlite import hookimpl
from rknnlite.spi.public_name import PublicName, late_names

if TYPE_CHECKING:
    from rknnlite.spi.command import Command

    from .causes import Cause, Diagnosis, diagnose
    from .comparison import BoardRun, Comparison, Group
    from .error_analysis import judge
    from .health import look_afar
    from .onnx_export import to_onnx
    from .run_comparison import compare
    from .tensor_error import Distance, TensorError
    from .verdict import Kind, LayerError, Quantisation, Verdict
    from .ways import Parted, Ways, WaysRow, compare_ways

__all__ = [
    "BoardRun",
    "Cause",
    "Comparison",
    "Diagnosis",
    "Distance",
    "Group",
    "Kind",
    "LayerError",
    "Parted",
    "Quantisation",
    "TensorError",
    "Verdict",
    "Ways",
    "WaysRow",
    "compare",
    "compare_ways",
    "diagnose",
    "judge",
    "look_afar",
    "rknnlite_register_commands",
    "rknnlite_register_names",
    "to_onnx",
]

_MODULES = {
    "causes": ("Cause", "Diagnosis", "diagnose"),
    "health": ("look_afar",),
    "comparison": ("BoardRun", "Comparison", "Group"),
    "error_analysis": ("judge",),
    "onnx_export": ("to_onnx",),
    "run_comparison": ("compare",),
    "tensor_error": ("Distance", "TensorError"),
    "verdict": ("Kind", "LayerError", "Quantisation", "Verdict"),
    "ways": ("Parted", "Ways", "WaysRow", "compare_ways"),
}

__getattr__ = late_names(__name__, _MODULES)


@hookimpl
def rknnlite_register_commands(register: Callable[[Command], None]) -> None:
    """Offer what looks into models and runs."""
    from rknnlite.libraries import commands_of

    for command in commands_of("insight"):
        register(command)


@hookimpl
def rknnlite_register_names(register: Callable[[PublicName], None]) -> None:
    """Offer ``rknnlite.compare`` and ``rknnlite.to_onnx``."""
    for name in ("compare", "to_onnx"):
        register(PublicName(name, __name__))
