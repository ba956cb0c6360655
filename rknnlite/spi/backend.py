"""The contract of a backend: one way of computing, which a plugin registers."""

from __future__ import annotations

import abc
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..errors import RknnError
from .context import Context
from .types import Device, OpenOptions, Options, Probe

if TYPE_CHECKING:
    from ..formats import ModelFile
    from ..native.board import Board
    from .finding import Finding
    from .llm import LlmContext, LlmOptions
    from .matmul import MatmulContext, MatmulSpec

__all__ = ["Backend"]


class Backend(abc.ABC):
    """One way of computing. A plugin registers an instance in ``rknnlite_register_backends``.

    Examples:
        >>> from rknnlite.spi import Probe
        >>> class Mine(Backend):
        ...     name = "mine"
        ...     def probe(self):
        ...         return Probe(False, "its device is not here")
        ...     def open(self, model, options):
        ...         raise NotImplementedError
        >>> Mine().probe().reason
        'its device is not here'
    """

    name: str = ""
    generation: str = "rknpu2"
    runs_networks: bool = True
    """False for a backend of language models alone, whose ``open`` refuses everything."""
    suffixes: tuple[str, ...] = (".rknn",)
    """Ends of the names of its model files: ``rknnlite serve`` finds them in a folder by these, and calls a model without."""

    @property
    def generations(self) -> tuple[str, ...]:
        """NPU generations that the backend stands for: when a SoC is named, only backends of its generation count."""
        return (self.generation,)

    def devices(self) -> list[Device]:
        """Coprocessors and boards from afar that a ``device_id`` can name; takes a second at most, never raises."""
        return []

    def boards(self, device_id: str) -> list[str]:
        """What a ``device_id`` stands for, each device by an id of its own; empty for an id that is none of this backend's.

        Cheap, asks no device. Raises ParamInvalid for one that is named but cannot be used as it is configured.
        """
        return [device.id for device in self.devices() if device.id == device_id]

    def facts(self, device_id: str) -> Any:
        """What the machine of one of ``boards`` tells of itself; None where that is this very machine.

        Raises DeviceUnavailable where it does not answer.
        """
        return None

    @abc.abstractmethod
    def probe(self) -> Probe:
        """Say whether this machine can use the backend; cheap, never raises."""

    def probe_for(self, options: Options) -> Probe:
        """``probe`` for a program that opens something with ``options``, which may name a library of its own."""
        return self.probe()

    def refuses(self, model: ModelFile) -> str | None:
        """A reason why this backend cannot run the model, None when it can; used to choose a backend."""
        return None

    @abc.abstractmethod
    def open(self, model: ModelFile, options: OpenOptions) -> Context:
        """Load the model; raises ModelInvalid, ParamInvalid or TargetPlatformUnmatch."""

    def matmul(self, spec: MatmulSpec) -> MatmulContext:
        """A matrix product; raises ParamInvalid naming the limits, or TargetPlatformUnmatch."""
        raise RknnError(f"backend {self.name} has no matmul yet")

    def legacy_matmul(
        self, a: Any, b: Any, transpose_b: bool = False, driver: str = "full", transpose_a: bool = False
    ) -> Any:
        """The product of the first NPU generation's library, see ``rknnlite.matmul.legacy_matmul``, also without that library."""
        raise RknnError(f"backend {self.name} has no product of the first NPU generation")

    def refuses_llm(self, model: ModelFile) -> str | None:
        """A reason why this backend cannot run the language model, None when it can."""
        return f"backend {self.name} runs no language models"

    def findings(self, board: Board, model: ModelFile | None = None) -> Iterator[Finding]:
        """What ``rknnlite doctor`` says of this backend on a machine, or of a language model that it may run there.

        What stops a model has level FAIL, and is an error with the same words when it is opened all the same.
        """
        return iter(())

    def open_llm(self, model: ModelFile, weights: ModelFile | None, options: LlmOptions) -> LlmContext:
        """Load a language model; ``weights`` None looks beside the model file.

        Raises ModelInvalid, ModelUnsupported, ParamInvalid or TargetPlatformUnmatch.
        """
        raise RknnError(f"backend {self.name} runs no language models")
