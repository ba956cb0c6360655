"""Conversations of ``librknn3_api.so``: what each begins with, and the codes that its calls answer."""

from __future__ import annotations

from typing import Any

from rknnlite.abi.rknn3_types import RKNN3Devices
from rknnlite.errors import RKNN3_CODES, RknnError

from ..calls import Reply
from ..open_contexts import OpenContexts
from ..protocol import Call, Request

__all__ = ["begin", "code"]

_CODES = {row.error: row.code for row in reversed(RKNN3_CODES) if row.error is not None}
_RUN_FAILED = -5
_RUNS = (Call.RUN_3, Call.WAIT_3, Call.SESSION_RUN_3)


def code(error: RknnError, call: int) -> int:
    """What a call that raised this answers; a run that fails for no reason that has a code of its own, -5."""
    found = next(_CODES[kind] for kind in type(error).__mro__ if kind in _CODES)
    return _RUN_FAILED if found == _CODES[RknnError] and call in _RUNS else found


def begin(request: Request, contexts: OpenContexts, number: int) -> tuple[Any, Reply]:
    """What serves the conversation (None: it ends with this call), and the first answer. Raises RknnError."""
    if request.call == Call.SESSION_3:
        from .model import Model
        from .session import Session

        model = contexts.get(request.args[0], Model).language_model
        return Session.open(request, model, contexts, number)
    if request.call in (Call.CHAT_SERVER_3, Call.CHAT_STOP_3):
        from . import chat_server

        return None, chat_server.serve(
            request, contexts, number
        ) if request.call == Call.CHAT_SERVER_3 else chat_server.stop(contexts)
    if request.call == Call.DEVICES_3:
        return None, Reply(bytes(_devices()))
    from .model import Model

    return Model.open(request, contexts, number)


def _devices() -> RKNN3Devices:
    """Those that the CPU reference plays; their memory is this machine's."""
    from rknnlite import plugins

    from .query import device_memory

    listed = plugins.backends()["cpu"].devices()
    found = RKNN3Devices(n_devices=len(listed))
    for place, device in zip(found.devices, listed):
        place.id, place.type, place.mem_info = (
            device.id.encode(),
            device.soc.upper().encode(),
            device_memory(),
        )
    return found
