"""What goes to a model in C and what comes back: plain values, the same in this process and through a socket."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Optional, Protocol

from numpy.typing import NDArray

from rknnlite.spi.llm import CallState, InputKind, SamplingParams

__all__ = [
    "NO_MIROSTAT",
    "CallbackResult",
    "CrossAttention",
    "Media",
    "Mirostat",
    "Mode",
    "Model",
    "Perf",
    "ResultHandler",
    "Run",
    "RunEnd",
    "RunInput",
    "Start",
]

Array = NDArray[Any]
Mirostat = tuple[int, float, float]
"""Version (0: off, 1 or 2), tau and eta."""
NO_MIROSTAT: Mirostat = (0, 5.0, 0.1)


class Mode(enum.IntEnum):
    """What a run gives (``RKLLMInferMode``)."""

    GENERATE = 0
    HIDDEN = 1
    LOGITS = 2


@dataclass(frozen=True)
class Start:
    """What ``rkllm_init`` is told; tags are those of images, which versions before 1.3.0 fix here.

    ``cpus`` is a bit per CPU, 0 leaves the library's default; so does ``n_keep`` None.
    """

    model: str
    max_context_len: int
    max_new_tokens: int
    sampling: SamplingParams
    skip_special_token: bool = True
    ignore_eos_token: bool = False
    n_keep: Optional[int] = None
    base_domain_id: int = 0
    embed_flash: bool = True
    cpus: int = 0
    n_batch: int = 1
    cross_attention: bool = False
    image_tags: tuple[str, str, str] = ("", "", "")
    npu_cores: Optional[int] = None
    mirostat: Mirostat = NO_MIROSTAT


@dataclass(frozen=True)
class Media:
    """Embedded images or videos, float32; ``tokens`` is a number per image or frame."""

    embeds: Array
    tokens: int
    count: int
    frames: int = 0
    start: str = ""
    end: str = ""
    content: str = ""
    width: int = 0
    height: int = 0


@dataclass(frozen=True)
class RunInput:
    """One input: text, token ids (int32) or embeddings (float32, (n, hidden)), with media beside a text."""

    kind: InputKind
    text: str = ""
    array: Optional[Array] = None
    image: Optional[Media] = None
    video: Optional[Media] = None
    role: str = "user"
    thinking: bool = False


@dataclass(frozen=True)
class Run:
    """One run; ``sampling`` and ``max_new_tokens`` count where the version has them per run.

    ``once``: it ends after the first output. ``save``: file for the prompt cache, empty for none.
    """

    inputs: tuple[RunInput, ...]
    mode: Mode = Mode.GENERATE
    keep_history: bool = False
    max_new_tokens: int = 0
    sampling: Optional[SamplingParams] = None
    mirostat: Mirostat = NO_MIROSTAT
    lora: str = ""
    save: str = ""
    once: bool = False


@dataclass(frozen=True)
class CallbackResult:
    """One call of the result callback: a token of input ``index``, -1 without one, and its text, which may be incomplete.

    ``hidden`` (n, hidden) and ``logits`` (1, vocab) are float32.
    """

    state: CallState
    index: int = 0
    token: int = -1
    text: bytes = b""
    hidden: Optional[Array] = None
    logits: Optional[Array] = None


@dataclass(frozen=True)
class Perf:
    """Figures that the library gives at the end of a run, from 1.2.1 on; milliseconds and MB."""

    prefill_ms: float
    prefill_tokens: int
    generate_ms: float
    generate_tokens: int
    memory_mb: float


@dataclass(frozen=True)
class RunEnd:
    """How ``rkllm_run`` ended: its code, whether a callback said FINISH or ERROR (None: neither)."""

    code: int
    state: Optional[CallState] = None
    perf: Optional[Perf] = None

    def is_complete(self, paused: bool) -> bool:
        """Whether all went well; no callback tells of the end of a run that paused for good."""
        return not self.code and (self.state is CallState.FINISH or (paused and self.state is None))

    @property
    def outcome(self) -> str:
        """What went wrong in a run that did not end well."""
        if self.code:
            return f"failed with code {self.code}"
        if self.state is CallState.ERROR:
            return "returned 0, but its callback told of an error"
        return "returned 0, but no callback told that the answer is complete (it may have been cut)"


@dataclass(frozen=True)
class CrossAttention:
    """Encoder's results: float32 ``keys`` (layers, tokens, kv_heads, head_dim), ``values`` (layers, kv_heads, head_dim,
    tokens), ``mask`` (tokens,), int32 ``positions`` (tokens,)."""

    keys: Array
    values: Array
    mask: Array
    positions: Array
    tokens: int


ResultHandler = Callable[[CallbackResult], None]
"""Takes what a run gives, in the thread of ``Model.run``; must not raise."""


class Model(Protocol):
    """A model in the C library, in this process or in another one. ``abort`` may come from any thread."""

    def run(self, request: Run, on_result: ResultHandler) -> RunEnd:
        """Blocks until the library returns."""

    def abort(self) -> None:
        """Ask for the end of the run under way; its prefill is computed to the end first."""

    def call(self, name: str, *args: Any) -> Any:
        """One of the other calls of ``NativeModel``."""

    @property
    def log(self) -> tuple[str, ...]:
        """The last lines that the library printed, where they can be had."""

    def close(self) -> None:
        """Give everything back; may be called again."""

    def abandon(self) -> None:
        """Another process owns it."""
