"""Containers: recognise a file, read it into a ``Model``. One module and one row of ``_READERS`` per container.

Files are untrusted: every offset and size is checked, nothing larger than the file justifies is allocated,
and a damaged file gives ``ModelInvalid``.

* ``frame`` (header and trailer), ``flatbuffer`` (bounds-checked), ``slots`` (names of fields); ``model`` is what every file
  says.
* ``flat_model`` is what ``rknn6``, ``rknn_classic`` and ``mini`` share, ``rknn1`` the first toolkit's, ``rkllm`` the language
  models'.
* ``tensor_attrs``: what the runtime of a SoC reports for inputs and outputs.
"""

from __future__ import annotations

import importlib
import struct
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, Optional, TypeVar, Union

from ..errors import ModelInvalid, ModelUnsupported
from ..files.reading import MappedFile, is_stream
from .frame import CLASSIC, CURRENT, FIRST_HEADER, HEADER, LLM_PACKAGE, MINI, RKLLM_SUFFIX, RKLLM_VERSION
from .model import NO_ATTRIBUTES, Attributes, IoTensor, Model

__all__ = [
    "NO_ATTRIBUTES",
    "Attributes",
    "IoTensor",
    "Model",
    "ModelFile",
    "is_first_toolkit",
    "is_package",
    "named",
    "sniff",
]

Result = TypeVar("Result")
Source = Union[str, Path, bytes, bytearray, memoryview]

_FIRST_TOOLKIT = {1: 1001, 2: 1002}
"""RKNN-Toolkit 1 counted its containers itself, from 1; here they have numbers of their own."""
_READERS = {
    **dict.fromkeys(_FIRST_TOOLKIT.values(), "rknn1"),
    CURRENT: "rknn6",
    MINI: "mini",
    **dict.fromkeys(CLASSIC, "rknn_classic"),
}
"""Container version -> the module that reads it, imported when there is such a file: ``read(data, version)``."""

_RKLLM = (
    "this is an RKLLM language model, which only the vendor's librkllmrt runs (backend rkllm), on an RK3588, RK3576, "
    "RK3562 or RV1126B; open it there with rknnlite.open_llm"
)
_REMEDY = "convert the network again with rknn-toolkit2 1.6 or newer for your SoC"


class ModelFile:
    """A model file or the bytes of one; read and parsed only as far as somebody asks.

    ``path`` is None for bytes. A file is mapped, not copied. ``label`` names the model in messages.
    """

    def __init__(self, source: Source, label: str = "") -> None:
        self.path = None if isinstance(source, (bytes, bytearray, memoryview)) else Path(source)
        self._source = source
        self._label = label
        self._mapped: MappedFile | None = None
        self._results: dict[Callable[[ModelFile], Any], Any] = {}

    @property
    def label(self) -> str:
        """Name for messages."""
        return self._label or (str(self.path) if self.path else "model in memory")

    @cached_property
    def data(self) -> memoryview:
        """The bytes of the file; raises ModelInvalid that names it when it cannot be read."""
        if self.path is None:
            view = memoryview(self._source)  # type: ignore[arg-type]
            return view.cast("B") if view.c_contiguous else memoryview(view.tobytes())
        try:
            if is_stream(self.path):
                raise ModelInvalid(
                    f"{self.label}: cannot be read: it is a pipe, a socket or a device; give a file, or the bytes of one"
                )
            self._mapped = MappedFile(self.path)
            return self._mapped.data
        except OSError as error:
            raise ModelInvalid(f"{self.label}: cannot be read: {error.strerror or error}") from None
        except ValueError as error:  # a path that no system takes
            raise ModelInvalid(f"{self.label}: cannot be read: {error}") from None

    @property
    def identity(self) -> tuple[int, ...] | None:
        """Device, inode, size, mtime and ctime of the file when it was mapped; None for bytes, and before."""
        return self._mapped.identity if self._mapped is not None else None

    def want_large_pages(self) -> None:
        """For weights that are read as they lie in a mapped file, again and again; see ``MappedFile``."""
        if self._mapped is not None:
            self._mapped.want_large_pages()

    def drop_pages(self) -> None:
        """Give the pages of a mapped file back to the system; they are read again when they are touched."""
        if self._mapped is not None:
            self._mapped.drop_pages()

    def check(self) -> None:
        """Raise ModelInvalid when the mapped file was changed in place since; to be called before weights are read."""
        if self._mapped is not None:
            self._mapped.check(self.label)

    @cached_property
    def model(self) -> Model:
        """The metadata; raises ModelInvalid or ModelUnsupported naming the file and the remedy."""
        self.check()
        with self.naming():
            self.refuse_rkllm()
            return _read(self.data)

    def refuse_rkllm(self) -> None:
        """Raise ModelInvalid for what has the name of an RKLLM model, and is none; ModelUnsupported for one."""
        if bytes(self.data[:4]) in (b"RKNN", b"RKNX", LLM_PACKAGE[:4]):
            return
        named = self.path is not None and self.path.suffix.lower() == RKLLM_SUFFIX
        if not named and bytes(self.data[4:8]) != RKLLM_VERSION.to_bytes(4, "little"):
            return
        from .rkllm import check_rkllm, is_rkllm  # most files are networks

        if is_rkllm(self.path, self.data):
            check_rkllm(self.data)
            raise ModelUnsupported(_RKLLM)

    def check_package(self) -> None:
        """Raise what is wrong with a file that shall be a language model; what its description says is not read."""
        self.check()
        with self.naming():
            self.refuse_rkllm()
            if not is_package(self.data):
                sniff(self.data)

    def naming(self) -> _Naming:
        """What goes wrong with the model inside the block names the file."""
        return _Naming(self.label)

    def once(self, read: Callable[[ModelFile], Result]) -> Result:
        """What ``read`` makes of this file, computed once: for libraries that know more of files than the core."""
        if read not in self._results:
            self._results[read] = read(self)
        result: Result = self._results[read]
        return result


