"""Which version a ``librkllmrt.so`` is, told from the file before anything in it is called.

No function tells the version, and structures moved in every one of them: called with those of another version, the
library crashes or computes with shifted parameters. In order of trust: the identity of the file, the marker in it, what
it exports. What contradicts itself or is unknown is refused.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from rknnlite.errors import BackendUnavailable
from rknnlite.files.reading import read_bytes

from .abi.known_files import (
    UNREADABLE_SHA256,
    git_blob_id,
    known_file,
    markers,
    revisions_exporting,
)
from .abi.revisions import VERSIONS, Revision, revision_of
from .elf import exports

__all__ = ["AS_STATED", "Identity", "LibraryUnknown", "identify"]

AS_STATED = "as stated"
"""How a version is known that the user names."""
_FILE, _MARKER = "known file", "marker in the file"


class LibraryUnknown(BackendUnavailable):
    """The version of the library cannot be told, or its structures are not known; nothing in it was called."""


@dataclass(frozen=True)
class Identity:
    """A library whose layout is known; ``how`` says what told it."""

    path: Path
    version: str
    abi: Revision
    how: str


def identify(path: Path, stated: Optional[str] = None) -> Identity:
    """Tell the version of a file; ``stated`` is what the user says it is, which counts where the file does not tell.

    Raises:
        LibraryUnknown: unknown, ambiguous or contradictory; LibraryUnusable: damaged.
    """
    try:
        content = read_bytes(path)
    except OSError as error:
        raise LibraryUnknown(f"{path} cannot be read: {error.strerror}") from None
    found = _by_content(path, content)
    version, how = found or ("", "")
    if stated and version and stated != version:
        raise LibraryUnknown(
            f"{path} is version {version} ({how}), not {stated}; leave the option version out"
        )
    if not version and stated:
        version, how = stated, AS_STATED
    fitting = revisions_exporting(exports(path))
    if not version:
        return _by_exports(path, fitting)
    abi = _revision(path, version, how)
    if abi not in fitting and how != _FILE:
        names = ", ".join(fit.name for fit in fitting) or "no known version"
        raise LibraryUnknown(
            f"{path} contradicts itself: it is version {version} ({how}), but exports the functions of {names}; it was not "
            "called. Install the library again as the vendor published it"
        )
    return Identity(path, version, abi, how)


def _by_content(path: Path, content: bytes) -> Optional[tuple[str, str]]:
    known = known_file(git_blob_id(content))
    if known is not None:
        return known.version, _FILE
    unreadable = UNREADABLE_SHA256.get(hashlib.sha256(content).hexdigest())
    if unreadable is not None:
        return unreadable, _FILE
    found = markers(content)
    if len(found) > 1:
        raise LibraryUnknown(
            f"{path} contradicts itself: it has the markers of versions {', '.join(found)}; it was not called. Install the "
            "library again as the vendor published it"
        )
    return (found[0], _MARKER) if found else None


def _by_exports(path: Path, fitting: tuple[Revision, ...]) -> Identity:
    names = [abi.name for abi in fitting]
    if names == ["1.2.0", "1.2.1b1"]:  # the later one only appends to the last member of an input
        return Identity(path, "1.2.0 or 1.2.1b1", fitting[1], "exports")
    if len(fitting) == 1:
        known = fitting[0].versions
        shown = known[0] if len(known) == 1 else f"{known[0]} to {known[-1]}"
        return Identity(path, shown, fitting[0], "exports")
    if fitting:
        versions = ", ".join(version for abi in fitting for version in abi.versions)
        raise LibraryUnknown(
            f"{path} may be any of {versions}, whose structures differ, and has no marker of its version; it was not called. "
            "Say which one it is with the option version, or install the library as the vendor published it"
        )
    raise LibraryUnknown(
        f"{path} exports the functions of no known librkllmrt; it was not called. Known are {', '.join(VERSIONS)}"
    )


def _revision(path: Path, version: str, how: str) -> Revision:
    try:
        return revision_of(version)
    except BackendUnavailable:
        raise LibraryUnknown(
            f"{path} is version {version} ({how}), whose structures are not known; it was not called. Known are "
            f"{', '.join(VERSIONS)}: install one of those, or a newer rknnlite"
        ) from None
