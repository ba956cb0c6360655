"""A model in the C library of this process: ``rkllm_init`` to ``rkllm_destroy``."""

from __future__ import annotations

import ctypes as ct
import os
import threading
from typing import Any, Optional

from rknnlite_backend.native_objects import Native

from rknnlite.errors import ContextInvalid, RknnError

from .loader import Api
from .requests import CrossAttention, ResultHandler, Run, RunEnd, Start
from .result_callback import ResultCallback
from .structs import Kept, check_role, cross_struct, fill_param, infer_struct, input_structs

__all__ = ["NativeModel"]

_LOOK = 0.02  # seconds between looks whether an abort has taken effect


class NativeModel:
    """See ``Model``. One run at a time, always by the blocking ``rkllm_run``."""

    log: tuple[str, ...] = ()
    """What the library prints goes where this process prints."""

    def __init__(self, api: Api, start: Start) -> None:
        """Load the model, which takes seconds. Raises RknnError where the library does not, ParamInvalid."""
        self._api, self._abi = api, api.abi
        self._n_batch = start.n_batch
        self._kept: Kept = []
        self._result_callback = ResultCallback(api.abi, start.n_batch)
        param = api.defaults()
        fill_param(param, api.abi, start, self._kept)
        self._kept += [param, self._result_callback]
        handle = ct.c_void_p()
        code = api.function("rkllm_init")(ct.byref(handle), self._by_value(param), self._callback_argument())
        if code or not handle.value:
            gave = "a" if handle.value else "no"
            raise RknnError(
                f"{start.model}: rkllm_init answered {code} and gave {gave} handle; the library's log says why"
            )
        args = (api.function("rkllm_destroy"), handle.value, self._kept)
        self._native = Native(handle.value, rkllm_destroy, args)
        self._loras: Kept = []
        self._cross: Kept = []
        self._lock = threading.Lock()
        self._over: Optional[threading.Event] = None  # of the run under way
        self._aborter: Optional[threading.Thread] = None

    def _by_value(self, param: Any) -> Any:
        return param if self._abi.RKLLMInput is None else ct.byref(param)

    def _callback_argument(self) -> Any:
        if self._abi.RKLLMCallback is None:
            return self._result_callback.function
        struct = self._abi.RKLLMCallback(result_callback=self._result_callback.function)
        self._kept.append(struct)
        return ct.byref(struct)

    # -- runs ---------------------------------------------------------------------------------------------

    def run(self, request: Run, on_result: ResultHandler) -> RunEnd:
        """``rkllm_run``; raises ParamInvalid and InputInvalid for what the version cannot be asked."""
        kept: Kept = []
        handle = self._need()
        if self._abi.RKLLMInput is None:
            check_role(self._abi, request.inputs[0])
            args: tuple[Any, ...] = (request.inputs[0].text.encode("utf-8", "replace"),)
        else:
            inputs = input_structs(self._abi, request.inputs, kept)
            args = (inputs, ct.byref(infer_struct(self._abi, request, kept)))
        self._result_callback.begin_run(on_result, request.once)
        over = threading.Event()
        with self._lock:
            self._over, self._aborter = over, None
        try:
            code = self._api.function("rkllm_run")(handle, *args, None)
        finally:
            over.set()
            with self._lock:
                self._over, aborter = None, self._aborter
            if aborter is not None:
                aborter.join()
            self._result_callback.end_run()
        if self._result_callback.failure is not None:
            raise RknnError(f"a callback failed: {self._result_callback.failure}") from None
        return RunEnd(code, self._result_callback.state, self._result_callback.perf)

    def abort(self) -> None:
        """Ask for the end of the run: in a thread of its own, because a callback may be what asks."""
        with self._lock:
            if self._over is None or self._aborter is not None:
                return
            self._result_callback.dropping = True
            if not self._api.has("rkllm_abort"):
                return
            function, handle = self._api.function("rkllm_abort"), self._need()
            args = (function, handle, self._result_callback, self._over)
            aborter = self._aborter = threading.Thread(
                target=_abort, args=args, name="rknnlite-rkllm-abort", daemon=True
            )
            aborter.start()

    # -- the other calls ----------------------------------------------------------------------------------

    def call(self, name: str, *args: Any) -> Any:
        """One of ``CALLS`` by name."""
        return CALLS[name](self, *args)

    def clear_kvcache(self, keep_system: bool) -> None:
        """Forget the conversation, or all but the system prompt."""
        positions = (None, None) if self._api.has("rkllm_get_kv_cache_size") else ()
        self._do("rkllm_clear_kv_cache", int(keep_system), *positions)

    def kvcache_size(self) -> tuple[int, ...]:
        """Tokens in the cache, of each input of a batch."""
        sizes = (ct.c_int * self._n_batch)()
        self._do("rkllm_get_kv_cache_size", sizes)
        return tuple(sizes)

    def chat_template(self, system: str, prefix: str, postfix: str) -> None:
        """Literal text instead of the model's template; three empty texts: prompts go to the model as they are."""
        self._do("rkllm_set_chat_template", system.encode(), prefix.encode(), postfix.encode())

    def function_tools(self, system: str, tools: str, tag: str) -> None:
        """Tools for the model's own template, which also gets the system prompt."""
        self._do("rkllm_set_function_tools", system.encode(), tools.encode(), tag.encode())

    def load_lora(self, path: str, name: str, scale: float) -> None:
        """Load an adapter; runs name the one that they use."""
        struct = (
            self._abi.RKLLMLoraAdapter(os.fsencode(path), name.encode(), scale)
            if self._abi.RKLLMLoraAdapter
            else None
        )
        self._loras.append(struct)
        self._do("rkllm_load_lora", None if struct is None else ct.byref(struct))

    def load_prompt_cache(self, path: str) -> None:
        """Have the next run reuse what a file holds of its beginning."""
        self._do("rkllm_load_prompt_cache", os.fsencode(path))

    def release_prompt_cache(self) -> None:
        """Give back what ``load_prompt_cache`` loaded."""
        self._do("rkllm_release_prompt_cache")

    def cross_attention(self, results: CrossAttention) -> None:
        """Encoder's results for the following runs."""
        kept: Kept = []
        function = self._api.function("rkllm_set_cross_attn_params")
        self._check(
            "rkllm_set_cross_attn_params",
            function(self._need(), ct.byref(cross_struct(self._abi, results, kept))),
        )
        self._cross[:] = kept

    def _do(self, name: str, *args: Any) -> None:
        function = self._api.function(name)
        self._check(name, function(self._need(), *args))

    @staticmethod
    def _check(name: str, code: int) -> None:
        if code:
            raise RknnError(f"{name} answered {code}")

    # -- life ---------------------------------------------------------------------------------------------

    def _need(self) -> Any:
        if not self._native.alive:
            raise ContextInvalid("this session is closed; open another one")
        return self._native.value

    def close(self) -> None:
        """Destroy the handle; again does nothing."""
        self._native.release()

    def abandon(self) -> None:
        """Another process owns the handle."""
        self._native.disown()
        self._lock, self._over = threading.Lock(), None


CALLS = {
    name: getattr(NativeModel, name)
    for name in (
        "chat_template",
        "clear_kvcache",
        "cross_attention",
        "function_tools",
        "kvcache_size",
        "load_lora",
        "load_prompt_cache",
        "release_prompt_cache",
    )
}
"""What ``Model.call`` takes."""


def _abort(function: Any, handle: Any, callback: ResultCallback, over: threading.Event) -> None:
    """Abort until the run is over: one that comes before the library has begun has no effect."""
    while not over.is_set():
        calls = callback.calls
        function(handle)
        while not over.wait(_LOOK) and callback.calls == calls:
            pass


def rkllm_destroy(function: Any, handle: Any, kept: Kept) -> int:
    """Destroy the handle; what C pointed to goes afterwards."""
    code: int = function(handle)
    kept.clear()
    return code
