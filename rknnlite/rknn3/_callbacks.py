"""From the callbacks of a program, in the C style or plain ones, to those of the core."""

from __future__ import annotations

import ctypes as ct
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._faces.arguments import described
from ..abi.rknn3_llm import RKLLMResult
from ..abi.rknn3_types import Float16, RKNN3Tensor
from ..errors import ContextInvalid, ParamInvalid
from ..spi.llm import CallState, LlmCallbacks, LlmOutput, LlmResult, OutputState
from ._callback_types import CallbackMisuse, RKLLMCallback, invoke
from .rknn3_types import rknn_dtype_to_numpy_dtype

__all__ = ["CallbackAdapter", "is_from_callback"]

Array = NDArray[Any]
_MARK = "_rknnlite_from_callback"  # in the dictionary of an exception
_SLACK = 4096
"""Ids behind ``n_tokens_max`` that a tokenizer callback may overwrite without harm: it is told, not trusted."""


def _watched(function: Callable[..., Any], inside: set[int]) -> Callable[..., Any]:
    """The function; ``inside`` knows the threads that are in it, and what it raises is marked as the program's own."""

    def call(*args: Any) -> Any:
        thread = threading.get_ident()
        inside.add(thread)
        try:
            return function(*args)
        except CallbackMisuse:
            raise
        except BaseException as error:
            vars(error)[_MARK] = True
            raise
        finally:
            inside.discard(thread)

    return call


def is_from_callback(error: BaseException) -> bool:
    """Whether a callback of the program raised this."""
    return _MARK in vars(error)


class CallbackAdapter:
    """Callbacks of one session, in the form of the core."""

    def __init__(self, given: RKLLMCallback | LlmCallbacks | None, hidden: int) -> None:
        """``hidden``: values per embedding. Raises ParamInvalid for what are no callbacks."""
        self._inside: set[int] = set()
        self._hidden = hidden
        if given is None:
            self.callbacks = LlmCallbacks()
        elif isinstance(given, LlmCallbacks):
            self.callbacks = self._plain(given)
        elif isinstance(given, RKLLMCallback):
            self.callbacks = self._from_struct(given)
        else:
            raise ParamInvalid(f"llm_callback must be an RKLLMCallback, not {described(given)}")

    def refuse_inside(self, call: str) -> None:
        """Raise ContextInvalid when this thread is in a callback."""
        if threading.get_ident() in self._inside:
            raise ContextInvalid(
                f"{call} was called from inside a callback; there only session_stop and session_query_state are allowed"
            )

    def _plain(self, given: LlmCallbacks) -> LlmCallbacks:
        names = ("result", "tokenizer", "embed", "sampling", "output")
        wrapped = {
            name: _watched(f, self._inside) for name in names if (f := getattr(given, name)) is not None
        }
        return LlmCallbacks(**wrapped, outputs=given.outputs)

    def _from_struct(self, given: RKLLMCallback) -> LlmCallbacks:
        tensors = _Outputs(given)
        return LlmCallbacks(
            result=self._result(given) if given.result_callback else None,
            tokenizer=self._tokenizer(given) if given.tokenizer_callback else None,
            embed=self._embed(given) if given.embed_callback else None,
            sampling=self._sampling(given) if given.sampling_callback else None,
            output=self._output(given, tensors) if given.output_callback else None,
            outputs=tensors.indices if given.output_callback else (),
        )

    def _result(self, given: RKLLMCallback) -> Callable[[LlmResult, CallState], int]:
        function, userdata = self._calling(given, "result_callback"), given.result_userdata

        def result(tokens: LlmResult, state: CallState) -> int:
            ids = (ct.c_int * max(1, len(tokens.token_ids)))(*tokens.token_ids)
            answer = RKLLMResult(ct.cast(ids, ct.POINTER(ct.c_int)), len(tokens.token_ids))
            return int(function(userdata, ct.pointer(answer), int(state)))

        return result

    def _tokenizer(self, given: RKLLMCallback) -> Callable[[str], Sequence[int]]:
        function, userdata = self._calling(given, "tokenizer_callback"), given.tokenizer_userdata

        def tokenizer(text: str) -> Sequence[int]:
            data = text.encode("utf-8", "replace")
            room = len(data) + 2
            ids = (ct.c_int32 * (room + _SLACK))()
            count = function(userdata, data, len(data), ct.cast(ids, ct.POINTER(ct.c_int32)), room)
            if not 0 < count <= room:
                raise CallbackMisuse(
                    f"the tokenizer callback returned {count} for a text of {len(data)} bytes; it must return the "
                    f"number of ids, 1 to {room}"
                )
            return list(ids[:count])

        return tokenizer

    def _embed(self, given: RKLLMCallback) -> Callable[[Array], Array]:
        function, userdata = self._calling(given, "embed_callback"), given.embed_userdata
        hidden = self._hidden

        def embed(tokens: Array) -> Array:
            ids = np.ascontiguousarray(tokens, np.int32)
            rows = np.zeros((len(ids), hidden), np.float16)
            code = function(
                userdata,
                ids.ctypes.data_as(ct.POINTER(ct.c_int32)),
                len(ids),
                rows.ctypes.data_as(ct.c_void_p),
                rows.nbytes,
            )
            if code != 0:
                raise CallbackMisuse(
                    f"the embed callback returned {code} for {len(ids)} tokens; 0 means well"
                )
            return rows

        return embed

    def _sampling(self, given: RKLLMCallback) -> Callable[[Array, str], int]:
        function, userdata = self._calling(given, "sampling_callback"), given.sampling_userdata

        def sampling(logits: Array, name: str) -> int:
            with np.errstate(over="ignore"):
                halves = np.ascontiguousarray(logits, np.float16)
            token = function(userdata, halves.ctypes.data_as(ct.POINTER(Float16)), name.encode())
            if token < 0:
                raise CallbackMisuse(f"the sampling callback returned {token}; it must return a token id")
            return int(token)

        return sampling

    def _output(
        self, given: RKLLMCallback, tensors: _Outputs
    ) -> Callable[[Sequence[LlmOutput], OutputState], int]:
        function, userdata = self._calling(given, "output_callback"), given.output_userdata

        def output(outputs: Sequence[LlmOutput], state: OutputState) -> int:
            tensors.fill(outputs)
            return int(function(userdata, tensors.pointer, tensors.count, int(state)))

        return output

    def _calling(self, given: RKLLMCallback, name: str) -> Callable[..., int]:
        """A call of one of the C functions, which live as long as the structure does."""

        def call(*args: Any, owner: RKLLMCallback = given) -> int:
            return invoke(getattr(owner, name), *args)

        return _watched(call, self._inside)


