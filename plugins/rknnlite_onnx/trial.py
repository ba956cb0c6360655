"""A written network tried on made-up inputs: how far its answers are from those of the CPU reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto
from rknnlite_graph.lowering import Form

from rknnlite.errors import RknnError
from rknnlite.files.reading import open_file
from rknnlite.formats import Model, ModelFile
from rknnlite.native.processors import machine
from rknnlite.runtime import open_model
from rknnlite.tensor import QuantParams, TensorAttr

from .network import NOT_WRITTEN
from .samples import network_feeds

__all__ = ["OutputTrial", "Trial", "stepped", "tried"]

Array = NDArray[Any]
_CPUINFO, _MUCH = Path("/proc/cpuinfo"), 1 << 20


@dataclass(frozen=True)
class OutputTrial:
    """One output over all samples: ``most`` and ``mean`` are differences in steps, or, of an output without steps, parts of its
    largest value; ``share`` is the part of elements that are more than half of such a step (a thousandth) off."""

    name: str
    most: float
    mean: float
    share: float
    in_steps: bool

    def __str__(self) -> str:
        if self.in_steps:
            return (
                f"output {self.name}: at most {self.most:.0f} steps off, {self.mean:.2g} in the mean, "
                f"{100 * self.share:.2g} % of elements differ"
            )
        return f"output {self.name}: at most {self.most:.2g} of its largest value off, {self.mean:.2g} in the mean"


@dataclass(frozen=True)
class Trial:
    """What came out; without outputs ``why_not`` says why the network was not tried."""

    samples: int
    outputs: Sequence[OutputTrial] = field(default=())
    why_not: str = ""

    def __str__(self) -> str:
        if self.why_not:
            return f"not tried: {self.why_not}"
        return "\n".join(
            [
                f"tried in onnxruntime on {self.samples} samples against the CPU reference",
                *map(str, self.outputs),
            ]
        )


def tried(
    network: ModelProto,
    source: Path,
    form: Form,
    samples: Sequence[Sequence[Array]],
    normalise: bool = False,
    batch: Optional[int] = None,
) -> Trial:
    """Run the network in onnxruntime and its file on the CPU reference; form, normalise and batch are what it was written with.

    ``samples`` are arrays as a caller of the model gives them, a list for each sample. The forms ``float`` and ``fp16`` are held
    against the reference in float.
    """
    model = ModelFile(source).model
    why_not = _hindrance(network, model, batch)
    if why_not:
        return Trial(0, (), why_not)
    feeds = [network_feeds(model.inputs, arrays, max(1, model.batch), normalise) for arrays in samples]
    try:
        answers = _answers(network, feeds)
        wanted, steps = _wanted(source, samples, "float" if form in (Form.FLOAT, Form.FP16) else "npu")
    except _Untried as error:
        return Trial(0, (), str(error))
    except RknnError as error:
        return Trial(0, (), f"the CPU reference does not run it: {error}")
    names = [io.name for io in model.outputs]
    return Trial(len(samples), tuple(_output(*each) for each in zip(names, answers, wanted, steps)))


def _hindrance(network: ModelProto, model: Model, batch: Optional[int]) -> str:
    if any(each.key == NOT_WRITTEN for each in network.metadata_props):
        return "it has nodes in the domain rknnlite"
    if batch is not None and batch not in (0, max(1, model.batch)):
        return f"it is for {batch} items at once, the file for {max(1, model.batch)}"
    return ""


class _Untried(Exception):
    """Why onnxruntime does not run it."""


def _answers(network: ModelProto, feeds: Sequence[dict[str, Array]]) -> list[Array]:
    """Outputs, all samples of one behind the other."""
    try:
        import onnxruntime
    except ImportError:
        raise _Untried("onnxruntime is not installed (extra fast)") from None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    if _saturates():  # as docs/onnx.md tells everybody to
        options.add_session_config_entry("session.x64quantprecision", "1")
    try:
        session = onnxruntime.InferenceSession(network.SerializeToString(), options, ["CPUExecutionProvider"])
        runs = [session.run(None, feed) for feed in feeds]
    except Exception as error:  # onnxruntime's errors have no common ancestor
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise _Untried(f"onnxruntime does not run it: {reason}") from None
    return _joined(runs)


def _saturates() -> bool:
    """Whether onnxruntime's sums of products of 8 bits are cut off to 16 bits in between: x86 without VNNI."""
    if machine() != "x86_64":
        return False
    try:
        with open_file(_CPUINFO) as file:
            return b"vnni" not in file.read(_MUCH)
    except OSError:
        return False


def _wanted(
    source: Path, given: Sequence[Sequence[Array]], fidelity: str
) -> tuple[list[Array], list[Optional[QuantParams]]]:
    with open_model(source, backend="cpu", fidelity=fidelity) as context:
        runs = [context.infer(list(arrays)) for arrays in given]
        return _joined(runs), [stepped(attr) for attr in context.outputs]


def stepped(attr: TensorAttr) -> Optional[QuantParams]:
    """The steps of an output; runtimes give floating ones a scale of 1, too."""
    return None if attr.dtype.is_float else attr.quant


def _joined(runs: Sequence[Sequence[Any]]) -> list[Array]:
    return [np.concatenate([np.ravel(each).astype(np.float64) for each in output]) for output in zip(*runs)]


def _output(name: str, got: Array, want: Array, steps: Optional[QuantParams]) -> OutputTrial:
    unit = steps.scale if steps is not None else np.abs(want).max(initial=0) or 1.0
    away = np.abs(got - want) / unit
    return OutputTrial(
        name,
        float(away.max(initial=0)),
        float(away.mean()) if away.size else 0.0,
        float((away > (0.5 if steps is not None else 1e-3)).mean()) if away.size else 0.0,
        steps is not None,
    )
