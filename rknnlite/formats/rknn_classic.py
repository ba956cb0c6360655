"""Container versions 1 to 5 (toolkits 1.1 to 1.5): as version 6, but for the places of blobs and commands.

Blobs lie in another slot of the root table. Every node lists its commands, each with a blob of its own for
registers and, shared between nodes, one for an activation table; there are variants for one, two and three
cores. Versions 1 and 2 do not say how pixels become inputs. Versions 3 and 5 have not been seen; they are
read by the same signs.
"""

from __future__ import annotations

from typing import Any, ClassVar

from .. import socs
from ..log import logger
from .flat_model import FlatModel, attributes_of, metadata
from .flatbuffer import root
from .frame import FIRST_HEADER, HEADER, trailer
from .model import IoTensor
from .slots import ClassicRootSlot

__all__ = ["RknnClassic", "read"]

_FIRST_WITH_MEANS = 3
_ONE_CORE = 1
_NO_TABLE = -1  # as good as 0
_BYTES_PER_COMMAND = 24  # no command takes less of a genuine file
_PIXEL_ZERO_POINT = -128


class RknnClassic(FlatModel):
    """A model in a container older than version 6."""

    complete_attributes: ClassVar[bool] = False


def read(data: memoryview, version: int) -> RknnClassic:
    """Read the metadata; the graph is built later, on demand. Raises ModelInvalid."""
    payload, stub = trailer(data, FIRST_HEADER if version == 1 else HEADER)
    flat = root(payload, b"RKNN")
    # version 1 holds a remark for humans here
    attrs = {} if version == 1 else attributes_of(flat.string(ClassicRootSlot.NOTES))
    model = metadata(flat, stub, len(data), attrs, RknnClassic, version)
    model.platforms = _platforms(model)
    model.platform = model.platforms[0]
    if version < _FIRST_WITH_MEANS:
        model.attrs = {**attrs, **{io.name: _pixels(io, version, model) for io in model.inputs}}
        model.inputs, model.outputs = model.io()
    return model


def _platforms(model: RknnClassic) -> tuple[str, ...]:
    """The SoCs of the model; toolkit 1.1 calls every platform rk3566, the family word tells them apart."""
    named = [soc for soc in socs.table().values() if soc.family == model.family]
    if not named or any(soc.name in model.platforms for soc in named):
        return model.platforms
    return tuple(soc.name for soc in named)


def _pixels(io: IoTensor, version: int, model: RknnClassic) -> dict[str, Any]:
    """Mean and std of an input whose file does not store them: stored = pixel - 128."""
    if io.quant is None:
        return {}
    if io.quant.zero_point != _PIXEL_ZERO_POINT:
        fact = (
            f"input {io.name}: container version {version} does not store mean and std, and its zero point is "
            f"{io.quant.zero_point}, not {_PIXEL_ZERO_POINT}; values are taken as they are, so subtract mean and divide by std "
            "before, or convert the network again"
        )
        logger.warning("%s", fact)
        model.doubts.append(fact)
        model.logged_guesses.add(fact)  # who only reads the metadata has to know it, too
        return {}
    return {"mean": [0.0], "std": [1.0 / io.quant.scale]}
