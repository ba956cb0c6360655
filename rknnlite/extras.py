"""Packages: optional ones, which extra of pip and which of Debian bring them; our own plugins; whoever offers plugins."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from .errors import BackendUnavailable

__all__ = ["EXTRAS", "OWN_PLUGINS", "EntryPoint", "Extra", "OwnPlugin", "entry_points", "missing"]

PUBLISHED = False
"""Whether an index of packages has rknnlite. Until then nobody is sent there for it: whoever took the name would get our users."""


class Extra(NamedTuple):
    """One extra. ``modules`` are import names, ``packages`` bring them; ``absent`` says what Debian 12 does not have."""

    name: str
    purpose: str
    modules: tuple[str, ...]
    packages: tuple[str, ...]
    debian: tuple[str, ...]
    absent: str = ""

    @property
    def wanted(self) -> str:
        """What pip is asked for; packages by their own names are right whether rknnlite came as checkout, wheel or URL."""
        return f"'rknnlite[{self.name}]'" if PUBLISHED else " ".join(self.packages)

    @property
    def remedy(self) -> str:
        """How to get it, with pip and with apt."""
        packages = f"apt install {' '.join(self.debian)}; " if self.debian else ""
        lacking = f"Debian 12 has no {self.absent}" if self.absent else ""
        return f"pip install {self.wanted} (extra {self.name}; Debian: {(packages + lacking).rstrip('; ')})"

    @property
    def lacking(self) -> list[str]:
        """Modules that are not installed; nothing is imported to find out."""
        return [module for module in self.modules if not _is_there(module)]


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the package that it would be in
        return False


def _extra(name: str, purpose: str, modules: str, packages: str, debian: str = "", absent: str = "") -> Extra:
    return Extra(
        name, purpose, tuple(modules.split()), tuple(packages.split()), tuple(debian.split()), absent
    )


EXTRAS = {
    extra.name: extra
    for extra in (
        _extra("pictures", "pictures on the command line", "PIL", "pillow", "python3-pil"),
        _extra("cpu", "examples, cameras, depthwise and float16 layers without an engine", "cv2", "opencv-python-headless",
               "python3-opencv"),
        _extra("llm", "chat templates of language models, and faster tokenizers", "tokenizers jinja2", "tokenizers jinja2",
               "python3-jinja2", "tokenizers"),
        _extra("gguf", "GGUF files into export-llm", "gguf", "gguf", absent="gguf"),
        _extra("constraints", "answers bound to a schema or a grammar", "llguidance", "llguidance", absent="llguidance"),
        _extra("fast", "an engine under the CPU reference; ONNX files: compare, export-onnx, port", "onnx onnxruntime",
               "onnx onnxruntime", "python3-onnx", "onnxruntime"),
        _extra("openvino", "another engine, for x86", "onnx openvino", "onnx openvino", "python3-onnx", "openvino"),
        _extra("server", "servers of models",
               "starlette uvicorn jinja2 tokenizers prometheus_client llguidance grpc google.protobuf",
               "starlette uvicorn jinja2 tokenizers prometheus-client llguidance grpcio protobuf",
               "python3-starlette python3-uvicorn python3-jinja2 python3-prometheus-client python3-grpcio python3-protobuf",
               "tokenizers and llguidance"),
        _extra("remote", "models on boards from afar", "grpc google.protobuf", "grpcio protobuf",
               "python3-grpcio python3-protobuf"),
        _extra("html", "pages of perf and compare", "jinja2", "jinja2", "python3-jinja2"),
        _extra("plot", "PNG pictures", "matplotlib", "matplotlib", "python3-matplotlib"),
        _extra("sound", "speech in FLAC, MP3 and Ogg", "soundfile", "soundfile", "python3-soundfile"),
        _extra("ray", "fleets of boards on Ray", "ray", "'ray[data,serve]'", absent="ray"),
        _extra("rich", "colours on a terminal", "rich", "rich", "python3-rich"),
        _extra("otel", "traces", "opentelemetry.sdk opentelemetry.exporter",
               "opentelemetry-sdk opentelemetry-exporter-otlp-proto-http", absent="opentelemetry"),
        _extra("completion", "completion for shells", "shtab", "shtab", "python3-shtab"),
        _extra("opencl", "GPU operators", "pyopencl", "pyopencl", "python3-pyopencl pocl-opencl-icd"),
    )
}  # fmt: skip


class OwnPlugin(NamedTuple):
    """A plugin of ours, which Debian packages alone: where it is not installed, a message says who brings what is wanted.

    Attributes:
        name: of its entry point, and of its module behind ``rknnlite_``; a backend has its plugin's, or that, a dash and a word.
        kind: ``library``, ``backend``, ``op host`` or ``other``.
        commands: the words that it adds to ``rknnlite``, and the module of the plugin whose ``COMMAND`` each is.
        names: what it adds to ``import rknnlite``.
        offers: further hooks that it implements, without ``rknnlite_register_``.
        package: that of Debian where it is not named after the plugin.
    """

    name: str
    kind: str
    commands: Mapping[str, str] = MappingProxyType({})
    names: tuple[str, ...] = ()
    offers: tuple[str, ...] = ()
    package: str = ""

    @property
    def debian(self) -> str:
        """The package of Debian."""
        return self.package or f"python3-rknnlite-{self.name}"

    @property
    def hooks(self) -> set[str]:
        """What it offers: it is imported when something of that is asked for."""
        by_kind = {"backend": {"backends"}, "op host": {"op_hosts"}}.get(self.kind, set())
        return by_kind.union(self.offers, (word for word in ("commands", "names") if getattr(self, word)))


_INSIGHT = {name: f"commands.{name}" for name in ("bench", "check", "compare", "perf", "top")}
_LLM = {
    name: f"commands.{name.replace('-', '_')}"
    for name in ("bench-llm", "chat", "export-llm", "llm-eval", "pull")
}
_VISION = {name: f"commands.{name}" for name in ("classify", "detect", "eval", "pose", "read", "segment")}
OWN_PLUGINS = {
    plugin.name: plugin
    for plugin in (
        OwnPlugin(
            "authoring", "library", {"completion": "completion", "man": "man", "new-plugin": "new_plugin"}
        ),
        OwnPlugin("backend", "library"),
        OwnPlugin("capi", "library"),
        OwnPlugin("graph", "library", offers=("inspectors",)),
        OwnPlugin("insight", "library", _INSIGHT, ("compare", "to_onnx")),
        OwnPlugin("llm", "library", _LLM, ("Chat", "open_llm"), ("inspectors",)),
        OwnPlugin("pages", "library"),
        OwnPlugin("programs", "library"),
        OwnPlugin("protocol", "library"),
        OwnPlugin("speech", "library", {"transcribe": "command"}),
        OwnPlugin("vision", "library", _VISION),
        OwnPlugin("cpu", "backend", offers=("inspectors",)),
        OwnPlugin("remote", "backend"),
        OwnPlugin("rkllm", "backend", offers=("inspectors",)),
        OwnPlugin("rknn1rt", "backend"),
        OwnPlugin("rknn3rt", "backend"),
        OwnPlugin("rknnrt", "backend"),
        OwnPlugin("cplugin", "op host", offers=("custom_ops",)),
        OwnPlugin("opencl", "op host"),
        OwnPlugin("riscv", "op host"),
        OwnPlugin("librknnrt", "other", {"exec": "exec_command", "librknnrt": "command"}),
        OwnPlugin("npu", "other", {"npu-plan": "plan_command"}, offers=("backends", "inspectors")),
        OwnPlugin("onnx", "other", {"export-onnx": "export", "port": "port_command"}, offers=("lowerings",)),
        OwnPlugin("ray", "other", {"fleet": "command"}),
        OwnPlugin("server", "other", {"serve": "command"}, package="rknnlite-server"),
    )
}
"""All plugins of ours by name, one row each."""


def missing(name: str, what: str, error: ImportError | None = None) -> BackendUnavailable:
    """The error of something that needs an extra: ``what`` cannot be done, and how to get it."""
    reason = f" ({error})" if error is not None else ""
    return BackendUnavailable(f"{what}{reason}; {EXTRAS[name].remedy}")


class EntryPoint(NamedTuple):
    """A line ``name = value`` that an installed package has in a group; ``value`` is ``module`` or ``module:attribute``."""

    name: str
    value: str

    def load(self) -> Any:
        """Import what it names."""
        module, _, attribute = self.value.partition(":")
        return functools.reduce(getattr, filter(None, attribute.split(".")), importlib.import_module(module))


def entry_points(group: str) -> list[EntryPoint]:
    """What the installed packages offer in a group, in the order of ``sys.path``.

    As ``importlib.metadata`` finds it, whose import alone costs a third of what ``import numpy`` does: folders ``*.dist-info``
    and ``*.egg-info`` of ``sys.path``, of two with one name the first. Where packages come from archives or finders of
    somebody's own, ``importlib.metadata`` is asked.
    """
    finders = [f for f in sys.meta_path if hasattr(f, "find_distributions")]
    if len(finders) > 1 or any(os.path.isfile(place) for place in sys.path):  # noqa: PTH113
        return _by_metadata(group)
    seen: set[str] = set()
    found: list[EntryPoint] = []
    for place, info in _package_infos():
        distribution = info.rpartition(".")[0].split("-")[0].replace(".", "_").lower()
        if distribution not in seen:
            seen.add(distribution)
            found += _entries(f"{place}/{info}/entry_points.txt", group)
    return found


def _package_infos() -> Iterator[tuple[str, str]]:
    """Folders of ``sys.path``, and the names in them that tell of a package."""
    for place in dict.fromkeys(place or "." for place in sys.path):
        try:
            names = sorted(os.listdir(place))  # noqa: PTH208  (as strings: no Path is made of hundreds of names)
        except OSError:
            continue
        for name in names:
            if name.endswith((".dist-info", ".egg-info")):
                yield place, name


def _entries(file: str, group: str) -> Iterator[EntryPoint]:
    try:
        with open(file, encoding="utf-8") as opened:  # noqa: PTH123
            lines = opened.read().splitlines()
    except (OSError, UnicodeDecodeError):  # most have none
        return
    section = ""
    for line in map(str.strip, lines):
        if line.startswith("["):
            section = line.strip("[]").strip()
        elif section == group and "=" in line and not line.startswith(("#", ";")):
            name, _, value = line.partition("=")
            yield EntryPoint(name.strip(), value.partition("[")[0].strip())


def _by_metadata(group: str) -> list[EntryPoint]:
    from importlib import metadata

    found: Any = metadata.entry_points()
    chosen = found.select(group=group) if hasattr(found, "select") else found.get(group, [])  # Python 3.9
    return [EntryPoint(entry.name, entry.value) for entry in chosen]
