"""Finds plugins and collects what they offer. Our own plugins come in by the same door as anybody's."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import config, hookspecs
from .errors import BackendUnavailable, ParamInvalid
from .extras import EXTRAS, OWN_PLUGINS, EntryPoint, entry_points, missing
from .hookspecs import Manager
from .log import logger
from .spi import Backend
from .spi.arguments import typed
from .spi.plugin_problems import (
    Problem,
    forget_problems,
    known_problems,
    may_enter,
    note,
    note_twin,
    why_left_out,
)
from .spi.types import Options, Probe

if TYPE_CHECKING:
    from .spi.command import Command
    from .spi.custom_op import CustomOp
    from .spi.inspection import Inspector
    from .spi.op_host import GpuServices, OpHost, PostProcess

__all__ = [
    "GROUP",
    "NOT_INSTALLED",
    "SWITCHED_OFF",
    "backend",
    "backends",
    "blame",
    "commands",
    "custom_ops",
    "enter",
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

_importing = threading.local()
"""``names`` of the plugins that this thread is importing."""

_put_in = threading.Lock()
"""Held while a plugin is put into the manager; never while code of a plugin runs: that may wait for other threads."""


@functools.cache
def manager() -> Manager:
    """The one plugin manager; it knows the entry points on the first call, and imports what they name when it is needed.

    ``RKNNLITE_DISABLE`` (comma separated names) leaves plugins out. One that cannot be imported is named in
    a warning and skipped; the others work.
    """
    plugins = Manager(GROUP)
    plugins.add_hookspecs(hookspecs)
    forget_problems()
    disabled = {name.strip() for name in (config.get("disable") or "").split(",") if name.strip()}
    for entry in _entry_points():
        if entry.name in disabled:
            note(entry.name, "import", SWITCHED_OFF)
        elif entry.name in plugins.late:
            note_twin(entry.name, entry.value, plugins.late[entry.name].value)
        else:
            plugins.late[entry.name] = entry
            if entry.name in OWN_PLUGINS and entry.value == f"{GROUP}_{entry.name}":
                plugins.own.add(entry.name)
    return plugins


def _with_late(hook: str = "", ours: str = "") -> Manager:
    """``manager`` with the plugins of others, and of ours with those that have a hook, or with the one that is named."""
    plugins = manager()
    for name in list(plugins.late):
        theirs = name not in plugins.own
        if theirs or (name == ours if ours else not hook or hook in OWN_PLUGINS[name].hooks):
            _enter(plugins, name)
    return plugins


def enter(name: str) -> Any:
    """The plugin of that name, imported now where that was put off; None where there is none, or it is of no use."""
    plugins = manager()
    _enter(plugins, name)
    return plugins.get_plugin(name)


def entering() -> bool:
    """Whether a plugin is being imported just now: it may import names of libraries itself."""
    return bool(_names())


def _names() -> list[str]:
    names: list[str] = vars(_importing).setdefault("names", [])
    return names


def _enter(plugins: Manager, name: str) -> None:
    """Import a plugin that is still to come, and register its hooks; what is wrong with it is noted.

    Still to come until its hooks are in: Python makes another thread that asks meanwhile wait for the same import.
    """
    entry = plugins.late.get(name)
    if entry is None or name in _names():
        return
    _names().append(name)
    try:
        if not may_enter(name, "import"):
            plugins.late.pop(name, None)
            return
        if name not in plugins.own and _harmful(entry):
            plugins.late.pop(name, None)
            return
        plugin = entry.load()
        hookspecs.check_contract(plugin)
        with _put_in:
            if name not in plugins.late:  # another thread was first
                return
            plugins.register(plugin, name=name)
            del plugins.late[name]
    except (Exception, SystemExit) as error:  # a script that was never meant to be imported exits
        plugins.late.pop(name, None)
        if _absent(entry, error):
            package = OWN_PLUGINS[entry.name].debian
            note(entry.name, "import", f"{NOT_INSTALLED} (Debian: apt install {package})")
            return
        reason = _line(error)
        if note(entry.name, "import", f"{type(error).__name__}: {reason}"):
            what = f"{entry.name} ({entry.value})"
            logger.warning("plugin %s could not be loaded and is skipped: %s", what, reason)
        return
    finally:
        _names().pop()
    for number, mistake in enumerate(hookspecs.mistakes(plugin)):
        note(entry.name, f"mistake {number}", mistake, "correct that package")
        logger.warning("plugin %s: %s", entry.name, mistake)


def _harmful(entry: EntryPoint) -> bool:
    """Whether it ended the process that tried it first, with one line that says so."""
    from .native.first_import import why_not_here

    step, end = why_not_here(entry.name, entry.value)
    if step and note(entry.name, "import", f"{step} {end}", "update or remove it"):
        what = f"{entry.name} ({entry.value})"
        logger.warning("plugin %s is skipped until its files change: %s %s", what, step, end)
    return bool(step)


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
    _with_late()
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


def offers(hook: str, ours: str = "") -> Iterator[tuple[str, list[Any]]]:
    """Per plugin what it offers through a hook, ours first; one whose hook fails, or offers another thing, is named and skipped.

    ``ours``: of our own plugins this one alone is imported and asked.
    """
    kind = hook.replace("rknnlite_register_", "")
    asked = _with_late(kind, ours)
    found = getattr(asked.hook, hook).get_hookimpls()
    for implementation in sorted(found, key=lambda one: one.plugin_name not in asked.own):
        name = str(implementation.plugin_name)
        if ours and name in asked.own and name != ours:
            continue
        offered: list[Any] = []
        if not may_enter(name, hook):
            continue
        try:
            implementation.function(offered.append)
            things = [hookspecs.taken(hook, thing) for thing in offered]
        except (Exception, SystemExit) as error:
            what, reason = kind.replace("_", " "), _line(error)
            if note(name, "hooks", f"its {what} are skipped: {type(error).__name__}: {reason}"):
                logger.warning("plugin %s: its %s are skipped: %s", name, what, reason)
            continue
        yield name, things


def _by_name(hook: str, ours: str = "") -> dict[str, Any]:
    """What all plugins offer; of two with one name the first is kept."""
    found: dict[str, Any] = {}
    for plugin, things in offers(hook, ours):
        for thing in things:
            taken = found.setdefault(thing.name, thing) is not thing
            if taken and note(plugin, thing.name, f"its {thing.name} is skipped: the name is taken"):
                logger.warning("plugin %s: its %s is skipped: the name is taken", plugin, thing.name)
    return found


@functools.cache
def backends() -> dict[str, Backend]:
    """All backends by name."""
    asked = manager().backends
    found = {**_by_name("rknnlite_register_backends"), **asked}
    asked.update((name, found[name]) for name in manager().own if name in found)
    return found


def backend(name: str) -> Backend:
    """The backend of that name; raises BackendUnavailable saying which there are and what went wrong.

    One of ours is found without importing the others of ours: by the word before a dash.
    """
    asked, plugin = manager().backends, name.partition("-")[0]
    if plugin in manager().own and name not in asked:
        alone = _by_name("rknnlite_register_backends", plugin)
        asked.update({name: alone[name]} if name in alone else {})
    found = asked.get(name) or backends().get(name)
    if found is None:
        known = ", ".join(sorted(backends())) or "none"
        raise BackendUnavailable(f"no backend named {name!r}; there are: {known}{blame(name)}")
    return found


def probe(backend: Backend, options: Options = Options()) -> Probe:
    """The backend's answer; one whose ``probe`` raises against its contract, or ended a process, is not available."""
    crashed = why_left_out(backend.name, "its probe")
    if crashed:
        return Probe(False, f"{crashed}; update or remove what it loads, or its plugin")
    try:
        return backend.probe_for(options)
    except Exception as error:
        return Probe(False, f"its probe failed: {type(error).__name__}: {_line(error)}")


