"""The language model half of ``RKNN3Lite``: sessions, runs, streams, caches."""

from __future__ import annotations

import ctypes as ct
import json
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Sequence
from pathlib import Path
from typing import Any

from .._faces.arguments import described
from ..abi.rknn3_llm import (
    RKLLMRunState,
    RKNN3KVCacheClearPolicy,
    RKNN3KVCachePolicy,
    RKNN3KVCachePolicyParam,
    RKNN3Lora,
)
from ..errors import ContextInvalid, InputInvalid, ParamInvalid
from ..files.writing import write_file
from ..spi.llm import KvClear, KvPolicy, LlmState
from ._callbacks import is_from_callback
from ._face import Face
from ._run_arguments import RunArguments
from .rknn3_session import RKNN3Session

__all__ = ["LlmFace"]

_NOT_LLM = "RKNN model inference, please use inference interface!"
_NO_SESSION = "LLM runtime environment is not inited, please call init_runtime and set llm_init first!"
_RUN = "Catch exception when running LLM model."
_INIT = "Catch exception when init llm session!"
_TEMPLATE = "Catch exception when setting chat template."
_RunAnswer = tuple[int, list[Any]]


class LlmFace(Face):
    """Methods for language models; sessions are numbered, 0 is the one that ``init_runtime`` opens."""

    _sessions: dict[int, RKNN3Session]
    llm_mode: bool

    # -- sessions -----------------------------------------------------------------------------------------

    def init_llm_session(
        self,
        llm_args: Any = None,
        llm_callback: Any = None,
        llm_embed_path: str | os.PathLike[str] | None = None,
        session_index: int = 0,
    ) -> int:
        """Open a session on the model that ``init_runtime`` opened without ``llm_args``; or another one.

        Sessions share the weights and have their own cache; on a coprocessor they run one at a time. A session of
        the same number is closed first. Arguments as in ``init_runtime``. Returns 0 or -1.
        """
        runtime = self.rknn_runtime
        if runtime is None or runtime.llm_context is None:
            self.rknn_log.e(_NO_SESSION, False)
            return -1

        def opened() -> None:
            if not isinstance(session_index, Hashable):
                raise ParamInvalid(f"session_index is {described(session_index)}, must be an int")
            self._close_session(session_index)
            self._sessions[session_index] = runtime.session(llm_args, llm_callback, llm_embed_path)
            self.llm = self._sessions.get(0)

        return self._try(_INIT, opened)

    def _close_session(self, index: int) -> None:
        session = self._sessions.get(index) if isinstance(index, Hashable) else None
        if session is not None:
            session.close()
            del self._sessions[index]
            self.llm = self._sessions.get(0)

    def _session(self, index: int) -> RKNN3Session | None:
        """The session of that number; None with an E line when there is none."""
        session = self._sessions.get(index) if isinstance(index, Hashable) else None
        if session is None:
            # The vendor says the second text in both cases, which misleads when only init_runtime is missing.
            self.rknn_log.e(f"{_NO_SESSION} ({_NOT_LLM})" if self.llm_mode else _NOT_LLM, False)
        return session

    def _in_session(self, index: int, headline: str, action: Callable[[RKNN3Session], Any]) -> int:
        session = self._session(index)
        return -1 if session is None else self._try(headline, lambda: action(session))

    # -- runs ---------------------------------------------------------------------------------------------

    def session_run(
        self,
        inputs: Any = None,
        prompt: str | bytes | None = None,
        embeds: Any = None,
        tokens: Any = None,
        keep_history: bool | None = None,
        max_new_tokens: int | None = None,
        enable_thinking: bool = False,
        prefill_only: bool | None = None,
        disable_sampling: bool | None = None,
        role: str = "user",
        session_index: int = 0,
    ) -> _RunAnswer:
        """Run the model on one turn and wait for its end; tokens go to the result callback.

        Args:
            inputs: RKNN3Image, RKNN3Audio, RKNN3Video (with a prompt that holds their tags) and
                RKNN3AuxTensorWrapper, in a list. A ``.rkllm`` file does not tell how wide its embeddings are: give it a
                ``rknnlite.spi.llm.ImageBlock``, which any model takes.
            prompt: text of the turn.
            embeds: float16 (1, seq, hidden) or (seq, hidden) instead of a prompt.
            tokens: int ids instead of a prompt; no chat template is applied.
            keep_history: continue the conversation; None: as in ``llm_args``.
            max_new_tokens: at most so many tokens; None: as in ``llm_args``.
            enable_thinking: passed on to the chat template.
            prefill_only: fill the cache and stop.
            disable_sampling: evaluate the model once and leave the choice to the output callback.
            role: ``"user"``, or ``"tool"`` for the result of a function call.

        Returns:
            ``(0, [n_decode_tokens, n_prefill_tokens, start, end])`` with times of ``time.perf_counter``, or
            ``(-1, [])`` with an E line.

        Raises:
            Whatever a callback raised, with its own traceback; the run has ended by then.
        """
        arguments = RunArguments(inputs, prompt, embeds, tokens, role, enable_thinking)
        return self._run(
            session_index,
            lambda session: session.run(
                arguments,
                keep_history=keep_history,
                max_new_tokens=max_new_tokens,
                prefill_only=prefill_only,
                disable_sampling=disable_sampling,
            ),
        )

    def session_run_async(
        self,
        inputs: Any = None,
        prompt: str | bytes | None = None,
        embeds: Any = None,
        tokens: Any = None,
        keep_history: bool | None = None,
        max_new_tokens: int | None = None,
        enable_thinking: bool = False,
        prefill_only: bool | None = None,
        disable_sampling: bool | None = None,
        role: str = "user",
        session_index: int = 0,
    ) -> _RunAnswer:
        """As ``session_run``, without waiting: callbacks come from another thread, the last state is the end.

        Runs that are begun while one is under way wait for it. Returns ``(0, [0, 0, start, start])`` at once;
        ``session_wait`` tells how it ended.
        """
        arguments = RunArguments(inputs, prompt, embeds, tokens, role, enable_thinking)
        return self._run(
            session_index,
            lambda session: session.run_async(
                arguments,
                keep_history=keep_history,
                max_new_tokens=max_new_tokens,
                prefill_only=prefill_only,
                disable_sampling=disable_sampling,
            ),
        )

    def session_wait(self, timeout: float | None = None, session_index: int = 0) -> _RunAnswer:
        """Wait for the runs of ``session_run_async``; answers and raises as ``session_run`` for the last of them.

        ``timeout`` in seconds, None: as long as it takes; when it has passed the answer is ``(-1, [])``.
        """
        return self._run(session_index, lambda session: session.wait(timeout))

    def _run(self, index: int, action: Callable[[RKNN3Session], list[Any]]) -> _RunAnswer:
        session = self._session(index)
        if session is None:
            return -1, []
        try:
            with self.rknn_log.listening():
                return 0, action(session)
        except Exception as error:
            if is_from_callback(error):
                raise
            self._tell(_RUN, error)
            return -1, []

    def stream(
        self,
        prompt: str | None = None,
        decode: Callable[[Sequence[int]], str] | None = None,
        inputs: Any = None,
        embeds: Any = None,
        tokens: Any = None,
        keep_history: bool | None = None,
        max_new_tokens: int | None = None,
        enable_thinking: bool = False,
        role: str = "user",
        session_index: int = 0,
    ) -> Iterator[str]:
        """The answer as pieces of text, complete characters only: ``for piece in rknn.stream("Hello"): ...``.

        Leaving the loop stops the run. The result callback is called too, where there is one.

        Args:
            decode: token ids to text, such as a tokenizer's ``decode``; None: the tokenizer file beside the model.

        Raises:
            RknnError: what ``session_run`` answers with -1. Whatever a callback raised.
        """
        session, decoder = self._streaming(session_index, decode)
        arguments = RunArguments(inputs, prompt, embeds, tokens, role, enable_thinking)
        return session.stream(arguments, decoder, keep_history=keep_history, max_new_tokens=max_new_tokens)

    def astream(
        self,
        prompt: str | None = None,
        decode: Callable[[Sequence[int]], str] | None = None,
        inputs: Any = None,
        embeds: Any = None,
        tokens: Any = None,
        keep_history: bool | None = None,
        max_new_tokens: int | None = None,
        enable_thinking: bool = False,
        role: str = "user",
        session_index: int = 0,
    ) -> AsyncIterator[str]:
        """``stream`` for ``async for``: the event loop goes on meanwhile."""
        session, decoder = self._streaming(session_index, decode)
        arguments = RunArguments(inputs, prompt, embeds, tokens, role, enable_thinking)
        return session.astream(arguments, decoder, keep_history=keep_history, max_new_tokens=max_new_tokens)

    def _streaming(
        self, index: int, decode: Callable[[Sequence[int]], str] | None
    ) -> tuple[RKNN3Session, Callable[[Sequence[int]], str] | None]:
        session, runtime = self._sessions.get(index), self.rknn_runtime
        if session is None or runtime is None:
            raise ContextInvalid(_NO_SESSION if self.llm_mode else _NOT_LLM)
        return session, decode or runtime.decoder()

    def session_stop(self, session_index: int = 0) -> int:
        """End the current run; from a callback or any thread, and harmless without a run. Returns 0 or -1."""
        return self._in_session(session_index, "Catch exception when stopping.", lambda s: s.core.stop())

    def session_query_state(self, session_index: int = 0) -> RKLLMRunState | None:
        """Token counters and cache policy, at any time; None without a session."""
        session = self._session(session_index)
        return None if session is None else _state(session.core.state())

    # -- settings -----------------------------------------------------------------------------------------

    def set_chat_template(
        self, system_prompt: str, prompt_prefix: str, prompt_postfix: str, session_index: int = 0
    ) -> int:
        """Text for the system and around every turn, instead of the model's template. Returns 0 or -1."""
        parts = (system_prompt, prompt_prefix, prompt_postfix)
        texts = [part.decode("utf-8", "replace") if isinstance(part, bytes) else part for part in parts]

        def action(session: RKNN3Session) -> None:
            if not all(isinstance(text, str) for text in texts):
                raise ParamInvalid(f"the three parts must be str, not {[type(t).__name__ for t in parts]}")
            session.core.set_chat_template(*texts)

        return self._in_session(session_index, _TEMPLATE, action)

    def set_function_tools(self, tools: Any, session_index: int = 0) -> int:
        """Offer tools: a JSON list as OpenAI's API has them, as text or as Python objects. Returns 0 or -1."""

        def action(session: RKNN3Session) -> None:
            text = tools.decode("utf-8", "replace") if isinstance(tools, bytes) else tools
            try:
                session.core.set_function_tools(text if isinstance(text, str) else json.dumps(text or []))
            except TypeError as error:
                raise ParamInvalid(f"the tools cannot be written as JSON: {error}") from None

        return self._in_session(session_index, "Catch exception when setting function tools.", action)

    def set_llm_param(self, llm_args: Any, session_index: int = 0) -> int:
        """Replace ``llm_args`` of a live session. Returns 0 or -1."""

        def action(session: RKNN3Session) -> None:
            assert self.rknn_runtime is not None
            session.set_args(self.rknn_runtime.read_args(llm_args))

        return self._in_session(session_index, "Catch exception when setting llm param.", action)

    # -- cache --------------------------------------------------------------------------------------------

    def set_kvcache_policy(
        self,
        policy: int = RKNN3KVCachePolicy.RKNN3_KVCACHE_POLICY_DEFAULT,
        param: RKNN3KVCachePolicyParam | None = None,
        session_index: int = 0,
    ) -> int:
        """What happens when the cache is full; ``param`` tells how many tokens stay. Returns 0 or -1."""

        def action(session: RKNN3Session) -> None:
            if not isinstance(param, (RKNN3KVCachePolicyParam, type(None))):
                raise ParamInvalid(f"param must be an RKNN3KVCachePolicyParam, not {described(param)}")
            kept = (param or RKNN3KVCachePolicyParam()).recurrent
            wanted = _enum(KvPolicy, policy, "KV cache policy")
            session.core.set_kvcache_policy(wanted, kept.n_keep, kept.n_keep_aligned)

        return self._in_session(session_index, "Catch exception when setting kvcache policy.", action)

    def clear_kvcache(
        self,
        policy: int = RKNN3KVCacheClearPolicy.RKNN3_KVCACHE_CLEAR_ALL,
        session_index: int = 0,
    ) -> int:
        """Forget the conversation, or all of it but the system prompt. Returns 0 or -1."""
        return self._in_session(
            session_index,
            "Catch exception when clearing kvcache.",
            lambda session: session.core.clear_kvcache(_enum(KvClear, policy, "clear policy")),
        )

    def save_kvcache(self, kvcache_path: str | os.PathLike[str], session_index: int = 0) -> int:
        """Write the cache to a file, for the same model and the same version. Returns 0 or -1."""
        return self._in_session(
            session_index,
            "Catch exception when saving kvcache.",
            lambda session: session.core.save_kvcache(_path(kvcache_path)),
        )

    def load_kvcache(
        self,
        kvcache_path: str | os.PathLike[str] | None = None,
        kvcache_data: Any = None,
        size: int | None = None,
        session_index: int = 0,
    ) -> int:
        """Continue from a file of ``save_kvcache``, or from its bytes (``size`` for a pointer). Returns 0 or -1."""

        def action(session: RKNN3Session) -> None:
            if (kvcache_path is None) == (kvcache_data is None):
                raise InputInvalid("load_kvcache takes either kvcache_path or kvcache_data")
            if kvcache_path is not None:
                session.core.load_kvcache(_path(kvcache_path))
                return
            with tempfile.TemporaryDirectory(prefix="rknn3lite-") as folder:
                copy = Path(folder, "kvcache")
                write_file(copy, _bytes(kvcache_data, size))
                session.core.load_kvcache(str(copy))

        return self._in_session(session_index, "Catch exception when loading kvcache.", action)


