#!/usr/bin/env python3
"""Train a small network on digits and write it as a file of the first toolkit: uint8, container 1, for RV1126.

    python make.py                 # digits.rknn and digit.png
    python make.py --check 360     # and how many held-out digits the CPU reference names correctly

Needs torch, scikit-learn and opencv-python-headless; not needed to run test.py. The pictures are those of ../resnet18.
"""

from __future__ import annotations

import argparse
import json
import signal
import struct
import sys
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "resnet18"))
from digits import SEED, load_split, pictures  # noqa: E402

SIZE = 32
EPOCHS = 10
NUMBER = 99  # the held-out digit of digit.png
BGR = [
    2,
    1,
    0,
]  # what the network is trained on; programs give RGB, the file says that channels are to be turned

Array = NDArray[Any]


def train(images: Array, labels: Array) -> torch.nn.Sequential:
    """conv, ReLU, pool, conv, ReLU, pool, linear. Images are N x 3 x 32 x 32, -1..1."""
    torch.manual_seed(SEED)
    layers = torch.nn
    network = layers.Sequential(
        layers.Conv2d(3, 12, 5, 2, 2), layers.ReLU(), layers.Conv2d(12, 24, 3, 1, 1), layers.ReLU(),
        layers.MaxPool2d(2), layers.Conv2d(24, 32, 3, 1, 1), layers.ReLU(), layers.MaxPool2d(2),
        layers.Flatten(), layers.Linear(32 * 4 * 4, 10),
    )  # fmt: skip
    optimiser = torch.optim.Adam(network.parameters(), 2e-3)
    for epoch in range(EPOCHS):
        if epoch == EPOCHS * 2 // 3:
            optimiser.param_groups[0]["lr"] /= 5
        for part in torch.randperm(len(images)).split(64):
            optimiser.zero_grad()
            loss = layers.functional.cross_entropy(network(images[part]), labels[part])
            loss.backward()
            optimiser.step()
    return network


# -- the writer -------------------------------------------------------------------------------------------


def uint8(low: float, high: float) -> dict[str, Any]:
    """Asymmetric uint8 that holds 0 exactly."""
    low, high = min(low, 0.0), max(high, 0.0)
    scale = (high - low) / 255
    kind = {"vx_type": "VSI_NN_TYPE_UINT8", "qnt_type": "VSI_NN_QNT_TYPE_AFFINE_ASYMMETRIC"}
    return {**kind, "scale": scale, "zero_point": round(-low / scale)}


class Writer:
    """Collects constants, nodes and links; ``data`` is the file."""

    def __init__(self) -> None:
        self.lists: dict[str, list[Any]] = {
            name: []
            for name in ("nodes", "norm_tensor", "const_tensor", "virtual_tensor", "connection", "graph")
        }
        self.bytes = b""
        self.last: dict[str, Any] = {}
        self.dtype: dict[str, Any] = {}

    def end(self, side: str, name: str, shape: tuple[int, ...], dtype: dict[str, Any]) -> None:
        """An input or the output: a tensor with a size, innermost first."""
        norms = self.lists["norm_tensor"]
        entry = {
            "url": name,
            "tensor_id": len(norms),
            "size": list(shape[::-1]),
            "dim_num": len(shape),
            "dtype": dtype,
        }
        norms.append(entry)
        self.lists["graph"].append(
            {"left": side, "left_tensor_id": 0, "right": "norm_tensor", "right_tensor_id": entry["tensor_id"]}
        )
        reference = {"right_tensor": {"type": "norm_tensor", "tensor_id": entry["tensor_id"]}}
        if side == "input":
            self.last, self.dtype = reference, dtype
        else:
            self.lists["virtual_tensor"].pop()
            node = len(self.lists["nodes"]) - 1
            self.lists["connection"].append(
                {"node_id": node, "left": "output", "left_tensor_id": 0, **reference}
            )

    def const(self, stored: Array, dtype: dict[str, Any]) -> dict[str, Any]:
        """A constant and the reference to it."""
        number = len(self.lists["const_tensor"])
        self.lists["const_tensor"].append({
            "tensor_id": number, "size": list(stored.shape[::-1]), "dim_num": stored.ndim, "dtype": dtype,
            "offset": len(self.bytes), "len": stored.nbytes,
        })  # fmt: skip
        self.bytes += stored.tobytes()
        return {"right_tensor": {"type": "const_tensor", "tensor_id": number}}

    def node(
        self, op: str, dtype: dict[str, Any], constants: list[Any] | None = None, **attributes: Any
    ) -> None:
        """A node behind the last one."""
        number, reads = len(self.lists["nodes"]), [self.last, *(constants or [])]
        self.lists["nodes"].append({
            "op": f"VSI_NN_OP_{op}", "lid": f"{op.lower()}_{number}", "name": op.lower(), "uid": number + 1,
            "input_num": len(reads), "output_num": 1, "nn": attributes,
        })  # fmt: skip
        for slot, reference in enumerate(reads):
            link = {"node_id": number, "left": "input", "left_tensor_id": slot, **reference}
            self.lists["connection"].append(link)
        self.lists["virtual_tensor"].append({"node_id": number, "output_port": 0, "dtype": dtype})
        self.last, self.dtype = {"right_node": {"node_id": number, "tensor_id": 0}}, dtype

    def weighted(self, op: str, layer: Any, dtype: dict[str, Any], **attributes: Any) -> None:
        """A convolution or linear layer: weights in uint8, a bias of the product of both scales in int32."""
        w, b = (part.detach().numpy().astype(np.float64) for part in (layer.weight, layer.bias))
        kind = uint8(float(w.min()), float(w.max()))
        unit = kind["scale"] * self.dtype["scale"]
        bias = {**kind, "vx_type": "VSI_NN_TYPE_INT32", "scale": unit, "zero_point": 0}
        stored = np.clip(np.rint(w / kind["scale"]) + kind["zero_point"], 0, 255).astype(np.uint8)
        constants = [self.const(stored, kind), self.const(np.rint(b / unit).astype(np.int32), bias)]
        self.node(op, dtype, constants, **attributes)

    @property
    def data(self) -> bytes:
        """Header, constants, and the description behind them."""
        counts = {
            f"{name}_num": len(self.lists[key])
            for name, key in (
                ("node", "nodes"),
                *((k, k) for k in ("norm_tensor", "const_tensor", "virtual_tensor")),
            )
        }
        text = json.dumps({
            "version": "1.7.0", "ovxlib_version": "1.1.26", "target_platform": ["RV1126"], "name": "digits",
            "network_platform": "caffe", "ori_network_platform": "caffe", "input_fmt": 0, "input_transpose": 1,
            "mean_value": [127.5] * 3, "std_value": [127.5] * 3, "mean_value_chns": [3], "reorder": BGR,
            "pre_compile": 0, "optimization_level": 3, "case_type": -1, "input_num": 1, "output_num": 1,
            **counts, **self.lists,
        }).encode()  # fmt: skip
        head = b"RKNN\0\0\0\0" + struct.pack("<QQ", 1, len(self.bytes))
        return head + self.bytes + struct.pack("<Q", len(text)) + text


