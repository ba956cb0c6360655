"""The host: offers OpenCL to the operators of other hosts."""

from __future__ import annotations

from rknnlite.spi import GpuServices, OpHost, Probe

from .device import device, unavailable
from .services import OpenClServices

__all__ = ["OpenClHost"]


class OpenClHost(OpHost):
    """Loads no files itself; a compiled operator with target "gpu" comes in through the host of its library."""

    name = "opencl"

    def probe(self) -> Probe:
        reason = unavailable()
        if reason is not None:
            return Probe(False, reason)
        return Probe(True, f"OpenCL on {device().name}", devices=(device().name,))

    def gpu(self) -> GpuServices | None:
        return OpenClServices() if unavailable() is None else None
