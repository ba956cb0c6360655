"""Where a reader is not sure: facts that no file with the simulator's answer has had.

A container is read by what converted files have shown. A pattern that none of them had may mean what a neighbour of it means, or
not; so the reader goes on, and says so: one line per fact when the file is loaded, all of them with ``info --check``.

Control registers say what the output stage does with an accumulator or an operand: what it reads per channel, which of its
units work. They hold no sizes and no numbers of a network, so a few values occur again and again: those of the tables at the end,
as are the words and switches among the attributes of each type. ``tools/sweep/verified.py`` adds to them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from rknnlite.log import logger

from ..graph import Accumulator, Graph, Node
from ..operators import LeftOut, operator_of
from .register_map import Registers

__all__ = [
    "CONTROL_REGISTERS", "NUMBERS", "SEEN", "SEEN_ELSEWHERE", "SWITCHES", "WORDLESS", "WORDS", "about_attributes",
    "about_container", "about_defaults", "about_registers", "about_strides", "say", "text",
]  # fmt: skip

_UNSEEN_CONTAINERS = (3, 5)
_NEWEST = (2, 5)
"""The newest toolkit whose files have been compared with the simulator."""
_VERSION = re.compile(r"(\d+)\.(\d+)")
_NAMED = 3


def about_container(container: int, toolkit: str) -> list[str]:
    """What is not verified of a file as a whole."""
    found = []
    if container in _UNSEEN_CONTAINERS:
        found.append(
            f"no file in container version {container} has been seen; it is read as its neighbours are"
        )
    version = _VERSION.match(toolkit)
    if version is not None and tuple(map(int, version.groups())) > _NEWEST:
        newest = ".".join(map(str, _NEWEST))
        found.append(
            f"it was made by toolkit {version.group()}; what is known about files was measured up to {newest}"
        )
    return found


def about_strides(family: str) -> list[str]:
    """What is inferred of the attributes that a runtime would report; no numbers depend on it, so it is not logged."""
    if family in _ASKED:
        return []
    return [
        "no runtime for its SoC was asked: w_stride and size_with_stride of its inputs and outputs are those of RK3588, "
        "compare them with what a board reports"
    ]


def about_registers(
    family: str, registers: Registers, op: str = "Conv", convolution: bool = True
) -> list[str]:
    """Control registers of a node with a value that no verified file has in such a node."""
    found = []
    table = (SEEN if convolution else SEEN_ELSEWHERE)[family]
    for register, mask in {**CONTROL_REGISTERS[family], **_OF_ALL}.items():
        value = registers.get(register)
        seen = table.get(register, ())
        if value is None or not seen or value & mask in seen:
            continue
        bits = value & mask
        for known in seen:
            bits &= ~known
        more = f", its bits {bits:#x} in none" if bits else ""
        found.append(f"its register {register:#06x} holds {value:#x}, which no verified layer has{more}")
    if op in _METHODS and registers.get(_POOLING, _METHODS[op]) & ~_NOTCH != _METHODS[op]:
        found.append(
            f"its register {_POOLING:#06x} holds {registers[_POOLING]:#x}: that of another kind of pooling"
        )
    return found


def about_attributes(node: Node) -> list[str]:
    """Words and switches among the attributes of a node that no verified node of its type has."""
    op = node.op
    if node.fused is not None and node.fused.accumulator is not Accumulator.OPERAND:
        op = node.fused.accumulator.value
    known = WORDS.get(op, {})
    seen = known or op in WORDLESS
    if node.op in _UNSEEN_CONVOLUTIONS or (not seen and operator_of(op) is not None):
        return [f"no verified file has a node of type {node.op}"]
    if not seen:  # an operator of a plugin, or one that is refused
        return []
    found = []
    for name, value in node.attrs.items():
        if name not in known and name not in NUMBERS and name not in _FREE:
            found.append(f"its attribute {name} ({value!r:.60}) is one that no verified {op} has")
        elif name not in _FREE and _counts(name, value) and value not in known.get(name, ()):
            found.append(f"its attribute {name} is {value!r:.60}, which no verified {op} has")
    return found


def _counts(name: str, value: object) -> bool:
    return (isinstance(value, str) and name not in NUMBERS) or name in SWITCHES


def about_defaults(node: Node) -> list[str]:
    """Attributes that the container leaves out of a node, so that their defaults are taken."""
    row = operator_of(node.op)
    if row is None or row.left_out is not LeftOut.DEFAULTS:
        return []
    lacking = [each for each in row.parameters if each.name not in node.attrs]
    if not lacking:
        return []
    what = ", ".join(f"{each.name} {each.default}" for each in lacking)
    return [f"this container does not store its attributes; {what} taken, unless attributes= gives others"]


def say(graph: Graph, said: set[str]) -> None:
    """Log one line per fact that is not among ``said``, with the nodes that share it."""
    nodes: dict[str, list[str]] = {}
    for guess in graph.guesses:
        nodes.setdefault(guess.fact, []).append(guess.node)
    for fact, labels in nodes.items():
        if fact not in said:
            logger.warning("not verified: %s", text(fact, labels))
    said.update(nodes)


def text(fact: str, labels: Sequence[str]) -> str:
    """A fact with the nodes that share it (an empty label stands for the whole file)."""
    named = [label for label in labels[:_NAMED] if label]
    more = f" and {len(labels) - _NAMED} more" if len(labels) > _NAMED else ""
    what = f"node {', '.join(named)}{more}" if named else "the file"
    return f"{what}: {fact}"


# -- what verified files have -------------------------------------------------------------------------------

_ALL = 0xFFFFFFFF
_V1 = dict.fromkeys((0x4040, 0x4060, 0x4070, 0x501C, 0x5028, 0x5034), _ALL)
_V2 = dict.fromkeys((0x4050, 0x4060, 0x407C, 0x501C, 0x5028, 0x5034), _ALL)
_T3 = dict.fromkeys((0x4050, 0x4060, 0x4070, 0x501C, 0x5028, 0x5034), _ALL)
_W1 = {0x4030: _ALL, 0x404C: 0xF00FFFFF, 0x501C: _ALL, 0x5034: _ALL}  # bits 27:20 of 404c are a shift
# librknnrt 1.6.0, librknnmrt 2.3.2
_ASKED = frozenset({"RKNPU v2", "RKNPU lite", "RKNPU t4", "RKNPU t3", "RKNPU w1"})
_POOLING = 0x6024
_NOTCH = 0x1FFF << 16
"""Bits that say how lines lie in memory, no more: those of a pooling that writes into a wider tensor, as SPPF's do."""
_METHODS = {"MaxPool": 0x11, "AveragePool": 0x10}
_OF_ALL = {0x4108: _ALL}  # how tables are looked up

