"""The backend ``rkllm``: language models on the NPU of an RK3588, RK3576, RK3562 or RV1126B."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from rknnlite.errors import BackendUnavailable, ModelInvalid, ModelUnsupported, RknnError
from rknnlite.formats import ModelFile
from rknnlite.spi import Backend, Context, OpenOptions, Probe
from rknnlite.spi.types import Options

if TYPE_CHECKING:
    from rknnlite.native.board import Board
    from rknnlite.spi.finding import Finding
    from rknnlite.spi.llm import LlmContext, LlmOptions

__all__ = ["RkllmBackend"]

_PRIORITY = 90
"""Below the backend of networks, which is the better one to name what is wrong with a network."""


class RkllmBackend(Backend):
    """Runs ``.rkllm`` files through ``librkllmrt.so``; other models are other backends'."""

    name = "rkllm"
    generation = "rknpu2"
    runs_networks = False

    def probe(self) -> Probe:
        """Available when there is a library whose version is known; nothing of it is loaded."""
        return self.probe_for(Options())

    def probe_for(self, options: Options) -> Probe:
        """``probe`` with the library that ``options`` name."""
        from .loader import find

        extra = options.extra
        try:
            identity = find(extra.get("library"), extra.get("version"))
        except (BackendUnavailable, OSError) as error:
            return Probe(False, str(error))
        reason = f"librkllmrt {identity.version}, told by {identity.how} ({identity.path})"
        return Probe(True, reason, _PRIORITY, (), str(identity.path), identity.version)

    def refuses(self, model: ModelFile) -> str | None:
        return f"{model.label}: backend rkllm runs language models (.rkllm) only"

    def open(self, model: ModelFile, options: OpenOptions) -> Context:
        """Refused: a network is another backend's."""
        raise ModelUnsupported(
            f"{model.label}: backend rkllm runs language models (.rkllm) only; use rknnlite.open_llm"
        )

    def refuses_llm(self, model: ModelFile) -> str | None:
        from rknnlite.formats.rkllm import is_rkllm

        try:
            return None if is_rkllm(model.path, model.data) else f"{model.label} is no .rkllm file"
        except ModelInvalid as error:
            return str(error)

    def open_llm(self, model: ModelFile, weights: ModelFile | None, options: LlmOptions) -> LlmContext:
        """Look at file, board and library; sessions load the model.

        Raises:
            LibraryNotFound, LibraryUnknown and their like, ModelInvalid, ModelUnsupported, TargetPlatformUnmatch,
            DeviceUnmatch for a driver that computes garbage, ParamInvalid.
        """
        from rknnlite.native.board import Board

        from .context import RkllmContext
        from .loader import find
        from .settings import RkllmSettings

        refusal = self.refuses_llm(model)
        if refusal is not None:
            raise ModelUnsupported(f"{refusal}; backend rkllm opens files of the vendor's rkllm-toolkit")
        settings = RkllmSettings.of(options.extra)
        return RkllmContext(find(settings.library, settings.version), model, settings, Board())

    def findings(self, board: Board, model: ModelFile | None = None) -> Iterator[Finding]:
        """Library, driver and SoC; or what is wrong with a model on this machine."""
        from rknnlite.spi.finding import Level

        from . import checks
        from .loader import find

        if model is not None:
            if self.refuses_llm(model) is None:
                yield from (finding for _, finding in checks.of_file(model, board))
            return
        try:
            abi = find().abi
        except RknnError:
            return  # the line of the backend says so
        for _, finding in checks.of_board(board, abi):  # a failure of a model, not of the machine
            level = Level.WARN if finding.level is Level.FAIL else finding.level
            yield replace(finding, level=level)
