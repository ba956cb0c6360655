"""Hosts of compiled operators: what turns a library, an object file or a kernel source into something to run.

Public names are re-exported by ``rknnlite.spi``.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from numpy.typing import NDArray

from ..tensor import DType, TensorAttr
from .custom_op import CustomOp

if TYPE_CHECKING:
    from .types import Probe

__all__ = ["GpuKernel", "GpuServices", "OpHost", "PostProcess", "on_gpu"]

Array = NDArray[Any]


class GpuKernel(NamedTuple):
    """A built OpenCL kernel as handles of the C API; ``owner`` keeps them alive.

    Examples:
        >>> GpuKernel(context=1, queue=2, kernel=3)._fields
        ('context', 'queue', 'kernel', 'owner')
    """

    context: int
    queue: int
    kernel: int
    owner: Any = None


def on_gpu(attr: TensorAttr) -> TensorAttr:
    """A tensor as a GPU operator gets it: float32, whatever its elements are.

    That is what kernels made for the vendor's runtime take for granted; the host of the operator converts.
    """
    return replace(attr, dtype=DType.FLOAT32)


class GpuServices(abc.ABC):
    """What the host of compiled operators needs of OpenCL; offered by a host of another plugin.

    Examples:
        >>> class Services(GpuServices):
        ...     def preload(self):
        ...         pass
        ...     def build(self, source, name, options):
        ...         return GpuKernel(context=1, queue=2, kernel=3)
    """

    @abc.abstractmethod
    def preload(self) -> None:
        """Make the OpenCL functions that GPU plugins are linked against visible to libraries loaded later."""

    @abc.abstractmethod
    def build(self, source: str, name: str, options: str) -> GpuKernel:
        """Build a kernel from source text; raises ParamInvalid with the compiler's log when that fails."""

    def forget(self, fd: int) -> None:  # noqa: B027
        """Release what GPU operators imported of a tensor's memory; called when a node is destroyed."""


class PostProcess(abc.ABC):
    """One post-process plugin for one context: turns the outputs of a model into other outputs.

    Examples:
        >>> class Largest(PostProcess):
        ...     def open(self, inputs, outputs):
        ...         return [replace(attr, dims=attr.dims[:1]) for attr in outputs]
        ...     def compute(self, arrays):
        ...         return [array.max(axis=1) for array in arrays]
        ...     def close(self):
        ...         pass
        >>> Largest().compute([np.array([[1, 5, 2]])])
        [array([5])]
    """

    @abc.abstractmethod
    def open(self, inputs: Sequence[TensorAttr], outputs: Sequence[TensorAttr]) -> list[TensorAttr]:
        """Start for a model with these inputs (NHWC) and outputs (NCHW); returns the attributes of the results.

        Called again when the shapes of a dynamic model change.
        """

    @abc.abstractmethod
    def compute(self, arrays: Sequence[Array]) -> list[Array]:
        """Results from the model's outputs, one C-contiguous array each in the type the attribute names."""

    @abc.abstractmethod
    def close(self) -> None:
        """Give everything back; calling it again does nothing."""


class OpHost(abc.ABC):
    """Turns compiled files into operators. A plugin registers an instance in ``rknnlite_register_op_hosts``.

    Hosts are asked in turn; the first that does not answer None has the file.

    Examples:
        >>> from rknnlite.spi import Probe
        >>> class Host(OpHost):
        ...     name = "mine"
        ...     def probe(self):
        ...         return Probe(True, "needs nothing")
        ...     def load(self, path, options):
        ...         return None if path.suffix != ".mine" else []
        >>> Host().load(Path("plugin.so"), {}) is None
        True
    """

    name: str = ""

    @abc.abstractmethod
    def probe(self) -> Probe:
        """Whether this machine can host such files, and why (not); cheap, never raises."""

    def load(self, path: Path, options: Mapping[str, Any]) -> list[CustomOp] | None:
        """The operators in a file, None when it is not of this host's kind.

        Raises ParamInvalid for a file of this kind that cannot be used, with the reason.
        """
        return None

    def load_postprocess(self, path: Path, options: Mapping[str, Any]) -> PostProcess | None:
        """A post-process plugin from a file, None when it is not of this host's kind."""
        return None

    def gpu(self) -> GpuServices | None:
        """Services for compiled operators with target "gpu"; None when this host has none to offer."""
        return None