CONTROL_REGISTERS: Final = {
    "RKNPU v2": _V1,
    "RKNPU lite": _V1,
    "RKNPU t4": _V2,
    "RKNPU f2": _V2,
    "RKNPU f3": _V2,
    "RKNPU t3": _T3,
    "RKNPU w1": _W1,
}
"""NPU family -> register -> the bits of it that count."""
NUMBERS: Final = frozenset(
    {
        "allowzero", "alpha", "auto_pad", "axes", "axis", "batch_axis", "beta", "bias", "blocksize", "clip", "dilations",
        "eps", "epsilon", "gamma", "group", "hidden_size", "k", "keepdims", "kernel_shape", "lambd", "max", "min",
        "momentum", "num_groups", "num_windows", "output_height", "output_padding", "output_width", "p", "pads", "perm",
        "pooled_shape", "repeats", "sampling_ratio", "scale", "sequences", "size", "spatial_scale", "split", "strides",
        "time_axis", "to", "value", "window_sizes",
    }
)  # fmt: skip
"""Attributes that any number may have, and those that shapes tell."""
SWITCHES: Final = frozenset(
    {
        "align_corners", "antialias", "ceil_mode", "count_include_pad", "exclude_outside", "exclusive", "fmod",
        "inverse", "largest", "layout", "linear_before_reset", "noop_with_empty_axes", "onesided", "reverse",
        "saturate", "select_last_index", "sorted", "storage_order", "training_mode", "transA", "transB", "upper",
    }
)  # fmt: skip
_FREE = frozenset(
    {"activations", "equation", "h_layout", "q_add", "q_matmul", "q_softmax", "x_layout", "y_layout"}
)
"""Texts of any content, or ones that nobody reads, or that are refused where they are read."""
_UNSEEN_CONVOLUTIONS = frozenset(
    {
        "ConvClipAdd", "ConvTransposeAdd", "ConvTransposeAddRelu", "ConvTransposeClipAdd", "ConvTransposeExGelu",
        "ConvTransposeExMish", "ConvTransposeExSwish", "ConvTransposeLeakyReluAdd", "ConvTransposeMul",
        "ConvTransposeMulRelu", "ConvTransposePReluAdd", "ConvTransposeReluAdd", "ConvTransposeReluMul", "ConvexGelu",
        "ConvexMish", "ConvexSwish",
    }
)  # fmt: skip
"""What no verified file has behind a convolution."""
SEEN: dict[str, dict[int, tuple[int, ...]]] = {
    "RKNPU v2": {
        0x4040: (0x53, 0x20140, 0x20150,),
        0x4060: (0x12, 0x40, 0x42, 0x53, 0x62, 0x92, 0x20040, 0x20090,),
        0x4070: (0x302, 0x383, 0x8200c0, 0x8202c0, 0x10020380, 0x108001c4, 0x108003c4, 0x108200c0, 0x108202c0, 0x804202c0,
            0x904000c4, 0x904002c4, 0x904200c0, 0x904202c0, 0x908202c0,),
        0x4108: (0x0, 0x68,),
        0x501c: (0x0, 0x2, 0xe,),
        0x5028: (0x0, 0x8,),
        0x5034: (0x1, 0x4, 0x8, 0x40000004, 0x40000008,),
    },
    "RKNPU lite": {
        0x4040: (0x53, 0x148, 0x158,),
        0x4060: (0x12, 0x42, 0x48, 0x53, 0x62, 0x92, 0x98,),
        0x4070: (0x302, 0x383, 0x100000c4, 0x100000d0, 0x100002c4, 0x100002d0, 0x10000390, 0x900000c4, 0x900000d0, 0x900002c4,
            0x900002d0,),
        0x4108: (0x0, 0x68,),
        0x501c: (0x1, 0x2, 0xe,),
        0x5028: (0x1, 0x8,),
        0x5034: (0x1, 0x40000000, 0x40000004,),
    },
    "RKNPU t4": {
        0x4050: (0x0, 0x1, 0x2, 0x124, 0x125, 0x126,),
        0x4060: (0x2, 0x12, 0x13, 0x22, 0x20000, 0x20010,),
        0x407c: (0x241c0, 0x2c0c0, 0x1004140, 0x1004194, 0x10041c1, 0x8002c0c0, 0x81004094,),
        0x4108: (0x0, 0x160,),
        0x501c: (0x0, 0x2, 0x8, 0xa, 0xe,),
        0x5028: (0x0, 0x8,),
        0x5034: (0x1, 0x8, 0x40000004, 0x40000008,),
    },
    "RKNPU f2": {
        0x4050: (0x1011, 0x1111, 0x3033, 0x3133, 0x13033, 0x13133, 0x13233, 0x13333, 0x21011, 0x21111, 0x23033, 0x23133,
            0x23233, 0x23333, 0x80001011, 0x80001111, 0x80011011, 0x80011111, 0x80021011, 0x80021111,),
        0x4060: (0x2, 0x20, 0x402, 0x602, 0x820, 0x902, 0x903, 0x920, 0xa02, 0xc02, 0xe02,),
        0x407c: (0x241c0, 0x2c0c0, 0x1004140, 0x10041c1, 0x10f4194, 0x8002c0c0, 0x810f4094,),
        0x4108: (0x0, 0x2000006,),
        0x501c: (0x0, 0x10, 0x14, 0x18, 0x1c, 0x100, 0x108, 0x110, 0x114, 0x118, 0x11c, 0x510, 0x710,),
        0x5028: (0x0, 0x2, 0x8, 0xa, 0x18, 0x1a, 0x400, 0x410,),
        0x5034: (0x1, 0x41, 0x50000044, 0x50000048, 0x70000044, 0x70000048,),
    },
    "RKNPU f3": {
        0x4050: (0x1011, 0x1111, 0x3033, 0x3133, 0x13033, 0x13133, 0x13233, 0x13333, 0x21011, 0x21111, 0x23033, 0x23133,
            0x23233, 0x23333, 0x80001011, 0x80001111, 0x80011011, 0x80011111, 0x80021011, 0x80021111,),
        0x4060: (0x2, 0x20, 0x402, 0x602, 0x902, 0x903, 0x920, 0xa02, 0xc02, 0xe02,),
        0x407c: (0x241c0, 0x2c0c0, 0x1004140, 0x10041c1, 0x10f4194, 0x8002c0c0, 0x810f4094,),
        0x4108: (0x0, 0x2000006,),
        0x501c: (0x0, 0x10, 0x14, 0x18, 0x1c, 0x100, 0x108, 0x110, 0x114, 0x118, 0x11c, 0x510, 0x710,),
        0x5028: (0x0, 0x2, 0x8, 0x18, 0x1a, 0x400, 0x410,),
        0x5034: (0x1, 0x41, 0x50000044, 0x50000048, 0x70000044, 0x70000048,),
    },
    "RKNPU t3": {
        0x4050: (0x30000000, 0x30000001, 0x30000002, 0x30000124, 0x30000125, 0x30000126, 0x70000124, 0x70000125, 0x70000126,),
        0x4060: (0x2, 0x12, 0x13, 0x22, 0x20000, 0x20010,),
        0x4070: (0x4140, 0x1004140, 0x10041c1, 0x8002c0c0, 0x81004094,),
        0x4108: (0x0, 0x68,),
        0x501c: (0x2, 0xa, 0xe,),
        0x5028: (0x0, 0x8,),
        0x5034: (0x1, 0x40000004, 0x40000008,),
    },
    "RKNPU w1": {
        0x4030: (0x40000012, 0x40020042, 0x40020062, 0x40020063, 0x400200c2,),
        0x404c: (0x1000480e, 0x1000480f, 0x10004c0a, 0x1002480c, 0x2002481c, 0x20024928,),
        0x4108: (0x0,),
        0x501c: (0x1, 0x3, 0xb,),
        0x5034: (0x1, 0x40000004,),
    },
}  # fmt: skip
"""NPU family -> register -> values in convolutions."""
SEEN_ELSEWHERE: dict[str, dict[int, tuple[int, ...]]] = {
    "RKNPU v2": {
        0x4040: (0x12, 0x42, 0x53, 0x62, 0x92, 0x20010, 0x20040, 0x20050, 0x20051, 0x20090, 0x20140, 0x20150,),
        0x4060: (0x12, 0x42, 0x53, 0x62, 0x20010, 0x20040, 0x20050, 0x20110, 0x20150,),
        0x4070: (0x280, 0x283, 0x300, 0x302, 0x383, 0x8001c4, 0x8002c0, 0x8003c4, 0x8202c0, 0x8402c0, 0x108001c4, 0x108002c0,
            0x108003c4, 0x108200c0, 0x108202c0, 0x108303c0, 0x108402c0, 0x80000280, 0x80000283, 0x804000c4, 0x804002c0,
            0x804002c4, 0x804202c0, 0x808002c4, 0x808202c0, 0x904000c4, 0x904002c0, 0x904002c4, 0x904200c0, 0x904202c0,
            0x908002c0, 0x908002c4, 0x908202c0,),
        0x4108: (0x0, 0x68,),
        0x501c: (0x0, 0x2, 0x8, 0xe,),
        0x5028: (0x0, 0x2, 0x8,),
        0x5034: (0x1, 0x4, 0x8, 0x40000004, 0x40000008, 0x4000000c,),
    },
    "RKNPU lite": {
        0x4040: (0x12, 0x18, 0x42, 0x48, 0x50, 0x53, 0x58, 0x59, 0x62, 0x92, 0x98, 0x148, 0x158,),
        0x4060: (0x12, 0x18, 0x42, 0x48, 0x50, 0x53, 0x58, 0x62, 0x118, 0x158,),
        0x4070: (0xc4, 0x283, 0x2c0, 0x2c4, 0x2d0, 0x300, 0x302, 0x383, 0x3c3, 0x100000c4, 0x100002c0, 0x100002c4, 0x100002d0,
            0x100003d8, 0x20000284, 0x800000c4, 0x80000283, 0x800002c0, 0x800002c4, 0x800002d0, 0x900000c4, 0x900002c0,
            0x900002c4, 0x900002d0,),
        0x4108: (0x0, 0x68,),
        0x501c: (0x1, 0x2, 0x8, 0xe,),
        0x5028: (0x1, 0x2, 0x8,),
        0x5034: (0x0, 0x1, 0x4, 0x40000000, 0x40000004, 0x80000004,),
    },
    "RKNPU t4": {
        0x4050: (0x0, 0x1, 0x2, 0x26, 0x4a, 0x126, 0x36d, 0x36e, 0x100002, 0x2007fe, 0x300126, 0x30024a, 0x30036e, 0x3005b6,
            0x3007fe, 0x6007fe,),
        0x4060: (0x2, 0x12, 0x13, 0x22, 0x20000, 0x20010, 0x20110,),
        0x407c: (0xc0c0, 0x2c0c0, 0x4c0c0, 0x10040c1, 0x1004140, 0x1004194, 0x10041c1, 0x10421c8, 0x8000c0c0, 0x8002c0c0,
            0x81004094, 0x810040c1,),
        0x4108: (0x0, 0x160,),
        0x501c: (0x0, 0x2, 0x8, 0xe,),
        0x5028: (0x0, 0x2, 0x8,),
        0x5034: (0x1, 0x4, 0x8, 0x40000004, 0x40000008, 0x4000000c, 0x80000008,),
    },
    "RKNPU f2": {
        0x4050: (0x0, 0x1011, 0x10000, 0x20000, 0x21011, 0x21111, 0x23033, 0x23133, 0x23233, 0x23333, 0x120000, 0x22ffff,
            0x321111, 0x322222, 0x323333, 0x325555, 0x327777, 0x627777, 0x80017777, 0x80021011, 0x80021111, 0x80027777,),
        0x4060: (0x2, 0x20, 0x402, 0x602, 0x802, 0x902, 0x903, 0x920, 0x924,),
        0x407c: (0x41c0, 0xc0c0, 0x2c0c0, 0x4c0c0, 0x741c0, 0x9041c0, 0x90c0c0, 0x10040c1, 0x1004140, 0x10041c1, 0x10f4194,
            0x8000c0c0, 0x8002c0c0, 0x8090c0c0, 0x810021c8, 0x810040c1, 0x810f4094,),
        0x4108: (0x0, 0x2000006,),
        0x501c: (0x0, 0x2, 0x8, 0xa, 0x10, 0x14, 0x18, 0x1a, 0x100, 0x110, 0x114, 0x400, 0x402, 0x710,),
        0x5028: (0x0, 0x2, 0x8, 0x18, 0x1a, 0x100, 0x410,),
        0x5034: (0x1, 0x41, 0x44, 0x48, 0x10000046, 0x40000044, 0x40000048, 0x4000004c, 0x50000044, 0x50000048,),
    },
    "RKNPU f3": {
        0x4050: (0x0, 0x1011, 0x10000, 0x20000, 0x21011, 0x21111, 0x23033, 0x23133, 0x23233, 0x23333, 0x120000, 0x22ffff,
            0x321111, 0x322222, 0x323333, 0x325555, 0x327777, 0x627777, 0x80017777, 0x80021011, 0x80021111, 0x80027777,),
        0x4060: (0x2, 0x20, 0x402, 0x602, 0x802, 0x902, 0x903, 0x920, 0x924,),
        0x407c: (0x41c0, 0xc0c0, 0x2c0c0, 0x4c0c0, 0x741c0, 0x9041c0, 0x90c0c0, 0x10040c1, 0x1004140, 0x10041c1, 0x10f4194,
            0x8000c0c0, 0x8002c0c0, 0x8090c0c0, 0x810021c8, 0x810040c1, 0x810f4094,),
        0x4108: (0x0, 0x2000006,),
        0x501c: (0x0, 0x2, 0x8, 0xa, 0x10, 0x14, 0x18, 0x1a, 0x100, 0x110, 0x114, 0x400, 0x402, 0x710,),
        0x5028: (0x0, 0x2, 0x8, 0x18, 0x1a, 0x100, 0x410,),
        0x5034: (0x1, 0x41, 0x44, 0x48, 0x10000046, 0x40000044, 0x40000048, 0x4000004c, 0x50000044, 0x50000048,),
    },
    "RKNPU t3": {
        0x4050: (0x2, 0x126, 0x24a, 0x2007fe, 0x8000126, 0x800024a, 0x800036e, 0x80005b6, 0x80007fe, 0x10000000, 0x10000001,
            0x10000002, 0x10000126, 0x30000000, 0x30000001, 0x30000002, 0x30000126, 0x3000036d, 0x3000036e, 0x30100002,
            0x70000126,),
        0x4060: (0x2, 0x10, 0x12, 0x13, 0x22, 0x20000, 0x20010, 0x20110,),
        0x4070: (0x4140, 0x1004140, 0x10041c1, 0x8000c0c0, 0x8002c0c0, 0x81004094, 0x810040c1,),
        0x4108: (0x0, 0x68,),
        0x501c: (0x0, 0x2, 0x8, 0xe,),
        0x5028: (0x0, 0x2, 0x8,),
        0x5034: (0x1, 0x4, 0x8, 0x40000004, 0x40000008, 0x4000000c,),
    },
    "RKNPU w1": {
        0x4030: (0x40000010, 0x40000033, 0x40000092, 0x40020000, 0x40020002, 0x40020022, 0x40020062, 0x40020063, 0x40020082,),
        0x404c: (0x2481c, 0x1000400e, 0x1000480a, 0x1000480c, 0x1000480e, 0x1000480f, 0x1000481c, 0x1000492a, 0x10004c0a,
            0x10004d2a, 0x1002480c, 0x1002489c, 0x2000480f, 0x2000481c, 0x2000492a, 0x2002480c, 0x2002481c, 0x20024928,),
        0x4108: (0x0, 0x2000006,),
        0x501c: (0x0, 0x1, 0x2,),
        0x5034: (0x1, 0x6, 0x1000000a, 0x3000000e, 0x40000004, 0x80000008,),
    },
}  # fmt: skip
"""The same of all other nodes: pooling, sums, products, tables."""
WORDS: dict[str, dict[str, tuple[Any, ...]]] = {
    "ArgMax": {"keepdims": (1,), "select_last_index": (0, 1)},
    "ArgMin": {"keepdims": (1,)},
    "AveragePool": {"ceil_mode": (0, 1), "count_include_pad": (0, 1)},
    "BatchNormalization": {"training_mode": (0,)},
    "Cast": {"saturate": (1,)},
    "DepthToSpace": {"mode": ("CRD", "DCR")},
    "GRU": {"direction": ("reverse",), "linear_before_reset": (1,)},
    "GridSample": {"align_corners": (0, 1), "mode": ("bicubic", "bilinear", "nearest"), "padding_mode": ("border", "reflection",
        "zeros")},
    "LSTM": {"direction": ("reverse",)},
    "MaxPool": {"ceil_mode": (0, 1), "storage_order": (0,)},
    "Mod": {"fmod": (1,)},
    "Pad": {"mode": ("constant", "edge", "reflect", "wrap")},
    "ReduceL1": {"keepdims": (0, 1)},
    "ReduceLogSum": {"keepdims": (1,)},
    "ReduceLogSumExp": {"keepdims": (1,)},
    "ReduceMax": {"keepdims": (1,)},
    "ReduceMin": {"keepdims": (1,)},
    "ReduceProd": {"keepdims": (0, 1)},
    "ReduceSumSquare": {"keepdims": (0, 1)},
    "Reshape": {"allowzero": (0,)},
    "Resize": {"coordinate_transformation_mode": ("align_corners", "asymmetric", "half_pixel", "pytorch_half_pixel",
        "tf_half_pixel_for_nn"), "mode": ("linear", "nearest"), "nearest_mode": ("ceil", "floor", "round_prefer_ceil",
        "round_prefer_floor")},
    "RoiAlign": {"coordinate_transformation_mode": ("half_pixel", "output_half_pixel"), "mode": ("avg",)},
    "ScatterElements": {"reduction": ("add",)},
    "ScatterND": {"reduction": ("add",)},
    "TopK": {"largest": (0, 1), "sorted": (1,)},
    "Trilu": {"upper": (0, 1)},
    "exDataConvert": {"i_dtype": ("float16", "float32", "int16", "int8"), "o_dtype": ("float16", "float32", "int16", "int8")},
    "exGRU": {"linear_before_reset": (1,)},
    "exLSTM": {"direction": ("bidirectional", "forward")},
    "exMatMul": {"c_type": ("add", "mul")},
    "exNorm": {"mode": ("l1", "l2", "layer", "pixel", "rms")},
    "exWindow": {"mode": ("partition", "partition_num_first", "reverse")},
}  # fmt: skip
"""Type of nodes -> attribute -> its values, as far as those are words or switches."""
WORDLESS = frozenset({
    "Acos", "Acosh", "Add", "AddRelu", "Asin", "Asinh", "Atan", "Atanh", "CastLike", "Ceil", "Celu", "CenterCropPad", "Clip",
        "Col2Im", "Compress", "Concat", "Conv", "ConvTranspose", "Cos", "Cosh", "DFT", "Det", "Div", "Einsum", "Elu", "Equal",
        "Erf", "Exp", "Expand", "EyeLike", "Floor", "Gather", "GatherND", "GlobalLpPool", "Greater", "GreaterOrEqual",
        "GroupNormalization", "HardSigmoid", "HardSwish", "Hardmax", "IsInf", "IsNaN", "LRN", "LeakyRelu", "Less",
        "LessOrEqual", "Log", "LogSoftmax", "LpPool", "Max", "MaxRoiPool", "MaxUnpool", "Mean", "MeanVarianceNormalization",
        "Min", "Mish", "Mul", "MulRelu", "Not", "OneHot", "Or", "PRelu", "Pow", "RNN", "Relu", "Round", "Selu", "Shrink",
        "Sigmoid", "Sign", "Sin", "Sinh", "Slice", "Softplus", "Softsign", "SpaceToDepth", "Split", "Sqrt", "Sub", "Tan",
        "Tanh", "ThresholdedRelu", "Tile", "Transpose", "Where", "Xor", "exConvTransposePad", "exGelu", "exGlu", "exMish",
        "exSDPAttention", "exSoftmax13", "exSwish"
})  # fmt: skip
"""Types without."""
