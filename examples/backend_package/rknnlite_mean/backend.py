"""The backend: what opens a model, and the model opened. It computes the mean of the inputs, wherever Python runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rknnlite import socs
from rknnlite.errors import ContextInvalid, ModelInvalid, ParamInvalid
from rknnlite.formats import ModelFile
from rknnlite.formats.tensor_attrs import default_attr, native_input, native_output
from rknnlite.quant import quantise
from rknnlite.spi import Backend, Context, Input, OpenOptions, Probe, Versions
from rknnlite.tensor import TensorAttr

__all__ = ["MeanBackend", "MeanContext"]


class MeanBackend(Backend):
    """Opens static models."""

    name = "mean"

    def probe(self) -> Probe:
        return Probe(True, "the mean of the inputs, on any machine", priority=-1, devices=("cpu",))

    def refuses(self, model: ModelFile) -> str | None:
        try:
            return "dynamic shapes are not for this backend" if model.model.dynamic else None
        except ModelInvalid as error:
            return str(error)

    def open(self, model: ModelFile, options: OpenOptions) -> Context:
        refusal = self.refuses(model)
        if refusal is not None:
            raise ModelInvalid(refusal)
        context = MeanContext(model, socs.get(options.soc or model.model.platform))
        if options.core_mask:
            context.set_core_mask(options.core_mask)
        return context


class MeanContext(Context):
    """Every element of every output is the mean of all elements of all inputs, as they were given."""

    backend_name = "mean"
    versions = Versions(api="rknnlite-mean 1.0", driver="none")

    def __init__(self, file: ModelFile, soc: socs.Soc) -> None:
        super().__init__()
        self._model, self._soc = file.model, soc
        self._given: list[Input] = []
        self._mean: float | None = None

    @property
    def soc(self) -> socs.Soc:
        return self._soc

    @property
    def inputs(self) -> list[TensorAttr]:
        model = self._model
        return [default_attr(i, io, model.batch, True, self._soc) for i, io in enumerate(model.inputs)]

    @property
    def outputs(self) -> list[TensorAttr]:
        model = self._model
        return [default_attr(i, io, model.batch, False, self._soc) for i, io in enumerate(model.outputs)]

    @property
    def native_inputs(self) -> list[TensorAttr]:
        model = self._model
        return [native_input(i, io, model.batch, self._soc) for i, io in enumerate(model.inputs)]

    @property
    def native_outputs(self) -> list[TensorAttr]:
        model = self._model
        return [native_output(i, io, model.batch, self._soc) for i, io in enumerate(model.outputs)]

    def set_core_mask(self, mask: int) -> None:
        self._soc.check_core_mask(mask)

    def set_shapes(self, shapes: Sequence[Sequence[int]]) -> None:
        raise ParamInvalid(f"the model has static shapes: {[list(attr.dims) for attr in self.inputs]}")

    def set_inputs(self, inputs: Sequence[Input]) -> None:
        with self.exclusive():
            self._given = list(inputs)

    def run(self) -> None:
        with self.exclusive():
            if not self._given:
                raise ContextInvalid("set the inputs before running")
            self._mean = float(np.concatenate([item.data.ravel() for item in self._given]).mean())

    def get_outputs(self, want_float: bool = True) -> list[Any]:
        with self.exclusive():
            if self._mean is None:
                raise ContextInvalid("run the model before asking for outputs")
            real = [np.full(attr.dims, self._mean, np.float32) for attr in self.outputs]
            if want_float:
                return real
            return [_stored(array, attr) for array, attr in zip(real, self.outputs)]

    def _release(self) -> None:
        self._given = []


def _stored(array: Any, attr: TensorAttr) -> Any:
    return quantise(array, attr.quant, attr.dtype) if attr.quant else array.astype(attr.dtype.numpy)
