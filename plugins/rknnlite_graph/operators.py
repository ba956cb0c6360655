"""Operators by name: one row each, for whoever has to know something of them before, beside or without computing them.

Readers check shapes and tell defaults by it, backends take parameters from it, engines are judged by it. What computes an
operator is a backend's matter.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Optional

from rknnlite.tensor import QuantParams

from .graph import Accumulator, Lut, Stage

__all__ = [
    "OPERATORS",
    "TABLE_FUNCTIONS",
    "Kept",
    "LeftOut",
    "Operator",
    "Parameter",
    "Shape",
    "convolution_types",
    "operator_of",
]


class Shape(enum.Enum):
    """How many elements the first result has."""

    UNARY = "as the only operand that is computed on: each element is a function of one"
    BROADCAST = "as the operands have together: each element is a function of one of each"
    SAME = "as the first operand"
    RESHAPED = "as the first operand, whose elements stay in their order"
    REDUCED = "as the axes that stay"
    ONE_AXIS = "as the first operand without an axis"
    POOLED = "as windows in each channel"
    POOLED_TO_ONE = "one for each channel"
    RECURRENT = "a state for each step"
    OTHER = "by a rule of its own"


class Kept(enum.Enum):
    """Where a file keeps a parameter; an attribute of that name, where a node has it, goes before."""

    ATTRIBUTE = "nowhere else"
    REGISTER = "in a register, which the stage of the node holds"
    TABLE = "in the shape of the activation table"
    LINE = "in what makes indices of the table, which is a straight line"


class LeftOut(enum.Enum):
    """What becomes of a node whose attributes the container does not store."""

    HARMLESS = "its tensors, registers and table tell all"
    DEFAULTS = "the defaults of its parameters are taken, and told"
    REFUSED = "nobody knows what it computes, unless its tensors tell"


@dataclass(frozen=True)
class Parameter:
    """An attribute by its ONNX name; ``read`` gets it off the table or line of a stage on an input in steps ``x``."""

    name: str
    default: Any
    kept: Kept = Kept.ATTRIBUTE
    read: Optional[Callable[[Lut, Optional[QuantParams]], Optional[float]]] = None

    def of_stage(self, stage: Stage, x: Optional[QuantParams]) -> Optional[float]:
        """What the stage of a node tells; None where it does not."""
        if self.kept is Kept.REGISTER:
            return stage.slope
        return self.read(stage.lut, x) if self.read is not None and stage.lut is not None else None


@dataclass(frozen=True)
class Operator:
    """One operator.

    ``names``: types of nodes, as containers write them: the compiler's own word first, ONNX's last. ``floating``: results hang on
    the last bit of a float (a transcendental function, a sum of floats), so that engines differ. ``partial``: real operands may
    give NaN or infinity. ``index_units`` of a function that the NPU evaluates by table: indices per 1.0, the same on all SoCs
    (docs/rknn-format.md, section 8); 0 for all others. ``rknn1``: what files of the first generation call it, or call what
    becomes several nodes, of which this one computes.
    """

    names: tuple[str, ...]
    shape: Shape
    floating: bool = False
    partial: bool = False
    parameters: tuple[Parameter, ...] = ()
    left_out: LeftOut = LeftOut.HARMLESS
    index_units: float = 0.0
    rknn1: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The first of its names, by which backends keep what computes it."""
        return self.names[0]

    @property
    def line(self) -> bool:
        """Whether its table is the line 0.5 + index / 32768 between 0 and 1, and slope and offset lie in the stage."""
        return any(parameter.kept is Kept.LINE for parameter in self.parameters)

    @property
    def in_table(self) -> bool:
        """Whether it has a parameter that behind a convolution nothing but its table tells."""
        return any(parameter.kept is Kept.TABLE for parameter in self.parameters)

    def table_parameters(self, stage: Stage) -> tuple[float, ...]:
        """Arguments of the function behind a convolution, which has no attributes: read off its table, else its stage's."""
        if not self.in_table or stage.lut is None:
            return stage.parameters
        found = [parameter.of_stage(stage, None) for parameter in self.parameters]
        return tuple(value for value in found if value is not None)

    def values(
        self, attrs: dict[str, Any], stage: Optional[Stage], x: Optional[QuantParams]
    ) -> dict[str, Any]:
        """Parameters of a node: its attributes; where it has none of them, what its stage tells; the defaults.

        Args:
            x: steps of its first operand, None for floats.
        """
        given = {each.name: attrs[each.name] for each in self.parameters if attrs.get(each.name) is not None}
        if not given and stage is not None:
            told = {each.name: each.of_stage(stage, x) for each in self.parameters}
            given = {name: value for name, value in told.items() if value is not None}
        return {each.name: given.get(each.name, each.default) for each in self.parameters}


