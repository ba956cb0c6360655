"""Runs the two sides of a comparison and brings their tensors together."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Union

import numpy as np
from numpy.typing import NDArray

from ..errors import ModelInvalid, ParamInvalid, RknnError
from ..files.reading import is_stream
from ..formats import IoTensor, ModelFile
from ..runtime import known_ops, open_model, resolve_ops
from ..spi import Context, CustomOp, Input
from ..spi.dumps import Dump, DumpedTensor, DumpWriter
from ..spi.inputs import collect
from ..tensor import Layout
from .comparison import Comparison, distance, length
from .onnx_run import dump_onnx
from .tensor_error import Distance, TensorError

__all__ = ["Side", "compare"]

Array = NDArray[Any]
Side = Union[str, "os.PathLike[str]", Context, Dump]
_MODES = ("entire", "single")
_INTEGERS = ("int8", "uint8", "int16", "uint16")


def compare(
    model: Side,
    reference: Side,
    inputs: Any = None,
    mode: str = "entire",
    *,
    layout: str | None = None,
    reference_inputs: Mapping[str, Array] | None = None,
    floating: str | os.PathLike[str] | None = None,
    plot: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int, str], None] | None = None,
    **options: Any,
) -> Comparison:
    """Compare two runs of a network, tensor by tensor. Tensors of the same name are compared.

    Where the model is a folder that the vendor's runtime wrote on a board (``RKNN_LOG_LEVEL=5``), the errors are the
    runtime's, as the manual's table has them; ``"single"`` then runs each layer of the reference on the board's values.

    Each side is the path of a ``.rknn`` file, an open context, the path of an ``.onnx`` file (run by onnxruntime,
    extra ``onnx``), or a folder of dumps (or a ``Dump``).

    Args:
        model: what is judged.
        reference: what it is judged by, the golden values.
        inputs: as for ``Context.infer``; None where both sides are dumps.
        mode: ``"entire"``: errors add up from layer to layer. ``"single"``: also each layer alone, computed on the
            reference's values; the model's backend must be able to do that (the CPU reference is).
        layout: of the inputs, ``"nhwc"`` (default) or ``"nchw"``.
        reference_inputs: what the ONNX file gets, by name. Without it: the inputs with mean and standard deviation
            of the ``.rknn`` file on the other side, or the input tensors of the context or dump there.
        floating: path of a network that is run in float, an ``.onnx`` file or the ``.rknn`` file itself (its dequantised
            layers then): how far the model and the reference are from it stands beside how far they are apart.
        plot: where to draw distance and time per layer, a PNG (extra ``plot``).
        progress: called with what is done, of how much, and what comes next: first the runs, then the tensors.
        options: for opening ``.rknn`` files, as for ``rknnlite.open`` (``backend``, ``fidelity``, ...); the operators
            in ``custom_ops``, and those of plugins, also compute the custom nodes of an ONNX file.

    Raises:
        ParamInvalid: a side or mode that is none. InputInvalid, ModelInvalid, BackendUnavailable and the like.
    """
    if mode not in _MODES:
        raise ParamInvalid(f"mode must be 'entire' or 'single', not {mode!r}")
    ops = resolve_ops(options.pop("custom_ops", ()))
    options["custom_ops"] = ops  # compiled ones are loaded once for both sides
    with ExitStack() as stack:
        runs = [_Run(side, stack, options) for side in (model, reference)]
        order = sorted(runs, key=lambda run: run.is_onnx)  # an ONNX file may need what the other side was fed
        steps = _Steps(progress, len(runs) + (mode == "single") + (floating is not None))
        for run in order:
            steps.next(run.label)
            run.make(inputs, layout, runs[1] if run is runs[0] else runs[0], reference_inputs, ops)
        board = runs[0].dump.of_board
        if board:
            runs[0].take_names(runs[1].dump)
        judge, golden = (runs[1], runs[0]) if board else (runs[0], runs[1])
        if mode == "single":
            steps.next(f"layers of {judge.label} alone")
        alone = judge.make_single(golden.dump, inputs, layout) if mode == "single" else None
        third = _floating(floating, stack, options)
        if third is not None:
            steps.next(f"{third.label} in float")
            third.make(
                inputs, layout, next((r for r in runs if not r.is_onnx), runs[0]), reference_inputs, ops
            )
        own = third is not None and _same_file(model, floating)
        found = _match(runs[0], runs[1], mode, alone, third, own, progress)
    if plot is not None:
        found.plot(plot)
    return found


class _Steps:
    """Tells somebody who wants to know what is done and what comes next."""

    def __init__(self, tell: Callable[[int, int, str], None] | None, total: int) -> None:
        self._tell, self._total, self._begun = tell, total, 0

    def next(self, what: str) -> None:
        """One more is begun."""
        if self._tell is not None:
            self._tell(self._begun, self._total, what)
        self._begun += 1


def _floating(
    path: str | os.PathLike[str] | None, stack: ExitStack, options: Mapping[str, Any]
) -> _Run | None:
    """The network in float; raises ParamInvalid for what is no file of a network."""
    if path is None:
        return None
    if Path(path).is_dir():
        raise ParamInvalid(f"{path} is a folder; the network in float is an .onnx or .rknn file")
    return _Run(Path(path), stack, {**options, "backend": "cpu", "fidelity": "float"})


def _same_file(side: Side, path: str | os.PathLike[str] | None) -> bool:
    """Whether the network in float is the file of a side."""
    return isinstance(side, (str, os.PathLike)) and path is not None and Path(side).samefile(path)


class _Run:
    """One side: what it is, and its tensors once it has run."""

    def __init__(self, side: Side, stack: ExitStack, options: Mapping[str, Any]) -> None:
        import tempfile  # costs a tenth of what importing all of rknnlite does

        self.context: Context | None = None
        self.path: Path | None = None
        self._io: list[IoTensor] = []
        self._dump: Dump | None = None
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
        other: _Run,
        golden: Mapping[str, Array] | None,
        ops: Sequence[CustomOp],
    ) -> None:
        """Run this side, unless it is a dump already."""
        if self.context is not None:
            items = self._collect(inputs, layout)
            self._dump = _dump_context(self.context, items, self._folder / "entire", self.label)
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

    def make_single(self, golden: Dump, inputs: Any, layout: str | None) -> Dump:
        """The run in which each layer computes on the values of ``golden``."""
        if self.context is None or not _can_dump(self.context):
            raise ParamInvalid(
                f"mode 'single' runs each layer of the model on golden values, and {self.label} cannot do that; give a "
                ".rknn file or context on the CPU reference (backend='cpu')"
            )
        with _fed(self.context, self._collect(inputs, layout)):
            return self.context.dump(self._folder / "single", golden=golden)

    def real_inputs(self, inputs: Any, layout: str | None) -> dict[str, Array]:
        """What a network in float gets for this side's inputs: normalised, NCHW."""
        if self._io and self.context is not None:
            items = self._collect(inputs, layout)
            return {io.name: _normalised(item, io) for io, item in zip(self._io, items)}
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


