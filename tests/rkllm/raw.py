"""A client of librkllmrt by raw ctypes, for any layout: as little as possible between a test and the library.

>>> client = Client("1.2.3")
>>> client.init(path, max_context_len=64)
>>> code, events = client.run("hello")
"""

from __future__ import annotations

import ctypes as ct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rknnlite_rkllm.abi.revisions import revision_of

from tests.doubles.rkllm.standin import StandIn, build

__all__ = ["Client", "Event", "described", "filled", "said"]

Floats = npt.NDArray[np.float32]


@dataclass
class Event:
    """One call of the result callback; all is copied."""

    state: str
    text: bytes | None = None
    token_id: int | None = None
    hidden: Floats | None = None
    logits: Floats | None = None
    perf: dict[str, float] | None = None
    batch: list[bytes | None] = field(default_factory=list)
    userdata: int | None = None


class Client:
    """A loaded library and at most one handle."""

    def __init__(self, version: str, path: Path | None = None) -> None:
        self.version, self.abi = version, revision_of(version)
        self.functions = self._loaded(path)
        self.handle = ct.c_void_p()
        self.n_batch = 1
        self.events: list[Event] = []
        self.answer: Callable[[Event], int] = lambda event: 0
        self._kept: list[Any] = []
        self.callback = self.abi.LLMResultCallback(self._heard)

    def _loaded(self, path: Path | None) -> dict[str, Any]:
        """The functions of the double by name."""
        self.double = StandIn(path or build(self.version))
        self.double.plain()
        return self._bound(self.double.lib)

    def _bound(self, library: Any) -> dict[str, Any]:
        return {
            name: signature.bind(getattr(library, name)) for name, signature in self.abi.functions.items()
        }

    def has(self, function: str) -> bool:
        """Whether the layout has a function."""
        return function in self.abi.functions

    def call(self, function: str, *arguments: Any) -> int:
        """A function of the handle."""
        return int(self.functions[function](self.handle, *arguments))

    def param(self, path: Path, **settings: Any) -> Any:
        """The default parameters with some changed, also those of the extension."""
        param = self.functions["rkllm_createDefaultParam"]()
        name = "modelPath" if self.abi.has_field("RKLLMParam", "modelPath") else "model_path"
        for key, value in {name: str(path).encode(), **settings}.items():
            inside = not self.abi.has_field("RKLLMParam", key)
            setattr(param.extend_param if inside else param, key, value)
        return param

    def init(self, path: Path, **settings: Any) -> int:
        """``rkllm_init`` with parameters by name."""
        param = self.param(path, **settings)
        self.n_batch = settings.get("n_batch", 1)
        return self.init_param(param)

    def init_param(self, param: Any, **callbacks: Any) -> int:
        """``rkllm_init``; ``callbacks`` are members of RKLLMCallback."""
        self._kept = [param, callbacks]
        callback: Any = self.callback
        if self.abi.RKLLMCallback is not None:
            callback = self.abi.RKLLMCallback(result_callback=self.callback, **callbacks)
            self._kept.append(callback)
        given = param if self.abi.RKLLMInput is None else ct.byref(param)
        return int(self.functions["rkllm_init"](ct.byref(self.handle), given, callback))

    def destroy(self) -> int:
        """``rkllm_destroy``."""
        code = self.call("rkllm_destroy")
        self.handle = ct.c_void_p()
        return code

    def prompt(self, text: str, **members: Any) -> Any:
        """An input of type PROMPT; the text itself in 1.0."""
        if self.abi.RKLLMInput is None:
            return text.encode()
        made = self.input("PROMPT", **members)
        made.u.prompt_input = text.encode()
        return made

    def input(self, kind: str, **members: Any) -> Any:
        """An empty input of a type, for the role ``user``, thinking."""
        made = self.abi.RKLLMInput(input_type=self.abi.RKLLMInputType[kind])
        if self.abi.has_field("RKLLMInput", "role"):
            members = {"role": b"user", "enable_thinking": True, **members}
        for name, value in members.items():
            setattr(made, name, value)
        return made

    def tokens(self, ids: Sequence[int]) -> Any:
        """An input of type TOKEN."""
        made = self.input("TOKEN")
        made.u.token_input.input_ids = (ct.c_int32 * len(ids))(*ids)
        made.u.token_input.n_tokens = len(ids)
        return made

    def embeddings(self, rows: Floats) -> Any:
        """An input of type EMBED: float32 (n, hidden)."""
        made = self.input("EMBED")
        made.u.embed_input.embed = rows.ctypes.data_as(ct.POINTER(ct.c_float))
        made.u.embed_input.n_tokens = len(rows)
        return made

    def infer(self, **members: Any) -> Any:
        """Infer parameters: zero but for what is named."""
        pointers = {"lora_params", "prompt_cache_params", "sampling_params"}
        made = self.abi.RKLLMInferParam()
        for name, value in members.items():
            setattr(made, name, ct.pointer(value) if name in pointers else value)
        return made

    def run(self, given: Any, userdata: int | None = None, **infer: Any) -> tuple[int, list[Event]]:
        """``rkllm_run`` and what the callback heard meanwhile; a list of inputs is a batch."""
        self.events = []
        if isinstance(given, str):
            given = self.prompt(given)
        if self.abi.RKLLMInput is None:
            return self.call("rkllm_run", given, userdata), self.events
        inputs = (self.abi.RKLLMInput * len(given))(*given) if isinstance(given, list) else ct.pointer(given)
        return self.call("rkllm_run", inputs, ct.byref(self.infer(**infer)), userdata), self.events

    def _heard(self, result: Any, userdata: int | None, state: int) -> Any:
        event = Event(self.abi.LLMCallState(state).name, userdata=userdata)
        if result and self.abi.RKLLMResult is None:
            event.text = result
        elif result:
            self._copy(result, event)
        self.events.append(event)
        return self.answer(event) if self.abi.callback_returns else None

    def _copy(self, result: Any, event: Event) -> None:
        first = result[0]
        event.text = first.text
        event.batch = [result[at].text for at in range(self.n_batch)]
        if self.abi.Token is not None:
            event.token_id = first.tokens[0].id if first.num else None
            return
        event.token_id = first.token_id
        hidden = first.last_hidden_layer
        if hidden.hidden_states:
            event.hidden = np.ctypeslib.as_array(
                hidden.hidden_states, (hidden.num_tokens, hidden.embd_size)
            ).copy()
        if self.abi.RKLLMResultLogits is not None and first.logits.logits:
            event.logits = np.ctypeslib.as_array(
                first.logits.logits, (first.logits.num_tokens, first.logits.vocab_size)
            ).copy()
        if self.abi.RKLLMPerfStat is not None and event.state == "FINISH":
            event.perf = {name: getattr(first.perf, name) for name, _ in first.perf._fields_}


