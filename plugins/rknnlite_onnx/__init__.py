"""Graphs as ONNX: segments for engines, ``rknnlite export-onnx``, ``rknnlite port``.

* ``lowering`` is what this offers; ``segment`` (a part, for engines) and ``network`` (a whole one) write graphs:
  ``graph_forms`` in the form that is asked for, ``node_writer`` node by node, ``unlowered`` what ONNX has no words for.
* While a graph is written: ``emitter`` (nodes and constants; ``emitted``: formulas), ``lowered_values`` (each value in the
  forms that are asked for), ``registry`` and ``ops`` (who writes which type), ``windows``, ``functions``.
* Around a network: ``normalise``, ``symbolic_shapes``, ``qdq``, ``calibration``.
* Commands: ``export`` with ``trial``; ``port_command`` with ``port``, ``port_report``, ``toolkit_network``; ``samples``
  for both.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING

from rknnlite import hookimpl

if TYPE_CHECKING:
    from rknnlite_graph.lowering import Lowering

    from rknnlite.spi.command import Command

__all__ = ["rknnlite_register_commands", "rknnlite_register_lowerings"]


@hookimpl
def rknnlite_register_commands(register: Callable[[Command], None]) -> None:
    """Offer what people ask for; without the package onnx the commands say what to install."""
    from rknnlite.libraries import commands_of

    for command in commands_of("onnx"):
        register(command)


@hookimpl
def rknnlite_register_lowerings(register: Callable[[Lowering], None]) -> None:
    """Offer the lowering ``onnx`` where the package onnx is installed."""
    if find_spec("onnx") is not None:
        from .lowering import OnnxLowering

        register(OnnxLowering())
