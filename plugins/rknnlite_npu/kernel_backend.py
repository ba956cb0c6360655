"""The backend ``npu``: the NPU through the kernel's own interfaces, without the vendor's library."""

from __future__ import annotations

from rknnlite.errors import DeviceUnavailable, RknnError
from rknnlite.formats import ModelFile
from rknnlite.spi import Backend, Context, OpenOptions, Probe
from rknnlite.spi.types import check_options

__all__ = ["KernelBackend"]


class KernelBackend(Backend):
    """Experimental: no chip has confirmed it."""

    name = "npu"
    generation = "rknpu2"

    def probe(self) -> Probe:
        from .kernel.devices import find_device

        found = find_device()
        if found is None:
            return Probe(
                False,
                "no device of an NPU; Linux 6.18 has the driver rocket, the vendor's kernels have rknpu",
            )
        if found.driver is None:
            return Probe(False, found.reason)
        return Probe(
            True, f"{found.path}, driver {found.driver}, experimental", priority=50, devices=(found.path,)
        )

    def refuses(self, model: ModelFile) -> str | None:
        from .program import read_program

        try:
            read_program(model.model, model.model.default_shape)
        except RknnError as error:
            return str(error)
        return None

    def open(self, model: ModelFile, options: OpenOptions) -> Context:
        """Raises ModelInvalid, ModelUnsupported, DeviceUnavailable, OutOfMemory, ParamInvalid, TargetPlatformUnmatch."""
        from .context import NpuContext
        from .kernel.devices import find_device, open_transport
        from .opened_model import OpenedModel
        from .transport import SharedTransport

        check_options(self.name, options.extra)
        found = find_device()
        if found is None or found.driver is None:
            raise DeviceUnavailable(self.probe().reason)
        transport = open_transport(found.path)
        try:
            opened = OpenedModel.of(self.name, model, options, transport.ends_pooling)
            opened.variant(model.model.default_shape)
        except BaseException:
            transport.close()
            raise
        return NpuContext(self.name, opened, SharedTransport(transport))
