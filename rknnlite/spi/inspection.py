"""What a library knows of model files beyond what their containers say, for ``info``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Optional

if TYPE_CHECKING:
    from ..formats import ModelFile
    from .command import Part

__all__ = ["Description", "Inspector"]


class Description(NamedTuple):
    """What ``info`` adds to its own: ``data`` for JSON; lines below the facts, below the tensors, and at the end."""

    data: dict[str, Any]
    facts: list[Part]
    tensors: list[Part]
    rest: list[Part]


class Inspector:
    """Looks into model files. A plugin registers an instance in ``rknnlite_register_inspectors``."""

    name: str = ""
    topic: str = ""
    """The option of ``info`` that asks for what this one tells; "": always told."""

    def describe(self, file: ModelFile, check: bool) -> Optional[Description]:
        """What it knows of a file, None where it knows nothing of such files; ``check``: also what is doubtful.

        Raises ModelInvalid for a file that cannot be used at all.
        """
        return None

    def layers(self, file: ModelFile, mask: int) -> Optional[Any]:
        """What each layer costs by the file alone: a ``rknnlite_backend.perf.PerfTable``; None from all but ``npu``.

        Raises RknnError for a file that does not tell.
        """
        return None
