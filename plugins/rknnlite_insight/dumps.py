"""A folder that holds every tensor of one run: ``.npy`` files and a manifest.

``manifest.json`` lists the tensors in order of computation: name, node, operator, element type, shape, scale, zero
point, files, and the microseconds of the node. ``file`` has the real values in logical (ONNX) order, ``raw_file`` the
stored integers of a quantised tensor, ``real = (raw - zero_point) * scale``. With a batch each item has an entry.

Folders that the vendor's runtime wrote on a board have no manifest; the names of their files tell
(``025_ConvClip_385_shape_1_384_14_14_float.npy``).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Optional, Protocol

import numpy as np
from numpy.typing import NDArray

from rknnlite import config
from rknnlite.errors import ParamInvalid
from rknnlite.files.arrays import read_array
from rknnlite.files.reading import read_text
from rknnlite.files.writing import write_array, write_text
from rknnlite.log import logger

__all__ = ["MANIFEST", "Dump", "DumpWriter", "DumpedTensor", "SideDump", "TensorSink", "default_folder"]

Array = NDArray[Any]
MANIFEST = "manifest.json"
_VERSION = 1
_MAX_NAME = 80
_KINDS: dict[str, tuple[type, ...]] = {
    "name": (str,),
    "node": (str,),
    "op": (str,),
    "dtype": (str,),
    "file": (str,),
    "raw_file": (str, type(None)),
    "scale": (float, int, type(None)),
    "zero_point": (int, type(None)),
    "time_us": (float, int, type(None)),
    "shape": (list,),
    "item": (int,),
    "role": (str,),
}


def default_folder(label: str) -> Path:
    """Where ``RKNN_LOG_LEVEL=5`` writes: a folder per model under ``RKNNLITE_DUMP_DIR``, else ``./rknn_dump``."""
    return Path(config.get("dump_dir") or "rknn_dump") / _safe(Path(label).stem or "model")


def _safe(name: str) -> str:
    """A name from a model as part of a file name; it cannot leave the folder."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name)[:_MAX_NAME].strip(".") or "tensor"


@dataclass(frozen=True)
class DumpedTensor:
    """One entry of the manifest. ``role`` is ``input``, ``activation`` or ``output``; ``node`` is who made it.

    Examples:
        >>> DumpedTensor("logits", "fc", "Conv", "INT8", (1, 1000), "logits.npy", role="output").shape
        (1, 1000)
    """

    name: str
    node: str
    op: str
    dtype: str
    shape: tuple[int, ...]
    file: str
    role: str = "activation"
    scale: Optional[float] = None
    zero_point: Optional[int] = None
    raw_file: Optional[str] = None
    item: int = 0
    time_us: Optional[float] = None


