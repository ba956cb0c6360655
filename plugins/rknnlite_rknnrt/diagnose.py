"""Why a model could not be opened: what the code of ``rknn_init`` leaves unsaid."""

from __future__ import annotations

import re

from rknnlite import socs
from rknnlite.errors import (
    DeviceUnavailable,
    ModelInvalid,
    ModelUnsupported,
    RknnError,
    TargetPlatformUnmatch,
)
from rknnlite.formats import Model, ModelFile

from . import device
from .loader import Library
from .native import call_error

__all__ = ["init_error", "metadata", "platform_clash", "runtime_rule"]

_ENCRYPTED = (b"CYPTRKNN", b"RKCE")


def metadata(file: ModelFile) -> Model | None:
    """What the file says about itself; None when it cannot be read here (encrypted, newer, damaged)."""
    try:
        return file.model
    except ModelInvalid:
        return None


def encrypted(file: ModelFile) -> bool:
    """Whether only the vendor's runtime can read the file."""
    try:
        return bytes(file.data[:8]).startswith(_ENCRYPTED)
    except ModelInvalid:
        return False


def platform_clash(file: ModelFile, soc: socs.Soc | None) -> str | None:
    """The reason why this board cannot run the model, None when it can or when nobody knows."""
    model = metadata(file)
    if model is None or soc is None:
        return None
    platforms = {name.lower() for name in (*model.platforms, model.platform) if name}
    if not platforms or platforms & set(soc.accepts):
        return None
    return (
        f"{file.label} was built for {'/'.join(sorted(platforms))}, this board is an {soc.name}; "
        f"convert it with target_platform='{soc.name}'"
    )


def _numbers(version: str) -> tuple[int, ...]:
    match = re.match(r"\s*(\d+)\.(\d+)(?:\.(\d+))?", version)
    return tuple(int(part or 0) for part in match.groups()) if match else ()


def runtime_rule(toolkit: str) -> tuple[str, tuple[int, ...], tuple[int, ...] | None]:
    """Which runtimes open a model: the rule in words, the oldest and (where there is one) the newest version.

    RKNN user guide 2.0, table 10-1, and its later copies.
    """
    made = _numbers(toolkit)
    if made < (1, 5, 0):
        return f"a model of toolkit {toolkit} needs runtime {toolkit} to 1.5.0", made, (1, 5, 0)
    if made < (1, 5, 2):
        return f"a model of toolkit {toolkit} needs runtime 1.5.0", (1, 5, 0), (1, 5, 0)
    oldest = (1, 5, 2) if made < (2, 0, 0) else (2, 0, 0)
    words = ".".join(map(str, oldest))
    return f"a model of toolkit {toolkit} needs runtime {words} or newer", oldest, None


def version_clash(file: ModelFile, library: Library) -> str:
    """A sentence when model and runtime do not go together, else empty."""
    model, runtime = metadata(file), _numbers(library.version)
    if model is None or not runtime or not _numbers(model.toolkit_version):
        return ""
    rule, oldest, newest = runtime_rule(model.toolkit_version)
    if runtime >= oldest and (newest is None or runtime <= newest):
        return ""
    advice = "update the runtime" if runtime < oldest else "convert the network again"
    return f"{library.name} here is {library.version}: {rule}; {advice}"


def init_error(code: int, file: ModelFile, library: Library, soc: socs.Soc | None) -> RknnError:
    """The typed error of a failed ``rknn_init``, with the most likely cause that can be found out."""
    clash = platform_clash(file, soc)
    if clash:
        return _as(TargetPlatformUnmatch, code, clash)
    reason = version_clash(file, library)
    if reason:
        return _as(None, code, reason)
    node = device.look()
    if code in (-1, -3) and node.problem and not _damaged(file):
        return _as(DeviceUnavailable, code, node.problem)
    if encrypted(file):
        return _as(None, code, "the model is encrypted: this runtime has no key for it, or is too old for it")
    damage = _damaged(file)
    if damage:
        return _as(None, code, damage)
    return call_error("rknn_init", code)


def _damaged(file: ModelFile) -> str:
    try:
        _ = file.model
    except ModelUnsupported:
        return ""
    except ModelInvalid as error:
        return str(error)
    return ""


def _as(kind: type[RknnError] | None, code: int, reason: str) -> RknnError:
    """The error of the code, or, where the cause is known better than the code says it, one of ``kind``."""
    plain = call_error("rknn_init", code, reason)
    if kind is None or isinstance(plain, kind):
        return plain
    error = kind(str(plain))
    error.code = code
    return error
