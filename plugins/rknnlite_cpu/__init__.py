"""CPU reference backend: executes graphs of genuine model files with the NPU's numbers.

* The contract: ``backend`` plays the SoC; ``context`` with ``running_context`` (begins, computes and awaits frames),
  ``input_conversion`` and ``run_outputs``; ``opened_model`` and ``shape_variant`` say what is fixed for a model and for one
  of its shapes. Zero-copy as on a board is ``rknnlite_backend.zero_copy_context``.
* Computing: ``plan`` (a graph prepared to run), ``registry`` (operators by node type), ``values`` (how values
  live), ``ops`` (one family of operators per file), ``kernels`` (numbers alone), ``engines`` (what runs parts of a plan
  faster), ``fidelity`` (the same graph in float), ``silicon`` (in the integers that chips compute with), ``custom_ops`` and
  ``postprocess`` (operators between two nodes, plugins behind the last).
* Looking on: ``observers``, ``perf``. For other backends: ``single_nodes``.
* Without a graph: ``matmul`` (products), ``llm`` (transformers).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rknnlite import hookimpl
from rknnlite.spi import Backend

if TYPE_CHECKING:
    from rknnlite.spi.inspection import Inspector

__all__ = ["rknnlite_register_backends", "rknnlite_register_inspectors"]


@hookimpl
def rknnlite_register_backends(register: Callable[[Backend], None]) -> None:
    """Offer the backend ``cpu``."""
    from .backend import CpuBackend

    register(CpuBackend())


@hookimpl
def rknnlite_register_inspectors(register: Callable[[Inspector], None]) -> None:
    """Offer which engine computes a model, and how far the chip's arithmetic is known."""
    from .engines.inspection import EngineInspector
    from .silicon.inspection import SiliconInspector

    register(EngineInspector())
    register(SiliconInspector())
