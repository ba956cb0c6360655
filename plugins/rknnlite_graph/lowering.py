"""Another form of a graph: what a plugin writes that other engines run and other tools read.

A lowering is offered in ``rknnlite_register_lowerings``. The CPU reference asks it for segments of a plan and hands them to
an engine; ``rknnlite.to_onnx`` and the command ``export-onnx`` ask it for whole networks.
"""

from __future__ import annotations

import abc
import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Optional

from rknnlite.formats import IoTensor

from .graph import Graph, Node

__all__ = ["NETWORK_FORMS", "Form", "Lowering", "NotLowered", "Segment"]


class Form(enum.Enum):
    """What the numbers of a lowered network are.

    FLOAT: the dequantised network. QDQ: float with every stored tensor through Quantize/DequantizeLinear in the file's own
    steps. FP16: float with every stored tensor rounded to float16.

    EXACT: the NPU's integers, carried in float32, computed so that every engine and processor has the same bits. EXACT_INT8:
    the same, carried in 8 bits where that is exact. EXACT_OWN: the same for an engine that has the operator FunctionOfSums of
    ``rknnlite_cpu/engines/functions_of_sums.c``. EXACT_PRODUCTS: EXACT for one whose quotients are products with reciprocals.
    NEAR and NEAR_INT8: functions and sums of floats as the engine has them, faster and different in last bits.
    """

    FLOAT = "float"
    QDQ = "qdq"
    EXACT = "exact"
    EXACT_INT8 = "exact-int8"
    EXACT_OWN = "exact-own"
    EXACT_PRODUCTS = "exact-products"
    NEAR = "near"
    NEAR_INT8 = "near-int8"
    FP16 = "fp16"

    @property
    def precise(self) -> bool:
        """Whether integers do not hang on who computes."""
        return self.value.startswith("exact")

    @property
    def as_the_npu(self) -> bool:
        """Whether tensors are stored as the file has them."""
        return self.value.startswith(("exact", "near"))

    @property
    def in_bytes(self) -> bool:
        """Whether tensors of 8 bits are carried in as many."""
        return self in (Form.EXACT_INT8, Form.EXACT_OWN, Form.NEAR_INT8)

    @property
    def near(self) -> Form:
        """The same with functions and sums of floats as the engine has them."""
        return Form.NEAR_INT8 if self.in_bytes else Form.NEAR if self.as_the_npu else self


NETWORK_FORMS = (Form.FLOAT, Form.QDQ, Form.EXACT, Form.EXACT_INT8, Form.FP16)
"""Those of whole networks, for people; the others are for engines."""


class NotLowered(Exception):
    """A node that cannot be written in the form that was asked for; the text says why."""

    def __init__(self, why: str, node: Optional[Node] = None) -> None:
        super().__init__(why)
        self.node = node


@dataclass(frozen=True)
class Segment:
    """Nodes of a graph that are run as one; ``inputs`` and ``outputs`` are tensor indices.

    Values enter and leave as a plan carries them: quantised tensors as centred integers in float32, floating ones as
    float32, others in their own type.
    """

    nodes: Sequence[Node]
    inputs: Sequence[int]
    outputs: Sequence[int]

    def tensor_name(self, index: int) -> str:
        """What a tensor is called in the lowered segment."""
        return f"t{index}"


class Lowering(abc.ABC):
    """Writes graphs in another format."""

    name: str = ""

    @abc.abstractmethod
    def why_not(self, graph: Graph, node: Node, form: Form) -> str:
        """Why a node cannot be lowered, or an empty string; cheap, never raises."""

    @abc.abstractmethod
    def segment(self, graph: Graph, segment: Segment, form: Form) -> bytes:
        """A part of a graph as a file of the format. Raises NotLowered, ModelInvalid."""

    @abc.abstractmethod
    def network(
        self, graph: Graph, ins: Sequence[IoTensor], outs: Sequence[IoTensor], form: Form, **options: Any
    ) -> Any:
        """A whole network as an object of the format. Raises ModelInvalid.

        Args:
            ins, outs: what the model's inputs and outputs are called, and how pixels become reals.
            options: of the format; the lowering refuses unknown ones with ParamInvalid.
        """
