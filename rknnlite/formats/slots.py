"""Numbers that the tables of a container use: slots of flatbuffer fields, kinds of tensors, codes (docs/rknn-format.md).

One class per table. Container 6 gives the names; the classes of older containers and of the mini format hold what differs
there. They are plain numbers, not ``IntEnum``, because they are read a thousand times per file: a member of an enumeration
takes three times as long to look up (97 against 34 ns on Python 3.11).
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "BlobSlot", "ClassicNodeSlot", "ClassicRootSlot", "CommandSlot", "GraphSlot", "MiniGraphSlot", "MiniNodeSlot",
    "MiniRootSlot", "MiniTensorSlot", "NodePlace", "NodeSlot", "RelocationSlot", "RootSlot", "StorageForm", "TensorKind",
    "TensorSlot", "UnionCode", "numbers",
]  # fmt: skip


def numbers(names: type) -> dict[str, int]:
    """Name -> number of one of the classes here, with what it inherits."""
    found: dict[str, int] = {}
    for cls in reversed(names.__mro__):
        found.update({name: value for name, value in vars(cls).items() if name.isupper()})
    return found


# -- container 6 ---------------------------------------------------------------------------------------------


class RootSlot:
    """The root table. ``NOTES``: what the converter noted about inputs, as the text of a Python dict."""

    VERSION: Final = 0
    FAMILY: Final = 1
    GRAPHS: Final = 2
    NOTES: Final = 3
    TOOLKIT_NUMBER: Final = 6
    VERSIONS: Final = 7
    PLATFORM: Final = 8
    FRAMEWORK: Final = 9
    CUSTOM_STRING: Final = 11
    INPUT_FORMATS: Final = 12
    OUTPUT_FORMATS: Final = 13
    BATCH: Final = 14
    SHAPE_KIND: Final = 16
    SHARED_NAMES: Final = 18
    BLOBS: Final = 20
    CUSTOM_OPS: Final = 21


class GraphSlot:
    """A graph; inputs and outputs are tensor numbers, ``FIRST_TASKS`` the first task record of each core mask."""

    TENSORS: Final = 0
    NODES: Final = 1
    INPUTS: Final = 2
    OUTPUTS: Final = 3
    RELOCATIONS: Final = 7
    FIRST_TASKS: Final = 10


class RelocationSlot:
    """Where the address of a tensor, named by ``TENSOR``, stands: u64 ``word << 32 | offset``."""

    TENSOR: Final = 0
    PLACES: Final = 1


class TensorSlot:
    """A tensor. ``PAYLOADS``, ``OFFSETS`` and ``HEADERS`` describe the segments of a compressed weight."""

    TYPE: Final = 0
    ORDER: Final = 1
    KIND: Final = 2
    NATIVE_DIMS: Final = 3
    DIMS: Final = 4
    NAME: Final = 5
    LOWEST: Final = 8
    HIGHEST: Final = 9
    SCALES: Final = 10
    ZERO_POINTS: Final = 11
    BYTES: Final = 12
    OFFSET: Final = 13
    STORAGE: Final = 14
    PAYLOADS: Final = 15
    OFFSETS: Final = 16
    HEADERS: Final = 17
    BLOB: Final = 18
    SURFACE_ALIGNMENT: Final = 19


class NodeSlot:
    """A node; ``UNION_CODE`` says what table ``UNION`` is, ``DOCUMENT`` is a BSON document of attributes."""

    TYPE: Final = 1
    NAME: Final = 2
    PLACE: Final = 3
    INPUTS: Final = 4
    OUTPUTS: Final = 5
    UNION_CODE: Final = 7
    UNION: Final = 8
    DOCUMENT: Final = 9
    TASKS: Final = 10
    TABLE_TASKS: Final = 11


class BlobSlot:
    """The bytes of a constant."""

    DATA: Final = 0


# -- containers 1 to 5 ---------------------------------------------------------------------------------------


class ClassicRootSlot(RootSlot):
    """The root table of containers 1 to 5; blobs may lie in the later place as well."""

    OLD_BLOBS: Final = 4


class ClassicNodeSlot(NodeSlot):
    """A node of containers 1 to 5 lists its own commands."""

    COMMANDS: Final = 6


class CommandSlot:
    """A command of containers 1 to 5: numbers of the tensors with its words and its activation table."""

    WORDS: Final = 0
    TABLE: Final = 1
    UNITS: Final = 3
    CORE_MASK: Final = 7


# -- mini format ---------------------------------------------------------------------------------------------


class MiniRootSlot:
    """The root table of the mini format; graphs are as in container 6."""

    VERSION: Final = 0
    FAMILY: Final = 1
    GRAPHS: Final = 2
    NOTES: Final = 3
    TOOLKIT_NUMBER: Final = 4
    VERSIONS: Final = 5
    PLATFORM: Final = 6
    FRAMEWORK: Final = 7


class MiniGraphSlot:
    """A graph of the mini format, where it differs."""

    RELOCATIONS: Final = 5


class MiniTensorSlot:
    """A tensor of the mini format: constants are named by ``OFFSET`` and ``BYTES`` in their area."""

    TYPE: Final = 0
    ORDER: Final = 1
    KIND: Final = 2
    NATIVE_DIMS: Final = 3
    DIMS: Final = 4
    NAME: Final = 5
    SCALES: Final = 6
    ZERO_POINTS: Final = 7
    BYTES: Final = 8
    OFFSET: Final = 9
    SURFACE_ALIGNMENT: Final = 11


class MiniNodeSlot:
    """A node of the mini format."""

    TYPE: Final = 1
    NAME: Final = 2
    PLACE: Final = 3
    INPUTS: Final = 4
    OUTPUTS: Final = 5
    UNION_CODE: Final = 6
    UNION: Final = 7
    DOCUMENT: Final = 8
    TASKS: Final = 9
    TABLE_TASKS: Final = 10


# -- what fields say -----------------------------------------------------------------------------------------


class TensorKind:
    """What a tensor is; ``COMMAND`` is one of containers 1 to 5."""

    INPUT: Final = 1
    OUTPUT: Final = 2
    ACTIVATION: Final = 3
    WEIGHT: Final = 4
    OPERAND: Final = 5
    TABLE: Final = 6
    COMMAND: Final = 7
    HELPER: Final = 8
    REGISTER_COMMANDS: Final = 9
    TASKS: Final = 10

    CONSTANTS: Final = (WEIGHT, OPERAND, HELPER)
    """Those that may have bytes in the file."""


class NodePlace:
    """Where a node runs."""

    CPU: Final = 0
    NPU: Final = 2


class StorageForm:
    """How the bytes of a constant are stored."""

    PLAIN: Final = 0
    COMPRESSED: Final = 1
    SPARSE: Final = 4


class UnionCode:
    """What table holds the attributes of a node."""

    CONV: Final = 1
    CONV_TRANSPOSE: Final = 2
    MAX_POOL: Final = 3
    AVERAGE_POOL: Final = 5
    LEAKY_RELU: Final = 9
    BATCH_NORMALIZATION: Final = 17
    CONCAT: Final = 19
    SPLIT: Final = 20
    TRANSPOSE: Final = 25
    RESIZE: Final = 26
    ROI_ALIGN: Final = 27
    MAX_ROI_POOL: Final = 28
    MAX_UNPOOL: Final = 29
    PAD: Final = 30
    LRN: Final = 31
    SPACE_TO_DEPTH: Final = 33
    GATHER: Final = 50
    ARG_MAX: Final = 51
    ARG_MIN: Final = 52
    REDUCE_MAX: Final = 53
    REDUCE_MIN: Final = 54
    EX_SOFTMAX: Final = 61
    MINI_EX_NORM: Final = 62
    LOG_SOFTMAX: Final = 64
    EX_CONV_TRANSPOSE_PAD: Final = 66
    EX_GRU: Final = 67
    GRU: Final = 71
    EX_GLU: Final = 77
    MOD: Final = 83
    EX_WINDOW: Final = 86
    EX_NORM: Final = 87
    TOP_K: Final = 89
    HARDMAX: Final = 90
    CAST: Final = 96
    GRID_SAMPLE: Final = 97
    EX_LSTM: Final = 98
