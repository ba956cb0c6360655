"""The backend ``npu-machine``: command words executed by the machine, for programs that are to be held against it."""

from __future__ import annotations

from rknnlite.errors import RknnError
from rknnlite.formats import ModelFile
from rknnlite.log import logger
from rknnlite.spi import Backend, Context, OpenOptions, Probe
from rknnlite.spi.types import check_options

__all__ = ["MachineBackend"]


class MachineBackend(Backend):
    """Never chosen by itself: it is slow, and another word for the NPU's own arithmetic."""

    name = "npu-machine"
    generation = "rknpu2"

    def probe(self) -> Probe:
        return Probe(
            True,
            "executes the NPU's command words in this process; only when it is named",
            priority=-10,
            devices=("cpu",),
        )

    def refuses(self, model: ModelFile) -> str | None:
        from .program import read_program

        try:
            read_program(model.model, model.model.default_shape)
        except RknnError as error:
            return str(error)
        return None

    def open(self, model: ModelFile, options: OpenOptions) -> Context:
        """Raises ModelInvalid, ModelUnsupported, MachineRefused, ParamInvalid, TargetPlatformUnmatch."""
        from rknnlite_graph.reading.npu_families import family_of

        from .context import NpuContext
        from .machine_transport import MachineTransport
        from .opened_model import OpenedModel
        from .transport import SharedTransport

        check_options(self.name, options.extra)
        opened = OpenedModel.of(self.name, model, options)
        opened.variant(model.model.default_shape)
        shared = SharedTransport(MachineTransport(model.model.family))
        if not family_of(model.model.family).measured_on:
            logger.warning(
                "%s: backend 'npu-machine': registers and roundings of this NPU family are inferred from files and their "
                "answers in the vendor's simulator; nobody has measured them on a chip",
                model.label,
            )
        return NpuContext(self.name, opened, shared)
