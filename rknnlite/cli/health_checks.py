"""What ``rknnlite doctor`` looks at: each check returns findings, each finding what to do about it."""

from __future__ import annotations

import enum
import platform
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import numpy as np

from .. import config, plugins
from .._faces import vendor_files
from .._version import __version__
from ..choosing import choose_backend
from ..errors import ModelInvalid, RknnError
from ..extras import EXTRAS
from ..formats import ModelFile
from ..native import versions
from ..socs import Soc
from ..spi import Backend, OpenOptions, Probe
from .board import Board, Clock
from .devices import safe_probe
from .info import is_package, runs_on

__all__ = ["Finding", "Level", "backends", "configuration", "kernel", "model", "packages", "speed"]

_VENDOR = ("rknn-toolkit-lite2", "rknn_toolkit_lite2")
"""The names under which the vendor's wheel is known to pip."""


class Level(enum.Enum):
    """How much a finding matters."""

    OK = "ok"
    INFO = "info"
    WARN = "warn"
    FAIL = "FAIL"


@dataclass(frozen=True)
class Finding:
    """One fact. ``remedy`` is what to do about it, empty where nothing need be done."""

    topic: str
    level: Level
    text: str
    remedy: str = ""

    def __str__(self) -> str:
        head = f"{self.level.value:4}  {self.text}"
        return f"{head}\n      -> {self.remedy}" if self.remedy else head


def packages() -> Iterator[Finding]:
    """This package, Python, extras, and the vendor's wheel."""
    topic = "software"
    versions = f"rknnlite {__version__}, Python {platform.python_version()}, numpy {np.__version__}"
    yield Finding(topic, Level.OK, f"{versions}, {platform.machine()}, {Path(__file__).parents[1]}")
    yield from _vendor_wheel(topic)
    for extra in EXTRAS.values():
        lacking = extra.lacking
        if lacking:
            text = f"extra {extra.name} ({extra.purpose}): not installed: {', '.join(lacking)}"
            yield Finding(topic, Level.INFO, text, f"if you need it: {extra.remedy}")


def _vendor_wheel(topic: str) -> Iterator[Finding]:
    """The vendor's wheel beside this package: a failure where its files have replaced ours."""
    folder = Path(__file__).parents[1]
    compiled = vendor_files.compiled_modules(folder / "api")
    replaced = getattr(sys.modules["rknnlite"], "__version__", None) != __version__
    vendor = next((name for name in _VENDOR if _installed(name)), None)
    if vendor is None and not compiled and not replaced:
        return
    vendor, broken = vendor or _VENDOR[0], bool(compiled or replaced)
    text = f"the vendor's {vendor} is installed beside this package; both are imported as rknnlite, and files of one "
    text += ": ".join(["hide those of the other" if broken else "may hide those of the other", *compiled[:1]])
    yield Finding(topic, Level.FAIL if broken else Level.WARN, text, vendor_files.remedy(vendor))


def _installed(name: str) -> bool:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def configuration() -> Iterator[Finding]:
    """The settings in force and where they come from."""
    topic, file = "configuration", config.path()
    there = file is not None and file.is_file()
    yield Finding(
        topic, Level.OK, f"file: {file}{'' if there else ' (not there)'}" if file else "file: switched off"
    )
    for problem in config.problems():
        yield Finding(
            topic, Level.WARN, problem, "correct that line; 'key: value', keys as in docs/configuration.md"
        )
    for setting in config.settings():
        if setting.value is not None:
            yield Finding(topic, Level.OK, f"{setting.key.name} = {setting.value!r} (from {setting.source})")


def kernel(board: Board) -> Iterator[Finding]:
    """Board, driver, device nodes."""
    topic, soc = "board", board.soc()
    if soc is None:
        yield Finding(
            topic, Level.INFO, f"no Rockchip NPU is known here (kernel {board.kernel() or 'unknown'})"
        )
    else:
        name = board.model() or "unnamed board"
        yield Finding(
            topic, Level.OK, f"{name}: {soc.name.upper()}, {soc.cores} NPU cores, kernel {board.kernel()}"
        )
    driver, nodes = board.driver(), board.nodes()
    if soc is None and driver.value is None and not nodes:
        return
    if driver.value is None:
        forbidden = driver.problem == "permission"
        yield Finding(
            topic, Level.INFO if forbidden or nodes else Level.FAIL,
            f"driver version: {driver.file} may be read by root only" if forbidden else "no RKNPU driver in the kernel",
            "sudo rknnlite doctor" if forbidden else "use the board vendor's kernel; look at dmesg | grep -i rknpu",
        )  # fmt: skip
    else:
        old = versions.version_numbers(driver.value) < versions.version_numbers(versions.OLDEST_DRIVER)
        remedy = f"update the kernel: {versions.OLDEST_DRIVER} or newer is recommended" if old else ""
        yield Finding(
            topic, Level.WARN if old else Level.OK, f"RKNPU driver {driver.value} ({driver.file})", remedy
        )
    if not nodes:
        yield Finding(
            topic, Level.FAIL, "no device node of the NPU", "in a container add --device (see docs/docker.md); else load "
            "the driver: dmesg | grep -i rknpu",
        )  # fmt: skip
    for node in nodes:
        if node.usable:
            yield Finding(topic, Level.OK, f"{node.path} (group {node.group}) can be used")
        elif node.exists:
            root_only = node.group in ("root", "0")
            yield Finding(
                topic, Level.FAIL, f"{node.path} (group {node.group}) cannot be opened by this user",
                f"add a udev rule: SUBSYSTEM==\"drm\", KERNEL==\"{Path(node.path).name}\", GROUP=\"render\", MODE=\"0660\""
                if root_only else f"sudo usermod -aG {node.group} $USER, then log in again",
            )  # fmt: skip
        else:
            yield Finding(
                topic,
                Level.FAIL,
                f"{node.path} is missing",
                f"give it to the container: --device {node.path}",
            )


