"""The backends ``npu``, through the kernel's own interfaces, and ``npu-machine``, for programs that are to be held against it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rknnlite import socs
from rknnlite.errors import DeviceUnavailable, ModelUnsupported, OutOfMemory, ParamInvalid, RknnError
from rknnlite.formats import ModelFile
from rknnlite.log import logger
from rknnlite.spi import Backend, Context, OpenOptions, Probe
from rknnlite.spi.types import Options, check_options

if TYPE_CHECKING:
    from rknnlite.native.board import Board
    from rknnlite.socs import Soc
    from rknnlite.spi.finding import Finding

    from .kernel.devices import FoundDevice
    from .kernel.verdicts import Record, Verdict

__all__ = ["KernelBackend", "MachineBackend", "board_soc", "device"]

_DEVICES = ("/dev/accel", "/dev/dri")
_NODE = Path("/dev/rknpu")
_CHOSEN = 50  # behind the vendor's library, before the CPU
_NAMED = -5  # behind the CPU


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
    """Experimental: no chip has confirmed it.

    Named, it runs what it can, and warns of what was found different. Chosen by itself it runs models alone of which something
    is known on this chip, and whose layers agree with the chip's arithmetic on this very device.
    """

    name = "npu"
    generation = "rknpu2"

    def probe(self) -> Probe:
        absent = "no device of an NPU with the driver rocket (Linux 6.18) or rknpu (the vendor's kernels)"
        if not _NODE.exists() and not any(True for folder in _DEVICES for _ in Path(folder).glob("*")):
            return Probe(False, absent, _NAMED)  # without what opens devices
        from .kernel.device_nodes import device_nodes

        if not any(True for _ in device_nodes()):
            return Probe(False, absent, _NAMED)
        from .kernel.devices import find_device
        from .kernel.evidence import MEASURED

        found = find_device()
        if found is None:
            return Probe(False, absent, _NAMED)
        if found.driver is None:
            return Probe(False, found.reason, _NAMED)
        here = board_soc()
        if here is None or here.name not in MEASURED:
            reason, priority = "only when it is named: nobody has measured this chip", _NAMED
        else:
            reason, priority = "for models that agree with the CPU here", _CHOSEN
        reason = f"{found.path}, driver {found.driver}, experimental, {reason}"
        return Probe(True, reason, priority=priority, devices=(found.path,))

    def probe_for(self, options: Options) -> Probe:
        """A model without weights goes where its master is."""
        found, master = self.probe(), options.extra.get("master")
        if master is None or getattr(master, "backend_name", None) == self.name:
            return found
        return found._replace(priority=_NAMED)

    def refuses(self, model: ModelFile) -> str | None:
        """Compares the model with the CPU when it meets the device for the first time; told in the log what comes of it."""
        from rknnlite.runtime import known_ops

        from .kernel.evidence import lacking_evidence, needs_master

        if needs_master(model):
            return None
        reason = lacking_evidence(model, board_soc())
        if not reason:
            try:
                found = device()
                verdict = self._verdict(found, model, OpenOptions(custom_ops=known_ops(())))
                reason = "" if verdict.agrees else str(verdict)
            except RknnError as error:
                reason = str(error)
        if not reason:
            return None
        reason = f"{reason}; backend='npu' runs it all the same"
        logger.warning("%s: not on the NPU: %s", model.label, reason)
        return reason

    def open(self, model: ModelFile, options: OpenOptions) -> Context:
        """Raises ModelInvalid, ModelUnsupported, DeviceUnavailable, OutOfMemory, ParamInvalid, TargetPlatformUnmatch."""
        from .opened_model import soc_of

        check_options(self.name, options.extra)
        found, here = device(), board_soc()
        logger.info("%s: backend npu is experimental: no board has confirmed it", model.label)
        context = self.open_on(found.path, model, options)
        try:
            if here is not None:
                soc_of(model, here.name)  # words for another NPU are never right
            if options.extra.get("master") is not None:
                raise ModelUnsupported("its weights are another model's")
            verdict = self._verdict(found, model, options, insist=True)
            if not verdict.agrees:
                logger.warning("%s: %s (backend npu)", model.label, verdict)
        except (
            ModelUnsupported,
            OutOfMemory,
        ) as error:  # the CPU does not compute it, or there is no room for both
            logger.warning(
                "%s: could not be compared with the chip's arithmetic: %s (backend npu)", model.label, error
            )
        except BaseException:
            context.close()
            raise
        return context

    def known(self, model: ModelFile) -> tuple[bool | None, str]:
        """Whether a model agrees with the CPU on the device that is here, and in words; None: it was not compared.

        Runs nothing. Raises DeviceUnavailable, TargetPlatformUnmatch, ModelInvalid.
        """
        from .kernel.evidence import lacking_evidence
        from .opened_model import soc_of

        here = board_soc()
        if here is not None:
            soc_of(model, here.name)
        verdict = _record(device(), model).verdict()
        if verdict is not None:
            return verdict.agrees, str(verdict)
        why = lacking_evidence(model, here)
        return None, why or "not compared with the CPU on this device yet: that is done when it is opened"

    def findings(self, board: Board, model: ModelFile | None = None) -> Iterator[Finding]:
        """The device, who may use it, and what was found of models on it."""
        if model is None:
            from .kernel.findings import findings

            yield from findings(board)

    def _verdict(
        self, found: FoundDevice, model: ModelFile, options: OpenOptions, insist: bool = False
    ) -> Verdict:
        """What a comparison finds, or has found; ``options``: operators are theirs."""
        record = _record(found, model)
        known = record.verdict()
        if known is not None:
            return known
        from .kernel.self_test import first_verdict

        plain = OpenOptions(custom_ops=options.custom_ops)
        return first_verdict(
            model, record, lambda: self.open_on(found.path, model, plain), options.custom_ops, insist
        )

    def open_on(self, path: str, model: ModelFile, options: OpenOptions) -> Context:
        """Open on the device at ``path``, without a comparison. Raises as ``open``."""
        from .context import NpuContext
        from .kernel.devices import open_transport
        from .kernel.one_job import FAMILIES
        from .opened_model import OpenedModel
        from .transport import SharedTransport

        transport = open_transport(path, model.model.family)
        try:
            opened = OpenedModel.of(self.name, model, options, transport.ends_pooling)
            opened.variant(model.model.default_shape)
        except BaseException:
            transport.close()
            raise
        alone = transport.divides or model.model.family in FAMILIES
        another = None if alone else lambda: open_transport(path, model.model.family)
        return NpuContext(self.name, opened, SharedTransport(transport, another))


def device() -> FoundDevice:
    """The NPU's, which has a driver; raises DeviceUnavailable."""
    from .kernel.devices import find_device

    found = find_device()
    if found is None or found.driver is None:
        raise DeviceUnavailable(KernelBackend().probe().reason)
    return found


def _record(found: FoundDevice, model: ModelFile) -> Record:
    """What is kept of a model on a device."""
    from .kernel.verdicts import Record, device_key
    from .opened_model import soc_of

    return Record(model, device_key(str(found.driver), soc_of(model, None).name))


def board_soc() -> Soc | None:
    """The SoC of this machine; None where it is unknown."""
    try:
        return socs.detect()
    except ParamInvalid:
        return None


def _refusal(model: ModelFile) -> str | None:
    """Why its command words cannot be run; None where they can."""
    from .program import read_program

    try:
        read_program(model.model, model.model.default_shape)
    except RknnError as error:
        return str(error)
    return None
