"""The weights of a package by name, wrapped for the decoder or the encoder."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray
from rknnlite_llm.container.description import LlmModel
from rknnlite_llm.container.safetensors import SafeTensors
from rknnlite_llm.weights import layer_matrices, layer_tables, layer_vectors, matrices, tables, vectors

from rknnlite.errors import ModelInvalid, shown

from .linear import Linear, Maker, make_linear
from .lora import Adapted

__all__ = ["WeightReader"]

Array = NDArray[Any]


class WeightReader:
    """Weights by name, checked against what the architecture needs."""

    def __init__(self, model: LlmModel, weights: SafeTensors, make: Maker = make_linear) -> None:
        """``make``: what wraps a matrix. Raises ModelInvalid when the file is that of another model."""
        self._model, self._weights, self._make = model, weights, make
        if weights.metadata.get("package") != model.package_id:
            raise ModelInvalid(
                f"{weights.label} belongs to package {shown(weights.metadata.get('package', 'unknown'))}, the model "
                f"{model.name} is {model.package_id!r}; use the .weight file that was exported with it"
            )
        self._types = model.weight_types
        self._matrices, self._vectors, self._tables = (
            matrices(model.arch),
            vectors(model.arch),
            tables(model.arch),
        )

    def layer(self, number: int) -> dict[str, Any]:
        """Products, vectors and tables of a layer by name."""
        prefix, arch = f"layers.{number}.", self._model.arch
        return {
            **{
                name: Adapted(prefix + name, self.matrix(prefix + name))
                for name in layer_matrices(arch, number)
            },
            **{name: self.vector(prefix + name) for name in layer_vectors(arch, number)},
            **{name: self.table(prefix + name) for name in layer_tables(arch, number)},
        }

    def ends(self) -> dict[str, Array]:
        """Vectors that belong to no layer."""
        return {name: self.vector(name) for name in self._vectors if not name.startswith("layers.")}

    def vector(self, name: str) -> Array:
        """A float32 vector."""
        return self._checked(name, "F32", (self._vectors[name],)).copy()

    def table(self, name: str) -> Array:
        """A float32 matrix that stays as it is."""
        return self._checked(name, "F32", self._tables[name])

    def matrix(self, name: str) -> Linear:
        """The product with a matrix."""
        if name not in self._types and self._model.chosen:
            raise ModelInvalid(
                f"model {self._model.name}: damaged description: no type of weights for {name}"
            )
        kind, size = self._types[name], self._matrices[name]
        array = self._checked(name, kind.element, kind.shape(*size))
        scale = self._checked(f"{name}.scale", "F16", kind.scale_shape(*size)) if kind.scaled else None
        product = self._make(kind.name, array, scale, *size)
        product.name = name
        return product

    def _checked(self, name: str, dtype: str, shape: tuple[int, ...]) -> Array:
        array = self._weights[name]
        if array.shape != shape or self._weights.dtype(name) != dtype:
            raise ModelInvalid(
                f"{self._weights.label}: {name} is {self._weights.dtype(name)} {list(array.shape)}, the model "
                f"{self._model.name} needs {dtype} {list(shape)}; the files do not belong together"
            )
        return array
