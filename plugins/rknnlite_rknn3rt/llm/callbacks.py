"""The callbacks of a session in C's form. They may come on any thread, and no exception gets past this point.

What goes wrong in a callback is kept, C is told that it failed, and the run raises it when C has returned.
"""

from __future__ import annotations

import ctypes as ct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
from rknnlite_backend.addresses import view
from rknnlite_llm.callbacks import CheckedCallbacks

from rknnlite.abi.rknn3_llm import (
    LLMGetEmbedCallback,
    LLMResultCallback,
    LLMSamplingCallback,
    LLMTokenizerCallback,
)
from rknnlite.abi.rknn3_v104 import LLMCallState as LaterState
from rknnlite.errors import ContextInvalid, InputInvalid, RknnError
from rknnlite.log import logger
from rknnlite.spi.llm import CallState, LlmCallbacks, LlmOutput, LlmResult, OutputState

from ..attrs import Tensor3
from ..convert import from_native
from ..native_context import NativeContext
from ..tensors import TensorSet

__all__ = ["CallbackStructs", "RunWatch"]

_FAILED = -1
_MAX_RESULT = 1 << 20


class RunWatch:
    """What became of one run: its final state, its first failure, and when the first token came."""

    def __init__(
        self, calls: CheckedCallbacks, stopping: Callable[[], bool], stop: Callable[[], None]
    ) -> None:
        """``stopping`` says whether a stop was asked for, ``stop`` tells C once more."""
        self.calls = calls
        self.state: CallState | None = None
        self.failure: BaseException | None = None
        self.first_token: float | None = None
        self.ended = threading.Event()
        self._stopping, self._stop = stopping, stop

    def result(self, ids: tuple[int, ...], number: int) -> None:
        """A result or a state from C; pause and resume of later runtimes concern nobody here."""
        if number in (LaterState.RKLLM_RUN_PAUSE, LaterState.RKLLM_RUN_RESUME):
            return
        state = CallState(number)
        if state in (CallState.NORMAL, CallState.WAITING):
            if self.first_token is None:
                self.first_token = time.perf_counter()
            self.calls.result(LlmResult(ids), state)
            if self._stopping():  # it may have come before C began the run
                self._stop()
        else:
            self.state = state
            if state is CallState.ERROR or self.failure is not None:
                self.calls.error()
            else:
                self.calls.result(LlmResult(), state)

    def fail(self, error: BaseException) -> None:
        """Keep the first failure, and stop the run also where C does not mind what a callback returns."""
        if self.failure is None:
            self.failure = error
        with suppress(RknnError):
            self._stop()

    def take_failure(self) -> BaseException | None:
        """The first failure, handed over: an exception that is kept would keep its whole stack."""
        failure, self.failure = self.failure, None
        return failure


class CallbackStructs:
    """The C functions of a session. They lead to ``calls``, which knows neither them nor the session.

    So nothing here refers to itself, and all of it goes as soon as the session goes.
    """

    def __init__(self, handle: NativeContext, vocab: int, hidden: int, inside: set[int]) -> None:
        """``inside`` gets the numbers of the threads that are in a callback."""
        self.calls = _Calls(handle, vocab, hidden, inside)
        self._abi = handle.abi
        self._result = LLMResultCallback(self.calls.on_result)
        self._tokenizer = LLMTokenizerCallback(self.calls.on_text)
        self._embed = LLMGetEmbedCallback(self.calls.on_embed)
        self._sampling = LLMSamplingCallback(self.calls.on_logits)
        self._output = handle.abi.LLMOutputCallback(self.calls.on_output)

    def struct(self, callbacks: LlmCallbacks, outputs: TensorSet | None) -> Any:
        """The structure for ``rknn3_session_set_callback``; ``outputs`` are those that the output callback wants."""
        struct = self._abi.RKLLMCallback(
            result_callback=self._result, tokenizer_callback=self._tokenizer, embed_callback=self._embed
        )
        if callbacks.sampling is not None:
            struct.sampling_callback = self._sampling
        self.calls.shown = {}
        if outputs is not None:
            self.calls.shown = {tensor.native.index: tensor for tensor in outputs.tensors}
            struct.output_callback = self._output
            struct.output_tensors = outputs.prepare()
            struct.n_output_tensors = len(outputs)
        return struct

    def forget(self) -> None:
        """The session is gone: hold nothing that may outlive it."""
        self.calls.handle = None


