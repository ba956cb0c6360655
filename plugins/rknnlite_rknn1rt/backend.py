"""The backend ``rknn1rt``: RK1808, RV1109, RV1126 by their own runtime library, RK3399Pro and USB devices from a host.

What runs models is imported when one is opened: choosing a backend loads what probing needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rknnlite import config, socs
from rknnlite.errors import (
    BackendUnavailable,
    ModelInvalid,
    ModelUnsupported,
    ParamInvalid,
    RknnError,
    TargetPlatformUnmatch,
)
from rknnlite.formats import Model, ModelFile
from rknnlite.spi import Backend, Context, Device, OpenOptions, Probe
from rknnlite.spi.types import Options

if TYPE_CHECKING:
    from .loader import Library

__all__ = ["Rknn1Backend"]

_PRIORITY = 100
_GENERATION = "rknpu1"
_ENCRYPTED = b"CYPTRKNN"


class Rknn1Backend(Backend):
    """Runs files of RKNN-Toolkit 1, pre-compiled ones included, through ``librknn_api.so``."""

    name = "rknn1rt"
    generation = _GENERATION

    def probe(self) -> Probe:
        """Available when the library loads on such a board, or a device is plugged in, or the library was named."""
        return self.probe_for(Options())

    def probe_for(self, options: Options) -> Probe:
        """``probe`` with the library that ``options`` name."""
        from .loader import load

        named = options.extra.get("library")
        try:
            library = load(named)
        except BackendUnavailable as error:
            return Probe(False, str(error))
        where = str(library.path), library.version
        devices, problem = _look(library)
        if problem and not (named or config.get("rknn1_library")):
            return Probe(False, problem, 0, (), *where)
        reason = f"{library.name} {library.version or 'of unknown version'}, {library.flavour.value} ({library.path})"
        return Probe(True, reason, _PRIORITY, devices, *where)

    def devices(self) -> list[Device]:
        """What is plugged into a host; none on a board, or where devices cannot be listed."""
        from .device import find_devices
        from .loader import load

        try:
            return find_devices(load())
        except RknnError:
            return []

    def refuses(self, model: ModelFile) -> str | None:
        try:
            found = model.model
        except ModelInvalid as error:
            return None if bytes(model.data[:8]) == _ENCRYPTED else str(error)
        return _clash(model, found, None)

    def open(self, model: ModelFile, options: OpenOptions) -> Context:
        """Load the model.

        Raises:
            LibraryNotFound and its like, ModelInvalid, TargetPlatformUnmatch, ParamInvalid, and the typed error of
            what the library answers.
        """
        from .abi import Flavour
        from .context import Rknn1Context
        from .loader import load
        from .settings import Rknn1rtSettings

        settings = Rknn1rtSettings.of(options)
        library = load(settings.library)
        settings.check(library.flavour)
        here = _board() if library.flavour is Flavour.BOARD else None
        wanted = socs.get(options.soc) if options.soc else None
        found = None if settings.load_model_in_npu else _metadata(model)
        clash = found and _clash(model, found, here)
        if clash:
            raise TargetPlatformUnmatch(clash)
        return Rknn1Context(library, model, settings, options, here or wanted or _soc_of(found))

    def legacy_matmul(
        self, a: Any, b: Any, transpose_b: bool = False, driver: str = "full", transpose_a: bool = False
    ) -> Any:
        """Computed on the CPU: needs no library and no device."""
        from .matmul import legacy_matmul

        return legacy_matmul(a, b, transpose_b, driver, transpose_a)


def _look(library: Library) -> tuple[tuple[str, ...], str]:
    """Devices of a host, and what keeps the NPU from being used."""
    from .abi import Flavour
    from .device import find_devices

    if library.flavour is Flavour.HOST:
        try:
            devices = tuple(device.id for device in find_devices(library))
        except RknnError as error:
            return (), f"devices cannot be listed: {error}"
        return devices, "" if devices else "no device of the first NPU generation is plugged in; plug one in"
    try:
        here = socs.detect()
    except ParamInvalid:
        here = None
    if here is None or here.generation != _GENERATION:
        what = f"an {here.name}" if here else "no board that is known"
        return (), f"librknn_api is here, but this is {what}; it drives RK1808, RV1109 and RV1126"
    return (), ""


def _board() -> socs.Soc | None:
    """The SoC of this machine where it is one of this generation; None elsewhere."""
    try:
        here = socs.detect()
    except ParamInvalid:
        return None
    return here if here is not None and here.generation == _GENERATION else None


def _metadata(file: ModelFile) -> Model | None:
    """What the file says; None of an encrypted one, which only the library reads. Raises ModelInvalid."""
    try:
        return file.model
    except ModelUnsupported:
        if bytes(file.data[:8]) == _ENCRYPTED:
            return None
        raise


def _clash(file: ModelFile, model: Model, soc: socs.Soc | None) -> str | None:
    """Why librknn_api, or this board, does not run the model."""
    if model.generation != _GENERATION:
        return (
            f"{file.label} was made by rknn-toolkit2 for {'/'.join(model.platforms) or model.platform}; librknn_api runs "
            "files of RKNN-Toolkit 1: open it with backend rknnrt on its board, or with backend cpu"
        )
    if soc is None or set(model.platforms) & set(soc.accepts):
        return None
    return (
        f"{file.label} was built for {'/'.join(model.platforms)}, this board is an {soc.name}; convert it with "
        f"target_platform=['{soc.name}']"
    )


def _soc_of(model: Model | None) -> socs.Soc:
    """The SoC when neither the machine nor the caller says: the model's, else the first of the generation."""
    for name in model.platforms if model is not None else ():
        try:
            return socs.get(name)
        except ParamInvalid:
            continue
    return socs.get("rk1808")
