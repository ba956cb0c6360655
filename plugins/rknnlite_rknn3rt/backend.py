"""The backend ``rknn3rt``: an RK1820 or RK1828 beside this host.

What runs models is imported when one is opened: choosing a backend loads what probing needs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rknnlite import config
from rknnlite.errors import BackendUnavailable, ModelInvalid, ModelUnsupported, RknnError
from rknnlite.formats import ModelFile
from rknnlite.spi import Backend, Context, Device, OpenOptions, Probe
from rknnlite.spi.types import Options

if TYPE_CHECKING:
    from rknnlite.spi.llm import LlmContext, LlmOptions

    from .loader import Library
    from .settings import Rknn3rtSettings

__all__ = ["Rknn3Backend"]

_PRIORITY = 100
_MAGIC = b"RKNX"


class Rknn3Backend(Backend):
    """Runs networks and language models on a coprocessor through ``librknn3_api.so``."""

    name = "rknn3rt"
    generation = "rknpu3"

    def probe(self) -> Probe:
        """Available when the library loads and a coprocessor is there, or when the library was named."""
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
        from .device import find_devices

        try:
            devices = tuple(device.id for device in find_devices(library))
            problem = "" if devices else "no coprocessor is plugged in"
        except RknnError as error:
            devices, problem = (), f"coprocessors cannot be listed: {error}"
        if problem and not (named or config.get("rknn3_library")):
            return Probe(False, problem, 0, (), *where)
        reason = f"{library.name} {library.version or 'of unknown version'} ({library.path})"
        return Probe(True, reason, _PRIORITY, devices, *where)

    def devices(self) -> list[Device]:
        """The coprocessors that are plugged in; none where they cannot be listed."""
        from .loader import load

        try:
            library = load()
        except BackendUnavailable:
            return []
        from .device import find_devices

        try:
            return find_devices(library)
        except RknnError:
            return []

    def refuses(self, model: ModelFile) -> str | None:
        return None if _is_for_coprocessor(model) else f"{model.label} is no model for RK1820/RK1828"

    def refuses_llm(self, model: ModelFile) -> str | None:
        return self.refuses(model)

    def open(self, model: ModelFile, options: OpenOptions) -> Context:
        """Load a network.

        Raises:
            LibraryNotFound and its like, ModelUnsupported, and the typed error of what the library answers.
        """
        from .context import Rknn3Context

        library, settings = self._ready(model, options)
        settings = replace(settings, timeout_ms=options.timeout_ms or settings.timeout_ms)
        return Rknn3Context(library, model, options.weights or _beside(model), settings, options)

    def open_llm(self, model: ModelFile, weights: ModelFile | None, options: LlmOptions) -> LlmContext:
        """Load a language model.

        Raises:
            LibraryNotFound and its like, ModelUnsupported, and the typed error of what the library answers.
        """
        from .llm.context import Rknn3LlmContext

        library, settings = self._ready(model, options)
        return Rknn3LlmContext(library, model, weights or _beside(model), settings, options)

    def _ready(self, model: ModelFile, options: Options) -> tuple[Library, Rknn3rtSettings]:
        """The library, and the settings with the device that is meant."""
        from .device import choose_device
        from .loader import load
        from .settings import Rknn3rtSettings

        self._check(model)
        settings = Rknn3rtSettings.of(options.extra)
        library = load(settings.library)
        device = choose_device(library, options.device_id or settings.device_id, options.soc)
        return library, replace(settings, device_id=device)

    def _check(self, model: ModelFile) -> None:
        if not _is_for_coprocessor(model):
            raise ModelUnsupported(
                f"{model.label} is no model for RK1820/RK1828 (it starts with {bytes(model.data[:8])!r}); convert the "
                "network with the coprocessor's toolkit, or choose another backend"
            )


def _is_for_coprocessor(model: ModelFile) -> bool:
    try:
        return bytes(model.data[:4]) == _MAGIC
    except ModelInvalid:
        return False


def _beside(model: ModelFile) -> ModelFile | None:
    """``PREFIX.weight`` beside the model, if it is there."""
    beside = model.path.with_suffix(".weight") if model.path is not None else None
    return ModelFile(beside) if beside is not None and beside.is_file() else None