@dataclass
class Dump:
    """A dump on disk. ``info`` says what made it (model, backend, SoC, fidelity); arrays are read on demand.

    Each name is one tensor: where another run gave two the same, the second ``x`` is called ``x#2``.

    Examples:
        >>> with rknnlite.open("examples/resnet18/resnet18_for_RK3588.rknn") as context:
        ...     outputs = context.infer(np.zeros((1, 224, 224, 3), np.uint8))
        ...     dump = context.dump("dump")
        >>> dump.value(dump.names[-1]).size
        10
    """

    folder: Path
    tensors: list[DumpedTensor]
    info: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tensors = _told_apart(self.tensors)

    @classmethod
    def read(cls, folder: str | os.PathLike[str]) -> Dump:
        """Read the manifest, or a board's files; raises ParamInvalid where the folder holds neither."""
        path = Path(folder) / MANIFEST
        if not path.exists() and (tensors := _of_board(Path(folder))):
            return cls(Path(folder), tensors, {"backend": "board", "board": True})
        try:
            from rknnlite.files.json_text import parse_json  # only who reads a dump needs it

            found = parse_json(read_text(path))
            entries = [_entry(entry, path) for entry in found["tensors"]]
            info = dict(found.get("info") or {})
        except OSError as error:
            raise ParamInvalid(
                f"{folder} is no folder of dumps: {MANIFEST} cannot be read ({error.strerror}); make one with "
                "context.dump(folder)"
            ) from None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ParamInvalid(f"{path} is damaged ({error}); dump the run again") from None
        return cls(Path(folder), entries, info)

    @property
    def of_board(self) -> bool:
        """Whether the vendor's runtime wrote it."""
        return bool(self.info.get("board"))

    def manifest(self) -> str:
        """The text of its ``manifest.json``; of a board's dump, which has none, what it would be."""
        content = {"version": _VERSION, "info": self.info, "tensors": [asdict(t) for t in self.tensors]}
        return json.dumps(content, indent=1, ensure_ascii=False) + "\n"

    def named_as(self, other: Dump) -> Dump:
        """A board's dump with the names and roles of the tensors of another run: file names keep no special characters."""
        known = {_plain(tensor.name): tensor for tensor in other.tensors}
        pairs = [(tensor, known.get(_plain(tensor.name), tensor)) for tensor in self.tensors]
        return Dump(self.folder, [replace(t, name=twin.name, role=twin.role) for t, twin in pairs], self.info)

    @property
    def names(self) -> list[str]:
        """Names of the tensors, each once, in order of computation."""
        return list(dict.fromkeys(tensor.name for tensor in self.tensors))

    def entry(self, name: str) -> DumpedTensor:
        """The (first) entry of a tensor; raises ParamInvalid for an unknown name."""
        for tensor in self.tensors:
            if tensor.name == name:
                return tensor
        raise ParamInvalid(f"{self.folder} has no tensor {name!r}; it has {', '.join(self.names[:8])}, ...")

    def value(self, name: str) -> Array:
        """Real values of a tensor, batch items behind each other."""
        self.entry(name)
        parts = [self._load(tensor.file) for tensor in self.tensors if tensor.name == name]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def raw(self, name: str) -> Array:
        """Stored integers of a quantised tensor; raises ParamInvalid for one that is not."""
        entry = self.entry(name)
        files = [tensor.raw_file for tensor in self.tensors if tensor.name == name]
        present = [file for file in files if file is not None]
        if not present:
            raise ParamInvalid(f"tensor {name!r} is {entry.dtype} and not quantised; ask for its value")
        parts = [self._load(file) for file in present]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _load(self, file: str) -> Array:
        try:
            return read_array(self.folder / file)
        except (OSError, ValueError) as error:
            raise ParamInvalid(f"{self.folder / file} cannot be read ({error}); dump the run again") from None


def _told_apart(tensors: list[DumpedTensor]) -> list[DumpedTensor]:
    """With other names for those that are not the first of their name and item."""
    numbers: dict[tuple[str, int], int] = {}
    named = []
    for tensor in tensors:
        name = tensor.name
        while number := numbers.get((name, tensor.item), 0):
            numbers[name, tensor.item] = number + 1
            name = f"{name}#{number + 1}"
        numbers[name, tensor.item] = 1
        named.append(tensor if name == tensor.name else replace(tensor, name=name))
    return named


_BOARD_FILE = re.compile(r"(\d+)_([A-Za-z0-9]+)_(.+)_shape_(\d+(?:_\d+)*)_([A-Za-z]\w*)\.npy")
"""Number, operator, tensor, shape and element type in the name of a file of the vendor's runtime."""


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]", "_", name)


def _of_board(folder: Path) -> list[DumpedTensor]:
    """What the vendor's runtime dumped, in order; the real values where a tensor was written in several types."""
    found: dict[tuple[str, str], tuple[int, DumpedTensor]] = {}
    try:
        names = sorted(path.name for path in folder.iterdir())
    except OSError:
        return []
    for file in names:
        match = _BOARD_FILE.fullmatch(file)
        if match is None:
            continue
        number, op, name, dims, kind = match.groups()
        shape = tuple(int(n) for n in dims.split("_"))
        if (name, dims) not in found or kind.lower().startswith("float"):
            found[name, dims] = int(number), DumpedTensor(name, "", op, kind, shape, file)
    return [tensor for _, tensor in sorted(found.values(), key=lambda pair: pair[0])]


