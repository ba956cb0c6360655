"""A session of librknn3_api on the CPU reference: settings, cache and runs of one conversation."""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from rknnlite.abi.rknn3_llm import RKNN3SamplingParams, RKNN3VocabInfo
from rknnlite.errors import ParamInvalid
from rknnlite.files.writing import write_file
from rknnlite.spi.llm import (
    InferParams,
    KvClear,
    KvPolicy,
    LlmContext,
    LlmParams,
    LlmSession,
    SamplingParams,
    VocabInfo,
)

from ..calls import Handler, Reply
from ..open_contexts import OpenContexts
from ..packed import Packed
from ..protocol import Call, Request, Wire
from .callbacks import ProgramCallbacks
from .inputs import read_inputs

__all__ = ["Session"]

_PREFILL_ONLY, _DISABLE_SAMPLING = 1, 2


class Session:
    """Serves one ``rknn3_session``; ``stop`` and ``state`` come from the threads of its context."""

    def __init__(self, model: LlmContext, params: list[LlmParams], asks: Wire) -> None:
        self._model, self._asks = model, asks
        self.hidden = model.config.embedding_dim
        self._program = ProgramCallbacks(asks, self.hidden)
        self._session: LlmSession = model.session(params if len(params) > 1 else params[0])

    @classmethod
    def open(
        cls, request: Request, model: LlmContext, contexts: OpenContexts, number: int
    ) -> tuple[Session, Reply]:
        """A session on a language model. Raises RknnError."""
        asks = Wire(request.fds.take_socket())
        try:
            session = cls(model, _params(request.payload, model), asks)
        except BaseException:
            asks.close()
            raise
        contexts.add(number, session)
        return session, Reply(args=(session.hidden, model.config.vocab_size))

    def handlers(self) -> dict[int, Handler]:
        """What answers which call."""
        return {
            Call.SESSION_CALLBACKS_3: self._callbacks,
            Call.SESSION_RUN_3: self._run,
            Call.SESSION_PARAMS_3: self._set_params,
            Call.SESSION_TEMPLATE_3: self._template,
            Call.SESSION_TOOLS_3: self._tools,
            Call.SESSION_POLICY_3: self._policy,
            Call.SESSION_CLEAR_3: self._clear,
            Call.SESSION_SAVE_3: self._save,
            Call.SESSION_LOAD_3: self._load,
        }

    def close(self) -> None:
        """Close the session."""
        self._session.close()
        self._asks.close()

    # -- while it runs ------------------------------------------------------------------------------------

    def stop(self) -> None:
        """End the run under way."""
        self._session.stop()

    def state(self) -> tuple[int, ...]:
        """Tokens in the cache, its size, those generated and read in the last run, the cache's policy."""
        state = self._session.state()
        return (
            state.n_total_tokens,
            state.n_max_tokens,
            state.n_decode_tokens,
            state.n_prefill_tokens,
            int(state.kvcache_policy),
        )

    # -- runs and settings ----------------------------------------------------------------------------------

    def _run(self, request: Request) -> None:
        count, keep, most, more = request.args[:4]
        inputs = read_inputs(request.payload, count, self.hidden)
        params = InferParams(
            keep_history=bool(keep),
            max_new_tokens=_signed(most),
            prefill_only=bool(more & _PREFILL_ONLY),
            disable_sampling=bool(more & _DISABLE_SAMPLING),
        )
        self._session.run(inputs, params)

    def _callbacks(self, request: Request) -> None:
        self._session.set_callbacks(self._program.callbacks(request.args[0], request.payload))

    def _set_params(self, request: Request) -> None:
        params = _params(request.payload, self._model)
        self._session.set_llm_param(params if len(params) > 1 else params[0])

    def _template(self, request: Request) -> None:
        packed = Packed(request.payload)
        system, prefix, postfix = (packed.text() or "" for _ in range(3))
        self._session.set_chat_template(system, prefix, postfix)

    def _tools(self, request: Request) -> None:
        self._session.set_function_tools(Packed(request.payload).text() or "[]")

    def _policy(self, request: Request) -> None:
        number, keep, aligned = request.args[:3]
        if number not in list(KvPolicy):
            raise ParamInvalid(f"KV cache policy {number} is none of 0 to {max(KvPolicy)}")
        self._session.set_kvcache_policy(KvPolicy(number), _signed(keep), _signed(aligned))

    def _clear(self, request: Request) -> None:
        if request.args[0] not in list(KvClear):
            raise ParamInvalid(f"clear policy {request.args[0]} is none of 0 and 1")
        self._session.clear_kvcache(KvClear(request.args[0]))

    def _save(self, request: Request) -> None:
        self._session.save_kvcache(Packed(request.payload).path() or "")

    def _load(self, request: Request) -> None:
        if not request.fds:
            self._session.load_kvcache(Packed(request.payload).path() or "")
            return
        with tempfile.TemporaryDirectory(prefix="rknnlite-") as folder:
            file = Path(folder, "kvcache")
            write_file(file, os.pread(request.fds.first, request.args[0], 0), 0o600)
            self._session.load_kvcache(str(file))


def _params(data: bytes, model: LlmContext) -> list[LlmParams]:
    """``rknn3_llm_param`` by ``rknn3_llm_param``; a name is needed only where there are several."""
    packed, found = Packed(data), []
    while not packed.ended:
        found.append(_param(packed))
    if not found:
        raise ParamInvalid("there are no parameters")
    known = [attr.name for attr in model.outputs]
    if len(found) == 1 and found[0].logits_name not in known:
        found[0] = replace(found[0], logits_name="")
    return found


def _param(packed: Packed) -> LlmParams:
    name, size = packed.text() or "", packed.signed()
    sampling = RKNN3SamplingParams.from_buffer_copy(packed.data() or b"")
    vocab = RKNN3VocabInfo.from_buffer_copy(packed.data() or b"")
    return LlmParams(
        max_context_len=size,
        sampling=SamplingParams(
            top_k=sampling.top_k,
            top_p=sampling.top_p,
            temperature=sampling.temperature,
            repeat_penalty=sampling.repeat_penalty,
            frequency_penalty=sampling.frequency_penalty,
            presence_penalty=sampling.presence_penalty,
        ),
        vocab=VocabInfo(
            vocab_size=vocab.vocab_size,
            special_bos_ids=_ids(vocab.special_bos_id, vocab.n_special_bos_id),
            special_eos_ids=_ids(vocab.special_eos_id, vocab.n_special_eos_id),
            linefeed_id=vocab.linefeed_id,
            skip_special_token=vocab.skip_special_token,
            ignore_eos_token=vocab.ignore_eos_token,
        ),
        logits_name=name,
    )


def _ids(array: Any, count: int) -> tuple[int, ...]:
    """-1 stands for none."""
    if not 0 <= count <= len(array):
        raise ParamInvalid(f"{count} special ids are given, there is room for {len(array)}")
    return tuple(number for number in array[:count] if number >= 0)


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number
