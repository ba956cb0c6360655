"""The backend ``rknnrt``: a board's own runtime library.

What runs models is imported when one is opened: choosing a backend loads what probing needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rknnlite import config, socs
from rknnlite.errors import BackendUnavailable, ParamInvalid, TargetPlatformUnmatch
from rknnlite.formats import ModelFile
from rknnlite.log import logger
from rknnlite.spi import Backend, Context, OpenOptions, Probe
from rknnlite.spi.types import Options, check_options

if TYPE_CHECKING:
    from rknnlite.spi.matmul import MatmulContext, MatmulSpec

    from .loader import Library

__all__ = ["RknnrtBackend"]

_PRIORITY = 100


def load(explicit: Any = None) -> Library:
    """``loader.load``, imported when a library is looked for: most programs without a board name another backend."""
    from .loader import load as found

    return found(explicit)


class RknnrtBackend(Backend):
    """Runs models on the NPU through ``librknnrt.so`` (or ``librknnmrt.so``)."""

    name = "rknnrt"
    generation = "rknpu2"

    def probe(self) -> Probe:
        """Available when the library loads and the NPU's node can be opened, or when the library was named."""
        return self.probe_for(Options())

    def probe_for(self, options: Options) -> Probe:
        """``probe`` with the library that ``options`` name."""
        from . import device

        named = options.extra.get("library")
        try:
            library = load(named)
        except BackendUnavailable as error:
            return Probe(False, str(error))
        node = device.look()
        if node.problem and not (named or config.get("library")):
            return Probe(False, node.problem, 0, node.nodes, str(library.path), library.version)
        reason = f"{library.name} {library.version or 'of unknown version'} ({library.path})"
        return Probe(True, reason, _PRIORITY, node.nodes, str(library.path), library.version)

    def refuses(self, model: ModelFile) -> str | None:
        from .diagnose import is_foreign, platform_clash

        if is_foreign(model):
            return f"{model.label} is no RKNN model"
        return platform_clash(model, board())

    def open(self, model: ModelFile, options: OpenOptions) -> Context:
        """Load the model.

        Raises:
            LibraryNotFound and its like, TargetPlatformUnmatch, ParamInvalid (unknown SoC), and the typed error of
            what the library answers.
        """
        from .context import RknnrtContext
        from .diagnose import platform_clash
        from .settings import RknnrtSettings

        settings = RknnrtSettings.of(options)
        library = load(settings.library)
        here = board()
        wanted = socs.get(options.soc) if options.soc else None
        if here is not None and wanted is not None and wanted.name not in (here.name, *here.accepts):
            logger.warning(
                "%s was asked for, but this board is an %s: that runs the model", wanted.name, here.name
            )
        clash = platform_clash(model, here)
        if clash:
            raise TargetPlatformUnmatch(clash)
        return RknnrtContext(library, model, settings, options, here or wanted or _soc_of(model))

    def matmul(self, spec: MatmulSpec) -> MatmulContext:
        """A product on the NPU; raises what the library answers, with the limit of the SoC that explains it."""
        from rknnlite_backend.matmul import MATMUL_OPTIONS

        from .matmul import RknnrtMatmul

        check_options(self.name, spec.extra, MATMUL_OPTIONS)
        return RknnrtMatmul(load(spec.extra.get("library")), spec, board() or spec.soc or socs.get("rk3588"))


def board() -> socs.Soc | None:
    """The SoC of this machine by its device tree; None where it is unknown."""
    try:
        return socs.detect()
    except ParamInvalid:
        return None


def _soc_of(model: ModelFile) -> socs.Soc:
    """The SoC when neither the machine nor the caller says: the model's, else the commonest."""
    from .diagnose import metadata

    meta = metadata(model)
    for name in (meta.platform, *meta.platforms) if meta is not None else ():
        try:
            return socs.get(name)
        except ParamInvalid:
            continue
    return socs.get("rk3588")