def _dump_context(context: Context, items: list[Input], folder: Path, label: str) -> Dump:
    """Every tensor of a run, or only the outputs where the backend shows no others."""
    with _fed(context, items):
        if _can_dump(context):
            return context.dump(folder)
        context.run()
        writer = DumpWriter(folder, model=label, backend=context.backend_name)
        for attr, value in zip(context.outputs, context.get_outputs(True)):
            writer.add(attr.name, value, dtype=attr.dtype.short, op="Output", role="output")
        return writer.close()


def _normalised(item: Input, io: IoTensor) -> Array:
    data = item.data
    if data.ndim == 4 and item.layout is not Layout.NCHW:
        data = data.transpose(0, 3, 1, 2)
    if not (io.quant is not None or io.dtype.is_float):
        return data
    real: Array = np.asarray(data, np.float32)
    for numbers, apply in ((io.mean, np.subtract), (io.std, np.divide)):
        if numbers and real.ndim == 4 and len(numbers) in (1, real.shape[1]):
            real = apply(real, np.asarray(numbers, np.float32).reshape(1, -1, 1, 1))
    return real


# -- bringing together ---------------------------------------------------------------------------------------


def _match(
    model: _Run,
    reference: _Run,
    mode: str,
    alone: Dump | None,
    third: _Run | None,
    own: bool,
    progress: Callable[[int, int, str], None] | None,
) -> Comparison:
    golden = set(reference.dump.names)
    found: list[TensorError] = []
    unmatched: list[str] = []
    unseen = 0
    steps = _Steps(progress, len(model.dump.names))
    for name in model.dump.names:
        steps.next(name)
        value = model.dump.value(name)
        other = reference.dump.value(name) if name in golden else None
        if other is None or other.size != value.size:
            unmatched.append(name)
            unseen += 1
            continue
        entry = model.dump.entry(name)
        real = third.value_of(name, value.size) if third is not None else None
        found.append(
            TensorError(
                name, entry.op, tuple(value.shape), entry.role, distance(value, other),
                _alone(model.dump, alone, name, value, other), _time(model.dump, name),
                None if real is None else distance(value, real), None if real is None else distance(other, real),
                length(other), entry.scale, _stored(other, entry), unseen,
            )
        )  # fmt: skip
        unseen = 0
    if not found:
        raise RknnError(
            f"{model.label} and {reference.label} have no tensor of the same name and size; are they the same network?"
        )
    compared = {tensor.name for tensor in found}
    missing = [name for name in reference.dump.names if name not in compared]
    return Comparison(
        model.title, reference.title, mode, found, unmatched, missing, runtime=model.dump.of_board,
        floating=third.title if third is not None else "", own_float=own,
    )  # fmt: skip


def _alone(dump: Dump, alone: Dump | None, name: str, value: Array, golden: Array) -> Distance | None:
    """The error of a layer alone: on golden values, or the board's result against the reference on the board's values."""
    if alone is None:
        return None
    return distance(
        value if dump.of_board else alone.value(name), alone.value(name) if dump.of_board else golden
    )


def _stored(golden: Array, entry: DumpedTensor) -> Distance | None:
    """What rounding to a tensor's own integers, with their range, takes from the values of the other side."""
    if not entry.scale or entry.zero_point is None or entry.dtype.lower() not in _INTEGERS:
        return None
    limits = np.iinfo(entry.dtype.lower())
    with np.errstate(invalid="ignore", over="ignore"):
        integers = np.rint(golden.astype(np.float32) / np.float32(entry.scale)) + entry.zero_point
        return distance(
            (integers.clip(limits.min, limits.max) - entry.zero_point) * np.float32(entry.scale), golden
        )


def _time(dump: Dump, name: str) -> float | None:
    times = [tensor.time_us for tensor in dump.tensors if tensor.name == name and tensor.time_us is not None]
    return sum(times) if times else None