# -- parameters that no attribute holds ----------------------------------------------------------------------

_ELU_UNITS, _SILU_UNITS = 3276.80, 2824.787


def _elu_alpha(lut: Lut, x: Optional[QuantParams]) -> float:
    from .activation_tables import elu_alpha  # few networks have such functions

    return elu_alpha(lut.high, _ELU_UNITS)


def _silu_beta(lut: Lut, x: Optional[QuantParams]) -> float:
    from .activation_tables import silu_beta

    return silu_beta(lut.high, _SILU_UNITS)


def _line(part: int) -> Callable[[Lut, Optional[QuantParams]], Optional[float]]:
    def read(lut: Lut, x: Optional[QuantParams]) -> Optional[float]:
        from .activation_tables import hard_sigmoid_line

        if x is None:
            return None
        return hard_sigmoid_line(lut.multiplier / x.scale, x.zero_point * lut.multiplier + lut.offset)[part]

    return read


def _attributes(**defaults: Any) -> tuple[Parameter, ...]:
    return tuple(Parameter(name, default) for name, default in defaults.items())


# -- the table -----------------------------------------------------------------------------------------------

_UNARY, _BROADCAST, _SAME, _OTHER = Shape.UNARY, Shape.BROADCAST, Shape.SAME, Shape.OTHER
_RESHAPED, _REDUCED, _RECURRENT = Shape.RESHAPED, Shape.REDUCED, Shape.RECURRENT
_DEFAULTS, _REFUSED = LeftOut.DEFAULTS, LeftOut.REFUSED
_INF = float("inf")

