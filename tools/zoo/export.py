"""From a network to a folder: ``model.onnx``, ``samples.npz`` (inputs), ``float.npz`` (answers), ``zoo.json``.

``float.many.npz``: of trained networks with real inputs, the answers to all of them.
"""

from __future__ import annotations

import json
import shutil
import traceback
import warnings
import zlib
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from network import Exporter, Feed, Network
from numpy.typing import NDArray
from samples import draw, drawn, purposes

__all__ = ["export"]

_LONGEST = 60
_NORMS = (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d)


def export(network: Network, folder: Path) -> bool:
    """Write the network's folder anew; whether that went well (``export.fail`` has the reason)."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    warnings.simplefilter("ignore")
    torch.manual_seed(zlib.crc32(network.name.encode()))
    try:
        with torch.no_grad() if not network.trained else torch.enable_grad():
            built = network.build()
        sets = {purpose: drawn(network, purpose) for purpose in purposes(network)}
        if isinstance(built, Path):
            _fixed(built, network, folder / "model.onnx")
        else:
            _calibrated(built, network)
            _traced(built, network, folder / "model.onnx")
        answers = _float(folder / "model.onnx", network, [sets["run"]])
        many = [arrays for purpose, arrays in sets.items() if purpose.startswith("many")]
    except Exception as error:  # one network that cannot be exported must not stop the others
        traceback.print_exc()
        (folder / "export.fail").write_text(f"{type(error).__name__}: {error}\n")
        return False
    stored = {f"{purpose}_{i}": a for purpose, arrays in sets.items() for i, a in enumerate(arrays)}
    np.savez_compressed(folder / "samples.npz", **stored)
    np.savez_compressed(folder / "float.npz", **answers[0])
    if many:
        found = _float(folder / "model.onnx", network, many)
        stacked = {name: np.stack([answer[name] for answer in found]) for name in found[0]}
        np.savez_compressed(folder / "float.many.npz", **stacked)
    (folder / "zoo.json").write_text(json.dumps(_facts(network, folder / "model.onnx"), indent=1))
    return True


def _facts(network: Network, model: Path) -> dict[str, Any]:
    opset = next(o.version for o in onnx.load(str(model)).opset_import if o.domain in ("", "ai.onnx"))
    config = dict(network.config)
    if all(feed.kind.is_picture for feed in network.feeds):
        config |= {
            "mean_values": [_channels(network.mean, feed) for feed in network.feeds],
            "std_values": [_channels(network.std, feed) for feed in network.feeds],
        }
    return {
        "config": config,
        "exporter": network.exporter.value,
        "opset": opset,
        "trained": network.trained,
        "meaning": network.meaning,
        "package": _package(network.package),
        "calibrations": sum(purpose.startswith("calibration") for purpose in purposes(network)),
        "many": sum(purpose.startswith("many") for purpose in purposes(network)),
        "inputs": [list(feed.shape) for feed in network.feeds],
    }


def _package(name: str) -> dict[str, str]:
    """Name, version and licence of an installed package."""
    if not name:
        return {}
    facts = metadata(name)
    classes = [c.rpartition(" :: ")[2] for c in facts.get_all("Classifier") or [] if c.startswith("License")]
    licence = facts.get("License-Expression") or next(iter(classes), "") or facts.get("License") or "not told"
    return {"name": name, "version": facts["Version"], "licence": licence.splitlines()[0]}


def _channels(values: tuple[float, ...], feed: Feed) -> list[float]:
    return [values[c % len(values)] for c in range(feed.shape[1])]


def _normalised(network: Network, arrays: list[NDArray[Any]]) -> list[NDArray[Any]]:
    """What the float network gets: images as the converter would normalise them."""
    found = []
    images_only = all(feed.kind.is_picture for feed in network.feeds)
    for feed, array in zip(network.feeds, arrays, strict=True):
        if feed.kind.is_picture:
            mean, std = (
                np.array(_channels(v, feed)).reshape(1, -1, 1, 1) for v in (network.mean, network.std)
            )
            array = ((array - mean) / std if images_only else array).astype(np.float32)
        found.append(array)
    return found


def _calibrated(module: torch.nn.Module, network: Network) -> None:
    """Batch norms of untrained networks learn the statistics of what they are fed with."""
    module.eval()
    if network.trained:
        return
    norms = [m for m in module.modules() if isinstance(m, _NORMS)]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the mean of all batches
        norm.train()
    with torch.no_grad():
        for n in range(4 if norms else 0):
            sets = [_normalised(network, draw(network.name, network.feeds, f"norm{n}.{k}")) for k in range(4)]
            module(*(torch.from_numpy(np.concatenate(arrays)) for arrays in zip(*sets, strict=True)))
    module.eval()


def _traced(module: torch.nn.Module, network: Network, path: Path) -> None:
    arrays = _normalised(network, drawn(network, "run"))
    examples = tuple(torch.from_numpy(a) for a in arrays)
    names = [f"in{i}" for i in range(len(examples))]
    dynamo = network.exporter is Exporter.DYNAMO
    how: dict[str, Any] = {"external_data": False} if dynamo else {}
    with torch.no_grad():
        torch.onnx.export(
            module, examples, str(path), opset_version=network.opset, dynamo=dynamo, input_names=names, **how
        )


def _fixed(source: Path, network: Network, path: Path) -> None:
    """A packaged file with fixed input shapes, cut at ``ends`` if the network has them."""
    model = onnx.load(str(source))
    constants = {tensor.name for tensor in model.graph.initializer}
    for info in model.graph.input:
        feed = next((f for f in network.feeds if f.name == info.name), None)
        if info.name not in constants and feed is None:
            raise ValueError(f"{source.name} has an input {info.name!r} that {network.name} does not feed")
        if feed is not None:
            info.type.tensor_type.shape.ClearField("dim")
            for size in feed.shape:
                info.type.tensor_type.shape.dim.add().dim_value = size
    for info in model.graph.output:
        info.type.tensor_type.shape.ClearField("dim")
        info.type.tensor_type.ClearField("shape")
    del model.graph.value_info[:]
    _shorten(model.graph)
    model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    onnx.save(model, str(path))
    if network.folded:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.optimized_model_filepath = str(path)
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    if network.ends:
        starts = [feed.name for feed in network.feeds]
        onnx.utils.extract_model(str(path), str(path), starts, list(network.ends))


def _shorten(graph: Any) -> None:
    """Other names for tensors whose own are long: the toolkit calls files by them when it tells layers."""
    names = [name for node in graph.node for name in node.output if len(name) > _LONGEST]
    short = {name: f"tensor{n}" for n, name in enumerate(names)}
    for node in graph.node:
        for kept in (node.input, node.output):
            kept[:] = [short.get(name, name) for name in kept]
    for info in graph.output:
        info.name = short.get(info.name, info.name)


def _float(path: Path, network: Network, sets: list[list[NDArray[Any]]]) -> list[dict[str, NDArray[Any]]]:
    """The float network's answers, one for each set of inputs."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]
    if network.feeds[0].name:
        names = [feed.name for feed in network.feeds]
    found = []
    for arrays in sets:
        outputs = session.run(None, dict(zip(names, _normalised(network, arrays), strict=True)))
        if not all(np.isfinite(y).all() for y in outputs):
            raise ValueError("the float network's answer is not finite")
        found.append({f"out{i}": y for i, y in enumerate(outputs)})
    return found
