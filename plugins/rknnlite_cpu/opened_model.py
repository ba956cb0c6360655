"""What is fixed for a model once it is open, and the settings that a caller changes later."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Optional

from rknnlite_backend.zero_copy_context import lender

from rknnlite import config
from rknnlite.errors import ContextInvalid, ParamInvalid
from rknnlite.formats import NO_ATTRIBUTES, Attributes, Model, ModelFile
from rknnlite.log import level
from rknnlite.socs import Soc
from rknnlite.spi import OpenOptions, PostProcess

from .fidelity import Fidelity
from .kernels.threads import cores

if TYPE_CHECKING:
    from rknnlite_backend.cache_coherence import CacheCoherence
    from rknnlite_insight.dumps import DumpWriter, SideDump

__all__ = ["ContextSettings", "OpenedModel"]

_LOG_FIGURES, _LOG_TENSORS = 4, 5  # RKNN_LOG_LEVEL from which a run prints its table, writes its tensors
_MOST_LANES = 3  # the runtime keeps two copies of a context for a batch, so three items at most run at once


@dataclass(frozen=True)
class OpenedModel:
    """A file with the SoC that is played and the options it was opened with; duplicates share it as a whole."""

    file: ModelFile
    model: Model
    soc: Soc
    options: OpenOptions
    fidelity: Fidelity
    attributes: Attributes
    """Attributes of nodes that the caller gives, because the file has none."""
    logs: bool
    """The table of figures is logged after every run."""
    times: bool
    dumps: bool
    """Every run writes its tensors."""
    engine_name: Optional[str] = None
    """Of the engine that computes as long as nobody looks on; None: the fastest."""
    pixels_on_board: bool = False
    """Whether uint8 pixels are converted as the runtime has the NPU do it."""
    engine_precise: bool = True
    """Whether its integers of 8 bits are to be the numpy kernels' to the byte."""

    @classmethod
    def of(cls, file: ModelFile, soc: Soc, options: OpenOptions) -> OpenedModel:
        """Check the options; raises ParamInvalid, ModelInvalid."""
        model = file.model
        model.master = lender(file.label, options.extra.get("master"), model.dynamic)
        if options.core_mask:
            soc.check_core_mask(options.core_mask)
        asked = level() or 0
        logs = asked >= _LOG_FIGURES or options.verbose
        return cls(
            file=file,
            model=model,
            soc=soc,
            options=options,
            fidelity=Fidelity.of(options.extra.get("fidelity", Fidelity.SIMULATOR)),
            attributes=options.extra.get("attributes") or NO_ATTRIBUTES,
            logs=logs,
            times=logs or bool(options.extra.get("collect_perf")),
            dumps=asked >= _LOG_TENSORS,
            pixels_on_board=_pixels_on_board(options.extra.get("inputs")),
            engine_name=_engine_name(options.extra.get("engine")),
            engine_precise=_engine_precise(options.extra.get("engine_precise")),
        )

    @functools.cached_property
    def label(self) -> str:
        """What errors call the model."""
        return self.file.label

    @functools.cached_property
    def digest(self) -> str:
        """Of the file's bytes."""
        from .engines.engine_cache import digest_of

        return digest_of(self.file)

    @property
    def timing_note(self) -> str:
        """What a table of times says of itself."""
        note = "times of the CPU reference on this machine"
        return f"{note}, computed in float" if self.fidelity is Fidelity.FLOAT else note

    @property
    def outside(self) -> Optional[str]:
        """Which memory the caller gives: ``"all"``, ``"internal"``, or none."""
        return self.options.extra.get("outside")

    def check_runs(self) -> None:
        """Raise ContextInvalid where the context was opened for information only: it takes no data."""
        if self.options.extra.get("info_only"):
            raise ContextInvalid(
                f"{self.label} was opened with info_only=True: its context answers memory() and attributes only; open it "
                "without to run it"
            )

    def postprocess(self) -> PostProcess | None:
        """The plugin that the options name, one for each context."""
        given = self.options.extra.get("postprocess")
        if given is None:
            return None
        from .postprocess import chosen

        return chosen(given)

    def dump_writer(self, directory: str | os.PathLike[str]) -> DumpWriter:
        """Writes the tensors of a run that was asked for; raises ParamInvalid."""
        from rknnlite_insight.dumps import DumpWriter

        return DumpWriter(directory, **self._dump_info)

    def side_dump(self) -> SideDump:
        """Writes the tensors of an inference into a folder of the model's, and does not make it fail."""
        from rknnlite_insight.dumps import SideDump, default_folder

        return SideDump(default_folder(self.label), **self._dump_info)

    @property
    def _dump_info(self) -> dict[str, str]:
        return {
            "model": self.label,
            "backend": "cpu",
            "soc": self.soc.name,
            "fidelity": self.fidelity.value,
        }

    def coherence(self) -> CacheCoherence:
        """Caches that flush by themselves, unless the options leave that to the program."""
        from rknnlite_backend.cache_coherence import CacheCoherence

        return CacheCoherence(*(self.options.extra.get(f"flush_{way}puts", True) for way in ("in", "out")))


def _engine_name(given: object) -> Optional[str]:
    """See ``engines.choice.chosen``, which raises for a name that is not known or not installed."""
    if (given if given is not None else config.get("engine")) == "numpy":
        return "numpy"  # and nothing is loaded
    from .engines.choice import asked, chosen

    name: Optional[str] = asked(given)
    if name is not None:
        chosen(name)
    return name


def _pixels_on_board(given: object) -> bool:
    if given not in (None, "exact", "board"):
        raise ParamInvalid(f"inputs must be 'exact' or 'board', not {given!r}")
    return given == "board"


def _engine_precise(given: object) -> bool:
    return config.get("engine_precise") != "0" if given is None else bool(given)


@dataclass
class ContextSettings:
    """What may be changed while a context is open; a duplicate begins with a copy."""

    core_mask: int
    threads: int
    lanes: int = _MOST_LANES
    """Items of a batch that are computed side by side."""

    @classmethod
    def of(cls, options: OpenOptions) -> ContextSettings:
        """As the options say."""
        settings = cls(core_mask=options.core_mask or 0, threads=cores())
        settings.limit_threads(options.threads or cores())
        return settings

    def limit_threads(self, count: int) -> None:
        """Use at most ``count`` threads."""
        self.threads = max(1, min(count, cores()))
