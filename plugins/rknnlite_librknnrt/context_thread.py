"""One context of the program: its thread reads calls and answers them, one after another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional

from rknnlite_capi.queries import NoRange

from rknnlite.errors import ContextInvalid, RknnError
from rknnlite.log import logger

from .calls import Handler, Reply
from .open_contexts import OpenContexts
from .protocol import NO_DESCRIPTORS, Call, Gone, Request, Wire

__all__ = ["ContextThread"]


_NOTHING = Reply()
_FIRST_3 = (Call.INIT_3, Call.DEVICES_3, Call.DUP_3, Call.SESSION_3, Call.CHAT_SERVER_3, Call.CHAT_STOP_3)
"""What a conversation of librknn3_api begins with."""


class ContextThread:
    """Serves one context; what it is decides the first call."""

    def __init__(self, contexts: OpenContexts, number: int, wire: Wire) -> None:
        self._contexts, self._number, self._wire = contexts, number, wire
        self._code: Callable[[RknnError, int], int] = _code
        self._handlers: dict[int, Handler] = {
            Call.INIT: self._first,
            Call.DUP: self._first,
            Call.MATMUL: self._first,
            Call.NATIVE_B: self._first,
            Call.CLOSE: self._close,
            **dict.fromkeys(_FIRST_3, self._first_3),
            Call.LLM_INIT: self._first_llm,
        }
        self._served: Any = None

    def serve(self) -> None:
        """Until the program closes its end."""
        try:
            while True:
                self._one(self._wire.receive())
        except Gone:
            pass
        finally:
            try:
                self._close(None)
            except Exception as error:  # an operator of a program that has ended, say
                _unthought(error)
            self._handlers.clear()  # they refer to this object, and hold what it has mapped
            self._wire.close()

    def _one(self, request: Request) -> None:
        try:
            handler = self._handlers.get(request.call)
            if handler is None:
                raise ContextInvalid(f"call {request.call} is none of this kind of context")
            done = handler(request) or _NOTHING
            self._wire.answer(0, done.payload, done.args, done.fds)
        except RknnError as error:
            self._wire.answer(self._code(error, request.call), _reason(error))
        except Gone:
            raise
        except Exception as error:
            _unthought(error)
            self._wire.answer(RknnError.code, _line(f"{type(error).__name__}: {error}"))
        finally:
            if request.fds is not NO_DESCRIPTORS:
                request.fds.close()

    def _first(self, request: Request) -> Optional[Reply]:
        """What kind of context it is, and with what it is opened."""
        if self._served is not None:
            raise ContextInvalid("this context is open already")
        if request.call in (Call.MATMUL, Call.NATIVE_B):
            from .matmul import Product, native_b

            if request.call == Call.NATIVE_B:
                return native_b(request)
            self._served, answer = Product.open(request)
        else:
            from .network import Network

            self._served, answer = Network.open(request, self._contexts, self._number)
        self._handlers.update(self._served.handlers())
        return answer

    def _first_3(self, request: Request) -> Optional[Reply]:
        """The same, of librknn3_api, whose codes are others."""
        from .rknn3 import opening

        self._code = opening.code
        if self._served is not None:
            raise ContextInvalid("this context is open already")
        self._served, answer = opening.begin(request, self._contexts, self._number)
        if self._served is not None:
            self._handlers.update(self._served.handlers())
        return answer

    def _first_llm(self, request: Request) -> Optional[Reply]:
        """The same, of librkllmrt."""
        from .rkllm import opening

        self._code = opening.code
        if self._served is not None:
            raise ContextInvalid("this model is open already")
        self._served, answer = opening.begin(request)
        self._handlers.update(self._served.handlers())
        return answer

    def _close(self, request: Optional[Request]) -> None:
        served, self._served = self._served, None
        self._contexts.forget(self._number)
        if served is not None:
            served.close()


def _code(error: RknnError, _: int) -> int:
    return error.code


def _reason(error: RknnError) -> bytes:
    """What is said of it; nothing of what is no error to be told of."""
    return b"" if isinstance(error, NoRange) else _line(str(error) or "no reason was given")


def _line(text: str) -> bytes:
    """What the program is told; names of files in it need not be UTF-8."""
    return text.encode("utf-8", "backslashreplace")


def _unthought(error: Exception) -> None:
    logger.error(
        "a call failed in a way that nobody thought of (%s: %a); please report it with what RKNN_LOG_LEVEL=5 shows",
        type(error).__name__,
        str(error),
    )
    logger.debug("where it failed", exc_info=error)