class _Outputs:
    """The caller's tensors: which outputs they ask for, and writing into their memory."""

    def __init__(self, given: RKLLMCallback) -> None:
        """Raises ParamInvalid for tensors without attribute or memory."""
        self.count = given.n_output_tensors if given.output_callback else 0
        self.pointer = given.output_tensors
        if self.count and not self.pointer:
            raise ParamInvalid(f"n_output_tensors is {self.count}, output_tensors is not set")
        self._tensors: list[RKNN3Tensor] = [self.pointer[i] for i in range(self.count)]
        for i, tensor in enumerate(self._tensors):
            if not tensor.attr or not tensor.mem or not tensor.mem.contents.virt_addr:
                raise ParamInvalid(f"output_tensors[{i}] has no attr or no mem; see create_output_tensors")
        self.indices = tuple(tensor.attr.contents.index for tensor in self._tensors)

    def fill(self, outputs: Sequence[LlmOutput]) -> None:
        """Write the outputs in the element type of the caller's attribute: the last rows that its memory holds."""
        for tensor, output in zip(self._tensors, outputs):
            dtype = np.dtype(rknn_dtype_to_numpy_dtype(tensor.attr.contents.dtype))
            mem = tensor.mem.contents
            room = min(tensor.attr.contents.n_elems, mem.size // dtype.itemsize)
            with np.errstate(over="ignore"):
                values = np.ascontiguousarray(np.asarray(output.data).reshape(-1)[-room:], dtype)
            ct.memmove(mem.virt_addr, values.ctypes.data, values.nbytes)
