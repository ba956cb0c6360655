"""The result callback: C's structures of one version become ``CallbackResult``, copied before the callback returns."""

from __future__ import annotations

import ctypes as ct
from collections.abc import Iterator
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import RknnError
from rknnlite.spi.llm import CallState

from .abi.results import CallbackReturn
from .abi.revisions import Revision
from .requests import CallbackResult, Perf, ResultHandler

__all__ = ["ResultCallback"]

Array = NDArray[Any]
_LARGEST = 1 << 31
_STATES = {
    "NORMAL": CallState.NORMAL,
    "WAITING": CallState.WAITING,
    "FINISH": CallState.FINISH,
    "ERROR": CallState.ERROR,
    "GET_LAST_HIDDEN_LAYER": CallState.NORMAL,
}
"""What C's states mean; their numbers differ between versions, and from the contract's."""


class ResultCallback:
    """What one handle's callback goes to; ``begin_run`` before every run.

    Attributes:
        function: to be given to C, and kept as long as the handle.
        calls: callbacks so far.
        dropping: a stop was asked for: tokens are dropped.
        state: FINISH or ERROR as soon as one of them came.
        failure: what ``on_result`` raised against its contract.
    """

    def __init__(self, abi: Revision, n_batch: int) -> None:
        self._states = {int(state): _STATES[state.name] for state in abi.LLMCallState}
        self._read = _reader(abi, n_batch)
        self._perf = abi.RKLLMPerfStat is not None
        self._pause = CallbackReturn.PAUSE in abi.callback_returns
        self._release = CallbackReturn.RELEASE in abi.callback_returns
        self.calls = 0
        self.begin_run(_nobody, False)
        self.function = abi.LLMResultCallback(self._called)

    def begin_run(self, on_result: ResultHandler, once: bool) -> None:
        """Begin a run; with ``once`` it pauses after the first output, and is not resumed."""
        self._on_result, self._once = on_result, once
        self.dropping = False
        self.state: Optional[CallState] = None
        self.failure: Optional[BaseException] = None
        self.perf: Optional[Perf] = None

    def end_run(self) -> None:
        """The run is over: hold nothing of the caller, or C's reference to this would keep the whole session."""
        self._on_result = _nobody

    def _called(self, result: Any, userdata: Any, number: int) -> int:
        self.calls += 1
        try:
            return self._take(result, self._states.get(number, CallState.ERROR))
        except BaseException as error:  # nothing may pass through C
            self.failure = self.failure or error
            self.dropping = True
            return CallbackReturn.CONTINUE

    def _take(self, result: Any, state: CallState) -> int:
        if state in (CallState.FINISH, CallState.ERROR):
            self.state = state
            if self._perf and result and state is CallState.FINISH:
                perf = result[0].perf
                self.perf = Perf(*(getattr(perf, name) for name, _ in perf._fields_))
            return CallbackReturn.CONTINUE
        if self.dropping or not result:
            return CallbackReturn.CONTINUE
        outputs = False
        for item in self._read(result, state):
            self._on_result(item)
            outputs = outputs or item.hidden is not None or item.logits is not None
        if outputs and self._once and self._pause:
            self.dropping = True
            return CallbackReturn.PAUSE
        return CallbackReturn.RELEASE if outputs and self._release else CallbackReturn.CONTINUE


def _nobody(item: CallbackResult) -> None:
    """Takes what comes outside a run."""


def _reader(abi: Revision, n_batch: int) -> Any:
    """What reads the results of a version."""
    if abi.RKLLMResult is None:
        return lambda result, state: (CallbackResult(state, text=bytes(result)),)
    if abi.Token is not None:
        return _with_tokens
    has_logits = abi.RKLLMResultLogits is not None

    def one(result: Any, state: CallState) -> Iterator[CallbackResult]:
        for index in range(n_batch):
            item = result[index]
            token = item.token_id
            if n_batch > 1 and token < 0:  # this input's answer is complete
                continue
            hidden = _array(
                item.last_hidden_layer.hidden_states,
                item.last_hidden_layer.num_tokens,
                item.last_hidden_layer.embd_size,
                False,
            )
            logits = None
            if has_logits:
                logits = _array(item.logits.logits, item.logits.num_tokens, item.logits.vocab_size, True)
            yield CallbackResult(state, index, token, item.text or b"", hidden, logits)

    return one


def _with_tokens(result: Any, state: CallState) -> tuple[CallbackResult, ...]:
    item = result[0]
    token = item.tokens[0].id if item.tokens and item.num > 0 else -1
    return (CallbackResult(state, 0, token, item.text or b""),)


def _array(pointer: Any, rows: int, columns: int, last: bool) -> Optional[Array]:
    """A copy of float32 (rows, columns), or of the last row alone; None where there is nothing."""
    if not pointer or rows < 1 or columns < 1:
        return None
    if rows * columns > _LARGEST:
        raise RknnError(f"librkllmrt reports an output of {rows} x {columns} values")
    if last:
        address = ct.addressof(pointer.contents) + (rows - 1) * columns * ct.sizeof(ct.c_float)
        pointer, rows = ct.cast(address, ct.POINTER(ct.c_float)), 1
    return np.ctypeslib.as_array(pointer, (rows, columns)).copy()
