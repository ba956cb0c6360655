"""The backends ``npu``, through the kernel's own interfaces, and ``npu-machine``, for programs that are to be held against it."""

from __future__ import annotations

from pathlib import Path

from rknnlite.errors import DeviceUnavailable, ModelUnsupported, RknnError
from rknnlite.formats import ModelFile
from rknnlite.log import logger
from rknnlite.spi import Backend, Context, OpenOptions, Probe
from rknnlite.spi.types import check_options

__all__ = ["KernelBackend", "MachineBackend"]

_DEVICES = ("/dev/accel", "/dev/dri")
_PRIORITY = -5  # behind the CPU: only when it is named


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
        return _refusal(model)

    def open(self, model: ModelFile, options: OpenOptions) -> Context:
        """Raises ModelInvalid, ModelUnsupported, MachineRefused, ParamInvalid, TargetPlatformUnmatch."""
        from rknnlite_graph.reading.npu_families import family_of

        from .context import NpuContext
        from .machine.refused import MachineRefused
        from .machine_transport import MachineTransport
        from .opened_model import OpenedModel
        from .transport import SharedTransport

        check_options(self.name, options.extra)
        opened = OpenedModel.of(self.name, model, options)
        opened.variant(model.model.default_shape)
        try:
            shared = SharedTransport(MachineTransport(model.model.family))
        except MachineRefused as refused:
            refused.model = model.label
            raise
        if not family_of(model.model.family).measured_on:
            logger.warning(
                "%s: backend 'npu-machine': registers and roundings of this NPU family are inferred from files and their "
                "answers in the vendor's simulator; nobody has measured them on a chip",
                model.label,
            )
        return NpuContext(self.name, opened, shared)


class KernelBackend(Backend):
    """Experimental: no chip has confirmed it. It is never chosen by itself.

    A model that meets a device for the first time is compared with the chip's arithmetic, and what differs is warned of.
    """

    name = "npu"
    generation = "rknpu2"

    def probe(self) -> Probe:
        absent = "no device of an NPU with the driver rocket (Linux 6.18) or rknpu (the vendor's kernels)"
        if not any(True for folder in _DEVICES for _ in Path(folder).glob("*")):
            return Probe(False, absent, _PRIORITY)  # without what opens devices
        from .kernel.devices import find_device

        found = find_device()
        if found is None:
            return Probe(False, absent, _PRIORITY)
        if found.driver is None:
            return Probe(False, found.reason, _PRIORITY)
        reason = f"{found.path}, driver {found.driver}, experimental: no board has confirmed it"
        return Probe(True, reason, priority=_PRIORITY, devices=(found.path,))

    def refuses(self, model: ModelFile) -> str | None:
        return _refusal(model)

    def open(self, model: ModelFile, options: OpenOptions) -> Context:
        """Raises ModelInvalid, ModelUnsupported, DeviceUnavailable, OutOfMemory, ParamInvalid, TargetPlatformUnmatch."""
        from .kernel.devices import find_device
        from .kernel.self_test import device_key, verdict_of

        check_options(self.name, options.extra)
        found = find_device()
        if found is None or found.driver is None:
            raise DeviceUnavailable(self.probe().reason)
        path = found.path
        context = self._open(path, model, options)
        try:
            device = device_key(str(found.driver), context.soc.name)
            verdict = verdict_of(model, device, lambda: self._open(path, model, OpenOptions()))
            if not verdict.agrees:
                logger.warning("%s: %s (backend npu)", model.label, verdict)
        except ModelUnsupported as error:  # the CPU does not compute it
            logger.warning(
                "%s: could not be compared with the chip's arithmetic: %s (backend npu)", model.label, error
            )
        except BaseException:
            context.close()
            raise
        return context

    def _open(self, path: str, model: ModelFile, options: OpenOptions) -> Context:
        """On the device at ``path``."""
        from .context import NpuContext
        from .kernel.devices import open_transport
        from .opened_model import OpenedModel
        from .transport import SharedTransport

        transport = open_transport(path)
        try:
            opened = OpenedModel.of(self.name, model, options, transport.ends_pooling)
            opened.variant(model.model.default_shape)
        except BaseException:
            transport.close()
            raise
        return NpuContext(self.name, opened, SharedTransport(transport))


def _refusal(model: ModelFile) -> str | None:
    """Why its command words cannot be run; None where they can."""
    from .program import read_program

    try:
        read_program(model.model, model.model.default_shape)
    except RknnError as error:
        return str(error)
    return None
