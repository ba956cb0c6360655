"""Checkpoints whose matrices are integers with scales: GPTQ and AWQ (``quantization_config`` in ``config.json``).

A matrix ``X.weight`` is ``X.qweight`` (several integers in an int32), ``X.qzeros`` and ``X.scales`` (a row for every group of
inputs); ``X.g_idx``, of GPTQ, is the group of each input. ``weight = scale * (q - zero)``; GPTQ's first format stores zeros
less one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ModelInvalid, ModelUnsupported, shown

from .container.safetensors import SafeTensors

__all__ = ["MXFP4", "Packing", "QuantisedMatrix", "packing_of"]

Array = NDArray[Any]
_AWQ_ORDER = np.array([0, 4, 1, 5, 2, 6, 3, 7])
"""Where the outputs of AWQ's kernel lie in an int32."""
MXFP4 = "mxfp4"
"""Method of checkpoints whose experts are stacks (``rknnlite_llm.mxfp4``)."""
_PARTS = ("qweight", "qzeros", "scales", "g_idx")


@dataclass(frozen=True)
class Packing:
    """How the numbers of a checkpoint are packed: ``gptq``, ``gptq_v2``, ``awq`` or ``mxfp4``, their bits, and
    inputs of a group (0: all)."""

    method: str
    bits: int
    group: int


def packing_of(config: Mapping[str, Any]) -> Optional[Packing]:
    """What ``quantization_config`` says; None without one. Raises ModelUnsupported for what is not read here."""
    given = config.get("quantization_config")
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise ModelInvalid(f"config.json: quantization_config is {shown(given)}")
    method, bits = given.get("quant_method"), given.get("bits", given.get("w_bit"))
    if method == MXFP4:
        return Packing(MXFP4, 4, 32)
    group = given.get("group_size", given.get("q_group_size", 128))
    form = str(given.get("checkpoint_format", given.get("version", ""))).lower()
    known = {"gptq": ("", "gptq", "gptq_v2"), "awq": ("", "gemm")}
    widths = {"gptq": (2, 4, 8), "awq": (4,)}
    if (
        not isinstance(method, str)
        or method not in known
        or form not in known[method]
        or bits not in widths[method]
    ):
        raise ModelUnsupported(
            f"config.json: quantization_config: weights quantised by {shown(method)} "
            f"(format {shown(form)}, {shown(bits)} bits) are not read here; "
            "there are gptq of 2, 4 and 8 bits, awq of 4 bits (gemm) and mxfp4. Export the model that was quantised, with "
            "--weights w4 or w8"
        )
    if type(group) is not int or group == 0 or group < -1:
        raise ModelInvalid(f"config.json: quantization_config has group_size {shown(group)}")
    return Packing("gptq_v2" if form == "gptq_v2" else str(method), bits, max(group, 0))


class QuantisedMatrix:
    """One matrix (outputs, inputs); indexing gives float32. The integers stay mapped."""

    def __init__(self, files: Mapping[str, SafeTensors], stem: str, packing: Packing) -> None:
        """``stem``: name without ``.weight``. Raises ModelInvalid."""
        self._packing, self._stem = packing, stem
        self.names = [f"{stem}.{part}" for part in _PARTS if f"{stem}.{part}" in files]
        found = {name.rpartition(".")[2]: files[name][name] for name in self.names}
        if not {"qweight", "qzeros", "scales"} <= set(found):
            raise ModelInvalid(f"{stem}: has {', '.join(found)} of qweight, qzeros and scales")
        self._q, self._zeros, self._index = found["qweight"], found["qzeros"], found.get("g_idx")
        self._scales = files[f"{stem}.scales"].widened(f"{stem}.scales")
        self.shape = self._checked()

    def _checked(self) -> tuple[int, int]:
        packed = 32 // self._packing.bits
        rows, columns = self._q.shape
        awq = self._packing.method == "awq"
        inputs, outputs = (rows, columns * packed) if awq else (rows * packed, columns)
        groups = -(-inputs // (self._packing.group or inputs))
        wanted = {"scales": (groups, outputs), "qzeros": (groups, outputs // packed)}
        for name, shape in {"scales": self._scales.shape, "qzeros": self._zeros.shape}.items():
            if shape != wanted[name]:
                raise ModelInvalid(
                    f"{self._stem}.{name} is {list(shape)}, a matrix of {inputs} inputs and {outputs} outputs in groups of "
                    f"{self._packing.group or inputs} needs {list(wanted[name])}"
                )
        index = self._index
        if index is not None and (index.shape != (inputs,) or not ((index >= 0) & (index < groups)).all()):
            raise ModelInvalid(f"{self._stem}.g_idx does not name one of {groups} groups for {inputs} inputs")
        return outputs, inputs

    def __getitem__(self, key: Any) -> Array:
        """``[...]``, or a slice of outputs and maybe one of inputs, without steps; nothing else is widened."""
        every = slice(None)
        outputs, inputs = (every, every) if key is ... else key if isinstance(key, tuple) else (key, every)
        first, last, _ = outputs.indices(self.shape[0])
        part: Array = self._widened(first, max(first, last))[:, inputs]
        return part

    def _widened(self, first: int, last: int) -> Array:
        """Outputs ``first`` to ``last`` in float32."""
        inputs, packed = self.shape[1], 32 // self._packing.bits
        awq = self._packing.method == "awq"
        words = slice(first // packed, -(-last // packed))  # that hold these outputs side by side
        inside = slice(first - words.start * packed, last - words.start * packed)
        codes = self._columns(self._q[:, words])[:, inside] if awq else self._rows(self._q[:, first:last])
        zeros = self._columns(self._zeros[:, words])[:, inside]
        if self._packing.method == "gptq":
            zeros = zeros + 1
        groups = np.arange(inputs) // (self._packing.group or inputs) if self._index is None else self._index
        values = (codes - zeros[groups]).astype(np.float32) * self._scales[:, first:last][groups]
        return np.ascontiguousarray(values.T)

    def _shifted(self, packed: Array, order: Array) -> Array:
        """The integers of each int32 along a new last axis."""
        bits = self._packing.bits
        shifts = (order * bits).astype(np.uint32)
        words = packed.view(np.uint32)[..., None]
        return (words >> shifts & np.uint32((1 << bits) - 1)).astype(np.int32)

    def _rows(self, packed: Array) -> Array:
        """Integers that lie one below the other in an int32."""
        found = self._shifted(packed, np.arange(32 // self._packing.bits))
        return found.transpose(0, 2, 1).reshape(len(packed) * found.shape[-1], packed.shape[1])

    def _columns(self, packed: Array) -> Array:
        """Integers that lie side by side in an int32."""
        order = _AWQ_ORDER if self._packing.method == "awq" else np.arange(32 // self._packing.bits)
        return self._shifted(packed, order).reshape(packed.shape[0], -1)
