"""Finds plugins and collects what they offer. Our own plugins come in by the same door as anybody's."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

import pluggy

from . import config, hookspecs
from .errors import BackendUnavailable, ParamInvalid
from .extras import EXTRAS, OWN_PLUGINS, EntryPoint, entry_points, missing
from .log import logger
from .spi import Backend
from .spi.arguments import typed
from .spi.custom_op import CustomOp, as_custom_op
from .spi.op_host import GpuServices, OpHost, PostProcess
from .spi.plugin_problems import Problem, forget_problems, known_problems, may_enter, note, why_left_out
from .spi.types import Options, Probe

if TYPE_CHECKING:
    from .spi.command import Command
    from .spi.inspection import Inspector

__all__ = [
    "GROUP",
    "NOT_INSTALLED",
    "SWITCHED_OFF",
    "backend",
    "backends",
    "blame",
    "by_type",
    "commands",
    "custom_ops",
    "entering",
    "gpu_services",
    "inspectors",
    "load_custom_ops",
    "load_postprocess",
    "manager",
    "offers",
    "op_hosts",
    "probe",
    "problem_list",
    "problems",
]

GROUP = "rknnlite"
"""Group of entry points, and project name for pluggy."""

NOT_INSTALLED = "not installed"
"""How the problem of a plugin begins that nobody has asked for; see ``_absent``."""

SWITCHED_OFF = "switched off by RKNNLITE_DISABLE"
"""The problem of a plugin that its user does not want."""


class _Manager(pluggy.PluginManager):
    """Looks for marks at functions of a module only; pluggy examines whatever lies in it at length."""

    def parse_hookimpl_opts(self, plugin: Any, name: str) -> Any:
        if _no_hook(plugin, name):
            return None
        own = vars(plugin)[name] if isinstance(plugin, ModuleType) and name in vars(plugin) else None
        if isinstance(own, FunctionType):  # its mark is all that pluggy would find, after a long look
            mark = vars(own).get(f"{GROUP}_impl")
            return mark if isinstance(mark, dict) else None
        return super().parse_hookimpl_opts(plugin, name)

    def parse_hookspec_opts(self, module_or_class: Any, name: str) -> Any:
        return None if _no_hook(module_or_class, name) else super().parse_hookspec_opts(module_or_class, name)


def _no_hook(holder: Any, name: str) -> bool:
    """Whether what a module has there cannot be a hook or its specification: no function, or one without a mark."""
    if not isinstance(holder, ModuleType) or name not in vars(holder):
        return False
    thing = vars(holder)[name]
    if isinstance(thing, FunctionType):
        return not {f"{GROUP}_impl", f"{GROUP}_spec"} & vars(thing).keys()
    return not isinstance(thing, (MethodType, classmethod, staticmethod))


_entered: list[str] = []


def entering() -> bool:
    """Whether plugins are being imported just now."""
    return bool(_entered)


@functools.cache
def manager() -> pluggy.PluginManager:
    """The one plugin manager; entry points are loaded on the first call.

    ``RKNNLITE_DISABLE`` (comma separated names) leaves plugins out. One that cannot be imported is named in
    a warning and skipped; the others work.
    """
    plugins = _Manager(GROUP)
    plugins.add_hookspecs(hookspecs)
    forget_problems()
    values: dict[str, str] = {}
    disabled = {name.strip() for name in (config.get("disable") or "").split(",") if name.strip()}
    for entry in _entry_points():
        if entry.name in disabled:
            note(entry.name, "import", SWITCHED_OFF)
            continue
        if plugins.has_plugin(entry.name):
            _check_twin(entry, values[entry.name])
            continue
        if not may_enter(entry.name, "import"):
            continue
        values[entry.name] = entry.value
        _entered.append(entry.name)
        try:
            plugin = entry.load()
            plugins.register(plugin, name=entry.name)
        except (Exception, SystemExit) as error:  # a script that was never meant to be imported exits
            if _absent(entry, error):
                package = OWN_PLUGINS[entry.name].debian
                note(entry.name, "import", f"{NOT_INSTALLED} (Debian: apt install {package})")
                continue
            reason = _line(error)
            note(entry.name, "import", f"{type(error).__name__}: {reason}")
            logger.warning(
                "plugin %s (%s) could not be loaded and is skipped: %s", entry.name, entry.value, reason
            )
            continue
        finally:
            _entered.pop()
        for number, mistake in enumerate(hookspecs.mistakes(plugin)):
            note(entry.name, f"mistake {number}", mistake, "correct that package")
            logger.warning("plugin %s: %s", entry.name, mistake)
    return plugins


def _check_twin(entry: EntryPoint, value: str) -> None:
    """Two packages whose entry points have one name; the same package found twice is no problem."""
    if entry.value != value:
        text = (
            f"two packages have an entry point of this name, {value} and {entry.value}; the second is skipped"
        )
        if note(entry.name, "twin", text, "remove one of them"):
            logger.warning("plugin %s: %s", entry.name, text)


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())


def _absent(entry: EntryPoint, error: BaseException) -> bool:
    """Whether it is a plugin of ours, which Debian packages alone: its entry point is there, its module may not be."""
    ours = entry.name in OWN_PLUGINS and entry.value == f"rknnlite_{entry.name}"
    return ours and isinstance(error, ModuleNotFoundError) and error.name == entry.value


def _entry_points() -> list[EntryPoint]:
    return entry_points(GROUP)


def problems() -> dict[str, str]:
    """Plugins that are not there, with the reason."""
    found: dict[str, list[str]] = {}
    for problem in problem_list():
        found.setdefault(problem.plugin, []).append(str(problem))
    return {name: "; ".join(lines) for name, lines in found.items()}


def problem_list() -> list[Problem]:
    """Everything that is known to be wrong with plugins."""
    manager()
    return known_problems()


def blame(*kinds: str) -> str:
    """The end of a message about something that is missing: what is wrong with plugins that might have it.

    Args:
        kinds: of plugins of ours (``OwnPlugin.kind``, or a name) that might have it and count where they are not installed.
    """
    absent = {problem.plugin for problem in problem_list() if problem.text.startswith(NOT_INSTALLED)}
    wrong = sorted(problem for problem in problem_list() if problem.plugin not in absent)
    asked = sorted(name for name in absent if {name, OWN_PLUGINS[name].kind} & set(kinds))
    package = OWN_PLUGINS[asked[0]].debian if len(asked) == 1 else "python3-rknnlite-NAME"
    told = f"; {NOT_INSTALLED}: {', '.join(asked)} (Debian: apt install {package})" if asked else ""
    return "".join(f"; plugin {problem.plugin}: {problem}" for problem in wrong) + told


def _kind(kind: type) -> Callable[[Any], Any]:
    def check(thing: Any) -> Any:
        if not isinstance(thing, kind):
            raise TypeError(f"{thing!r} is no {kind.__name__}")
        return thing

    return check


_TAKEN: dict[str, Callable[[Any], Any]] = {
    "rknnlite_register_backends": _kind(Backend),
    "rknnlite_register_op_hosts": _kind(OpHost),
    "rknnlite_register_custom_ops": as_custom_op,
}


def offers(hook: str) -> Iterator[tuple[str, list[Any]]]:
    """Per plugin what it offers through a hook; one whose hook fails, or offers another thing, is named and skipped."""
    take = _TAKEN.get(hook, lambda thing: thing)
    for implementation in getattr(manager().hook, hook).get_hookimpls():
        name = str(implementation.plugin_name)
        offered: list[Any] = []
        if not may_enter(name, hook):
            continue
        try:
            implementation.function(offered.append)
            things = [take(thing) for thing in offered]
        except (Exception, SystemExit) as error:
            what = hook.replace("rknnlite_register_", "").replace("_", " ")
            reason = _line(error)
            if note(name, "hooks", f"its {what} are skipped: {type(error).__name__}: {reason}"):
                logger.warning("plugin %s: its %s are skipped: %s", name, what, reason)
            continue
        yield name, things


def _by_name(hook: str) -> dict[str, Any]:
    """What all plugins offer; of two with one name the first is kept."""
    found: dict[str, Any] = {}
    for plugin, things in offers(hook):
        for thing in things:
            if found.setdefault(thing.name, thing) is not thing:
                note(plugin, thing.name, f"its {thing.name} is skipped: the name is taken")
                logger.warning("plugin %s: its %s is skipped: the name is taken", plugin, thing.name)
    return found


@functools.cache
def backends() -> dict[str, Backend]:
    """All backends by name."""
    return _by_name("rknnlite_register_backends")


def backend(name: str) -> Backend:
    """The backend of that name; raises BackendUnavailable saying which there are and what went wrong."""
    try:
        return backends()[name]
    except KeyError:
        known = ", ".join(sorted(backends())) or "none"
        raise BackendUnavailable(f"no backend named {name!r}; there are: {known}{blame(name)}") from None


def probe(backend: Backend, options: Options = Options()) -> Probe:
    """The backend's answer; one whose ``probe`` raises against its contract, or ended a process, is not available."""
    crashed = why_left_out(backend.name, "its probe")
    if crashed:
        return Probe(False, f"{crashed}; update or remove what it loads, or its plugin")
    try:
        return backend.probe_for(options)
    except Exception as error:
        return Probe(False, f"its probe failed: {type(error).__name__}: {_line(error)}")


