"""Files of the first toolkit, written by ourselves: a graph of a few nodes with seeded weights, in container 1."""

from __future__ import annotations

import json
import struct
from typing import Any, Optional

import numpy as np

__all__ = ["F16", "F32", "RAW8", "File", "Ref", "dfp", "i32", "u8"]

Dtype = dict[str, Any]


def u8(scale: float, zero_point: int = 0) -> Dtype:
    """Asymmetric uint8."""
    return _dtype("UINT8", "AFFINE_ASYMMETRIC", scale=scale, zero_point=zero_point)


def i32(scale: float) -> Dtype:
    """A bias of uint8 layers."""
    return _dtype("INT32", "AFFINE_ASYMMETRIC", scale=scale, zero_point=0)


def dfp(word: str, fl: int) -> Dtype:
    """Dynamic fixed point: INT8, INT16 or INT32."""
    return _dtype(word, "DFP", fl=fl)


def _dtype(word: str, kind: str, **more: Any) -> Dtype:
    return {"vx_type": f"VSI_NN_TYPE_{word}", "qnt_type": f"VSI_NN_QNT_TYPE_{kind}", **more}


F16, F32, RAW8 = (_dtype(word, "NONE") for word in ("FLOAT16", "FLOAT32", "UINT8"))
_NUMPY = {
    "UINT8": np.uint8,
    "INT8": np.int8,
    "INT16": np.int16,
    "INT32": np.int32,
    "FLOAT16": np.float16,
    "FLOAT32": np.float32,
}


class Ref(dict[str, Any]):
    """What a node reads: the right side of a connection."""


