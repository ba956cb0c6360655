"""``rknn3_session_init`` to ``rknn3_session_destroy``: a session of the C API with an owner."""

from __future__ import annotations

import ctypes as ct
import threading
from typing import Any

from rknnlite_backend.abi import rknn3

from rknnlite.abi.rknn3_llm import RKNN3Lora
from rknnlite.errors import ContextInvalid, ParamInvalid, RknnError
from rknnlite.spi.llm import KvPolicy, LlmState

from ..errors import Native, check
from ..native_context import NativeContext, text
from ..tensors import TensorSet

__all__ = ["NativeSession"]

_MAX_LORAS = 128


class NativeSession:
    """One ``rknn3_session``. ``stop`` and ``state`` may come from any thread, also while it is being closed."""

    def __init__(self, handle: NativeContext, params: Any, structs: Any) -> None:
        """Raises ParamInvalid when the library does not take the parameters."""
        self._api = handle.api
        self._lock = threading.Lock()  # nothing is destroyed under a short call
        self._running = False
        value = handle.api.function("rknn3_session_init")(handle.need(), params, len(params))
        if not value:
            raise ParamInvalid(
                "rknn3_session_init gave no session; do the parameters fit the model (logits_name, "
                "max_context_len, vocab_size), and is there memory for another KV cache?"
            )
        self._used: list[Any] = [structs]  # what C points to
        destroy = handle.api.function("rknn3_session_destroy")
        args = (destroy, value, self._used)
        self._native: Native = Native(value, rknn3_session_destroy, args, (handle.native,))

    @property
    def abi(self) -> rknn3.Revision:
        """The structures of this runtime."""
        return self._api.abi

    @property
    def version(self) -> str:
        """The runtime's version."""
        return self._api.version

    def _need(self) -> Any:
        if not self._native.alive:
            raise ContextInvalid("this session is closed; open another one")
        return self._native.value

    def call(self, name: str, *args: Any) -> int:
        """A function whose first argument is the session; its code. The caller holds the session."""
        code: int = self._api.function(name)(self._need(), *args)
        return code

    def do(self, name: str, *args: Any) -> None:
        """As ``call``; raises the typed error of the code."""
        check(name, self.call(name, *args))

    def quick(self, name: str) -> None:
        """A call from any thread that cannot take long."""
        function = self._api.function(name)
        with self._lock:
            check(name, function(self._need()))

    def use(self, struct: Any, outputs: TensorSet | None) -> None:
        """Keep what C was given as callbacks; the memory of outputs outlives the session."""
        old = self._used[1:]
        self._used[1:] = [struct, outputs]
        for item in old:
            if isinstance(item, TensorSet):
                item.release()

    def run(self, inputs: Any, count: int, infer: Any, ended: threading.Event | None) -> int:
        """Returns when the run is over; callbacks come meanwhile.

        By ``rknn3_session_run``, or with ``ended``, which the last callback sets, by ``rknn3_session_run_async``.
        """
        value = self._need()
        function = "rknn3_session_run" if ended is None else "rknn3_session_run_async"
        self._running = True
        try:
            code: int = self._api.function(function)(value, inputs, count, ct.byref(infer))
            if ended is not None and not code:
                ended.wait()
            return code
        finally:
            self._running = False

    def stop(self) -> None:
        """Tell C to end the run, if there is one."""
        with self._lock:
            if self._running and self._native.alive:
                check("rknn3_session_stop", self._api.function("rknn3_session_stop")(self._native.value))

    def state(self) -> LlmState:
        """``rknn3_session_query_state``."""
        found = self.abi.RKLLMRunState()
        function = self._api.function("rknn3_session_query_state")
        with self._lock:
            check("rknn3_session_query_state", function(self._need(), ct.byref(found)))
            count = found.n_loras_enabled if found.loras_enabled else 0
            loras = _loras(found.loras_enabled, count)
        policy = found.kvcache_policy
        return LlmState(
            found.n_total_tokens,
            found.n_max_tokens,
            found.n_decode_tokens,
            found.n_prefill_tokens,
            KvPolicy(policy) if policy in list(KvPolicy) else KvPolicy.DEFAULT,
            loras,
        )

    def query_loras(self) -> tuple[tuple[str, float], ...]:
        """``rknn3_session_query_lora``."""
        loras, count = ct.POINTER(RKNN3Lora)(), ct.c_int()
        self.do("rknn3_session_query_lora", ct.byref(loras), ct.byref(count))
        return _loras(loras, count.value if loras else 0)

    def load_kvcache(self, path: bytes) -> int:
        """Load a saved cache by the name that this runtime has for it; its code."""
        if self._api.has("rknn3_session_load_kvcache_from_path"):
            return self.call("rknn3_session_load_kvcache_from_path", path)
        return self.call("rknn3_session_load_kvcache", path, len(path))

    def abandon(self) -> None:
        """Another process owns the session."""
        self._lock = threading.Lock()
        self._native.disown()
        self._running = False

    def release(self) -> None:
        """Destroy the session, then let go of what it used; again does nothing."""
        with self._lock:
            self._native.release()


def _loras(loras: Any, count: int) -> tuple[tuple[str, float], ...]:
    if not 0 <= count <= _MAX_LORAS:
        raise RknnError(f"the library reports {count} adapters")
    return tuple((text(lora.lora_name), float(lora.scale)) for lora in loras[:count])


def rknn3_session_destroy(function: Any, value: Any, used: list[Any]) -> int:
    """Destroy the session; what C pointed to goes afterwards."""
    code: int = function(value)
    for item in used:
        if isinstance(item, TensorSet):
            item.release()
    used.clear()
    return code