class _Contested(CustomOp):
    """Stands for a type that several plugins offer; complains when a model uses it."""

    def __init__(self, op_type: str, offered: list[str]) -> None:
        self.op_type = op_type
        self.offered = offered

    def init(self, ctx: Any, inputs: Any, outputs: Any) -> None:
        raise ParamInvalid(
            f"custom operator {self.op_type} is offered by several plugins: {', '.join(self.offered)}; pass the "
            "wanted one in custom_ops, or switch plugins off in RKNNLITE_DISABLE"
        )

    def compute(self, ctx: Any, inputs: Any, outputs: Any) -> None:
        raise AssertionError("init refuses")

    def describe(self) -> str:
        return f"one of {len(self.offered)}"


def custom_ops() -> list[CustomOp]:
    """Custom operators offered by plugins, one per type. A plugin whose hook fails is named and skipped."""
    return by_type(offers("rknnlite_register_custom_ops"))


def by_type(found: Iterable[tuple[str, list[CustomOp]]]) -> list[CustomOp]:
    """Of what plugins offer, one operator per type: where there are several, one that says so when it is used."""
    offered: dict[str, list[tuple[str, CustomOp]]] = {}
    for plugin, ops in found:
        for op in ops:
            offered.setdefault(op.op_type, []).append((plugin, op))
    chosen: list[CustomOp] = []
    for op_type, entries in offered.items():
        contested = _Contested(op_type, [f"{op.describe()} (plugin {name})" for name, op in entries])
        several = len(entries) > 1
        chosen.append(contested if several else entries[0][1])
        for name, _ in entries:
            text = f"{op_type} is offered several times: {', '.join(contested.offered)}"
            note(
                name,
                f"operator {op_type}",
                text if several else "",
                "switch all but one off, or pass it in custom_ops",
            )
    return chosen


