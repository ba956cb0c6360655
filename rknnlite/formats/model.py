"""What a model file says about itself, the same for every container."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

from ..errors import ModelUnsupported
from ..tensor import DType, Layout, QuantParams

if TYPE_CHECKING:
    from ..graph import Graph
    from .storage import Storage

__all__ = ["NO_ATTRIBUTES", "Attributes", "IoTensor", "Model"]

Attributes = Mapping[str, Mapping[str, Any]]
"""Attributes by ONNX name of nodes (by node name, or by type for all nodes of one)."""
NO_ATTRIBUTES: Attributes = MappingProxyType({})


class IoTensor(NamedTuple):
    """One input or output of the model; ``shape`` is logical (NCHW for rank 4), batch not multiplied in.

    ``mean`` and ``std`` are per channel (empty for outputs); ``layout`` is the default layout at run time.
    ``reorder``: where each channel of a picture comes from, (2, 1, 0) for a network that wants BGR; empty: as it is.
    ``surface_alignment``: positions of a group of channels in feature layout are padded to a multiple of it (0: not).
    """

    name: str
    shape: tuple[int, ...]
    dtype: DType
    layout: Layout
    quant: Optional[QuantParams] = None
    native_shape: tuple[int, ...] = ()
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    surface_alignment: int = 0
    reorder: tuple[int, ...] = ()


@dataclass
class Model(abc.ABC):
    """Metadata of a model; ``graph`` builds the executable graph only when asked.

    ``shapes`` lists the legal input shapes of a dynamic model (one tuple of shapes per graph, logical order);
    ``default_shape`` is the index of the graph that is current before a shape is chosen.
    """

    container: int
    toolkit_version: str
    compiler_version: str
    platform: str
    platforms: tuple[str, ...]
    family: str
    framework: str
    inputs: list[IoTensor]
    outputs: list[IoTensor]
    dynamic: bool = False
    batch: int = 1
    custom_string: str = ""
    custom_ops: tuple[str, ...] = ()
    shapes: list[tuple[tuple[int, ...], ...]] = field(default_factory=list)
    default_shape: int = 0
    master: Optional[Model] = field(default=None, repr=False, compare=False)
    """The model that holds the weights of this one, where they were removed."""

    @property
    def generation(self) -> str:
        """The generation of NPUs that it was made for, as ``Soc.generation`` and backends name them."""
        return "rknpu2"

    @abc.abstractmethod
    def graph(self, index: int = 0, attributes: Attributes = NO_ATTRIBUTES) -> Graph:
        """Build graph ``index`` (one per legal set of shapes).

        ``attributes`` are those that the container leaves out (the mini format stores the attributes of few types).

        Raises:
            ModelInvalid, ModelUnsupported: the file.
            ParamInvalid: attributes of a node that is not there or has its own.
        """

    @property
    def board_only(self) -> str:
        """Why only a board runs the model, and the remedy behind a semicolon; empty: the CPU reference does, too."""
        return ""

    def lend(self) -> Storage:
        """Stored weights for another model whose own were removed."""
        raise ModelUnsupported("a model of this kind lends no weights")

    @abc.abstractmethod
    def io(self, index: int = 0) -> tuple[list[IoTensor], list[IoTensor]]:
        """Inputs and outputs of graph ``index``."""