def custom_ops() -> list[CustomOp]:
    """Custom operators offered by plugins, one per type. A plugin whose hook fails is named and skipped."""
    found = [(plugin, ops) for plugin, ops in offers("rknnlite_register_custom_ops") if ops]
    if not found:
        return []
    from .spi.custom_op import by_type

    return by_type(found)


@functools.cache
def commands() -> dict[str, Command]:
    """Commands that plugins offer, by name; of two with one name the first is kept, one without a name or help is named."""
    from .spi.command import lacking

    found: dict[str, Command] = {}
    for plugin, offered in offers("rknnlite_register_commands"):
        for command in offered:
            wrong = lacking(command) or ("the name is taken" if command.name in found else "")
            if not wrong:
                found[command.name] = command
                continue
            name = getattr(command, "name", "") or type(command).__name__
            note(plugin, f"command {name}", f"its command {name} is skipped: {wrong}")
            logger.warning("plugin %s: its command %s is skipped: %s", plugin, name, wrong)
    return found


@functools.cache
def inspectors() -> dict[str, Inspector]:
    """What is known of model files beyond their containers, by name."""
    return _by_name("rknnlite_register_inspectors")


@functools.cache
def lowering(name: str) -> Any:
    """Another form of graphs by its name; raises BackendUnavailable with what is to be installed."""
    found = _by_name("rknnlite_register_lowerings").get(name)
    if found is None:
        raise missing("fast", f"no plugin writes {name} files{blame(name)}")
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
