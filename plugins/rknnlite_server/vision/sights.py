"""What lies around networks that look at pictures: how a picture becomes the input, and what the outputs mean."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Union

import numpy as np
from numpy.typing import NDArray
from rknnlite_protocol.requests import InferRequest, InferResponse, Tensor
from rknnlite_vision.heads.head import ASKED, Limits
from rknnlite_vision.heads.recognise import recognise
from rknnlite_vision.model import VisionModel
from rknnlite_vision.placement import Placement
from rknnlite_vision.results import Result

from rknnlite.errors import ParamInvalid, RknnError
from rknnlite.files.pictures import decode_whole
from rknnlite.spi import Context
from rknnlite.tensor import TensorAttr

from ..errors import ApiError, bad_request
from ..media import MOST_PIXELS
from ..networks.network import ServedNetwork
from .asked import View

__all__ = ["Sight", "pixels_of", "sight_of"]

Pixels = NDArray[np.uint8]
_USUAL = View()


@dataclass(frozen=True)
class Sight:
    """A network and what lies around it; ``rows`` of its input are one picture."""

    name: str
    model: VisionModel
    rows: int

    @property
    def routes(self) -> list[str]:
        """Names of the routes that take it; that which shows all that its head tells is the last."""
        return [route for route, tasks in ASKED.items() if self.model.head.task in tasks]

    def check(self, route: str) -> None:
        """Raise ApiError where the route is for other heads."""
        if route not in self.routes:
            head = self.model.head
            there = f"POST /v1/vision/{self.routes[-1]} is for it" if self.routes else "no route is for it"
            raise bad_request(
                f"{self.name} is for another task: {head.task.value} ({head.family}); {there}", "model"
            )

    def prepared(self, picture: bytes, view: View) -> tuple[InferRequest, Placement]:
        """A run of the network on the picture in a file, and where that lies in the input. Raises InputInvalid."""
        preparation = self.model.preparation
        preparation = replace(preparation, way=view.fit or preparation.way, bgr=view.bgr)
        array, placement = preparation(pixels_of(picture))
        rows = np.repeat(array, self.rows, axis=0) if self.rows > 1 else array
        layout: dict[str, Any] = {"layout": "nchw"} if preparation.nchw else {}
        tensor = Tensor(self.model.context.inputs[0].name, rows, layout)
        return InferRequest(self.name, [tensor], parameters={"raw": True}), placement

    def found(self, response: InferResponse, limits: Limits) -> Result:
        """What the outputs of such a run tell, in pixels of the input. Raises ApiError for numbers that are none."""
        outputs = [tensor.data for tensor in response.outputs]
        for tensor in response.outputs:
            if tensor.data.dtype.kind == "f" and np.isnan(tensor.data).any():
                raise no_numbers(self.name, f"output {tensor.name} holds NaN")
        return self.model.head.decode(outputs, limits)[0]


_sights: weakref.WeakKeyDictionary[ServedNetwork, Sight] = weakref.WeakKeyDictionary()


async def sight_of(network: ServedNetwork, view: View = _USUAL) -> Sight:
    """What lies around a network; what it tells itself is found out once. Raises ApiError for one that is not for pictures."""
    usual = not view.hint and view.labels is None
    sight = _sights.get(network) if usual else None
    if sight is None:
        model = await network.call(_model, network.name, network.rows, view)
        if isinstance(model, ParamInvalid):
            raise bad_request(str(model), "labels")
        if isinstance(model, RknnError):
            raise ApiError(422, "invalid_request_error", f"{network.name}: {model}", "model")
        sight = Sight(network.name, model, model.context.inputs[0].dims[0] // network.rows)
        if usual:
            _sights[network] = sight
    return sight


def pixels_of(picture: bytes) -> Pixels:
    """RGB of the picture in a file, turned as its camera says. Raises InputInvalid."""
    return decode_whole(picture, "the picture", 3, MOST_PIXELS)


def no_numbers(name: str, what: str) -> ApiError:
    """422 for a network whose outputs are no numbers."""
    return ApiError(
        422,
        "invalid_request_error",
        f"{name}: {what}, so nothing can be told of the picture; rknnlite compare tells in which layer they begin",
        "model",
    )


def _model(context: Context, name: str, parts: int, view: View) -> Union[VisionModel, RknnError]:
    """The decoder for one row of a batch. An error is returned: one that is raised would put the context in doubt."""
    inputs, outputs = _one(context.inputs, parts), _one(context.outputs, parts)
    try:
        head = recognise(inputs, outputs, view.hint, name=name)
        return VisionModel(context, head, labels=view.labels)
    except RknnError as error:
        return error


def _one(attrs: Sequence[TensorAttr], parts: int) -> list[TensorAttr]:
    """Attributes of one of so many equal parts of a batch."""
    return [replace(attr, dims=(attr.dims[0] // parts, *attr.dims[1:])) for attr in attrs]