def _enum(kind: Any, value: Any, what: str) -> Any:
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(f"{int(member)} {member.name}" for member in kind)
        raise ParamInvalid(f"{what} {value!r} is none of {known}") from None


def _path(path: Any) -> str:
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise ParamInvalid(f"kvcache_path must be a path, not {described(path)}")
    return os.fsdecode(path)


def _bytes(data: Any, size: int | None) -> bytes:
    """Bytes of something bytes-like, or ``size`` of them behind a ctypes pointer."""
    if size is not None and not isinstance(size, int):
        raise ParamInvalid(f"size is {described(size)}, must be an int")
    if not isinstance(data, (ct.c_void_p, ct.c_char_p, int)) and not hasattr(data, "contents"):
        try:
            return bytes(memoryview(data))[:size]
        except TypeError:
            raise ParamInvalid(f"kvcache_data is {type(data).__name__}, must be bytes or a pointer") from None
    address = ct.cast(data, ct.c_void_p).value
    if not address or not size or size < 0:
        raise InputInvalid("kvcache_data is a pointer: it must not be NULL and needs its size")
    return ct.string_at(address, size)


def _state(state: LlmState) -> RKLLMRunState:
    loras = (RKNN3Lora * max(1, len(state.loras_enabled)))()
    for lora, (name, scale) in zip(loras, state.loras_enabled):
        lora.lora_name, lora.scale = name.encode()[:255], scale
    return RKLLMRunState(
        n_total_tokens=state.n_total_tokens,
        n_max_tokens=state.n_max_tokens,
        n_decode_tokens=state.n_decode_tokens,
        n_prefill_tokens=state.n_prefill_tokens,
        kvcache_policy=int(state.kvcache_policy),
        n_loras_enabled=len(state.loras_enabled),
        loras_enabled=ct.cast(loras, ct.POINTER(RKNN3Lora)),
    )
