"""Callback types and structure of the face: they take plain functions too, and no exception gets lost in C.

ctypes prints an exception that is raised inside a callback and goes on as if nothing had happened. So every
function that is put into one of these types is wrapped: an exception is kept aside, C gets a negative number,
and whoever called the C function (``invoke``) raises the exception again, with its own traceback.
"""

from __future__ import annotations

import ctypes as ct
import operator
import threading
from typing import Any, Callable

from .._faces.arguments import described
from ..abi import rknn3_llm as llm
from ..abi import rknn3_v104
from ..errors import ParamInvalid

__all__ = [
    "CallbackMisuse",
    "LLMGetEmbedCallback",
    "LLMInputCallback",
    "LLMOutputCallback",
    "LLMResultCallback",
    "LLMSamplingCallback",
    "LLMTokenizerCallback",
    "RKLLMCallback",
    "invoke",
]

_FAILED = -1
_C_FUNCTION: Any = ct.CFUNCTYPE(None).__mro__[1]  # ctypes._CFuncPtr, which has no public name


class CallbackMisuse(ParamInvalid):
    """A callback returned what it must not; it is not the callback's own exception."""


class _Pending(threading.local):
    """What a callback raised in this thread and nobody has raised again yet."""

    error: BaseException | None = None


_pending = _Pending()


def invoke(function: Any, *args: Any) -> int:
    """Call a callback through its C function; raises what the Python function behind it raised."""
    before, _pending.error = _pending.error, None
    try:
        answer: int = function(*args)
        error = _pending.error
    finally:
        _pending.error = before
    if error is None:
        return answer
    try:
        raise error
    finally:
        del error  # its traceback holds this frame


def _guarded(function: Callable[..., Any], name: str, may_be_none: bool) -> Callable[..., int]:
    def guarded(*args: Any) -> int:
        try:
            answer = function(*args)
            if answer is None and may_be_none:
                return 0
            try:
                return operator.index(answer)
            except TypeError:
                raise CallbackMisuse(
                    f"the {name} callback returned {described(answer)} ({type(answer).__name__}); it must return an int"
                ) from None
        except BaseException as error:
            _pending.error = error
            return _FAILED

    return guarded


def _new(base: Any, cls: Any, name: str, function: Any, may_be_none: bool = True) -> Any:
    """A C function for a Python one; addresses and C functions are taken as they are, None is NULL."""
    if function is None:
        return base.__new__(cls)
    if callable(function) and not isinstance(function, _C_FUNCTION):
        function = _guarded(function, name, may_be_none)
    return base.__new__(cls, function)


def _signature(base: Any) -> tuple[int, Any, Any]:
    """What ctypes wants to see in the body of every function type, also of one that inherits it."""
    return base._flags_, base._argtypes_, base._restype_


class LLMResultCallback(llm.LLMResultCallback):  # type: ignore[misc, valid-type]
    """``(userdata, result_ptr, state)``: 0 or None goes on, anything else ends the run with an error."""

    _flags_, _argtypes_, _restype_ = _signature(llm.LLMResultCallback)

    def __new__(cls, function: Any = None) -> Any:
        return _new(llm.LLMResultCallback, cls, "result", function)


class LLMSamplingCallback(llm.LLMSamplingCallback):  # type: ignore[misc, valid-type]
    """``(userdata, logits, logits_name)``: the token id, from ``vocab_size`` float16 values."""

    _flags_, _argtypes_, _restype_ = _signature(llm.LLMSamplingCallback)

    def __new__(cls, function: Any = None) -> Any:
        return _new(llm.LLMSamplingCallback, cls, "sampling", function, may_be_none=False)


class LLMTokenizerCallback(llm.LLMTokenizerCallback):  # type: ignore[misc, valid-type]
    """``(userdata, text, text_len, tokens_ptr, n_tokens_max)``: the number of ids written to ``tokens_ptr``."""

    _flags_, _argtypes_, _restype_ = _signature(llm.LLMTokenizerCallback)

    def __new__(cls, function: Any = None) -> Any:
        return _new(llm.LLMTokenizerCallback, cls, "tokenizer", function, may_be_none=False)


class LLMGetEmbedCallback(llm.LLMGetEmbedCallback):  # type: ignore[misc, valid-type]
    """``(userdata, tokens_ptr, num_tokens, embed, length)``: writes ``length`` bytes of float16; 0 is well."""

    _flags_, _argtypes_, _restype_ = _signature(llm.LLMGetEmbedCallback)

    def __new__(cls, function: Any = None) -> Any:
        return _new(llm.LLMGetEmbedCallback, cls, "embed", function)


class LLMOutputCallback(llm.LLMOutputCallback):  # type: ignore[misc, valid-type]
    """``(userdata, output_tensors, n_output_tensors, state)``: 0 is well."""

    _flags_, _argtypes_, _restype_ = _signature(llm.LLMOutputCallback)

    def __new__(cls, function: Any = None) -> Any:
        return _new(llm.LLMOutputCallback, cls, "output", function)


LLMInputCallback = rknn3_v104.LLMInputCallback
"""Of later runtimes; nothing calls it here."""

_FIELDS = {
    "result_callback": LLMResultCallback,
    "sampling_callback": LLMSamplingCallback,
    "tokenizer_callback": LLMTokenizerCallback,
    "embed_callback": LLMGetEmbedCallback,
    "output_callback": LLMOutputCallback,
}


class RKLLMCallback(llm.RKLLMCallback):
    """The callbacks of a session. Fields take the callback types, plain functions of the same arguments, or None."""

    def __setattr__(self, name: str, value: Any) -> None:
        kind = _FIELDS.get(name)
        if kind is not None and not isinstance(value, _C_FUNCTION):
            if value is not None and not callable(value):
                raise TypeError(f"{name} must be a function or a {kind.__name__}, not {value!r}")
            value = kind(value)
        super().__setattr__(name, value)
