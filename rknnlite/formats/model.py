"""What a model file says about itself, the same for every container."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, Optional

from .. import socs
from ..socs import Soc
from ..tensor import DType, Layout, QuantParams

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

    @property
    def socs(self) -> list[Soc]:
        """SoCs that take the file."""
        accepted = {name.lower() for name in (*self.platforms, self.platform)}
        return [soc for soc in socs.table().values() if set(soc.accepts) & accepted]

    @property
    def runs_on(self) -> list[str]:
        """Their names, in capitals."""
        return [soc.name.upper() for soc in self.socs]

    @property
    def board_only(self) -> str:
        """Why only a board runs the model, and the remedy behind a semicolon; empty: the CPU reference does, too."""
        return ""

    @abc.abstractmethod
    def io(self, index: int = 0) -> tuple[list[IoTensor], list[IoTensor]]:
        """Inputs and outputs of graph ``index``."""
