"""One of the runs that are compared: what it is, how it is run, and its tensors once it has."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Union

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ModelInvalid, ParamInvalid, RknnError
from rknnlite.files.reading import is_stream
from rknnlite.formats import IoTensor, ModelFile
from rknnlite.runtime import known_ops, open_model
from rknnlite.spi import Context, CustomOp, Input
from rknnlite.spi.inputs import collect
from rknnlite.tensor import Layout

from .dumps import Dump, DumpWriter
from .onnx_run import dump_onnx

__all__ = ["Run", "Side", "normalised"]

Array = NDArray[Any]
Side = Union[str, "os.PathLike[str]", Context, Dump]


class Run:
    """One side: what it is, and its tensors once it has run."""

    def __init__(self, side: Side, stack: ExitStack, options: Mapping[str, Any]) -> None:
        import tempfile  # costs a tenth of what importing all of rknnlite does

        self.context: Context | None = None
        self.path: Path | None = None
        self._io: list[IoTensor] = []
        self._dump: Dump | None = None
        self.lacks = ""  # why there are only outputs, where that is so
        self._folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rknnlite-")))
        self.is_onnx = False
        if isinstance(side, Context):
            self.context, self.label = side, f"a context of backend {side.backend_name}"
        elif isinstance(side, Dump):
            self._dump, self.label = side, str(side.folder)
        elif isinstance(side, (str, os.PathLike)):
            self._open(Path(side), stack, options)
        else:
            raise ParamInvalid(f"a side of a comparison is a path, a context or a dump, not {side!r}")

    def _open(self, path: Path, stack: ExitStack, options: Mapping[str, Any]) -> None:
        self.label = path.name
        if path.is_dir():
            self._dump = Dump.read(path)
        elif is_stream(path):  # opening it would wait for somebody who writes
            raise ModelInvalid(f"{path} cannot be read: it is a pipe, a socket or a device; give a file")
        elif path.suffix.lower() == ".onnx":
            self.path, self.is_onnx = path, True
        else:
            file = ModelFile(path)
            self.context = stack.enter_context(open_model(file, **options))
            self._io = file.model.inputs

    @property
    def title(self) -> str:
        """What ran, as tables name it: ``model.rknn (cpu, npu)``."""
        info = self.dump.info
        made_by = ", ".join(str(info[key]) for key in ("backend", "fidelity") if info.get(key))
        name = Path(str(info["model"])).name if info.get("model") else self.label
        return f"{name} ({made_by})" if made_by else name

    @property
    def dump(self) -> Dump:
        """The tensors of the run."""
        assert self._dump is not None
        return self._dump

    def make(
        self,
        inputs: Any,
        layout: str | None,
        other: Run,
        golden: Mapping[str, Array] | None,
        ops: Sequence[CustomOp],
    ) -> None:
        """Run this side, unless it is a dump already."""
        if self.context is not None:
            items = self._collect(inputs, layout)
            self._dump, self.lacks = _dump_context(self.context, items, self._folder / "entire", self.label)
        elif self.path is not None:
            feeds = golden if golden is not None else other.real_inputs(inputs, layout)
            self._dump = dump_onnx(self.path, feeds, self._folder / "entire", known_ops(ops), other.shape_of)

    def shape_of(self, name: str) -> tuple[int, ...] | None:
        """The shape of a tensor of this side; None when it has none of that name."""
        if self._dump is None or name not in self._dump.names:
            return None
        return self._dump.entry(name).shape

    def value_of(self, name: str, size: int) -> Array | None:
        """The values of a tensor of this side; None when it has none of that name and size."""
        if name not in self.dump.names:
            return None
        value = self.dump.value(name)
        return value if value.size == size else None

    def take_names(self, other: Dump) -> None:
        """Call the tensors of a board's dump as the other side does."""
        self._dump = self.dump.named_as(other)

    def make_single(self, golden: Dump, inputs: Any, layout: str | None, folder: str = "single") -> Dump:
        """The run in which each layer computes on the values of ``golden``."""
        if self.context is None or not _can_dump(self.context):
            raise ParamInvalid(
                f"mode 'single' runs each layer of the model on golden values, and {self.label} cannot do that; give a "
                ".rknn file or context on the CPU reference (backend='cpu')"
            )
        with _fed(self.context, self._collect(inputs, layout)):
            dump: Dump = self.context.dump(self._folder / folder, golden=golden)
            return dump

    def real_inputs(self, inputs: Any, layout: str | None) -> dict[str, Array]:
        """What a network in float gets for this side's inputs: normalised, NCHW."""
        if self._io and self.context is not None:
            items = self._collect(inputs, layout)
            return {io.name: normalised(item, io) for io, item in zip(self._io, items)}
        if self._dump is None:
            raise ParamInvalid("two ONNX files: say what they get with reference_inputs={name: array}")
        names = [tensor.name for tensor in self._dump.tensors if tensor.role == "input"]
        return {name: self._dump.value(name) for name in names}

    def _collect(self, inputs: Any, layout: str | None) -> list[Input]:
        assert self.context is not None
        if inputs is None:
            raise ParamInvalid(f"{self.label} has to be run: give the inputs")
        return collect(inputs, self.context.inputs, layout, False, shapes=self.context.shapes)


def _can_dump(context: Context) -> bool:
    return type(context).dump is not Context.dump


@contextmanager
def _fed(context: Context, items: list[Input]) -> Iterator[None]:
    with context.exclusive():
        context.set_inputs(items)
        yield


def _dump_context(context: Context, items: list[Input], folder: Path, label: str) -> tuple[Dump, str]:
    """Every tensor of a run, or only the outputs where the backend shows no others: then also why."""
    with _fed(context, items):
        why = f"backend {context.backend_name} shows no tensors but the outputs"
        if _can_dump(context):
            try:
                return context.dump(folder), ""
            except RknnError as error:
                # a typed one is about this run, not about what can be done at all
                if type(error) is not RknnError:
                    raise
                why = str(error)
        context.run()
        writer = DumpWriter(folder, model=label, backend=context.backend_name)
        for attr, value in zip(context.outputs, context.get_outputs(True)):
            writer.add(attr.name, value, dtype=attr.dtype.short, op="Output", role="output")
        return writer.close(), why


def normalised(item: Input, io: IoTensor) -> Array:
    """An input as the network in float gets it: NCHW, in the order of its channels, less mean, by deviation."""
    data = item.data
    if data.ndim == 4 and item.layout is not Layout.NCHW:
        data = data.transpose(0, 3, 1, 2)
    if io.reorder and data.ndim == 4:
        data = data[:, list(io.reorder)]
    if not (io.quant is not None or io.dtype.is_float):
        return data
    real: Array = np.asarray(data, np.float32)
    for numbers, apply in ((io.mean, np.subtract), (io.std, np.divide)):
        if numbers and real.ndim == 4 and len(numbers) in (1, real.shape[1]):
            real = apply(real, np.asarray(numbers, np.float32).reshape(1, -1, 1, 1))
    return real
