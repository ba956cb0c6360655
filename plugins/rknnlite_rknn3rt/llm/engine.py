"""A language model on a coprocessor, loaded: what its context and all its sessions share."""

from __future__ import annotations

from rknnlite_llm.engine import LlmEngine

from rknnlite.abi.rknn3_enums import RKNN3QueryCmd as Query
from rknnlite.errors import ContextInvalid
from rknnlite.native.forks import made_before_fork
from rknnlite.spi.llm import LlmConfig
from rknnlite.tensor import TensorAttr

from ..attrs import tensors
from ..native_context import NativeContext
from .params import read_config

__all__ = ["Rknn3Engine"]

_CLOSED = "the model is closed; open it again"


class Rknn3Engine(LlmEngine):
    """The model in the C API. ``inside`` are the threads that are in a callback of one of its sessions.

    ``native_async`` says whether runs go through the library's own asynchronous call.
    """

    def __init__(self, handle: NativeContext, native_async: bool) -> None:
        """Ask the loaded model what it is. Raises ParamInvalid when it is no language model."""
        super().__init__()
        self.native_async = native_async
        self.inside: set[int] = set()
        self._handle: NativeContext | None = handle
        self._reason = _CLOSED
        self._config = read_config(handle)
        n_in, n_out = handle.in_out_num()
        self.input_tensors = tensors(handle, Query.RKNN3_QUERY_INPUT_ATTR, n_in, True)
        self.output_tensors = tensors(handle, Query.RKNN3_QUERY_OUTPUT_ATTR, n_out, False)

    @property
    def config(self) -> LlmConfig:
        return self._config

    @property
    def inputs(self) -> list[TensorAttr]:
        return [tensor.native for tensor in self.input_tensors]

    @property
    def outputs(self) -> list[TensorAttr]:
        return [tensor.native for tensor in self.output_tensors]

    def need(self) -> NativeContext:
        """The context of the C API; raises ContextInvalid after ``close``."""
        if self._handle is None:
            raise ContextInvalid(self._reason)
        return self._handle

    def check_open(self) -> None:
        """As ``need``."""
        self.need()

    def close(self) -> None:
        """Let go of the model, which C forgets when nobody holds it."""
        self._handle = None

    def abandon(self) -> None:
        """After a fork, in the child: the parent owns the model."""
        super().abandon()
        self._handle, self._reason = None, made_before_fork("the model")