def _entry(given: Mapping[str, Any], path: Path) -> DumpedTensor:
    known = {f.name for f in fields(DumpedTensor)}
    for key, value in given.items():
        if key in known and not isinstance(value, _KINDS[key]):
            raise ValueError(f"{key} is {value!r}")
    for key in ("file", "raw_file"):
        name = given.get(key)
        if name is not None and (Path(name).name != name or name in ("", "..")):
            raise ValueError(f"{key} {name!r} lies outside of its folder")
    values = {key: value for key, value in given.items() if key in known}
    return DumpedTensor(**{**values, "shape": tuple(int(dim) for dim in given["shape"])})


class TensorSink(Protocol):
    """What takes the tensors of a run one by one, as ``DumpWriter.add`` does."""

    def add(self, name: str, real: Array, raw: Array | None = None, **about: Any) -> None:
        """Save one tensor."""


class DumpWriter:
    """Writes a dump tensor by tensor, so that a run need not be held in memory; ``close`` writes the manifest."""

    def __init__(self, folder: str | os.PathLike[str], **info: Any) -> None:
        self._folder = Path(folder)
        self._info = info
        self._tensors: list[DumpedTensor] = []
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ParamInvalid(f"cannot write a dump to {folder}: {error.strerror or error}") from None

    def add(
        self,
        name: str,
        real: Array,
        raw: Array | None = None,
        *,
        dtype: str,
        node: str = "",
        op: str = "",
        role: str = "activation",
        scale: float | None = None,
        zero_point: int | None = None,
        item: int | None = None,
        time_us: float | None = None,
    ) -> None:
        """Save one tensor; ``item`` is its place in a batch, None without one."""
        stem = f"{len(self._tensors):04d}_{_safe(name)}" + ("" if item is None else f".{item}")
        raw_file = f"{stem}.raw.npy" if raw is not None else None
        try:
            write_array(self._folder / f"{stem}.npy", real, lasting=False)  # a dump can be made again
            if raw is not None and raw_file is not None:
                write_array(self._folder / raw_file, raw, lasting=False)
        except OSError as error:
            raise ParamInvalid(
                f"cannot write tensor {name!r} to {self._folder}: {error.strerror or error}"
            ) from None
        entry = DumpedTensor(
            name,
            node,
            op,
            dtype,
            tuple(real.shape),
            f"{stem}.npy",
            role,
            scale,
            zero_point,
            raw_file,
            item or 0,
            None if time_us is None else round(time_us, 1),
        )
        self._tensors.append(entry)

    def close(self) -> Dump:
        """Write the manifest; the finished dump."""
        made = Dump(self._folder, self._tensors, dict(self._info))
        try:
            write_text(self._folder / MANIFEST, made.manifest())
        except OSError as error:
            raise ParamInvalid(f"cannot write {self._folder / MANIFEST}: {error.strerror or error}") from None
        return made


class SideDump:
    """A dump that nobody waits for, of an inference: where it cannot be written that is logged, and the run goes on."""

    def __init__(self, folder: str | os.PathLike[str], **info: Any) -> None:
        self._writer: Optional[DumpWriter] = None
        try:
            self._writer = DumpWriter(folder, **info)
        except ParamInvalid as error:
            self._give_up(error)

    def add(self, name: str, real: Array, raw: Array | None = None, **about: Any) -> None:
        """Save one tensor; see ``DumpWriter.add``."""
        if self._writer is not None:
            try:
                self._writer.add(name, real, raw, **about)
            except ParamInvalid as error:
                self._give_up(error)

    def finish(self) -> None:
        """Write the manifest, and log where it lies."""
        if self._writer is not None:
            try:
                logger.info("tensors of this run: %s", self._writer.close().folder)
            except ParamInvalid as error:
                self._give_up(error)

    def _give_up(self, error: ParamInvalid) -> None:
        self._writer = None
        logger.error(
            "%s; the tensors of this run are not written, its results are not affected: make room, name another "
            "folder in RKNNLITE_DUMP_DIR, or set RKNN_LOG_LEVEL below 5",
            error,
        )
