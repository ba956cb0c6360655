"""Callbacks of a session: what the CPU reference calls is asked of the program, over a socket of its own."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ContextInvalid, ParamInvalid
from rknnlite.spi.llm import CallState, LlmCallbacks, LlmOutput, LlmResult, OutputState

from ..packed import Packed
from ..protocol import Callback, Gone, Wire
from .inputs import stored

__all__ = ["ProgramCallbacks"]

Array = NDArray[Any]
_SIZE = struct.Struct("=Q")
_RESULT, _TOKENIZER, _EMBED, _SAMPLING, _OUTPUT = (1 << bit for bit in range(5))


class ProgramCallbacks:
    """The program's callbacks as those of the core."""

    def __init__(self, asks: Wire, hidden: int) -> None:
        """``hidden``: values per embedding."""
        self._asks, self._hidden = asks, hidden
        self._lock = threading.Lock()

    def callbacks(self, there: int, outputs: bytes) -> LlmCallbacks:
        """Those that the bits of ``there`` name; ``outputs`` are the tensors of the output callback, packed."""
        shown = _shown(outputs)
        return LlmCallbacks(
            result=self._result if there & _RESULT else None,
            tokenizer=self._tokenize if there & _TOKENIZER else None,
            embed=self._embed if there & _EMBED else None,
            sampling=self._sample if there & _SAMPLING else None,
            output=self._output(shown) if there & _OUTPUT else None,
            outputs=tuple(index for index, *_ in shown) if there & _OUTPUT else (),
        )

    def _ask(self, what: Callback, payload: bytes, *args: int) -> tuple[int, bytes]:
        try:
            with self._lock:
                self._asks.ask(what, payload, args)
                code, _, told = self._asks.told()
        except Gone:
            raise ContextInvalid("the program whose session this is has ended") from None
        return code, told

    def _result(self, result: LlmResult, state: CallState) -> int:
        ids = np.asarray(result.token_ids, np.int32)
        return self._ask(Callback.RESULT_3, ids.tobytes(), int(state), len(ids))[0]

    def _tokenize(self, text: str) -> Sequence[int]:
        data = text.encode("utf-8", "replace")
        code, told = self._ask(Callback.TOKENIZE_3, data)
        ids: list[int] = np.frombuffer(told, np.int32).tolist()
        if code <= 0 or code != len(ids):
            raise ParamInvalid(
                f"the tokenizer callback returned {code} for a text of {len(data)} bytes; it must return the number of "
                f"ids, 1 to {len(data) + 2}"
            )
        return ids

    def _embed(self, tokens: Array) -> Array:
        ids = np.ascontiguousarray(tokens, np.int32)
        code, told = self._ask(Callback.EMBED_3, ids.tobytes(), len(ids))
        if code:
            raise ParamInvalid(f"the embed callback returned {code} for {len(ids)} tokens; 0 means well")
        return np.frombuffer(told, np.float16).reshape(len(ids), self._hidden)

    def _sample(self, logits: Array, name: str) -> int:
        with np.errstate(over="ignore"):
            halves = np.ascontiguousarray(logits, np.float16).tobytes()
        token, _ = self._ask(Callback.SAMPLE_3, halves + name.encode() + b"\0", len(halves))
        if token < 0:
            raise ParamInvalid(f"the sampling callback returned {token}; it must return a token id")
        return token

    def _output(
        self, shown: Sequence[tuple[int, int, np.dtype[Any]]]
    ) -> Callable[[Sequence[LlmOutput], OutputState], int]:
        def output(outputs: Sequence[LlmOutput], state: OutputState) -> int:
            told = []
            for (_, room, dtype), one in zip(shown, outputs):
                with np.errstate(over="ignore"):
                    values = np.ascontiguousarray(np.asarray(one.data).reshape(-1)[-room:], dtype)
                told.append(_SIZE.pack(values.nbytes) + values.tobytes())
            return self._ask(Callback.OUTPUT_3, b"".join(told), int(state))[0]

        return output


def _shown(outputs: bytes) -> list[tuple[int, int, np.dtype[Any]]]:
    """Index, elements and type of each tensor; its memory holds the last rows where it holds not all."""
    packed, found = Packed(outputs), []
    while not packed.ended:
        index, count, dtype, size = packed.number(), packed.number(), packed.number(), packed.number()
        kind = stored(dtype)
        room = min(count, size // kind.itemsize)
        if not room:
            raise ParamInvalid(f"output tensor {index} has {count} elements and memory of {size} bytes")
        found.append((index, room, kind))
    return found
