"""What is asked of the program while a run goes on. The twin of ``client/rkllm/callbacks.c``."""

from __future__ import annotations

import enum
import struct
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ContextInvalid, ParamInvalid

from ..protocol import Callback, Gone, Wire

__all__ = ["Answer", "Perf", "ProgramCallbacks", "State", "Told"]

Array = NDArray[Any]
_NUMBER = struct.Struct("=Q")
_NONE = _NUMBER.pack(0xFFFFFFFFFFFFFFFF)
_MASK = 0xFFFFFFFFFFFFFFFF
_PERF = struct.Struct("=fifif")
_MOST = 1 << 31  # bytes of one result


class State(enum.IntEnum):
    """``LLMCallState``; HIDDEN is of 1.1 alone."""

    NORMAL = 0
    WAITING = 1
    FINISH = 2
    ERROR = 3
    HIDDEN = 4


class Answer(enum.IntEnum):
    """What the program answers to a result."""

    GO_ON = 0
    PAUSE = 1
    RELEASE = 2
    STOP = 3


@dataclass(frozen=True)
class Perf:
    """``RKLLMPerfStat``: milliseconds, tokens, MiB."""

    prefill_ms: float = 0.0
    prefill_tokens: int = 0
    generate_ms: float = 0.0
    generate_tokens: int = 0
    memory_mb: float = 0.0


@dataclass(frozen=True)
class Told:
    """One call of the result callback: token and text of each prompt, rows float32 (n, width) of hidden states or logits."""

    state: State
    tokens: Sequence[tuple[int, Optional[str]]]
    hidden: Optional[Array] = None
    logits: Optional[Array] = None
    perf: Sequence[Perf] = field(default=())


class ProgramCallbacks:
    """The program's callbacks."""

    def __init__(self, asks: Wire, hidden: int) -> None:
        """``hidden``: values per embedding."""
        self._asks, self._hidden = asks, hidden
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close the socket."""
        self._asks.close()

    def result(self, told: Told) -> Answer:
        """Tell a result. Raises ParamInvalid for rows beyond all measure, ContextInvalid when the program has ended."""
        rows = told.hidden if told.hidden is not None else told.logits
        if rows is not None and rows.nbytes > _MOST:
            raise ParamInvalid(
                f"{rows.shape} values are {rows.nbytes} bytes, more than is told; give a shorter prompt"
            )
        parts = [
            _NUMBER.pack(token & _MASK)
            + _data(None if text is None else text.encode("utf-8", "replace") + b"\0")
            for token, text in told.tokens
        ]
        parts += [_rows(told.hidden), _rows(told.logits), _data(_figures(told.perf))]
        shape = rows.shape if rows is not None else (0, 0)
        code, _ = self._ask(Callback.LLM_RESULT, b"".join(parts), int(told.state), len(told.tokens), *shape)
        return Answer(code) if code in tuple(Answer) else Answer.GO_ON

    def tokenize(self, text: str) -> Sequence[int]:
        """By the program's tokenizer."""
        data = text.encode("utf-8", "replace")
        code, told = self._ask(Callback.LLM_TOKENIZE, data)
        ids: list[int] = np.frombuffer(told, np.int32).tolist()
        if code <= 0 or code != len(ids):
            raise ParamInvalid(
                f"tokenizer_callback returned {code} for a text of {len(data)} bytes; it must return the number of ids"
            )
        return ids

    def embed(self, tokens: Array) -> Array:
        """By the program's table: float32 (n, hidden)."""
        ids = np.ascontiguousarray(tokens, np.int32)
        code, told = self._ask(Callback.LLM_EMBED, ids.tobytes(), len(ids))
        if code or len(told) != ids.size * self._hidden * 4:
            raise ParamInvalid(f"embed_callback returned {code} for {len(ids)} tokens; 0 means well")
        return np.frombuffer(told, np.float32).reshape(len(ids), self._hidden)

    def _ask(self, what: Callback, payload: bytes, *args: int) -> tuple[int, bytes]:
        try:
            with self._lock:
                self._asks.ask(what, payload, args)
                code, _, told = self._asks.told()
        except Gone:
            raise ContextInvalid("the program whose model this is has ended") from None
        return code, told


def _data(data: Optional[bytes]) -> bytes:
    """With its size before it, filled up to a multiple of 8."""
    return _NONE if data is None else _NUMBER.pack(len(data)) + data + bytes(-len(data) % 8)


def _rows(rows: Optional[Array]) -> bytes:
    return _data(None if rows is None else np.ascontiguousarray(rows, np.float32).tobytes())


def _figures(perf: Sequence[Perf]) -> Optional[bytes]:
    packed = [
        _PERF.pack(one.prefill_ms, one.prefill_tokens, one.generate_ms, one.generate_tokens, one.memory_mb)
        for one in perf
    ]
    return b"".join(packed) or None
