"""Requests and responses as values, whatever their form on the wire."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional, Union

from numpy.typing import NDArray

from rknnlite.errors import InputInvalid, shown

__all__ = ["InferRequest", "InferResponse", "Parameter", "Requested", "Tensor", "Timing"]

Array = NDArray[Any]
Parameter = Union[bool, int, float, str]


@dataclass
class Tensor:
    """A tensor by name; ``data`` has its shape and element type, and may be a view of what came over the wire.

    Examples:
        >>> Tensor("image", np.zeros((1, 224, 224, 3), np.uint8), {"layout": "nhwc"}).data.nbytes
        150528
    """

    name: str
    data: Array
    parameters: Mapping[str, Parameter] = field(default_factory=dict)


@dataclass
class Requested:
    """An output that a request asks for; with ``binary`` as bytes behind the JSON, where the form is that."""

    name: str
    parameters: Mapping[str, Parameter] = field(default_factory=dict)

    @property
    def binary(self) -> bool:
        """Whether its elements are wanted as bytes."""
        return bool(self.parameters.get("binary_data", False))


@dataclass
class InferRequest:
    """What ``infer`` of the protocol is asked.

    Parameters of the request that mean something here: ``raw`` (outputs as stored integers, with ``scale`` and
    ``zero_point`` as parameters of each), ``core_mask``, ``timeout`` (microseconds that it may wait). Parameters of an
    input: ``layout`` (``nhwc`` or ``nchw``), ``pass_through``.

    Examples:
        >>> request = InferRequest("resnet", [Tensor("data", np.zeros((1, 3), np.float32))], parameters={"raw": True})
        >>> request.flag("raw"), request.whole("core_mask")
        (True, None)
    """

    model_name: str
    inputs: Sequence[Tensor]
    outputs: Sequence[Requested] = ()
    id: str = ""
    model_version: str = ""
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    binary_outputs: bool = False

    def flag(self, name: str) -> bool:
        """A parameter that is true or false; raises InputInvalid for what is neither."""
        value = self.parameters.get(name, False)
        if not isinstance(value, bool):
            raise InputInvalid(f"parameter {name} is {shown(value)}, must be true or false")
        return value

    def whole(self, name: str, most: int = 1 << 62) -> Optional[int]:
        """A parameter that is a whole number of 0 or more, None where it is missing; raises InputInvalid."""
        value = self.parameters.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
            raise InputInvalid(f"parameter {name} is {shown(value)}, must be a whole number in 0..{most}")
        return value


@dataclass(frozen=True)
class Timing:
    """A run's stations in nanoseconds of ``perf_counter_ns``: begun, inputs taken, model run, outputs fetched."""

    begun: int = 0
    ready: int = 0
    ran: int = 0
    done: int = 0


@dataclass
class InferResponse:
    """The answer. ``parameters`` has ``run_us``, the microseconds that the model took; ``timing`` does not travel.

    Examples:
        >>> InferResponse("resnet", [Tensor("logits", np.zeros((1, 10), np.float32))]).outputs[0].data.shape
        (1, 10)
    """

    model_name: str
    outputs: Sequence[Tensor]
    id: str = ""
    model_version: str = "1"
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    timing: Timing = field(default=Timing(), compare=False, repr=False)
