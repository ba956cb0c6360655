"""One model on a board from afar."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from numpy.typing import NDArray
from rknnlite_backend.native_objects import abandon_after_fork
from rknnlite_backend.perf import PerfTable
from rknnlite_backend.running import both_paths, check_dup, in_order
from rknnlite_backend.zero_copy import check_binding, check_direction, place_of
from rknnlite_protocol.board import Description

from rknnlite.errors import InputInvalid, ParamInvalid
from rknnlite.log import level, logger
from rknnlite.socs import Soc
from rknnlite.spi import CustomOp, Input, Memory, OpenOptions, PostProcess, Step
from rknnlite.spi.arguments import typed
from rknnlite.spi.inputs import checked
from rknnlite.tensor import TensorAttr

from .channel import Channel
from .memory import RemoteMemory
from .model_on_boards import ModelOnBoards
from .options import OPERATORS
from .running_context import RunningContext
from .wire import InputForm, body_of

if TYPE_CHECKING:
    from rknnlite_insight.dumps import Dump

__all__ = ["RemoteContext"]

Array = NDArray[Any]
_LOG_FIGURES = 4  # RKNN_LOG_LEVEL from which the table of a run is logged
_DIRECTIONS = ("to_device", "from_device", "both")
_NO_DESCRIPTORS = (
    "memory descriptors and addresses cannot cross a network; create_mem gives memory here, whose bytes go to the board "
    "with every run"
)
_abandoned: list[Channel] = []
"""Channels of the parent process, which must not be taken apart in a forked child."""


class RemoteContext(RunningContext):
    """See ``rknnlite.spi.Context``. The board keeps nothing of it: every call carries all that it needs."""

    def __init__(
        self, hosted: ModelOnBoards, description: Description, soc: Soc, options: OpenOptions
    ) -> None:
        channel = Channel(hosted.board)
        super().__init__(hosted, description, soc, channel, options)
        self._logs = options.verbose or (level() or 0) >= _LOG_FIGURES
        self._closing = weakref.finalize(self, _close, self._stream, channel)
        abandon_after_fork(self)

    # -- settings -----------------------------------------------------------------------------------------

    def set_core_mask(self, mask: int) -> None:
        with self.exclusive():
            self.soc.check_core_mask(mask)
            self._asks(core_mask=mask)

    def set_batch_core_num(self, count: int) -> None:
        """Checked as the board would; how its server spreads a batch over cores is its own affair."""
        with self.exclusive():
            self.soc.check_batch_cores(count)

    def set_shapes(self, shapes: Sequence[Sequence[int]]) -> None:
        with self.step():
            self._settle()
            self._describe(shapes)
            self._shape_chosen = True
            self._forget_inputs()
            self._bindings.clear()

    def register_ops(self, ops: Sequence[CustomOp]) -> None:
        raise ParamInvalid(f"board {self.board}: {OPERATORS}")

    def register_postprocess(self, plugin: str | os.PathLike[str] | PostProcess) -> None:
        raise ParamInvalid(f"board {self.board}: {OPERATORS}")

    # -- common path --------------------------------------------------------------------------------------

    def set_inputs(self, inputs: Sequence[Input]) -> None:
        """Take the inputs. What is wrong with their values is told by the board, when the model runs."""
        with self.step():
            if self._bindings.bound:
                raise both_paths()
            ordered = in_order(inputs, self._inputs, self._hosted.file.label)
            if self._shapes:
                self.follow_shapes(inputs)
            else:
                for attr, item in zip(self._inputs, ordered):
                    if item.data.shape != attr.dims:
                        checked(attr, item.data, item.layout.name, item.pass_through, dynamic=False)
            self._pack(list(zip(self._inputs, ordered)))
            self._common = True

    def _pack(self, pairs: Sequence[tuple[TensorAttr, Input]]) -> None:
        given = [InputForm.of(item, attr) for attr, item in pairs]
        self._take_body(body_of([form for form, _ in given], [data for _, data in given], self._heads))
        through = any(form.pass_through for form, _ in given)
        if self._shapes:
            self._asks(shapes=self._shapes_text() if through else "")

    @typed
    def infer(
        self,
        *arrays: Any | Mapping[str, Array],
        layout: str | Sequence[str | None] | None = None,
        pass_through: bool | Sequence[bool] = False,
        raw: bool = False,
    ) -> list[Any]:
        self._wants_float = not raw
        return super().infer(*arrays, layout=layout, pass_through=pass_through, raw=raw)

    def frame(self, inputs: Sequence[Input], into: Callable[[], list[Array]] | None = None) -> list[Array]:
        self._wants_float = True
        try:
            return super().frame(inputs, into)
        except InputInvalid as error:  # the board looks at the values, this side at the rest
            Step.SET_INPUTS.mark(error)
            raise

    def run(self) -> None:
        super().run()
        if self._logs and not self._bindings.bound:
            for line in str(self.perf_table()).splitlines():
                logger.debug("%s", line)

    # -- zero-copy path -----------------------------------------------------------------------------------

    def create_mem(self, size: int, flags: int = 0) -> RemoteMemory:
        with self.exclusive():
            return self._bindings.create(size, flags)

    def import_mem(self, handle: int, size: int, offset: int = 0) -> NoReturn:
        raise ParamInvalid(f"board {self.board}: {_NO_DESCRIPTORS}")

    def import_fd(self, fd: int, size: int = 0, offset: int = 0) -> NoReturn:
        raise ParamInvalid(f"board {self.board}: {_NO_DESCRIPTORS}")

    def import_phys(self, address: int, size: int, virtual: int = 0) -> NoReturn:
        raise ParamInvalid(f"board {self.board}: {_NO_DESCRIPTORS}")

    def set_weight_mem(self, mem: Memory) -> NoReturn:
        raise ParamInvalid(f"board {self.board}: memory of weights lies there; {_NO_DESCRIPTORS}")

    def set_internal_mem(self, mem: Memory) -> NoReturn:
        raise ParamInvalid(f"board {self.board}: memory of internal tensors lies there; {_NO_DESCRIPTORS}")

    def bind(self, attr: TensorAttr, mem: Memory) -> None:
        with self.step():
            if self._common:
                raise both_paths()
            mine = self._bindings.mine(mem)
            place = place_of(attr, self._all_places())
            attr = check_binding(place, attr, mine.size, mine.offset)
            self._bindings.bind(place, attr, mine)

    def sync(self, mem: Memory, direction: str) -> None:
        """Checked only: the bytes go when a run begins, and come when it is done."""
        check_direction(direction)
        with self.exclusive():
            self._bindings.mine(mem)

    # -- figures ------------------------------------------------------------------------------------------

    def perf_table(self) -> PerfTable:
        """Figures per layer of one run on the last inputs, which the board makes for it."""
        with self.exclusive():
            self._settle()
            if self._table is None:
                from .inspection import figures

                self._table, self._last_us = figures(
                    self._hosted, self._channel, self._request("figures per layer")
                )
            return self._table

    def dump(self, directory: str | os.PathLike[str], golden: Dump | None = None) -> Dump:
        from .inspection import dumped

        with self.exclusive():
            self._settle()
            return dumped(self._hosted, self._channel, self._request("a dump"), directory, golden)

    # -- life ---------------------------------------------------------------------------------------------

    def dup(self) -> RemoteContext:
        with self.exclusive():
            self._settle()
            check_dup(self._hosted.file.label, bool(self._shapes), self.soc)
            twin = RemoteContext(self._hosted, self._description, self._soc, self._options)
            twin._asked = self._asked
            return twin

    def close(self) -> None:
        """As ``Context.close``; frames that have no answer yet are given up."""
        self.refuse_inside()
        if not self._closed:
            self._finish_async()
            self._stream.close()
        super().close()

    def _release(self) -> None:
        self._closing()
        self._bindings.close()
        self._drop_arrays()

    def abandon(self) -> None:
        super().abandon()
        self._closing.detach()
        _abandoned.append(self._channel)


def _close(frames: Any, channel: Channel) -> None:
    frames.close()
    channel.close()