def speed(board: Board) -> Iterator[Finding]:
    """Frequencies and governors, load, temperatures, memory, SRAM."""
    topic = "speed"
    clocks = [clock for clock in (board.npu_clock(), board.memory_clock()) if clock]
    if not clocks and board.soc() is None:
        return
    for clock in (*clocks, *board.cpu_clocks()):
        yield _clock(topic, clock)
    load = board.load()
    if load.value is not None:
        yield Finding(topic, Level.OK, f"NPU load: {', '.join(f'{percent}%' for percent in load.value)}")
    elif load.problem == "permission":
        yield Finding(
            topic, Level.INFO, f"NPU load: {load.file} may be read by root only", "sudo rknnlite top"
        )
    hot = {name: value for name, value in board.temperatures().items() if value >= 85}
    for name, value in hot.items():
        yield Finding(
            topic,
            Level.WARN,
            f"{name} is at {value:.0f} C",
            "cool it: the kernel lowers frequencies when it is hot",
        )
    memory = board.memory()
    if memory:
        text = ", ".join(f"{name} {size / 2**20:.0f} MiB" for name, size in memory.items())
        yield Finding(topic, Level.OK, f"memory: {text}")
    sram = board.sram().value
    if sram is not None:
        yield Finding(
            topic, Level.OK, f"SRAM for the NPU: {sram.free // 1024} of {sram.total // 1024} KiB free"
        )


def _clock(topic: str, clock: Clock) -> Finding:
    now = f"{clock.current / 1e6:.0f} MHz" if clock.current else "unknown"
    most = f" of {clock.highest / 1e6:.0f} MHz" if clock.highest else ""
    text = f"{clock.name}: {now}{most}, governor {clock.governor or 'unknown'}"
    if "performance" in clock.governors and clock.governor != "performance":
        return Finding(
            topic, Level.INFO, text, f"for steady times: echo performance | sudo tee {clock.set_by}"
        )
    return Finding(topic, Level.OK, text)


def backends(wanted: str | None, soc: Soc | None = None) -> Iterator[Finding]:
    """Every backend; one that was asked for and cannot run is a failure, the CPU on a board with an NPU a warning."""
    topic, chosen = "backends", wanted or config.get("backend")
    known = plugins.backends()
    if chosen and chosen not in known:
        there = ", ".join(sorted(known)) or "none"
        yield Finding(
            topic,
            Level.FAIL,
            f"no backend is named {chosen!r}",
            f"choose one of: {there}; see rknnlite plugins",
        )
    probed = sorted(
        ((safe_probe(backend), backend) for backend in known.values()), key=lambda pair: -pair[0].priority
    )
    usable = [backend.name for probe, backend in probed if probe.available]
    chosen = chosen or (usable[0] if usable else None)
    for probe, backend in probed:
        level = Level.OK if probe.available else Level.FAIL if backend.name == chosen else Level.INFO
        mark = " (chosen)" if backend.name == chosen else ""
        reason, remedy = (probe.reason, "") if probe.available else _cause(probe)
        remedy = remedy or ("choose another backend: rknnlite devices" if level is Level.FAIL else "")
        yield Finding(topic, level, f"{backend.name}{mark}: {reason}", remedy)
    if not usable:
        yield Finding(
            topic, Level.FAIL, "no backend can run models here", "rknnlite plugins shows what is installed"
        )
    best = next((probe for probe, _ in probed if probe.available), None)
    if soc is not None and best is not None and best.priority <= 0 and not wanted:
        text = f"this {soc.name.upper()} has an NPU, but models run on the CPU reference"
        fitting = [
            probe for probe, backend in probed if backend.generation == soc.generation and probe != best
        ]
        remedies = [_cause(probe)[1] or "mend what the lines under 'board' name" for probe in fitting]
        yield Finding(topic, Level.WARN, text, next(iter(remedies), "install the plugin that drives it"))
    yield from _plugins(topic)