@functools.cache
def commands() -> dict[str, Command]:
    """Commands that plugins offer, by name; of two with one name the first is kept."""
    from .spi.command import Command

    found: dict[str, Command] = {}
    for plugin, offered in offers("rknnlite_register_commands"):
        for command in offered:
            if isinstance(command, Command) and command.name and command.name not in found:
                found[command.name] = command
            else:
                name = getattr(command, "name", "") or type(command).__name__
                note(
                    plugin,
                    f"command {name}",
                    f"its command {name} is skipped: no Command, or the name is taken",
                )
                logger.warning(
                    "plugin %s: its command %s is skipped: no Command, or the name is taken", plugin, name
                )
    return found


@functools.cache
def inspectors() -> dict[str, Inspector]:
    """What is known of model files beyond their containers, by name."""
    return _by_name("rknnlite_register_inspectors")


@functools.cache
def lowerings() -> dict[str, Any]:
    """Other forms of graphs by name."""
    return _by_name("rknnlite_register_lowerings")


def lowering(name: str) -> Any:
    """The lowering of that name; raises BackendUnavailable with what is to be installed."""
    found = lowerings().get(name)
    if found is None:
        raise missing("onnx", f"no plugin writes {name} files{blame(name)}")
    return found


@functools.cache
def op_hosts() -> dict[str, OpHost]:
    """Hosts of compiled operators by name."""
    return _by_name("rknnlite_register_op_hosts")


@typed
def load_custom_ops(path: str | os.PathLike[str], **options: Any) -> list[CustomOp]:
    """The operators of a compiled plugin, ready for ``custom_ops`` or ``register_ops``.

    Args:
        path: a library ``librkcst_*.so``, or whatever an installed host knows.
        options: for the host, e.g. ``isolate=True`` (a process of its own) and ``time_limit`` in seconds.

    Raises:
        ParamInvalid: no such file, no host for it, or it cannot be used; the text says why.
    """
    file = _existing(path)
    for host in op_hosts().values():
        ops = host.load(file, options)
        if ops is not None:
            return ops
    raise ParamInvalid(f"{file}: no host for such a file; there are: {_hosts()}")


def load_postprocess(path: str | os.PathLike[str], **options: Any) -> PostProcess:
    """A post-process plugin (a RISC-V object made for RK1820/RK1828) ready to be opened; raises ParamInvalid."""
    file = _existing(path)
    for host in op_hosts().values():
        found = host.load_postprocess(file, options)
        if found is not None:
            return found
    raise ParamInvalid(f"{file}: no host for such a post-process plugin; there are: {_hosts()}")


def gpu_services() -> GpuServices:
    """OpenCL for compiled operators; raises BackendUnavailable saying what is missing."""
    reasons = []
    for host in op_hosts().values():
        services = host.gpu()
        if services is not None:
            return services
        probe = host.probe()
        if not probe.available:
            reasons.append(f"{host.name}: {probe.reason}")
    raise BackendUnavailable(
        "no GPU for custom operators; " + ("; ".join(reasons) or EXTRAS["opencl"].remedy) + blame("opencl")
    )


def _existing(path: str | os.PathLike[str]) -> Path:
    """The file; raises ParamInvalid for what is none: nothing would come of reading a pipe but waiting."""
    try:
        file = Path(os.fsdecode(path))
        if file.is_file():
            return file
        why = "not a file" if file.exists() else "no such file"
    except Exception as error:  # longer than the system allows; whatever the object's own __fspath__ does
        raise ParamInvalid(f"this is no path of a plugin: {error!s:.200}") from None
    raise ParamInvalid(f"{file}: {why}")


def _hosts() -> str:
    known = "; ".join(f"{host.name} ({host.probe().reason})" for host in op_hosts().values())
    return (known or "none") + blame("op host")
