"""An ONNX file written operator by operator: large constants go into a file beside it as they come, so no model is too big."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper, shape_inference

from rknnlite.files.writing import write_file

__all__ = ["OnnxWriter"]

Array = NDArray[Any]
_OPSET = 17
_IR_VERSION = 8  # what onnxruntime 1.14 reads
_INSIDE = 1024  # bytes of a constant that stays in the file itself


class OnnxWriter:
    """Values are known by their names; ``data`` takes the large constants and lies beside the file as ``data_name``."""

    def __init__(self, data: BinaryIO, data_name: str) -> None:
        self._data, self._data_name, self._place = data, data_name, 0
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []

    def input(self, name: str, shape: Sequence[int]) -> str:
        """A float32 input."""
        self._inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape)))
        return name

    def output(self, value: str, name: str, shape: Sequence[int]) -> None:
        """Give a value out, float32, under a name of its own."""
        self._nodes.append(helper.make_node("Identity", [value], [name]))
        self._outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape)))

    def constant(self, values: Any, kind: Any = np.float32) -> str:
        """A constant of some element type."""
        array = np.ascontiguousarray(values, kind)
        name = f"c{len(self._constants)}"
        if array.nbytes <= _INSIDE:
            self._constants.append(numpy_helper.from_array(array, name))
            return name
        tensor = TensorProto(
            name=name, data_type=helper.np_dtype_to_tensor_dtype(array.dtype), dims=array.shape
        )
        tensor.data_location = TensorProto.EXTERNAL
        place = {"location": self._data_name, "offset": self._place, "length": array.nbytes}
        for key, value in place.items():
            tensor.external_data.add(key=key, value=str(value))
        self._data.write(array.data)
        self._place += array.nbytes
        self._constants.append(tensor)
        return name

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """An operator with one output; its name."""
        name = f"v{len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, list(inputs), [name], **attributes))
        return name

    def reshape(self, value: str, *shape: int) -> str:
        """The same values in another shape."""
        return self.add("Reshape", value, self.constant(shape, np.int64))

    def part(self, value: str, axis: int, start: int, end: int) -> str:
        """Elements from ``start`` to ``end`` of an axis."""
        places = [self.constant([number], np.int64) for number in (start, end, axis)]
        return self.add("Slice", value, *places)

    def write(self, path: Path, name: str) -> None:
        """The model without its large constants. Raises ValueError where shapes do not fit each other."""
        graph = helper.make_graph(self._nodes, name, self._inputs, self._outputs, self._constants)
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", _OPSET)], producer_name="rknnlite"
        )
        model.ir_version = _IR_VERSION
        try:
            shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
        except shape_inference.InferenceError as error:
            raise ValueError(str(error).strip().splitlines()[-1]) from None
        write_file(path, model.SerializeToString())