OPERATORS: tuple[Operator, ...] = (
    # functions of one operand
    Operator(("Abs",), _UNARY, rknn1=("ABS",)),
    Operator(("Acos",), _UNARY, floating=True, partial=True),
    Operator(("Acosh",), _UNARY, floating=True, partial=True),
    Operator(("Asin",), _UNARY, floating=True, partial=True),
    Operator(("Asinh",), _UNARY, floating=True),
    Operator(("Atan",), _UNARY, floating=True),
    Operator(("Atanh",), _UNARY, floating=True, partial=True),
    Operator(("Cast",), _UNARY),
    Operator(("Ceil",), _UNARY, rknn1=("CEIL",)),
    Operator(("Celu",), _UNARY, floating=True, parameters=_attributes(alpha=1.0), left_out=_REFUSED),
    Operator(("Clip",), _UNARY, parameters=_attributes(min=-_INF, max=_INF), rknn1=("CLIP", "RELU1", "RELU6", "RELUN")),
    Operator(("Cos",), _UNARY, floating=True),
    Operator(("Cosh",), _UNARY, floating=True),
    Operator(("Elu",), _UNARY, floating=True, parameters=(Parameter("alpha", 1.0, Kept.TABLE, _elu_alpha),),
             index_units=_ELU_UNITS, rknn1=("ELU",)),
    Operator(("Erf",), _UNARY, floating=True, rknn1=("ERF",)),
    Operator(("Exp",), _UNARY, floating=True, rknn1=("EXP",)),
    Operator(("Floor",), _UNARY, rknn1=("FLOOR",)),
    Operator(("HardSigmoid",), _UNARY, index_units=32768, rknn1=("HARD_SIGMOID",),
             parameters=(Parameter("alpha", 0.2, Kept.LINE, _line(0)), Parameter("beta", 0.5, Kept.LINE, _line(1)))),
    Operator(("HardSwish",), _UNARY, index_units=5461.29),
    Operator(("IsInf",), _UNARY, parameters=_attributes(detect_negative=1, detect_positive=1), left_out=_REFUSED),
    Operator(("IsNaN",), _UNARY),
    Operator(("LeakyRelu",), _UNARY, parameters=(Parameter("alpha", 0.01, Kept.REGISTER),), rknn1=("LEAKY_RELU",)),
    Operator(("Log",), _UNARY, floating=True, partial=True, rknn1=("LOG",)),
    Operator(("Neg",), _UNARY, rknn1=("NEG",)),
    Operator(("Not",), _UNARY),
    Operator(("Reciprocal",), _UNARY, partial=True),
    Operator(("Relu",), _UNARY, rknn1=("RELU",)),
    Operator(("Round",), _UNARY, rknn1=("ROUND",)),
    Operator(("Selu",), _UNARY, floating=True, parameters=_attributes(alpha=1.6732632, gamma=1.0507009873554805),
             left_out=_DEFAULTS),
    Operator(("Shrink",), _UNARY, parameters=_attributes(lambd=0.5, bias=0.0), left_out=_REFUSED),
    Operator(("Sigmoid",), _UNARY, floating=True, index_units=2596.596, rknn1=("SIGMOID",)),
    Operator(("Sign",), _UNARY),
    Operator(("Sin",), _UNARY, floating=True, rknn1=("SIN",)),
    Operator(("Sinh",), _UNARY, floating=True),
    Operator(("Softplus",), _UNARY, floating=True, index_units=2596.537, rknn1=("SOFTRELU",)),
    Operator(("Softsign",), _UNARY, floating=True),
    Operator(("Sqrt",), _UNARY, floating=True, partial=True, rknn1=("SQRT",)),
    Operator(("Tan",), _UNARY, floating=True, partial=True),
    Operator(("Tanh",), _UNARY, floating=True, index_units=5425.294, rknn1=("TANH",)),
    Operator(("ThresholdedRelu",), _UNARY, parameters=_attributes(alpha=1.0), left_out=_REFUSED),
    Operator(("exDataConvert",), _UNARY, rknn1=("DATACONVERT",)),
    Operator(("exGelu", "Gelu"), _UNARY, floating=True, index_units=5792.494),
    Operator(("exMish", "Mish"), _UNARY, floating=True, index_units=3276.82, rknn1=("MISH",)),
    Operator(("exSwish",), _UNARY, floating=True, parameters=(Parameter("beta", 1.0, Kept.TABLE, _silu_beta),),
             index_units=_SILU_UNITS, rknn1=("SWISH",)),
    # functions of several operands
    Operator(("Add",), _BROADCAST, rknn1=("ADD",)),
    Operator(("AddRelu",), _BROADCAST),
    Operator(("And",), _BROADCAST),
    Operator(("Div",), _BROADCAST, partial=True, rknn1=("DIVIDE",)),
    Operator(("Equal",), _BROADCAST),
    Operator(("Greater",), _BROADCAST),
    Operator(("GreaterOrEqual",), _BROADCAST),
    Operator(("Less",), _BROADCAST),
    Operator(("LessOrEqual",), _BROADCAST),
    Operator(("Max",), _BROADCAST, rknn1=("MAXIMUM",)),
    Operator(("Mean",), _BROADCAST),
    Operator(("Min",), _BROADCAST, rknn1=("MINIMUM",)),
    Operator(("Mod",), _BROADCAST, partial=True, parameters=_attributes(fmod=0), left_out=_REFUSED),
    Operator(("Mul",), _BROADCAST, rknn1=("LINEAR", "MULTIPLY", "SQUARE")),
    Operator(("MulRelu",), _BROADCAST),
    Operator(("Or",), _BROADCAST),
    Operator(("Pow",), _BROADCAST, floating=True, partial=True, rknn1=("POW", "RSQRT")),
    Operator(("Sub",), _BROADCAST, rknn1=("SUBTRACT",)),
    Operator(("SubRelu",), _BROADCAST),
    Operator(("Sum",), _BROADCAST),
    Operator(("Where",), _BROADCAST, rknn1=("UPSAMPLE",)),
    Operator(("Xor",), _BROADCAST),
    # of other elements too, or of parameters per channel
    Operator(("BatchNormalization",), _SAME, rknn1=("BATCH_NORM",)),
    Operator(("BatchNormalizationRelu",), _SAME),
    Operator(("CastLike",), _SAME),
    Operator(("DequantizeLinear",), _SAME, parameters=_attributes(axis=1), left_out=_DEFAULTS),
    Operator(("EyeLike",), _SAME, parameters=_attributes(k=0), left_out=_REFUSED),
    Operator(("GroupNormalization",), _SAME, floating=True, parameters=_attributes(epsilon=1e-5, num_groups=1),
             left_out=_DEFAULTS, rknn1=("INSTANCE_NORM",)),
    Operator(("Hardmax",), _SAME, parameters=_attributes(axis=-1), left_out=_REFUSED),
    Operator(("LRN",), _SAME, floating=True, parameters=_attributes(size=1, alpha=1e-4, beta=0.75, bias=1.0),
             left_out=_REFUSED, rknn1=("LRN", "LRN2")),
    Operator(("LayerNormalization",), _SAME, floating=True, parameters=_attributes(axis=-1, epsilon=1e-5),
             left_out=_DEFAULTS),
    Operator(("LogSoftmax",), _SAME, floating=True, parameters=_attributes(axis=-1), left_out=_REFUSED,
             rknn1=("LOG_SOFTMAX",)),
    Operator(("MeanVarianceNormalization",), _SAME, floating=True, parameters=_attributes(axes=(0, 2, 3)),
             left_out=_REFUSED),
    Operator(("PRelu",), _SAME, rknn1=("PRELU",)),
    Operator(("QuantizeLinear",), _SAME, parameters=_attributes(axis=1), left_out=_DEFAULTS),
    Operator(("Softmax",), _SAME, floating=True, parameters=_attributes(axis=-1), left_out=_DEFAULTS, rknn1=("SOFTMAX",)),
    Operator(("exNorm",), _SAME, floating=True, parameters=_attributes(axis=-1, epsilon=1e-5), left_out=_REFUSED,
             rknn1=("L2_NORMALIZE", "LAYER_NORM")),
    Operator(("exSoftmax13",), _SAME, floating=True, parameters=_attributes(axis=-1), left_out=_REFUSED),
    # moves
    Operator(("Flatten",), _RESHAPED),
    Operator(("Identity",), _SAME, rknn1=("NOOP",)),
    Operator(("Reshape",), _RESHAPED, rknn1=("RESHAPE", "VARIABLE")),
    Operator(("ReverseSequence",), _SAME, parameters=_attributes(batch_axis=1, time_axis=0), left_out=_DEFAULTS),
    Operator(("ScatterElements", "Scatter"), _SAME, parameters=_attributes(axis=0), left_out=_REFUSED),
    Operator(("ScatterND",), _SAME, left_out=_REFUSED),
    Operator(("Squeeze",), _RESHAPED),
    Operator(("Transpose",), _SAME, left_out=_REFUSED,
             rknn1=("BATCH2SPACE", "PERMUTE", "REORG", "SHUFFLECHANNEL", "SPACE2BATCH")),
    Operator(("Trilu",), _SAME, parameters=_attributes(upper=1), left_out=_REFUSED),
    Operator(("Unsqueeze",), _RESHAPED),
    Operator(("exWindow",), _SAME),
    Operator(("CenterCropPad",), _OTHER),
    Operator(("Compress",), _OTHER, left_out=_REFUSED),
    Operator(("Concat",), _OTHER, left_out=_REFUSED, rknn1=("CONCAT",)),
    Operator(("DepthToSpace",), _OTHER, left_out=_REFUSED, rknn1=("DEPTH2SPACE",)),
    Operator(("Expand",), _OTHER),
    Operator(("Gather",), _OTHER, parameters=_attributes(axis=0), left_out=_REFUSED, rknn1=("GATHER",)),
    Operator(("GatherElements",), _OTHER, parameters=_attributes(axis=0), left_out=_REFUSED),
    Operator(("GatherND",), _OTHER, parameters=_attributes(batch_dims=0), left_out=_REFUSED),
    Operator(("OneHot",), _OTHER, parameters=_attributes(axis=-1), left_out=_REFUSED),
    Operator(("Pad",), _OTHER, parameters=_attributes(mode="constant"), left_out=_DEFAULTS, rknn1=("PAD",)),
    Operator(("Slice",), _OTHER, rknn1=("CROP", "REVERSE", "SLICE", "STRIDED_SLICE")),
    Operator(("SpaceToDepth",), _OTHER, left_out=_REFUSED, rknn1=("SPACE2DEPTH",)),
    Operator(("Split",), _OTHER, left_out=_REFUSED, rknn1=("SPLIT",)),
    Operator(("Tile",), _OTHER, rknn1=("TILE",)),
    Operator(("exConvTransposePad",), _OTHER),
    # reductions and windows
    Operator(("ReduceL1",), _REDUCED, floating=True),
    Operator(("ReduceL2",), _REDUCED, floating=True),
    Operator(("ReduceLogSum",), _REDUCED, floating=True, partial=True),
    Operator(("ReduceLogSumExp",), _REDUCED, floating=True, partial=True),
    Operator(("ReduceMax",), _REDUCED, left_out=_REFUSED),
    Operator(("ReduceMean",), _REDUCED),
    Operator(("ReduceMin",), _REDUCED, left_out=_REFUSED),
    Operator(("ReduceProd",), _REDUCED, floating=True),
    Operator(("ReduceSum",), _REDUCED, rknn1=("REDUCE",)),
    Operator(("ReduceSumSquare",), _REDUCED, floating=True),
    Operator(("ArgMax",), Shape.ONE_AXIS, parameters=_attributes(axis=0, select_last_index=0), left_out=_REFUSED,
             rknn1=("ARGMAX",)),
    Operator(("ArgMin",), Shape.ONE_AXIS, parameters=_attributes(axis=0, select_last_index=0), left_out=_REFUSED,
             rknn1=("ARGMIN",)),
    Operator(("TopK",), _OTHER, parameters=_attributes(axis=-1, largest=1), left_out=_REFUSED),
    Operator(("AveragePool",), Shape.POOLED, left_out=_REFUSED),
    Operator(("LpPool",), Shape.POOLED, floating=True, parameters=_attributes(p=2), left_out=_REFUSED),
    Operator(("MaxPool",), Shape.POOLED, left_out=_REFUSED, rknn1=("POOL",)),
    Operator(("GlobalAveragePool",), Shape.POOLED_TO_ONE),
    Operator(("GlobalLpPool",), Shape.POOLED_TO_ONE, floating=True, parameters=_attributes(p=2), left_out=_REFUSED),
    Operator(("GlobalMaxPool",), Shape.POOLED_TO_ONE),
    Operator(("MaxRoiPool",), _OTHER, parameters=_attributes(spatial_scale=1.0), left_out=_REFUSED, rknn1=("ROI_POOL",)),
    Operator(("MaxUnpool",), _OTHER),
    Operator(("RoiAlign",), _OTHER, floating=True, parameters=_attributes(sampling_ratio=0, spatial_scale=1.0),
             left_out=_REFUSED),
    Operator(("Col2Im",), _OTHER, left_out=_REFUSED),
    Operator(("GridSample",), _OTHER, floating=True, left_out=_REFUSED),
    Operator(("Resize",), _OTHER, left_out=_DEFAULTS, rknn1=("RESIZE",),
             parameters=_attributes(coordinate_transformation_mode="half_pixel", mode="nearest")),
    Operator(("Upsample",), _OTHER),
    # products
    Operator(("Conv",), _OTHER, rknn1=("CONV1D", "CONV2D", "FCL", "FCL2", "GROUPED_CONV1D", "GROUPED_CONV2D")),
    Operator(("ConvTranspose",), _OTHER, rknn1=("DECONVOLUTION",)),
    Operator(("DFT",), _OTHER, floating=True, parameters=_attributes(axis=1, inverse=0, onesided=0), left_out=_REFUSED),
    Operator(("Det",), _OTHER, floating=True),
    Operator(("Einsum",), _OTHER, floating=True, left_out=_REFUSED),
    Operator(("Gemm",), _OTHER, floating=True, parameters=_attributes(alpha=1, beta=1, transA=0, transB=0),
             left_out=_DEFAULTS),
    Operator(("MatMul",), _OTHER, floating=True, rknn1=("MATRIXMUL", "RNN")),
    Operator(("exMatMul",), _OTHER, floating=True),
    Operator(("exSDPAttention",), _OTHER, floating=True),
    Operator(("exGlu",), _OTHER, floating=True),
    Operator(("exGRU", "GRU"), _RECURRENT, floating=True, rknn1=("GRU_OVXLIB",)),
    Operator(("exLSTM", "LSTM"), _RECURRENT, floating=True, rknn1=("LSTM", "LSTM_OVXLIB")),
    Operator(("RNN",), _OTHER, floating=True, parameters=_attributes(activations="Tanh", direction="forward"),
             left_out=_DEFAULTS),
)  # fmt: skip