class File:
    """Add inputs, constants and nodes in running order; ``data`` gives the bytes of the file."""

    def __init__(self, name: str = "made", seed: int = 7, **fields: Any) -> None:
        self.rng = np.random.default_rng(seed)
        self._fields = {"name": name, **fields}
        self._norms: list[dict[str, Any]] = []
        self._consts: list[dict[str, Any]] = []
        self._virtuals: list[dict[str, Any]] = []
        self._nodes: list[dict[str, Any]] = []
        self._links: list[dict[str, Any]] = []
        self._ends: dict[str, list[int]] = {"input": [], "output": []}
        self._bytes = b""
        self.inputs: list[tuple[tuple[int, ...], Any]] = []

    def input(self, shape: tuple[int, ...], dtype: Dtype) -> Ref:
        """An input of the network, in numpy's order of axes."""
        self._ends["input"].append(len(self._norms))
        self.inputs.append((shape, _NUMPY[dtype["vx_type"][12:]]))
        return self._norm(shape, dtype, f"input_{len(self._norms)}")

    def stored_inputs(self, seed: int = 3) -> list[Any]:
        """Stored elements for all inputs: drawn; a picture of 16 x 16 of 8 bits has every value once."""
        rng = np.random.default_rng(seed)
        drawn: list[Any] = []
        for shape, kind in self.inputs:
            dtype = np.dtype(kind)
            if dtype.kind == "f":
                drawn.append(rng.standard_normal(shape).astype(dtype))
                continue
            low, high = (np.iinfo(dtype).min, np.iinfo(dtype).max) if dtype.itemsize == 1 else (-8000, 8000)
            every = shape == (1, 1, 16, 16) and dtype.itemsize == 1
            found = np.arange(low, high + 1) if every else rng.integers(low, high + 1, shape)
            drawn.append(found.astype(dtype).reshape(shape))
        return drawn

    def const(self, values: Any, dtype: Dtype) -> Ref:
        """A constant: stored elements."""
        array = np.asarray(values, _NUMPY[dtype["vx_type"][12:]])
        entry = {
            "offset": len(self._bytes),
            "len": array.nbytes,
            **_sized(array.shape, dtype, len(self._consts)),
        }
        self._consts.append(entry)
        self._bytes += array.tobytes()
        return Ref(right_tensor={"type": "const_tensor", "tensor_id": entry["tensor_id"]})

    def random(self, shape: tuple[int, ...], dtype: Dtype, low: float = 0, high: float = 256) -> Ref:
        """A constant of random elements: integers of ``low`` to ``high``, or normal real numbers."""
        kind = np.dtype(_NUMPY[dtype["vx_type"][12:]])
        return self.const(
            self.rng.standard_normal(shape) if kind.kind == "f" else self.rng.integers(low, high, shape),
            dtype,
        )

    def node(
        self,
        op: str,
        reads: list[Optional[Ref]],
        *ports: Dtype,
        nn: Optional[dict[str, Any]] = None,
        vx: Any = None,
    ) -> Ref:
        """A node whose ports have these element types; the reference is to port 0, see ``port``."""
        number = len(self._nodes)
        entry: dict[str, Any] = {
            "lid": f"{op.lower()}_{number}", "name": op.lower(), "op": f"VSI_NN_OP_{op}" if op.isupper() else op,
            "uid": number + 1, "input_num": len(reads), "output_num": len(ports),
        }  # fmt: skip
        entry.update({key: value for key, value in (("nn", nn), ("vx", vx)) if value})
        self._nodes.append(entry)
        for slot, ref in enumerate(reads):
            if ref is not None:
                self._links.append({"node_id": number, "left": "input", "left_tensor_id": slot, **ref})
        for place, dtype in enumerate(ports):
            self._virtuals.append({"node_id": number, "output_port": place, "dtype": dtype})
        return self.port(number, 0)

    def port(self, node: int, port: int) -> Ref:
        """A further port of a node, by its number (-1: the last)."""
        return Ref(right_node={"node_id": node % len(self._nodes), "tensor_id": port})

    def output(self, ref: Ref, shape: tuple[int, ...]) -> None:
        """An output of the network: what a port of a node writes."""
        node, port = ref["right_node"]["node_id"], ref["right_node"]["tensor_id"]
        at = next(i for i, v in enumerate(self._virtuals) if (v["node_id"], v["output_port"]) == (node, port))
        dtype = self._virtuals.pop(at)["dtype"]
        made = self._norm(shape, dtype, "output")
        self._ends["output"].append(len(self._norms) - 1)
        self._links.append({"node_id": node, "left": "output", "left_tensor_id": port, **made})

    @property
    def description(self) -> dict[str, Any]:
        """The JSON of the file."""
        graph = [
            {"left": side, "left_tensor_id": number, "right": "norm_tensor", "right_tensor_id": tensor}
            for side in ("input", "output") for number, tensor in enumerate(self._ends[side])
        ]  # fmt: skip
        counts = {
            "node_num": len(self._nodes), "norm_tensor_num": len(self._norms), "const_tensor_num": len(self._consts),
            "virtual_tensor_num": len(self._virtuals), "input_num": len(self._ends["input"]),
            "output_num": len(self._ends["output"]),
        }  # fmt: skip
        return {
            "target_platform": ["RV1126"], "network_platform": "caffe", "ori_network_platform": "caffe", "input_fmt": 0,
            "input_transpose": 1, "version": "1.7.0", "ovxlib_version": "1.1.26", "optimization_level": 3,
            "mean_value": [0], "std_value": [1.0], "mean_value_chns": [1], "reorder": [0, 1, 2], "pre_compile": 0,
            "case_type": -1, **counts, "nodes": self._nodes, "norm_tensor": self._norms, "const_tensor": self._consts,
            "virtual_tensor": self._virtuals, "connection": self._links, "graph": graph, **self._fields,
        }  # fmt: skip

    @property
    def data(self) -> bytes:
        """Container 1."""
        text = json.dumps(self.description).encode()
        return (
            b"RKNN\0\0\0\0"
            + struct.pack("<QQ", 1, len(self._bytes))
            + self._bytes
            + struct.pack("<Q", len(text))
            + text
        )

    def _norm(self, shape: tuple[int, ...], dtype: Dtype, name: str) -> Ref:
        entry = {"url": name, **_sized(shape, dtype, len(self._norms))}
        self._norms.append(entry)
        return Ref(right_tensor={"type": "norm_tensor", "tensor_id": entry["tensor_id"]})


def _sized(shape: tuple[int, ...], dtype: Dtype, number: int) -> dict[str, Any]:
    return {"tensor_id": number, "size": list(reversed(shape)), "dim_num": len(shape), "dtype": dtype}