def write(network: torch.nn.Sequential, images: Array) -> bytes:
    """The file; ranges of all layers are those of ``images``."""
    writer = Writer()
    writer.end("input", "image", (1, 3, SIZE, SIZE), uint8(-1, 1))
    value = images
    for layer in network:
        value = layer(value).detach()
        dtype = uint8(float(value.min()), float(value.max()))
        if isinstance(layer, torch.nn.Conv2d):
            pad, size = layer.padding[0], list(layer.kernel_size)
            attributes = {
                "ksize": size, "weights": layer.out_channels, "stride": list(layer.stride), "pad": [pad] * 4,
                "group": 1, "dilation": [1, 1], "multiplier": 0,
            }  # fmt: skip
            writer.weighted("CONV2D", layer, dtype, conv2d=attributes)
        elif isinstance(layer, torch.nn.Linear):
            writer.weighted("FCL", layer, dtype, fcl={"weights": layer.out_features})
        elif isinstance(layer, torch.nn.ReLU):
            writer.node("RELU", dtype)
        elif isinstance(layer, torch.nn.MaxPool2d):
            kind = {"type": "VX_CONVOLUTIONAL_NETWORK_POOLING_MAX", "round_type": "VSI_NN_ROUND_FLOOR"}
            writer.node(
                "POOL", writer.dtype, pool={"ksize": [2, 2], "stride": [2, 2], "pad": [0] * 4, **kind}
            )
    writer.end("output", "logits", (1, 10), writer.dtype)
    return writer.data


def tensor(images: Array) -> Any:
    """RGB pictures as the network is trained on them: BGR, -1..1, channels first."""
    return torch.from_numpy(images[..., BGR].transpose(0, 3, 1, 2).astype(np.float32) / 127.5 - 1)


def check(held: Array, labels: Array, network: torch.nn.Sequential) -> None:
    """Correct names among held-out digits, of the float network and of the file."""
    from rknnlite.api import RKNNLite

    rknn = RKNNLite()
    if rknn.load_rknn(str(HERE / "digits.rknn")) != 0 or rknn.init_runtime(target="rv1126") != 0:
        sys.exit("digits.rknn cannot be opened")
    named = [int(rknn.inference(inputs=[picture])[0].argmax()) for picture in held]
    floats = network(tensor(held)).argmax(1).numpy()
    print(
        f"float32: {np.mean(floats == labels):.1%}; digits.rknn: {np.mean(named == labels):.1%} of {len(held)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", type=int, default=0, metavar="N", help="held-out digits to name")
    args = parser.parse_args()
    digits, labels, held, held_labels = load_split()
    images = tensor(np.concatenate([pictures(digits, SIZE, SEED + turn) for turn in range(3)]))
    network = train(images, torch.from_numpy(np.tile(labels, 3)))
    (HERE / "digits.rknn").write_bytes(write(network, images[:500]))
    shown = pictures(held[NUMBER : NUMBER + 1], SIZE, SEED + NUMBER)[0]
    cv2.imwrite(str(HERE / "digit.png"), cv2.cvtColor(shown, cv2.COLOR_RGB2BGR))
    print(f"digits.rknn, and digit.png: a {held_labels[NUMBER]}")
    if args.check:
        check(pictures(held[: args.check], SIZE, SEED), held_labels[: args.check], network)


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # whoever reads our output may have enough of it
    main()