_BY_NAME = {name: row for row in OPERATORS for name in row.names}


def operator_of(name: str) -> Optional[Operator]:
    """The row of a type of nodes; None for operators of plugins, and for what nobody computes."""
    return _BY_NAME.get(name)


TABLE_FUNCTIONS = {row.name[0].upper() + row.name[1:]: row for row in OPERATORS if row.index_units}
"""Functions that the NPU evaluates by table, by the word that follows ``Conv`` in the type of a node: ``ExSwish``."""

_COMPUTED = (
    "", "Relu", "Clip", "LeakyRelu", "PRelu", "Add", "AddRelu", "Mul", "MulRelu", "ReluMul", "ReluAdd", "ClipAdd",
    "LeakyReluAdd", "LeakyReluMul", "PReluAdd", "PReluMul",
)  # fmt: skip
"""What the compiler lets follow a convolution, beside functions that are looked up."""


def convolution_types() -> list[str]:
    """All types of nodes that begin with a convolution."""
    looked_up = [name for word in TABLE_FUNCTIONS for name in (word, word.replace("Ex", "ex", 1))]
    bases = (Accumulator.CONV, Accumulator.CONV_TRANSPOSE)
    return [f"{base.value}{word}" for base in bases for word in (*_COMPUTED, *looked_up)]
