"""Which engine computes a model on this machine, for ``info``."""

from __future__ import annotations

from typing import Optional

from rknnlite_graph.graph import Graph
from rknnlite_graph.read import told_graph

from rknnlite.errors import RknnError
from rknnlite.formats import NO_ATTRIBUTES, ModelFile, is_package
from rknnlite.formats.rkllm import is_rkllm
from rknnlite.spi.command import Line
from rknnlite.spi.inspection import Description, Inspector

from ..fidelity import Fidelity
from . import choice
from .engine_cache import digest_of
from .fastest import NUMPY, Subject, kept_choice, same_on_all

__all__ = ["EngineInspector"]


class EngineInspector(Inspector):
    """See the module. Nothing is loaded, proven or computed."""

    name = "engines"

    def describe(self, file: ModelFile, check: bool) -> Optional[Description]:
        """The engine of the first shape, without custom operators."""
        if is_package(file.data) or is_rkllm(file.path, file.data):
            return None
        try:
            graph = told_graph(file.model)
        except RknnError:  # which others tell
            return None
        name, told = _told(file, graph)
        return Description({"cpu_engine": name}, [Line(f"{'CPU engine:':15}{told}", hang=15)], [], [])


def _told(file: ModelFile, graph: Graph) -> tuple[str, str]:
    """The engine of a first frame, and a line about it."""
    asked = choice.asked(None)
    if asked is not None:
        return str(asked), f"{asked}, as the setting `engine` says"
    names = choice.candidates()
    if not names:
        return NUMPY, "numpy; no faster one is installed"
    others = " or ".join(names)
    if not same_on_all(graph):
        return names[0], f"{names[0]}, from the first frame on: parts of the network are computed in float"
    key = (digest_of(file), file.model.default_shape, Fidelity.SIMULATOR.value, sorted(NO_ATTRIBUTES.items()))
    kept = kept_choice(Subject(graph, file.label, frozenset(), key, file.check), names)
    if kept is None:
        return NUMPY, f"numpy at first; {others} if that is faster, tried while frames run"
    if kept.name == NUMPY:
        return NUMPY, f"numpy; {others} was no faster on this machine"
    return kept.name, f"{kept.name} for {kept.nodes} of {len(graph.nodes)} nodes, the fastest on this machine"