class _Naming:
    """See ``ModelFile.naming``. No generator: in Python 3.13 that leaves a reference cycle with the caller's frames."""

    def __init__(self, label: str) -> None:
        self._label = label

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(self, kind: object, error: Optional[BaseException], traceback: object) -> None:
        if isinstance(error, ModelInvalid):
            raise named(error, self._label) from None


def named(error: ModelInvalid, label: str) -> ModelInvalid:
    """The same error with the name of the file before it, once."""
    text = str(error)
    return type(error)(text if text.startswith(f"{label}: ") else f"{label}: {text}")


def sniff(data: memoryview) -> int:
    """The container version of a genuine file; 1001 and 1002 are those of RKNN-Toolkit 1.

    Raises:
        ModelInvalid: not such a file; the text says what it is instead and what to do.
    """
    if len(data) == 0:
        raise ModelInvalid("the file is empty; copy it again")
    head = bytes(data[:8])
    if head == b"CYPTRKNN" or head[:4] == b"RKCE":
        raise ModelUnsupported(
            "the model is encrypted; only the vendor's runtime on a board can open it: run it there, or use the "
            "unencrypted export"
        )
    if head == LLM_PACKAGE:
        raise ModelUnsupported(
            "this is an LLM package of rknnlite, not a network; open it with rknnlite.open_llm or with rknn3lite "
            "in LLM mode"
        )
    if head[:4] == b"RKNX":
        raise ModelUnsupported("this is an RKNN3 model (RK1820/RK1828); open it with rknn3lite on its device")
    if head == b"version " and bytes(data[:19]) == b"version https://git":
        raise ModelInvalid("this is a pointer of Git LFS, not the model itself; fetch it: git lfs pull")
    if head[:4] != b"RKNN":
        raise ModelInvalid(f"not an RKNN model: it starts with {head!r}, not b'RKNN'; {_REMEDY}")
    if len(data) < HEADER:
        raise ModelInvalid(f"the file is truncated: {len(data)} bytes cannot hold its header; copy it again")
    version: int = struct.unpack_from("<Q", data, 8)[0]
    if version in _FIRST_TOOLKIT and not _is_rknpu2(data, version):
        return _FIRST_TOOLKIT[version]
    if version not in _READERS:
        kind = "a variant of the mini format" if version & 0xFF00 == 0x1000 else "unknown"
        raise ModelUnsupported(
            f"container version {version:#x} is {kind} that this version of rknnlite does not read; "
            f"update rknnlite, or {_REMEDY}"
        )
    return version


def is_package(data: memoryview) -> bool:
    """Whether the file is the first one of a language model package."""
    return bytes(data[: len(LLM_PACKAGE)]) == LLM_PACKAGE


def is_first_toolkit(data: memoryview) -> bool:
    """Whether RKNN-Toolkit 1 wrote the file; of anything else, damaged files too, it did not."""
    try:
        return sniff(data) in _FIRST_TOOLKIT.values()
    except ModelInvalid:
        return False


def _is_rknpu2(data: memoryview, version: int) -> bool:
    """RKNN-Toolkit 1 counts its containers from 1, too: there data without a flatbuffer follow the header in version 1,
    JSON in version 2 (after a size of 0)."""
    if version == 1:
        return bytes(data[FIRST_HEADER + 4 : FIRST_HEADER + 8]) == b"RKNN"
    size = struct.unpack_from("<Q", data, 16)[0]
    return size != 0 or bytes(data[32:33]) != b"{"


def _read(data: memoryview) -> Model:
    version = sniff(data)
    reader = importlib.import_module(f".{_READERS[version]}", __name__)
    model: Model = reader.read(data, version)
    return model
