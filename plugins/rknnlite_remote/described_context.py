"""What a board told of a model, as the questions of ``Context`` ask for it; nothing here goes over the network but shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from rknnlite_backend.perf import MemorySize
from rknnlite_backend.running import find_shapes
from rknnlite_backend.zero_copy import Place, forms
from rknnlite_protocol.board import Description

from rknnlite.errors import ParamInvalid
from rknnlite.socs import Soc
from rknnlite.spi import AttrKind, Context, Versions
from rknnlite.tensor import TensorAttr

from .channel import Channel
from .model_on_boards import ModelOnBoards

__all__ = ["DescribedContext"]

_FORMS = (
    (True, (AttrKind.NATIVE_INPUT, AttrKind.NATIVE_NHWC_INPUT, AttrKind.INPUT)),
    (False, (AttrKind.NATIVE_OUTPUT, AttrKind.NATIVE_NHWC_OUTPUT, AttrKind.OUTPUT)),
)


class DescribedContext(Context):
    """Part of ``RemoteContext``: what it is."""

    def __init__(self, hosted: ModelOnBoards, description: Description, soc: Soc, channel: Channel) -> None:
        super().__init__()
        self._hosted, self._soc, self._channel = hosted, soc, channel
        self._shapes = [[tuple(dims) for dims in entry] for entry in description.shapes]
        self._described: dict[int, Description] = {}
        self._shape_chosen = description.shape_chosen
        self._take(description)

    def _take(self, description: Description) -> None:
        """Tell about the shape that was selected."""
        self._description = description
        self._inputs = description.attributes(AttrKind.INPUT)
        self._outputs = description.attributes(AttrKind.OUTPUT)
        self._places: Optional[list[Place]] = None

    @property
    def backend_name(self) -> str:
        return "remote"

    @property
    def board(self) -> str:
        """Name and address of the board, or of the boards."""
        return self._hosted.board.label

    @property
    def board_backend(self) -> str:
        """The backend that computes there."""
        return self._description.backend

    @property
    def inputs(self) -> list[TensorAttr]:
        return list(self._inputs)

    @property
    def outputs(self) -> list[TensorAttr]:
        return list(self._outputs)

    @property
    def native_inputs(self) -> list[TensorAttr]:
        return self._description.attributes(AttrKind.NATIVE_INPUT)

    @property
    def native_outputs(self) -> list[TensorAttr]:
        return self._description.attributes(AttrKind.NATIVE_OUTPUT)

    def attrs(self, kind: AttrKind) -> list[TensorAttr]:
        return self._description.attributes(kind)

    @property
    def versions(self) -> Versions:
        return self._description.versions

    @property
    def soc(self) -> Soc:
        return self._soc

    @property
    def batch(self) -> int:
        return self._description.batch

    @property
    def shapes(self) -> list[list[tuple[int, ...]]]:
        return [list(entry) for entry in self._shapes]

    @property
    def custom_string(self) -> str:
        return self._description.custom_string

    @property
    def core_num(self) -> int:
        return self._description.core_num

    def memory(self) -> MemorySize:
        """What the board says of its memory for the current shapes."""
        with self.exclusive():
            return self._description.memory_size()

    def _describe(self, shapes: Sequence[Sequence[int]]) -> None:
        """Ask for what a dynamic shape brings, once for each; raises ParamInvalid, DeviceUnavailable."""
        number = find_shapes(self._hosted.file.label, shapes, self._shapes, self._inputs)
        if number not in self._described:
            self._described[number] = self._hosted.describe(self._channel, self._shapes[number])
        self._take(self._described[number])

    def _all_places(self) -> list[Place]:
        if self._places is None:
            self._places = []
            for is_input, kinds in _FORMS:
                rows = zip(*filter(None, map(self._known, kinds)))
                self._places += [Place(is_input, index, forms(*attrs)) for index, attrs in enumerate(rows)]
        return self._places

    def _known(self, kind: AttrKind) -> list[TensorAttr]:
        """Attributes in a form that the board may not have; the native one it must."""
        try:
            return self._description.attributes(kind)
        except ParamInvalid:
            if kind in (AttrKind.NATIVE_INPUT, AttrKind.NATIVE_OUTPUT):
                raise
            return []
