"""Fleets of boards on Ray: models in ``ray.data`` pipelines and behind Ray Serve, and ``rknnlite fleet``.

>>> from rknnlite_ray import RknnPredictor, map_arguments
>>> names = dataset.map_batches(RknnPredictor, **map_arguments("model.rknn", workers=3))     # doctest: +SKIP
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rknnlite import hookimpl

if TYPE_CHECKING:
    from rknnlite.spi.command import Command

    from .placement import CORE, check_offered, map_arguments, offered, wanted
    from .predictor import RknnPredictor
    from .problems import typed_errors
    from .results import Results
    from .serving import deployment

__all__ = [
    "CORE",
    "Results",
    "RknnPredictor",
    "check_offered",
    "deployment",
    "map_arguments",
    "offered",
    "rknnlite_register_commands",
    "typed_errors",
    "wanted",
]

_MODULES = {
    "CORE": "placement",
    "Results": "results",
    "RknnPredictor": "predictor",
    "check_offered": "placement",
    "deployment": "serving",
    "map_arguments": "placement",
    "offered": "placement",
    "typed_errors": "problems",
    "wanted": "placement",
}


@hookimpl
def rknnlite_register_commands(register: Callable[[Command], None]) -> None:
    """Offer ``rknnlite fleet``, which needs no Ray."""
    from rknnlite.libraries import commands_of

    for command in commands_of("ray"):
        register(command)


def __getattr__(name: str) -> Any:
    """What programs use, imported when they do: every start of rknnlite passes here."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_MODULES[name]}", __name__), name)
