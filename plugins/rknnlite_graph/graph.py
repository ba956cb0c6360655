"""The graph that every container is read into: tensors, nodes, and the decoded parameters of the NPU.

A backend that executes graphs needs nothing of a container beyond this module. Activations are described
in logical (ONNX) order; constants are decoded to plain arrays in logical order when they are first read.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ModelUnsupported
from rknnlite.tensor import DType, QuantParams

if TYPE_CHECKING:
    from .output_registers import OutputRegisters

__all__ = [
    "MARKERS",
    "RECURRENT_GATES",
    "Accumulator",
    "Activation",
    "ConvParams",
    "FusedOp",
    "Graph",
    "Guess",
    "Join",
    "Lut",
    "Node",
    "RecurrentParams",
    "Stage",
    "StoredRows",
    "Tensor",
    "TensorRole",
    "coarse",
]

_COARSEST = 25, 1 << 14
"""Between them a multiplier as the file keeps it holds its scale to 2 %: see ``coarse_multipliers``."""

MARKERS = ("InputOperator", "OutputOperator")
"""Nodes that say where a graph begins and ends; nothing computes them."""

RECURRENT_GATES = {"exLSTM": 4, "LSTM": 4, "exGRU": 3, "GRU": 3}
"""Types of recurrent nodes and their number of gates."""


def coarse(stored: Optional[NDArray[np.float64]]) -> NDArray[np.bool_]:
    """Which multipliers do not hold their scales; empty where there are none."""
    numbers = np.zeros(0) if stored is None else stored
    return np.asarray((numbers < _COARSEST[0]) | (numbers > _COARSEST[1]))


class TensorRole(enum.Enum):
    """What a tensor is in its graph."""

    INPUT = "input"
    OUTPUT = "output"
    ACTIVATION = "activation"
    CONST = "const"
    HELPER = "helper"


@dataclass
class Tensor:
    """One tensor. ``shape`` is logical; ``native_shape`` as stored for the NPU; ``load`` decodes a constant.

    ``offset`` is its place in the converter's plan of internal memory, in bytes; 0 where there is none.
    ``zero_first``: the zero point is added before values are rounded, so that of halves the even stored value is taken.
    ``value_range`` is the calibrated (smallest, largest) real value, where the file keeps it.
    """

    index: int
    name: str
    dtype: DType
    shape: tuple[int, ...]
    role: TensorRole
    quant: Optional[QuantParams] = None
    value_range: Optional[tuple[float, float]] = None
    native_shape: tuple[int, ...] = ()
    nbytes: int = 0
    offset: int = 0
    load: Optional[Callable[[], NDArray[Any]]] = None
    zero_first: bool = False

    @property
    def in_eight_bits(self) -> bool:
        """Whether it is quantised in 8 bits."""
        return self.quant is not None and self.dtype in (DType.INT8, DType.UINT8)

    def value(self) -> NDArray[Any]:
        """The stored elements of a constant in logical order, not dequantised."""
        if self.load is None:
            raise ValueError(f"tensor {self.name} is not a constant")
        return self.load()


@dataclass
class Lut:
    """An activation table of the NPU: 513 points each over [-16384, 0] and [0, 16384], linear in between.

    ``index = acc_scaled * multiplier + offset``; past the ends the slopes (per index step) continue.
    """

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    multiplier: float
    offset: float
    low_step: int = 32
    high_step: int = 32
    low_start: int = -16384
    high_start: int = 0
    low_slope: float = 0.0
    high_slope: float = 0.0


@dataclass
class Stage:
    """What the NPU does to an accumulator on its way out, read from the register commands of a node.

    ``scale`` = OUT_SCALE * 2**-OUT_SHIFT, ``pre_scale`` = 2**-(BS_SHIFT + T), ``zero_point`` = output offset.
    T is the shift of int16 accumulators; stored biases are smaller by ``bias_scale`` = 2**T.
    ``second_scale`` follows the multipliers per channel, before an operand is added.
    ``clip`` are real-valued limits (fp16 and int16), ``limits`` those of int8 accumulators behind their multipliers (None
    is one that the file does not tell), ``slope`` the factor of the negative part.
    ``index_scale`` and ``index_offset`` make table indices of scaled accumulators, also where no table is
    stored (int16). ``precise``: the multipliers apply in double. ``by_table``: an activation is read from ``lut``, not
    computed. ``parameters`` of a function that has no table to read them off. ``read_registers`` reads the
    integers behind all this, of the first task that computes, ``read_tasks`` those of all; ``registers`` are the ones that count.
    ``in_registers``: the stage is to be computed with those; ``why_not``: it should be, and this is why it is not.
    """

    scale: float = 1.0
    zero_point: int = 0
    pre_scale: float = 1.0
    bias_scale: float = 1.0
    slope: Optional[float] = None
    second_scale: float = 1.0
    clip: Optional[tuple[float, float]] = None
    limits: tuple[Optional[float], Optional[float]] = (None, None)
    lut: Optional[Lut] = None
    index_scale: float = 1.0
    index_offset: float = 0.0
    float_line: Optional[tuple[float, float]] = None
    by_table: bool = False
    precise: bool = False
    parameters: tuple[float, ...] = ()
    registers: Optional[OutputRegisters] = None
    read_registers: Optional[Callable[[], OutputRegisters]] = None
    read_tasks: Optional[Callable[[], tuple[OutputRegisters, ...]]] = None
    in_registers: bool = False
    why_not: str = ""


class Accumulator(enum.Enum):
    """What fills the accumulator of a node; OPERAND: its first operand as it is."""

    CONV = "Conv"
    CONV_TRANSPOSE = "ConvTranspose"
    BATCH_NORM = "BatchNormalization"
    OPERAND = ""


class Join(enum.Enum):
    """How a further operand meets the accumulator."""

    ADD = "Add"
    SUB = "Sub"
    MUL = "Mul"


class Activation(enum.Enum):
    """What the output stage does to values: limits and slopes itself, any other function by TABLE."""

    RELU = "Relu"
    CLIP = "Clip"
    LEAKY_RELU = "LeakyRelu"
    PRELU = "PRelu"
    TABLE = "table"


@dataclass(frozen=True)
class FusedOp:
    """What a node computes in one pass: ``after(join(before(accumulator), operand))``.

    ``function`` names the one that TABLE stands for, e.g. ``ExSwish``. A separate Add or Relu is of this form, too.
    """

    accumulator: Accumulator
    before: Optional[Activation] = None
    join: Optional[Join] = None
    after: Optional[Activation] = None
    function: str = ""

    @property
    def convolves(self) -> bool:
        """Whether weights are involved."""
        return self.accumulator in (Accumulator.CONV, Accumulator.CONV_TRANSPOSE)

    @property
    def plain(self) -> bool:
        """Whether the accumulator is all."""
        return not (self.before or self.join or self.after)

    def applies(self, *activations: Activation) -> bool:
        """Whether one of these is applied, before or after the further operand."""
        return self.before in activations or self.after in activations


@dataclass
class ConvParams:
    """Decoded operands of a convolution-like node.

    ``weight`` is [OC, IC, kh, kw] (depthwise [C, 1, kh, kw]); transposed convolutions store the equivalent
    forward kernel, already flipped. int8: ``weight - zero_point[oc]`` are the centred integer weights, ``bias``
    holds the input zero point folded in, ``multiplier`` (M before Stage.scale) is per channel.
    ``stored_multiplier`` is what the file keeps of it: whole numbers, None where all channels share one.
    ``slope`` is the real factor of the negative part (PRelu), [OC] or, where it differs by position, [OC, OH, OW].

    ``computed`` weights (cross correlation: one picture is the kernel for another) are the second operand of the node, in
    ONNX order and not flipped, centred like any value; ``weight`` raises ValueError, and ``bias`` holds the bias alone.
    """

    weight: Callable[[], NDArray[Any]]
    weight_shape: tuple[int, int, int, int]
    quantised: bool
    depthwise: bool
    transposed: bool
    strides: tuple[int, int]
    dilations: tuple[int, int]
    pads: tuple[int, int]
    bias: Optional[NDArray[Any]] = None
    zero_point: Optional[NDArray[np.float32]] = None
    multiplier: Optional[NDArray[np.float64]] = None
    stored_multiplier: Optional[NDArray[np.float64]] = None
    slope: Optional[NDArray[np.float32]] = None
    computed: bool = False


@dataclass(frozen=True)
class StoredRows:
    """What an int8 file keeps of the rows of ``matrix`` (``W`` or ``R``), each [directions, gates, hidden]: multipliers, and
    how many steps lie between the least and the largest weight, zero among them."""

    matrix: str
    multiplier: NDArray[np.float64]
    span: NDArray[np.float64]


@dataclass
class RecurrentParams:
    """Decoded operands of an LSTM (gates i, o, f, c) or GRU (gates z, r, h), real values.

    ``w`` is [directions, gates, hidden, inputs], ``r`` [directions, gates, hidden, hidden], biases
    [directions, gates, hidden]. ``stored``: of W and R, where their rows have multipliers. ``steps`` [directions, gates, hidden]
    of W and R: what a whole number of a row stands for, where the file stores such.
    """

    gates: int
    hidden: int
    directions: int
    w: NDArray[np.float32]
    r: NDArray[np.float32]
    w_bias: NDArray[np.float32]
    r_bias: NDArray[np.float32]
    reverse: bool = False
    linear_before_reset: bool = False
    stored: tuple[StoredRows, ...] = ()
    steps: Optional[tuple[NDArray[np.float64], NDArray[np.float64]]] = None


@dataclass(frozen=True)
class Guess:
    """A fact of a file that its reader relies on, or passes over, although no verified file has had it.

    ``node`` is what the fact is about, empty for the whole file.
    """

    node: str
    fact: str


@dataclass
class Node:
    """One operator. ``inputs`` hold tensor indices, -1 for an absent operand; scratch tensors are dropped.

    ``fused`` tells what a type such as ``ConvLeakyReluAdd`` stands for; nobody else takes types apart.
    ``attrs_left_out``: the container stores no attributes of such nodes, and nobody else has told any. ``doubts``: facts
    that make a ``Guess``. ``overflow``: why its register commands are not those of its weights, empty where they are. ``points``:
    how many per power of two its function is known at, see ``point_tables``; 0: it is the function itself.
    """

    index: int
    op: str
    name: str
    inputs: list[int]
    outputs: list[int]
    attrs: dict[str, Any] = field(default_factory=dict)
    attrs_left_out: bool = False
    on_npu: bool = True
    fused: Optional[FusedOp] = None
    conv: Optional[ConvParams] = None
    stage: Optional[Stage] = None
    recurrent: Optional[RecurrentParams] = None
    doubts: list[str] = field(default_factory=list)
    overflow: str = ""
    points: int = 0

    def label(self) -> str:
        """``op "name"`` for messages."""
        return f'{self.op} "{self.name}"'


@dataclass
class Graph:
    """Tensors and nodes in execution order; ``inputs`` and ``outputs`` are tensor indices.

    ``doubts``: facts about the whole file that make a ``Guess``. ``measured_on``: the SoC of this NPU family on which people
    measured how it computes, empty where nobody has. ``behind_bytes``: see there, None until somebody asks.
    """

    tensors: list[Tensor]
    nodes: list[Node]
    inputs: list[int]
    outputs: list[int]
    doubts: list[str] = field(default_factory=list)
    measured_on: str = ""
    behind_bytes: Optional[frozenset[int]] = field(default=None, init=False, repr=False, compare=False)

    @property
    def has_coarse(self) -> bool:
        """Whether there is a coarse multiplier; ``coarse_multipliers`` tells what is lost."""
        convs = (node.conv.stored_multiplier for node in self.nodes if node.conv is not None)
        rows = (each.multiplier for node in self.nodes if node.recurrent for each in node.recurrent.stored)
        return any(coarse(stored).any() for stored in (*convs, *rows))

    def check_commands(self) -> None:
        """Raises ModelUnsupported for a node whose register commands are for another layer than its weights: the numbers of
        the NPU cannot be had then, those of the network can."""
        for node in self.nodes:
            if node.overflow:
                raise ModelUnsupported(
                    f"node {node.label()}: {node.overflow}, so a board computes something else; fidelity='float' and "
                    "export-onnx compute the network from the weights, which are whole; for a board give the layer a smaller "
                    "kernel, or the same without dilation, and convert again"
                )

    @property
    def guesses(self) -> list[Guess]:
        """What the reader was not sure of, the whole file first."""
        of_nodes = [Guess(node.label(), fact) for node in self.nodes for fact in node.doubts]
        return [*(Guess("", fact) for fact in self.doubts), *of_nodes]
