"""Find ``librkllmrt.so``, know its version, and bind its functions as that version declares them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Optional

from rknnlite_backend.crash import named
from rknnlite_backend.library import FunctionMissing, OncePerFile, Search, check_elf, open_library

from rknnlite import config

from .abi.params import DEFAULTS, RKLLMDefaultParamSpace
from .abi.revisions import REVISIONS, versions_with
from .identify import AS_STATED, Identity, LibraryUnknown, identify

__all__ = ["SEARCH", "Api", "find", "replaced"]

SEARCH = Search(
    ("librkllmrt.so",),
    "RKNNLITE_RKLLM_LIBRARY",
    "install the vendor's RKLLM runtime (rkllm-runtime, folder Linux/librkllm_api/aarch64), or name the library in "
    "RKNNLITE_RKLLM_LIBRARY",
)
_NEEDED = ("rkllm_createDefaultParam", "rkllm_init", "rkllm_run", "rkllm_destroy")
_TELLING = ("top_p", "temperature", "repeat_penalty", "mirostat_tau", "mirostat_eta")
_CPUS = 4


def _checked(path: Any) -> Identity:
    check_elf(path)
    return identify(path)


_identified: OncePerFile[Identity] = OncePerFile(_checked)


def find(explicit: str | os.PathLike[str] | None = None, version: Optional[str] = None) -> Identity:
    """The library and its version, told once per file; nothing of it is loaded.

    Raises:
        LibraryNotFound, LibraryWrongArchitecture, LibraryUnusable, LibraryUnknown.
    """
    path = SEARCH.find(explicit, config.get("rkllm_library"))
    if version:
        check_elf(path)
        return identify(path, version)
    return _identified.of(path)


def _check_unchanged(known: Identity) -> None:
    """An update of the library while a model is open must not have it called with the structures of the former one."""
    now = find(known.path, known.version if known.how == AS_STATED else None)
    if now.version != known.version:
        raise LibraryUnknown(replaced(known.path, known.version, now.version))


def replaced(path: Path, before: str, now: str) -> str:
    """What is said of a library that is another version than it was."""
    was = f"{path} was version {before} when the model was opened and is version {now} now"
    return f"{was}; it was not called. Open the model again"


class Api:
    """The functions of a loaded library; each is bound when it is first used."""

    def __init__(self, identity: Identity) -> None:
        """Raises LibraryWrongArchitecture, LibraryUnusable, LibraryIncomplete; LibraryUnknown for a file that was replaced."""
        _check_unchanged(identity)
        self.identity = identity
        self.abi = identity.abi
        self._dll = open_library(identity.path, _NEEDED, "RKLLM runtime")
        self._bound: dict[str, Any] = {}

    def has(self, name: str) -> bool:
        """Whether this version has the function."""
        return name in self.abi.functions

    def function(self, name: str) -> Any:
        """A C function with its prototype, which a crash inside it names; raises FunctionMissing."""
        bound = self._bound.get(name)
        if bound is None:
            if not self.has(name):
                raise FunctionMissing(
                    f"librkllmrt {self.identity.version} has no {name}; it needs "
                    + versions_with(lambda abi: name in abi.exports)
                )
            function = self.abi.functions[name].bind(getattr(self._dll, name))
            bound = self._bound[name] = named(f"backend rkllm, {self.identity.path}", name, function)
        return bound

    def defaults(self) -> Any:
        """The library's default parameters, ``RKLLMParam``.

        They go into a space that holds those of any version. Where the vendor's default values lie confirms the version:
        raises LibraryUnknown when they lie where another version has them.
        """
        function = self._dll.rkllm_createDefaultParam
        function.argtypes, function.restype = [], RKLLMDefaultParamSpace
        space = bytes(function())
        param = self.abi.RKLLMParam.from_buffer_copy(space)
        fits = {abi.name: _plausible(abi.RKLLMParam.from_buffer_copy(space)) for abi in REVISIONS.values()}
        better = [name for name, level in fits.items() if level > fits[self.abi.name]]
        if better:
            raise LibraryUnknown(
                f"{self.identity.path} is version {self.identity.version} ({self.identity.how}), but its default parameters "
                f"lie where versions {', '.join(better)} have them; no model was loaded. Install the library as the vendor "
                "published it"
            )
        return param


def _plausible(param: Any) -> int:
    """Whether the vendor's default values are where this layout has them: 2 all of them, 1 those that every version sets."""
    if any(abs(getattr(param, name) - DEFAULTS[name]) > 1e-6 for name in _TELLING):
        return 0
    extend = getattr(param, "extend_param", None)
    cpus, mask = getattr(extend, "enabled_cpus_num", 0), getattr(extend, "enabled_cpus_mask", 0)
    if cpus == 0 and mask == 0:
        return 1
    return 2 if cpus == _CPUS and bin(mask).count("1") in (0, cpus) else 0
