"""Why a model could not be opened: what the code of ``rknn_init`` leaves unsaid."""

from __future__ import annotations

from rknnlite import socs
from rknnlite.errors import (
    DeviceUnavailable,
    ModelInvalid,
    ModelUnsupported,
    RknnError,
    TargetPlatformUnmatch,
)
from rknnlite.formats import Model, ModelFile
from rknnlite.log import logger

from . import device
from .errors import call_error
from .loader import Library

__all__ = ["check_file", "init_error", "is_foreign", "metadata", "platform_clash"]

_MAGIC = b"RKNN"
_ENCRYPTED = (b"CYPTRKNN", b"RKCE")
_KNOWN_CONTAINER, _MINI_CONTAINERS = 6, 0x1000


def metadata(file: ModelFile) -> Model | None:
    """What the file says about itself; None when it cannot be read here (encrypted, newer, damaged)."""
    try:
        return file.model
    except ModelInvalid:
        return None


def encrypted(file: ModelFile) -> bool:
    """Whether only the vendor's runtime can read the file."""
    return _head(file).startswith(_ENCRYPTED)


def _head(file: ModelFile) -> bytes:
    try:
        return bytes(file.data[:16])
    except ModelInvalid:
        return b""


def is_foreign(file: ModelFile) -> bool:
    """Whether the file is of a format that some other backend may know, and librknnrt does not."""
    head = _head(file)
    return bool(head) and not head.startswith((b"RK", *_ENCRYPTED))  # RKNN, RKNX and what may come


def check_file(file: ModelFile, library: Library) -> None:
    """What has to be said before ``rknn_init``, which ends the process for some damaged files.

    Files that only the library can judge (encrypted, newer, of another kind) pass. A clash of versions is logged:
    should the library die of it, the reason stands in the log.

    Raises:
        ModelInvalid: the file is damaged.
    """
    damage = _damaged(file) if _head(file).startswith(_MAGIC) else ""
    if damage:
        raise ModelInvalid(f"{damage} ({library.name} was not called: it may end the process)")
    clash = version_clash(file, library)
    if clash:
        logger.warning("%s: %s", file.label, clash)


def platform_clash(file: ModelFile, soc: socs.Soc | None) -> str | None:
    """The reason why this board cannot run the model, None when it can or when nobody knows."""
    model = metadata(file)
    if model is not None and model.generation != "rknpu2":
        return (
            f"{file.label} is a file of RKNN-Toolkit 1 for {'/'.join(model.platforms)}, which librknnrt does not run; "
            "open it with backend rknn1rt on its board, or with backend cpu"
        )
    platforms = _platforms(file)
    if soc is None or not platforms or platforms & set(soc.accepts):
        return None
    return (
        f"{file.label} was built for {'/'.join(sorted(platforms))}, this board is an {soc.name}; "
        f"convert it with target_platform='{soc.name}'"
    )


def _platforms(file: ModelFile) -> set[str]:
    model = metadata(file)
    return {name.lower() for name in (*model.platforms, model.platform) if name} if model else set()


def version_clash(file: ModelFile, library: Library) -> str:
    """A sentence when model and runtime do not go together, else empty."""
    model = metadata(file)
    if model is None:
        return _container_clash(file, library)
    from rknnlite_backend.versions import runtime_clash

    clash = runtime_clash(model.toolkit_version, library.version)
    return f"{library.name} here is {library.version}: {clash}" if clash else ""


def _container_clash(file: ModelFile, library: Library) -> str:
    """A sentence when the container is one that came after this package was written, else empty."""
    head = _head(file)
    container = int.from_bytes(head[8:], "little")
    if not head.startswith(_MAGIC) or not _KNOWN_CONTAINER < container < _MINI_CONTAINERS:
        return ""
    return (
        f"{file.label} has container version {container}, {library.name} here is {library.version}: a runtime opens "
        "containers up to the one that its own toolkit writes; update the runtime to the toolkit's version"
    )


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
    reason = _damaged(file)
    if not reason and code == TargetPlatformUnmatch.code and _platforms(file):
        reason = f"{file.label} was built for {'/'.join(sorted(_platforms(file)))}, this board is another one"
    return _as(None, code, reason)


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
    return kind(str(plain), code=code)