def _plugins(topic: str) -> Iterator[Finding]:
    """Those that are switched off, not installed, or broken."""
    for name, problem in sorted(plugins.problems().items()):
        off = "RKNNLITE_DISABLE" in problem or problem.startswith(plugins.NOT_INSTALLED)
        remedy = "" if off else f"update or remove that package, or RKNNLITE_DISABLE={name}"
        yield Finding(topic, Level.INFO if off else Level.WARN, f"plugin {name}: {problem}", remedy)


def _cause(probe: Probe) -> tuple[str, str]:
    """Why a backend is not available, and what to do about it: reasons have the form "cause; remedy"."""
    cause, _, remedy = probe.reason.partition("; ")
    return cause, remedy


def model(file: ModelFile, board: Board, wanted: str | None) -> Iterator[Finding]:
    """Whether a model goes together with this machine, its runtime, and the operators that are registered."""
    topic = "model"
    if is_package(file):
        yield from _language_model(topic, file, wanted or config.get("backend"))
        return
    try:
        found = file.model
    except ModelInvalid as error:
        yield Finding(topic, Level.FAIL, str(error), "see rknnlite info")
        return
    made_for = "/".join(found.platforms or (found.platform,))
    yield Finding(
        topic, Level.OK, f"{file.label}: toolkit {found.toolkit_version or 'unknown'}, made for {made_for}"
    )
    soc = board.soc()
    if soc is not None and soc.name.upper() not in runs_on(found):
        remedy = f"convert it with target_platform='{soc.name}'"
        yield Finding(
            topic,
            Level.FAIL,
            f"this board is an {soc.name.upper()}, the model runs on {', '.join(runs_on(found))}",
            remedy,
        )
    missing_ops = sorted(set(found.custom_ops) - {op.op_type for op in plugins.custom_ops()})
    if missing_ops:
        remedy = "pass them as custom_ops, or install the plugin that has them (docs/plugin-authors.md)"
        yield Finding(
            topic, Level.WARN, f"custom operators that nobody registered: {', '.join(missing_ops)}", remedy
        )
    try:
        backend = choose_backend(file, wanted)
    except RknnError as error:
        yield Finding(topic, Level.FAIL, str(error), "see the backends above")
        return
    refusal, probe = backend.refuses(file), safe_probe(backend)
    if refusal:
        yield Finding(topic, Level.FAIL, f"backend {backend.name} refuses it: {refusal}", "see rknnlite info")
        return
    if probe.version:
        yield _pairing(topic, backend, found.toolkit_version, probe.version)
    if not probe.library:  # nobody's C code is asked what might crash it
        yield _trial(topic, backend, file)


def _trial(topic: str, backend: Backend, file: ModelFile) -> Finding:
    """Whether a backend opens the model; custom operators may still be missing then."""
    try:
        backend.open(file, OpenOptions()).close()
    except Exception as error:  # it may be anybody's plugin
        cause, _, remedy = (str(error) or type(error).__name__).partition("; ")
        text = f"backend {backend.name} does not open it: {cause}"
        return Finding(topic, Level.FAIL, text, remedy or "look the message up in docs/troubleshooting.md")
    return Finding(topic, Level.OK, f"backend {backend.name} opens it")


def _language_model(topic: str, file: ModelFile, wanted: str | None) -> Iterator[Finding]:
    reasons = []
    for backend in plugins.backends().values():
        if backend.name == (wanted or backend.name) and safe_probe(backend).available:
            refusal = backend.refuses_llm(file)
            if refusal is None:
                yield Finding(
                    topic, Level.OK, f"{file.label}: a language model; backend {backend.name} runs it"
                )
                return
            reasons.append(f"{backend.name}: {refusal}")
    text = "; ".join(reasons) or "no backend for it is available"
    yield Finding(
        topic,
        Level.FAIL,
        f"{file.label}: a language model, and nothing here runs it: {text}",
        "see the backends above",
    )


def _pairing(topic: str, backend: Backend, toolkit: str, runtime: str) -> Finding:
    clash = versions.runtime_clash(toolkit, runtime)
    text = f"model of toolkit {toolkit or 'unknown'}, runtime {runtime} (backend {backend.name})"
    if clash:
        rule, _, remedy = clash.partition("; ")
        return Finding(topic, Level.FAIL, f"{text}: {rule}", remedy)
    newest = versions.version_numbers(toolkit)[:2]
    if newest > versions.version_numbers(runtime)[:2]:
        remedy = f"update the runtime to {'.'.join(map(str, newest))} or newer if a layer fails"
        return Finding(topic, Level.WARN, f"{text}: compatible, but the model is the newer one", remedy)
    return Finding(topic, Level.OK, f"{text}: compatible")
