"""Whether a model goes together with machine, runtime and registered operators."""

from __future__ import annotations

from collections.abc import Iterator

from rknnlite_backend import versions
from rknnlite_graph.coarse_multipliers import coarse_findings
from rknnlite_graph.known_hardware_issues import silicon

from rknnlite import config, plugins
from rknnlite.choosing import choose_backend
from rknnlite.errors import ModelInvalid, RknnError
from rknnlite.formats import Model, ModelFile, is_package
from rknnlite.formats.rkllm import is_rkllm
from rknnlite.native.board import Board
from rknnlite.socs import Soc
from rknnlite.spi import Backend, OpenOptions
from rknnlite.spi.finding import Finding, Level

__all__ = ["made_for", "model", "pairing"]


def model(file: ModelFile, board: Board, wanted: str | None) -> Iterator[Finding]:
    """Whether a model goes together with this machine, its runtime, and the operators that are registered."""
    topic = "model"
    if is_package(file.data) or is_rkllm(file.path, file.data):
        told = [one for backend in plugins.backends().values() for one in backend.findings(board, file)]
        yield from told
        if all(finding.level is not Level.FAIL for finding in told):
            yield from _language_model(topic, file, wanted or config.get("backend"))
        return
    try:
        found = file.model
    except ModelInvalid as error:
        yield Finding(topic, Level.FAIL, str(error), "see rknnlite info")
        return
    yield from made_for(topic, file, board.soc())
    yield from silicon(found)
    yield from coarse_findings(found)
    missing_ops = sorted(set(found.custom_ops) - {op.op_type for op in plugins.custom_ops()})
    if missing_ops and not found.board_only:
        remedy = "pass them as custom_ops, or install the plugin that has them (docs/plugin-authors.md)"
        yield Finding(
            topic, Level.WARN, f"custom operators that nobody registered: {', '.join(missing_ops)}", remedy
        )
    try:
        backend = choose_backend(file, wanted)
    except RknnError as error:
        yield Finding(topic, Level.FAIL, str(error), "see the backends above")
        return
    yield from _passed_over(topic, file, backend, wanted)
    refusal, probe = backend.refuses(file), plugins.probe(backend)
    if refusal:
        yield Finding(topic, Level.FAIL, f"backend {backend.name} refuses it: {refusal}", "see rknnlite info")
        return
    if probe.version and found.generation == "rknpu1":
        yield _first_pairing(topic, backend.name, found, probe.version)
    elif probe.version:
        yield pairing(topic, backend.name, found.toolkit_version, probe.version)
    if not probe.library:  # nobody's C code is asked what might crash it
        yield _trial(topic, backend, file)


def _passed_over(topic: str, file: ModelFile, chosen: Backend, wanted: str | None) -> Iterator[Finding]:
    """Backends that would come first and do not take this model, where none was asked for."""
    if wanted or config.get("backend"):
        return
    priority = plugins.probe(chosen).priority
    for backend in plugins.backends().values():
        probe = plugins.probe(backend)
        if probe.available and probe.priority > priority and backend.runs_networks:
            reason = backend.refuses(file)
            if reason:
                yield Finding(
                    topic, Level.INFO, f"backend {backend.name} leaves it to {chosen.name}: {reason}"
                )


def made_for(topic: str, file: ModelFile, soc: Soc | None) -> Iterator[Finding]:
    """What the file says of itself, and whether it was made for this SoC; raises ModelInvalid."""
    found = file.model
    platforms = "/".join(found.platforms or (found.platform,))
    text = f"{file.label}: toolkit {found.toolkit_version or 'unknown'}, made for {platforms}"
    yield Finding(topic, Level.OK, text)
    if soc is not None and soc.name.upper() not in found.runs_on:
        remedy = f"convert it with target_platform='{soc.name}'"
        if found.generation != soc.generation:
            kit = "rknn-toolkit 1.7" if soc.generation == "rknpu1" else "rknn-toolkit2"
            remedy = (
                f"convert the network again with {kit} for {soc.name}: the NPUs are of different generations"
            )
        text = f"this board is an {soc.name.upper()}, the model runs on {', '.join(found.runs_on)}"
        yield Finding(topic, Level.FAIL, text, remedy)


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
        if backend.name == (wanted or backend.name) and plugins.probe(backend).available:
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


def _first_pairing(topic: str, backend: str, found: Model, runtime: str) -> Finding:
    """The first toolkit ties only what it pre-compiles to the versions of a driver."""
    text = f"model of toolkit {found.toolkit_version or 'unknown'}, runtime {runtime} (backend {backend})"
    same = versions.version_numbers(found.toolkit_version)[:2] == versions.version_numbers(runtime)[:2]
    if found.board_only and not same:
        remedy = "where it answers -11, convert on a machine with the toolkit of that version"
        return Finding(topic, Level.WARN, f"{text}: compiled for other versions of the driver", remedy)
    return Finding(topic, Level.OK, f"{text}: compatible")


def pairing(topic: str, backend: str, toolkit: str, runtime: str) -> Finding:
    """Whether the runtime of a backend opens what that toolkit made."""
    clash = versions.runtime_clash(toolkit, runtime)
    text = f"model of toolkit {toolkit or 'unknown'}, runtime {runtime} (backend {backend})"
    if clash:
        rule, _, remedy = clash.partition("; ")
        return Finding(topic, Level.FAIL, f"{text}: {rule}", remedy)
    newest = versions.version_numbers(toolkit)[:2]
    if newest > versions.version_numbers(runtime)[:2]:
        remedy = f"update the runtime to {'.'.join(map(str, newest))} or newer if a layer fails"
        return Finding(topic, Level.WARN, f"{text}: compatible, but the model is the newer one", remedy)
    return Finding(topic, Level.OK, f"{text}: compatible")
