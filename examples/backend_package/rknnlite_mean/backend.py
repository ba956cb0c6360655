"""The backend: what opens a model, and the model opened. It computes the mean of the inputs, wherever Python runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from rknnlite_backend.running import in_order, not_prepared, not_run

from rknnlite import socs
from rknnlite.errors import InputInvalid
from rknnlite.formats import Model, ModelFile
from rknnlite.formats.tensor_attrs import default_attr
from rknnlite.quant import quantise
from rknnlite.spi import Backend, Context, Input, OpenOptions, Probe, Versions
from rknnlite.tensor import TensorAttr

__all__ = ["MeanBackend", "MeanContext"]


class MeanBackend(Backend):
    """Opens every model that can be read, and never comes before another backend."""

    name = "mean"

    def probe(self) -> Probe:
        return Probe(True, "the mean of the inputs, on any machine", priority=-1, devices=("cpu",))

    def open(self, model: ModelFile, options: OpenOptions) -> Context:
        context = MeanContext(model.model, socs.get(options.soc or model.model.platform))
        if options.core_mask:
            context.set_core_mask(options.core_mask)
        return context


class MeanContext(Context):
    """Every element of every output is the mean of all elements of all inputs, as they were given."""

    backend_name = "mean"
    versions = Versions(api="rknnlite-mean 1.0", driver="none")
    soc = inputs = outputs = None  # of the model that is opened

    def __init__(self, model: Model, soc: socs.Soc) -> None:
        super().__init__()
        self.soc = soc
        self.inputs = [default_attr(i, io, model.batch, True, soc) for i, io in enumerate(model.inputs)]
        self.outputs = [default_attr(i, io, model.batch, False, soc) for i, io in enumerate(model.outputs)]
        self._given: Sequence[Any] = ()  # copies: callers may write into their own
        self._mean: float | None = None

    def set_inputs(self, inputs: Sequence[Input]) -> None:
        with self.exclusive():
            if any(item.pass_through for item in inputs):
                raise InputInvalid(
                    "backend mean takes numbers and no stored elements; leave pass_through out"
                )
            self._given = [np.array(item.data) for item in in_order(inputs, self.inputs)]

    def run(self) -> None:
        with self.exclusive():
            if not self._given:
                raise not_prepared()
            self._mean = float(np.concatenate([data.ravel() for data in self._given]).mean())

    def get_outputs(self, want_float: bool = True) -> list[Any]:
        with self.exclusive():
            if self._mean is None:
                raise not_run()
            real = [np.full(attr.dims, self._mean, np.float32) for attr in self.outputs]
            return real if want_float else [_stored(*pair) for pair in zip(real, self.outputs)]

    def _release(self) -> None:
        self._given = ()


def _stored(array: Any, attr: TensorAttr) -> Any:
    quantised = attr.quant and not attr.dtype.is_float  # float16 has scale 1
    return quantise(array, attr.quant, attr.dtype) if quantised else array.astype(attr.dtype.numpy)
