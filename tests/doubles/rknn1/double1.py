"""Builds the test double of librknn_api and steers it: a real shared library, written in C, own code.

Models of the double are genuine files of the first toolkit's container, with a field of the double's own, see
``model.c``: the double computes what that says and not the graph.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

from tests.doubles.double import FLAGS, Double, _for_arm, compile_c
from tests.support.rknn1_files import File, u8

__all__ = ["NAME", "Double1", "build", "model"]

HERE = Path(__file__).parent
NAME = "librknn_api.so"
_TYPES = ("FLOAT32", "FLOAT16", "INT8", "UINT8", "INT16")
_KINDS = ("NONE", "DFP", "AFFINE_ASYMMETRIC")


def build(host: bool = False) -> Path:
    """The double's library; ``host``: the flavour that talks to devices behind USB."""
    sources = [HERE.parent / "control.c", *sorted(HERE.glob("*.c"))]
    extra = (*_for_arm(), *os.environ.get("RKNN_DOUBLE_CFLAGS", "").split())
    flavour = ("-D_GNU_SOURCE", *(("-DHOST",) if host else ()))
    return compile_c(sources, (*FLAGS, "-include", str(HERE / "double1.h"), *flavour, *extra), NAME)


Tensor = tuple[tuple[int, ...], dict[str, Any]]


def model(
    inputs: tuple[Tensor, ...] = (((1, 3, 4, 6), u8(0.5, 128)),),
    outputs: tuple[Tensor, ...] = (((1, 72), u8(0.5, 100)),),
    affine: tuple[float, float] = (1, 0),
    us: int = 0,
    nhwc: bool = False,
    **fields: Any,
) -> bytes:
    """The bytes of a model: shapes in numpy's order with element types of ``rknn1_files``.

    ``nhwc``: tensors of rank 4 are stored so. ``fields`` go into the description of the file.
    """
    words = [f"in {_words(f'in{i}', shape, dtype, nhwc)}" for i, (shape, dtype) in enumerate(inputs)]
    words += [f"out {_words(f'out{i}', shape, dtype, nhwc)}" for i, (shape, dtype) in enumerate(outputs)]
    text = "; ".join([*words, f"affine {affine[0]} {affine[1]}", f"us {us}"])
    file = File("double", double=text, **fields)
    reads = [file.input(shape, dtype) for shape, dtype in inputs]
    for shape, dtype in outputs:
        file.output(file.node("RELU", reads[:1], dtype), shape)
    return file.data


def _words(name: str, shape: tuple[int, ...], dtype: dict[str, Any], nhwc: bool) -> str:
    kind = _TYPES.index(dtype["vx_type"].removeprefix("VSI_NN_TYPE_"))
    quant = _KINDS.index(dtype["qnt_type"].removeprefix("VSI_NN_QNT_TYPE_"))
    numbers = (
        kind,
        quant,
        int(nhwc),
        dtype.get("scale", 1.0),
        dtype.get("zero_point", 0),
        dtype.get("fl", 0),
        len(shape),
        *shape,
    )
    return " ".join([name, *map(str, numbers)])


class Double1(Double):
    """The loaded double: faults, counters, and what is alive in it."""

    KINDS = ("contexts", "mems", "maps", "outputs", "misordered", "races")

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.lib.double1_device.restype = ctypes.c_char_p

    def devices(self, count: int) -> None:
        """How many devices are plugged in; they are called ``usb-0``, ``usb-1``, ..."""
        self.lib.double1_devices(ctypes.c_int(count))

    @property
    def device(self) -> str:
        """The device of the last ``rknn_init2``; empty after ``rknn_init``."""
        named: bytes = self.lib.double1_device()
        return named.decode()

    @property
    def size(self) -> int:
        """The size that the model was last handed over with."""
        return int(self.lib.double1_size())