def said(events: Sequence[Event]) -> str:
    """All text of a run."""
    return b"".join(event.text or b"" for event in events).decode()


def filled(struct: Any, start: int = 1, **given: Any) -> Any:
    """A structure whose members all have a value of their own; ``given`` ones are as told."""
    made = struct()
    for number, (name, kind) in enumerate(struct._fields_, start):
        setattr(made, name, given[name] if name in given else _value(kind, number))
    return made


def _value(kind: Any, number: int) -> Any:
    if kind is ct.c_char_p:
        return f"text {number} ä".encode()
    if kind is ct.c_float:
        return number + 0.1
    if kind is ct.c_bool:
        return number % 2 == 0
    if hasattr(kind, "_fields_"):
        return filled(kind, number * 3)
    if hasattr(kind, "_length_"):
        return kind(*(number + at for at in range(kind._length_)))
    if hasattr(kind, "contents"):
        return kind(filled(kind._type_, number * 3)) if hasattr(kind._type_, "_fields_") else kind()
    return number


def described(value: Any, union: str | None = None) -> Any:
    """A structure in the words of the double's log; ``union`` is the member of a union that counts."""
    found: dict[str, Any] = {}
    for name, kind in value._fields_:
        if union is None or not isinstance(value, ct.Union) or name == union:
            found[name] = _described(getattr(value, name), kind, union)
    return found


def _described(value: Any, kind: Any, union: str | None) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, (ct.Structure, ct.Union)):
        return described(value, union)
    if isinstance(value, ct.Array):
        return bytes(value).hex()
    if hasattr(kind, "contents"):
        plain = not hasattr(kind._type_, "_fields_")
        return bool(value) if plain else described(value.contents) if value else None
    return int(value) if isinstance(value, bool) else value
