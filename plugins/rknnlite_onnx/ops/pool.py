"""Pooling over windows."""

from __future__ import annotations

from typing import Any

from rknnlite.tensor import DType

from ..registry import LoweredNode, lowers

__all__: list[str] = []


def _window(node: LoweredNode) -> dict[str, Any]:
    """Attributes of an ONNX pooling; bottom and right padding follow from the shape of the result."""
    (ih, iw), (oh, ow) = node.view.tensor(0).shape[2:], node.outputs[0].shape[2:]
    kernel = list(node.attrs.get("kernel_shape") or [1, 1])
    strides = list(node.attrs.get("strides") or [1, 1])
    dilations = list(node.attrs.get("dilations") or [1, 1])
    top, left = (list(node.attrs.get("pads") or [0, 0]))[:2]
    bottom = (oh - 1) * strides[0] + dilations[0] * (kernel[0] - 1) + 1 - ih - top
    right = (ow - 1) * strides[1] + dilations[1] * (kernel[1] - 1) + 1 - iw - left
    pads = [top, left, max(0, bottom), max(0, right)]
    found = {"kernel_shape": kernel, "strides": strides, "pads": pads}
    return {**found, "dilations": dilations} if dilations != [1, 1] else found


def _check_rank(node: LoweredNode) -> None:
    if len(node.view.tensor(0).shape) != 4:
        raise node.refuse(f"pooling of shape {list(node.view.tensor(0).shape)}")


@lowers("MaxPool")
def max_pool(node: LoweredNode) -> None:
    _check_rank(node)
    if len(node.outputs) > 1:
        values = node.emitter.nodes("MaxPool", [node.real(0)], 2, **_window(node))
        node.store(values[0])
        node.store(values[1], 1)
        return
    value, rep = node.moving()
    if rep is None and node.view.tensor(0).quant is None and node.view.tensor(0).dtype not in (
        DType.FLOAT16, DType.FLOAT32,
    ):  # fmt: skip
        raise node.refuse("pooling of integers")
    node.moved(node.emit("MaxPool", value, **_window(node)), rep)


@lowers("AveragePool")
def average_pool(node: LoweredNode) -> None:
    """What ONNX calls padding counts, with that attribute; what the shape of the result adds does not."""
    _check_rank(node)
    window, counted = _window(node), bool(node.attrs.get("count_include_pad"))
    if counted and window["pads"] != list(node.attrs.get("pads") or [0, 0, 0, 0]):
        raise node.refuse("a window that reaches beyond padding that counts")
    window.pop("dilations", None)
    if list(node.attrs.get("dilations") or [1, 1]) != [1, 1]:
        raise node.refuse("an average over a dilated window")
    node.store(node.emit("AveragePool", node.real(0), count_include_pad=int(counted), **window))


@lowers("GlobalAveragePool", "GlobalMaxPool")
def global_pool(node: LoweredNode) -> None:
    node.store(node.emit(node.view.node.op, node.real(0)))


@lowers("LpPool", "GlobalLpPool")
def lp_pool(node: LoweredNode) -> None:
    p = int(node.attrs.get("p", 2))
    if node.view.node.op == "GlobalLpPool":
        node.store(node.emit("GlobalLpPool", node.real(0), p=p))
        return
    _check_rank(node)
    node.store(node.emit("LpPool", node.real(0), p=p, **_window(node)))