class _Calls:
    """What the C functions do, for the run under way."""

    def __init__(self, handle: NativeContext, vocab: int, hidden: int, inside: set[int]) -> None:
        self.run: RunWatch | None = None
        self.handle: NativeContext | None = handle
        self.shown: dict[int, Tensor3] = {}
        self._vocab, self._hidden, self._inside = vocab, hidden, inside

    def _guarded(self, name: str, body: Callable[[RunWatch], int | None]) -> int:
        run = self.run
        if run is None:
            logger.error("the library called the %s callback outside a run", name)
            return _FAILED
        thread = threading.get_ident()
        self._inside.add(thread)
        try:
            if run.failure is not None and name != "result":
                return _FAILED
            return body(run) or 0
        except BaseException as error:
            run.fail(error)
            return _FAILED
        finally:
            self._inside.discard(thread)
            if run.state is not None:
                run.ended.set()

    def on_result(self, _: Any, result: Any, state: int) -> int:
        def body(run: RunWatch) -> int | None:
            ids: tuple[int, ...] = ()
            if state == CallState.NORMAL:
                if run.failure is not None:
                    return _FAILED
                ids = _ids(result)
            run.result(ids, state)
            return None

        return self._guarded("result", body)

    def on_text(self, _: Any, raw: bytes | None, length: int, tokens: Any, room: int) -> int:
        def body(run: RunWatch) -> int:
            text = (raw or b"")[: max(0, length)].decode("utf-8", "replace")
            ids = run.calls.tokens(text)
            if len(ids) > room:
                raise InputInvalid(
                    f"the tokenizer callback made {len(ids)} tokens of {length} bytes; the runtime has room for {room}"
                )
            ct.memmove(tokens, ids.ctypes.data, ids.nbytes)
            return len(ids)

        return self._guarded("tokenizer", body)

    def on_embed(self, _: Any, tokens: Any, count: int, where: int, size: int) -> int:
        def body(run: RunWatch) -> None:
            if size != count * self._hidden * 2 or not where:
                raise RknnError(
                    f"the library wants {count} embeddings in {size} bytes, a row has {2 * self._hidden} bytes"
                )
            ids = np.array(tokens[:count], np.int32)
            with np.errstate(over="ignore"):
                rows = run.calls.embeddings(ids).astype(np.float16)
            if not np.isfinite(rows).all():
                raise InputInvalid("the embed callback gave values beyond float16 (65504)")
            ct.memmove(where, rows.ctypes.data, size)

        return self._guarded("embed", body)

    def on_logits(self, _: Any, logits: Any, name: bytes | None) -> int:
        def body(run: RunWatch) -> int | None:
            values = view(ct.addressof(logits.contents), (self._vocab,), np.float16).copy()
            return run.calls.sample(values, (name or b"").decode("utf-8", "replace"))

        return self._guarded("sampling", body)

    def on_output(self, _: Any, tensors: Any, count: int, state: int) -> int:
        def body(run: RunWatch) -> None:
            run.calls.output([self._shown_output(tensors[i]) for i in range(count)], OutputState(state))

        return self._guarded("output", body)

    def _shown_output(self, given: Any) -> LlmOutput:
        """A copy of what C shows: its memory is valid inside the callback only."""
        tensor = self.shown[given.attr.contents.index]
        mem = given.mem.contents
        if self.handle is None:
            raise ContextInvalid("the session is gone")
        code = self.handle.call("rknn3_mem_sync", given.mem, 2)
        if code or not mem.virt_addr or mem.size < tensor.nbytes:
            raise RknnError(f"output {tensor.native.name} cannot be read inside the output callback ({code})")
        native = tensor.native
        data = view(mem.virt_addr + mem.offset, native.dims, native.dtype.numpy)
        return LlmOutput(tensor.logical, from_native(data, tensor, want_float=True))


def _ids(result: Any) -> tuple[int, ...]:
    if not result:
        return ()
    found = result.contents
    if not 0 <= found.num_tokens <= _MAX_RESULT or (found.num_tokens and not found.token_ids):
        raise RknnError(f"the library reports {found.num_tokens} tokens in one result")
    return tuple(found.token_ids[: found.num_tokens])
