"""The error for whatever the machine does not understand: it never gives a result then."""

from __future__ import annotations

from typing import Optional

from rknnlite.errors import ModelUnsupported

__all__ = ["MachineRefused"]

_REMEDY = "; open the model with backend='cpu', whose fidelity='silicon' computes what is known of a chip"


class MachineRefused(ModelUnsupported):
    """A word, a register, a mode or an address that the machine does not execute.

    Attributes:
        unit: name of the unit, as in ``command_words.UNITS``, or ``memory``.
        register: its number; None where no single register is to blame.
        field: name of the field.
        value: what it holds; None where it is no number.
        task: index of the record among those of the run; None where no task runs.
        node: the number of the node that these records are of, ``node_name`` what the model calls it, ``model`` whose they are,
            where whoever ran them said so.
    """

    def __init__(
        self,
        unit: str,
        register: Optional[int],
        field: str,
        value: Optional[int],
        task: Optional[int] = None,
        why: str = "",
    ) -> None:
        self.unit, self.register, self.field, self.value, self.task = unit, register, field, value, task
        self.why = why
        self.node: Optional[int] = None
        self.node_name = self.model = ""
        super().__init__(unit, register, field, value, task, why)

    def __str__(self) -> str:
        at = "" if self.register is None else f" {self.register:#06x}"
        holds = "" if self.value is None else f" = {self.value:#x}"
        of = "" if self.node is None else f" of node {self.node}"
        named = f" ({self.node_name})" if self.node_name else ""
        where = "" if self.task is None else f"task {self.task}{of}{named}: "
        why = self.why or "the machine does not know what that does"
        text = f"{where}{self.unit}{at} {self.field}{holds}: {why}"
        return f"{self.model}: {text}{_REMEDY}" if self.model else text
