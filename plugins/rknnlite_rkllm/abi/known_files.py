"""What identifies a librkllmrt.so, as data: no function of it tells its version.

In order of trust: the identity of the file (``KNOWN_FILES``), the marker text in it (``MARKER``), the names it exports
(``revisions_exporting``). ``rkllm_createDefaultParam`` into an ``RKLLMDefaultParamSpace``, compared with ``DEFAULTS``, only
confirms. Source: the tree objects of the vendor's public repository for the identities; the marker was quoted by others
from files of 1.2.0 and 1.3.1 and is not shown for the rest.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from .revisions import REVISIONS, Revision

__all__ = [
    "KNOWN_FILES",
    "MARKER",
    "UNDECLARED_EXPORTS",
    "UNREADABLE_SHA256",
    "KnownFile",
    "git_blob_id",
    "known_file",
    "markers",
    "revisions_exporting",
]


@dataclass(frozen=True)
class KnownFile:
    """A library as the vendor published it."""

    blob: str
    """Identity of the content as git computes it: 40 hexadecimal digits."""
    version: str
    platform: str


KNOWN_FILES = (
    KnownFile("0b93495ab81d86d61dfbbb6a6481d7881cc5a557", "1.0.0", "android-arm64-v8a"),
    KnownFile("53e00993ebbc7797df09673f806479e8642db946", "1.0.0", "linux-aarch64"),
    KnownFile("ba8f0763753069586541993e4ed66a68f9596ce4", "1.0.1", "android-arm64-v8a"),
    KnownFile("a026cbe60905af0ad6c07dfa2fcc339dd4b9fa10", "1.0.1", "linux-aarch64"),
    KnownFile("2f7e7e97447cf9515d92e94f456ae7ec5795dda8", "1.0.2-beta", "android-arm64-v8a"),
    KnownFile("c913ab1569dfed48916c05fcd898f8d3f9dafe04", "1.0.2-beta", "linux-aarch64"),
    KnownFile("9b5ff7f87f5f49655428de4f3dbef613d5a6b6c5", "1.1.0", "android-arm64-v8a"),
    KnownFile("66dfdc7c25cdca9ccf9930798118e17abf7592ff", "1.1.0", "linux-aarch64"),
    KnownFile("9cb37c73de4f51650f61ad3427bdf11c558ae499", "1.1.1", "android-arm64-v8a"),
    KnownFile("bfca051375287d0f5aa754a7b8681b4ede52e259", "1.1.1", "linux-aarch64"),
    KnownFile("87b6735ebb37a88616e559c81ce7700ae26d440b", "1.1.2", "android-arm64-v8a"),
    KnownFile("e8f4afc38c7394beeff83003dbc772412f649a44", "1.1.2", "linux-aarch64"),
    KnownFile("ecc05306766660bd79a708200948f3d009efe4ba", "1.1.3", "android-arm64-v8a"),
    KnownFile("68e79327e82f675413956be615f48c62ccd0f16e", "1.1.3", "linux-aarch64"),
    KnownFile("3f173bdf016d346690d2ccad52480efc53234b3e", "1.1.4", "android-arm64-v8a"),
    KnownFile("3bb8cb6172c4c06e1c622c8f8c579888378784f4", "1.1.4", "linux-aarch64"),
    KnownFile("d61b58e295a1e88f3c690df316bfd83eec4bd16d", "1.2.0", "android-arm64-v8a"),
    KnownFile("d45ee9b8dcb9ef27d7dd875ce3be3d5e6dfb654d", "1.2.0", "linux-aarch64"),
    KnownFile("08dc9db1a201c0a87f596c7667d5dc98ca16a7d9", "1.2.1b1", "android-arm64-v8a"),
    KnownFile("db041c01bba5e0e8f624bb2ff50d48825dde1bfc", "1.2.1b1", "linux-aarch64"),
    KnownFile("4464ccb4f167d72dbd61fe1c92b44976ed45dda5", "1.2.1", "android-arm64-v8a"),
    KnownFile("232dc7a18d14dd0c47fd9f6f3b8581e07cdddc92", "1.2.1", "android-armeabi-v7a"),
    KnownFile("6b9439d59f2fe4bb8ef5ee2b09c102f1bf993da9", "1.2.1", "linux-aarch64"),
    KnownFile("7025f35825e04ad75d839d10392e3c02cc88e57a", "1.2.1", "linux-armhf"),
    KnownFile("471639b60c2c7fdcb2c8dffd553acc8548d10c2e", "1.2.2", "android-arm64-v8a"),
    KnownFile("b7310ed2a1c1c054adf82c8883d9b339b5e7d1a0", "1.2.2", "android-armeabi-v7a"),
    KnownFile("8ed9cca16f8d5ad8f7cdd7d393de6561182b3395", "1.2.2", "linux-aarch64"),
    KnownFile("d5953fdad6e60521f1dc696f6d638425c93ba08d", "1.2.2", "linux-armhf"),
    KnownFile("348986e7a8170ddb2c3b43e99257d2e64d9699f6", "1.2.3", "android-arm64-v8a"),
    KnownFile("d53acaf083edd95a1bac3513cc5c5241c1cc272c", "1.2.3", "android-armeabi-v7a"),
    KnownFile("0084abc34ab43359cfa9fd5d4c92ece34127dbd0", "1.2.3", "linux-aarch64"),
    KnownFile("fe1ca6849603a770c54f82d26b826a120c79a01a", "1.2.3", "linux-armhf"),
    KnownFile("5f0bd5f39bd05263a59786733687d29e66982aa6", "1.3.0", "android-arm64-v8a"),
    KnownFile("f96c82ba91731e14905d95bda44555b191dbe996", "1.3.0", "android-armeabi-v7a"),
    KnownFile("34167b32f99cb7ab19e21fb579fb750d96b878f1", "1.3.0", "linux-aarch64"),
    KnownFile("17c9063b46168c4e7d093d6fedb097874f92d076", "1.3.0", "linux-armhf"),
)
"""All files the vendor published up to 1.3.0."""

UNREADABLE_SHA256 = {
    "f25e9b099db08aaacd0a3ac62b4697d3951d6ae61ae41ea09f6702cfa89eb32c": "1.3.1",
}
"""Files whose version is known and whose header is not: never to be called."""

MARKER = re.compile(rb"RKLLM SDK \(version: ([0-9]+\.[0-9]+\.[0-9]+[0-9A-Za-z.-]*)")
"""Plain text in the file: ``RKLLM SDK (version: 1.2.0 | target: Linux | build: ...)``. Its other version texts are
formats without a number (``rkllm-runtime version: %s``) or those of an inner library (``rknn llm lib version``)."""

UNDECLARED_EXPORTS = ("rkllm_accuracy_analysis", "rkllm_print_memorys", "rkllm_print_timings")
"""Exported by genuine files, declared in no header."""

_BY_BLOB = {known.blob: known for known in KNOWN_FILES}


def git_blob_id(content: bytes) -> str:
    """The identity of a file's content as git computes it.

    >>> git_blob_id(b"")
    'e69de29bb2d1d6434b8b29ae775ad8c2e48c5391'
    """
    digest = hashlib.sha1(b"blob %d\0" % len(content), usedforsecurity=False)
    digest.update(content)
    return digest.hexdigest()


def known_file(blob: str) -> KnownFile | None:
    """The published file with this identity."""
    return _BY_BLOB.get(blob)


def markers(content: bytes) -> tuple[str, ...]:
    """Versions that the marker names in a file, each once, sorted; more than one is a contradiction."""
    return tuple(sorted({found.decode("ascii") for found in MARKER.findall(content)}))


def revisions_exporting(names: Iterable[str]) -> tuple[Revision, ...]:
    """The layouts whose functions are exactly the ``rkllm_`` names of a library, undeclared ones apart; none: unknown.

    1.2.0 and 1.2.1b1 export the same, and so do 1.2.1 and 1.3.0.
    """
    own = {name for name in names if name.startswith("rkllm_")} - set(UNDECLARED_EXPORTS)
    return tuple(abi for abi in REVISIONS.values() if set(abi.exports) == own)
