"""The backends ``npu``, through the kernel's own interfaces, and ``npu-machine``, for programs that are to be held against it."""

from __future__ import annotations

from rknnlite import socs
from rknnlite.errors import DeviceUnavailable, ModelUnsupported, RknnError
from rknnlite.formats import ModelFile
from rknnlite.log import logger
from rknnlite.spi import Backend, Context, OpenOptions, Probe
from rknnlite.spi.types import check_options

__all__ = ["KernelBackend", "MachineBackend"]

_DEVICES = ("/dev/accel", "/dev/dri")
_PROVEN = frozenset({"rk3588"})
"""Chips that the chip's arithmetic and the drivers' ways are known of."""
_PRIORITY = 50  # behind the vendor's library, before the CPU


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
        from .context import NpuContext
        from .machine_transport import MachineTransport
        from .opened_model import OpenedModel
        from .transport import SharedTransport

        check_options(self.name, options.extra)
        opened = OpenedModel.of(self.name, model, options)
        opened.variant(model.model.default_shape)
        return NpuContext(self.name, opened, SharedTransport(MachineTransport(model.model.family)))


class KernelBackend(Backend):
    """Experimental: no chip has confirmed it.

    Named, it runs what it can, and warns of what was found different. Chosen by itself it runs models alone whose layers were
    found equal to the chip's arithmetic on this very device.
    """

    name = "npu"
    generation = "rknpu2"

    def probe(self) -> Probe:
        from .kernel.devices import find_device

        found = find_device()
        if found is None:
            return Probe(
                False,
                "no device of an NPU; Linux 6.18 has the driver rocket for it, the vendor's kernels have rknpu",
            )
        if found.driver is None:
            return Probe(False, found.reason)
        reason = f"{found.path}, driver {found.driver}, experimental: no board has confirmed it"
        return Probe(True, reason, priority=_PRIORITY, devices=(found.path,))

    def refuses(self, model: ModelFile) -> str | None:
        """Compares the model with the CPU when it meets the device for the first time."""
        from .kernel.self_test import verdict_of

        soc = socs.detect()
        if soc is None or soc.name not in _PROVEN:
            name = "this board" if soc is None else soc.name
            return f"nothing is known of this kernel's NPU on {name}; backend='npu' tries it all the same"
        try:
            verdict = verdict_of(model, self._device(soc.name), lambda: self._open(model, OpenOptions()))
        except RknnError as error:
            return str(error)
        return None if verdict.agrees else f"{verdict}; backend='npu' runs it all the same"

    def _device(self, soc: str) -> str:
        from .kernel.devices import find_device
        from .kernel.self_test import device_key

        found = find_device()
        if found is None or found.driver is None:
            raise DeviceUnavailable(self.probe().reason)
        return device_key(str(found.driver), soc)

    def open(self, model: ModelFile, options: OpenOptions) -> Context:
        """Raises ModelInvalid, ModelUnsupported, DeviceUnavailable, OutOfMemory, ParamInvalid, TargetPlatformUnmatch."""
        from .kernel.self_test import verdict_of

        context = self._open(model, options)
        try:
            device = self._device(context.soc.name)
            verdict = verdict_of(model, device, lambda: self._open(model, OpenOptions()))
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

    def _open(self, model: ModelFile, options: OpenOptions) -> Context:
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
