"""Who computes: the one choice of a backend, for models, language models and matrix products alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Optional

from . import config, plugins, socs
from .errors import BackendUnavailable
from .formats import ModelFile
from .log import logger
from .spi.backend import Backend
from .spi.plugin_problems import why_left_out
from .spi.types import Device, Options

__all__ = ["choose_backend", "choose_llm_backend", "choose_matmul_backend", "devices"]

_NO_OPTIONS = Options()


class _Task(NamedTuple):
    """What a backend is wanted for.

    ``method`` is the one of ``Backend`` that does it; a backend that leaves it as it is cannot. ``refusal`` says why
    a backend cannot do it with this file, ``check`` raises what is wrong with the file itself. The rest are words.
    """

    method: str
    doing: str
    incapable: str
    fallback: str = "no NPU runtime here: running on the CPU reference"
    refusal: Callable[[Backend], Optional[str]] = lambda backend: None
    check: Callable[[], Any] = lambda: None

    def can(self, backend: Backend) -> bool:
        """Whether the backend does such things at all."""
        if self.method == "open" and not backend.runs_networks:
            return False
        return getattr(type(backend), self.method) is not getattr(Backend, self.method)


def choose_backend(model: ModelFile, name: str | None = None, options: Options = _NO_OPTIONS) -> Backend:
    """The backend for a model: ``name``, else ``RKNNLITE_BACKEND``, else the best one available.

    The best one has the highest priority of those that are available for these options, stand for the generation of
    the SoC that the options name, and do not refuse the model. A backend that is named but cannot be used is an error
    with its reason, never a silent fallback.

    Raises:
        BackendUnavailable: nothing can run it; the text has the reason of every backend and plugin.
        ParamInvalid: an unknown SoC. ModelInvalid: the file is refused by all, and damaged.
    """
    task = _Task(
        "open",
        "run models",
        "runs no models",
        refusal=lambda backend: backend.refuses(model),
        check=lambda: model.model,
    )
    return _choose(task, name, options)


def choose_llm_backend(model: ModelFile, name: str | None = None, options: Options = _NO_OPTIONS) -> Backend:
    """``choose_backend`` for a language model."""
    task = _Task(
        "open_llm",
        "run language models",
        "runs no language models",
        fallback="no RK182x here: running on the CPU reference",
        refusal=lambda backend: backend.refuses_llm(model),
        check=model.check_package,
    )
    return _choose(task, name, options)


def choose_matmul_backend(name: str | None = None, options: Options = _NO_OPTIONS) -> Backend:
    """``choose_backend`` for matrix products."""
    task = _Task(
        "matmul",
        "multiply",
        "has no matmul",
        fallback="no NPU runtime here: multiplying on the CPU reference",
    )
    return _choose(task, name, options)


def devices() -> dict[str, tuple[Device, ...]]:
    """What a ``device_id`` can name, by backend; nothing of one that raises against its contract, or ended a process."""
    found: dict[str, tuple[Device, ...]] = {}
    for name, backend in plugins.backends().items():
        if why_left_out(name, "its probe"):
            continue
        try:
            found[name] = tuple(backend.devices())
        except Exception as error:
            logger.warning("backend %s: its devices cannot be listed: %s", name, error)
    return found


def _choose(task: _Task, name: str | None, options: Options) -> Backend:
    generation = socs.get(options.soc).generation if options.soc else None
    name = name or config.get("backend")
    if name:
        return _named(task, name, options)
    reasons, able = [], []
    for backend in plugins.backends().values():
        if generation not in (None, *backend.generations):
            continue
        if task.can(backend):
            able.append((plugins.probe(backend, options), backend))
        else:
            reasons.append(f"{backend.name}: {task.incapable}")
    able.sort(key=lambda pair: -pair[0].priority)
    usable = [(probe, backend) for probe, backend in able if probe.available]
    reasons += [f"{backend.name}: {probe.reason}" for probe, backend in able if not probe.available]
    for probe, backend in usable:
        if task.refusal(backend) is None:
            if probe.priority <= 0:
                logger.warning("%s (backend %s)", task.fallback, backend.name)
            return backend
    if usable:
        task.check()
        return usable[0][1]  # the best one says what is wrong, with its own typed error
    why = "".join(f"; {reason}" for reason in reasons) + plugins.blame("backend")
    raise BackendUnavailable(f"no backend can {task.doing} here{why or '; no plugin is installed'}")


def _named(task: _Task, name: str, options: Options) -> Backend:
    backend = plugins.backend(name)
    if not task.can(backend):
        raise BackendUnavailable(f"backend {name} cannot be used here: it {task.incapable}")
    probe = plugins.probe(backend, options)
    if not probe.available:
        raise BackendUnavailable(f"backend {name} cannot be used here: {probe.reason}")
    return backend
