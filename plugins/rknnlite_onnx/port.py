"""A model for another SoC, by the vendor's toolkit in an environment of the user's."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from onnx import ModelProto
from rknnlite_insight import to_onnx
from rknnlite_programs.toolkit_process import Toolkit

from rknnlite.errors import ModelUnsupported, ParamInvalid
from rknnlite.files.writing import write_file
from rknnlite.formats import IoTensor, Model, ModelFile

from .network import NOT_WRITTEN
from .samples import channel_numbers, network_feeds
from .toolkit_network import for_the_toolkit

__all__ = ["means_and_deviations", "port"]

Array = NDArray[Any]


def port(
    source: Path, soc: str, out: Path, toolkit: Toolkit, samples: Sequence[Sequence[Array]], dtype: str = ""
) -> list[str]:
    """Write the model for ``soc`` to ``out``; names of values that got their steps from ``samples``.

    Args:
        samples: arrays as a caller of the model gives them (rank 4: NHWC), a list of them for each sample.
        dtype: ``"fp16"`` gives up the file's steps and converts the float network; empty keeps them.

    Raises:
        ParamInvalid, ModelUnsupported, BackendUnavailable, ModelInvalid.
    """
    if dtype not in ("", "fp16"):
        raise ParamInvalid(f"dtype must be 'fp16' or nothing, not {dtype!r}")
    model = ModelFile(source).model
    quantised = any(io.quant is not None for io in (*model.inputs, *model.outputs))
    network = _network(source, model, "qdq" if quantised and not dtype else "float")
    names: list[str] = []
    if quantised and not dtype:
        feeds = [network_feeds(model.inputs, arrays) for arrays in samples]
        network, names = for_the_toolkit(network, feeds)
    build = {"rknn_batch_size": model.batch} if model.batch > 1 else {}
    with tempfile.TemporaryDirectory(prefix="rknnlite-") as folder:
        place = Path(folder)
        write_file(place / "network.onnx", network.SerializeToString())
        made = place / "port.rknn"
        toolkit.convert(place / "network.onnx", soc, made, means_and_deviations(model.inputs), build)
        write_file(out, made.read_bytes())
    return names


def _network(source: Path, model: Model, form: str) -> ModelProto:
    """One item; the converter makes a batch of it."""
    if model.dynamic:
        raise ModelUnsupported(
            f"{source} is a dynamic model; the converter takes its steps for one shape only, so it is not ported: write it "
            "with export-onnx and convert that with dynamic_input"
        )
    network: ModelProto = to_onnx(source, form, batch=1)
    strange = {each.key: each.value for each in network.metadata_props}.get(NOT_WRITTEN)
    if strange:
        raise ModelUnsupported(
            f"{source} has nodes that ONNX has no words for: {strange.replace(chr(10), '; ')}"
        )
    return network


def means_and_deviations(ins: Sequence[IoTensor]) -> dict[str, Any]:
    """Means and deviations of the inputs: the port takes the pixels that the original takes."""
    means = [channel_numbers(io, io.mean, 0.0) for io in ins]
    stds = [channel_numbers(io, io.std, 1.0) for io in ins]
    if not any(map(any, means)) and all(number == 1 for each in stds for number in each):
        return {}
    return {"mean_values": means, "std_values": stds}
