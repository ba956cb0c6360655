"""librkllmrt.so: what programs are told in every layout of the API, beside what sessions of rknnlite say in this process."""

from __future__ import annotations

import ctypes as ct
import gc
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_llm import Chat, Package, open_llm
from rknnlite_rkllm.abi.revisions import revision_of

from rknnlite.spi.llm import (
    InferParams,
    LlmCallbacks,
    LlmParams,
    MessagesInput,
    PromptInput,
    TokenInput,
)
from tests.librknnrt.clients import interpreter
from tests.librknnrt.rkllm_clients import LAYOUTS, TINY, Ours, standing
from tests.rkllm.raw import Event, said

pytestmark = pytest.mark.slow

QUESTION = "What is 12 + 30?"
MOST = 24
each = pytest.mark.parametrize("version", LAYOUTS)
with_history = pytest.mark.parametrize("version", LAYOUTS[1:])
with_roles = pytest.mark.parametrize("version", LAYOUTS[3:])
Start = Callable[..., Ours]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """``start("1.2.3", max_new_tokens=8)``: a client with a model open; ``stand_in``: what stands for it."""
    monkeypatch.setenv("RKNNLITE_PYTHON", str(interpreter()))
    clients: list[Ours] = []

    def opened(version: str, stand_in: Path | str = TINY, **settings: Any) -> Ours:
        client = Ours(version)
        clients.append(client)
        assert client.init(standing(tmp_path, stand_in), **settings) == 0 and client.handle
        return client

    yield opened
    for client in clients:
        if client.handle:
            assert client.destroy() == 0
    gc.collect()


@pytest.fixture(scope="module")
def chat() -> Iterator[Chat]:
    """The same model here; forgets what was said before each answer."""
    with Chat(TINY, LlmParams(max_context_len=256), backend="cpu") as opened:
        yield opened


def answer(chat: Chat, *questions: str, most: int = MOST) -> str:
    """The last answer of a conversation of its own."""
    chat.session.clear_kvcache()
    return [chat.ask(text, max_new_tokens=most) for text in questions][-1]


def heard(chat: Chat, given: Any, most: int = MOST) -> list[int]:
    """Tokens of a run here."""
    ids: list[int] = []
    before = chat.session.callbacks
    chat.session.clear_kvcache()
    chat.session.set_callbacks(
        LlmCallbacks(
            result=lambda result, _: ids.extend(result.token_ids),
            tokenizer=before.tokenizer,
            embed=before.embed,
        )
    )
    try:
        chat.session.run(given, InferParams(max_new_tokens=most))
    finally:
        chat.session.set_callbacks(before)
    return ids


def ids_of(events: list[Event]) -> list[int]:
    """Token ids that a program was told."""
    return [event.token_id for event in events if event.token_id is not None and event.token_id >= 0]


def sizes(client: Ours) -> list[int]:
    found = (ct.c_int * client.n_batch)()
    assert client.call("rkllm_get_kv_cache_size", found) == 0
    return list(found)


def clear(client: Ours, keep_system: int = 0) -> int:
    more = (None, None) if len(client.abi.functions["rkllm_clear_kv_cache"].argtypes) == 4 else ()
    return client.call("rkllm_clear_kv_cache", keep_system, *more)


def raw(client: Ours) -> None:
    """Prompts go to the model as they are."""
    if client.has("rkllm_set_chat_template"):
        assert client.call("rkllm_set_chat_template", b"", b"", b"") == 0


# -- text ---------------------------------------------------------------------------------------------------------


@each
def test_text_is_that_of_a_chat(start: Start, chat: Chat, version: str) -> None:
    client = start(version)
    prompt, wanted = QUESTION, answer(chat, QUESTION)
    if version == "1.1.4":  # there the program renders
        prompt = chat.tokenizer.decode(
            chat.session.rendered(MessagesInput([{"role": "user", "content": QUESTION}])), False
        )
    code, events = client.run(
        client.prompt(
            prompt, **({"enable_thinking": False} if client.has("rkllm_set_function_tools") else {})
        ),
        userdata=7,
    )
    assert code == 0 and said(events) == wanted and "42" in wanted
    assert (
        events[-1].state == "FINISH"
        and events[-1].text is None
        and {event.userdata for event in events} == {7}
    )
    assert all(event.text is not None for event in events if event.state == "NORMAL")
    if client.abi.RKLLMPerfStat is not None:
        assert events[-1].perf is not None
        assert events[-1].perf["prefill_tokens"] == chat.last.n_prefill_tokens
        assert events[-1].perf["generate_tokens"] == chat.last.n_decode_tokens
        assert events[-1].perf["memory_usage_mb"] > 10 and events[-1].perf["generate_time_ms"] > 0


@each
def test_the_most_tokens(start: Start, version: str) -> None:
    client = start(version, max_new_tokens=3)
    assert len(client.run(QUESTION)[1]) == 4
    client.destroy()
    client = start(version, max_new_tokens=-1, max_context_len=64)
    assert client.run(QUESTION)[0] == 0


@each
def test_ids_and_embeddings(start: Start, chat: Chat, version: str) -> None:
    tokens = chat.session.rendered(MessagesInput([{"role": "user", "content": QUESTION}]))
    wanted = heard(chat, TokenInput(tokens))
    client = start(version)
    assert ids_of(client.run(client.tokens(tokens))[1]) == wanted
    rows = np.asarray(Package.of(TINY).embeddings(chat.context)(np.array(tokens)), np.float32)
    assert ids_of(client.run(client.embeddings(rows))[1]) == wanted
    for bad in ([], [99999], [-1]):
        assert client.run(client.tokens(bad))[0] == -1
        assert [event.state for event in client.events] == ["ERROR"]
    assert ids_of(client.run(client.tokens(tokens))[1]) == wanted


@with_history
def test_a_template(start: Start, chat: Chat, version: str) -> None:
    client = start(version)
    assert client.call("rkllm_set_chat_template", b"Be brief.", b"<|im_start|>", b"<|im_end|>") == 0
    events = client.run("hi")[1]
    with open_llm(TINY.with_suffix(".rknn"), backend="cpu") as context:
        calls = chat.session.callbacks
        ids: list[int] = []
        session = context.session(
            LlmParams(max_context_len=256),
            LlmCallbacks(
                result=lambda r, _: ids.extend(r.token_ids), tokenizer=calls.tokenizer, embed=calls.embed
            ),
        )
        session.set_chat_template("Be brief.", "<|im_start|>", "<|im_end|>")
        session.run(PromptInput("hi"), InferParams(max_new_tokens=MOST))
    assert ids_of(events) == ids
    raw(client)
    text = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    assert ids_of(client.run(text)[1]) == heard(chat, TokenInput(chat.tokenizer.encode(text, special=True)))


@with_roles
def test_roles_and_tools(start: Start, chat: Chat, version: str) -> None:
    client = start(version, max_new_tokens=12)
    tools = [{"type": "function", "function": {"name": "now", "description": "the time"}}]
    listed = b'[{"type": "function", "function": {"name": "now", "description": "the time"}}]'
    assert client.call("rkllm_set_function_tools", b"Help.", listed, b"tool_response") == 0
    first = client.run(client.prompt("hi"))[1]
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "Help."},
        {"role": "user", "content": "hi"},
    ]
    assert ids_of(first) == heard(chat, MessagesInput(messages, tools, True), 12)
    messages += [{"role": "assistant", "content": said(first)}, {"role": "tool", "content": "noon"}]
    second = client.run(client.prompt('["noon"]', role=b"tool"))[1]
    assert ids_of(second) == heard(chat, MessagesInput(messages, tools, True), 12)
    assert client.run(client.prompt("hi", role=b"system"))[0] == -1
    assert client.call("rkllm_set_function_tools", b"", b"no list", None) == -1


# -- caches -------------------------------------------------------------------------------------------------------


@with_history
def test_history(start: Start, chat: Chat, version: str) -> None:
    client, quiet = start(version), {"enable_thinking": False} if version >= "1.2.2" else {}
    ask = lambda text, keep: said(client.run(client.prompt(text, **quiet), keep_history=keep)[1])  # noqa: E731
    alone, follow = answer(chat, "What is 3 + 4?"), answer(chat, QUESTION, "What is 3 + 4?")
    assert ask(QUESTION, 1) == answer(chat, QUESTION)
    assert ask("What is 3 + 4?", 1) == follow
    assert clear(client) == 0
    assert ask("What is 3 + 4?", 0) == alone == ask("What is 3 + 4?", 0)


@with_roles
def test_the_size_of_the_cache(start: Start, version: str) -> None:
    client = start(version)
    assert sizes(client) == [0]
    client.run(QUESTION, keep_history=1)
    assert sizes(client)[0] > 20
    assert clear(client) == 0 and sizes(client) == [0]
    client.run(QUESTION)
    assert sizes(client) == [0]


@each
def test_prompt_cache(start: Start, version: str, tmp_path: Path) -> None:
    path = str(tmp_path / "cache").encode()
    client = start(version)
    raw(client)
    text = "<|im_start|>user\n" + "one two three " * 5 + "<|im_end|>\n<|im_start|>assistant\n"
    cache = client.abi.RKLLMPromptCacheParam(1, path)
    wanted = said(client.run(text, prompt_cache_params=cache)[1])
    assert client.call("rkllm_load_prompt_cache", path + b".not") == -1
    (tmp_path / "other").write_bytes(b"no cache")
    assert client.call("rkllm_load_prompt_cache", str(tmp_path / "other").encode()) == -1
    client.destroy()
    client = start(version)
    raw(client)
    assert client.call("rkllm_load_prompt_cache", path) == 0
    _, events = client.run(text)
    assert said(events) == wanted
    if client.abi.RKLLMPerfStat is not None:
        assert events[-1].perf is not None and events[-1].perf["prefill_tokens"] <= 1
    assert client.call("rkllm_release_prompt_cache") == 0
    assert said(client.run(text)[1]) == wanted


# -- modes --------------------------------------------------------------------------------------------------------


@each
def test_hidden_states(start: Start, chat: Chat, version: str) -> None:
    tokens = [5, 70, 6]
    client = start(version)
    code, events = client.run(client.tokens(tokens), mode=1)
    assert code == 0 and events[0].hidden is None
    assert events[1].state == ("GET_LAST_HIDDEN_LAYER" if version == "1.1.4" else "NORMAL")
    assert events[1].hidden is not None and events[1].hidden.shape == (3, chat.context.config.embedding_dim)
    rows: list[np.ndarray] = []
    before = chat.session.callbacks
    chat.session.clear_kvcache()
    chat.session.set_callbacks(
        LlmCallbacks(
            output=lambda outputs, _: rows.append(np.array(outputs[0].data)), embed=before.embed, outputs=(1,)
        )
    )
    chat.session.run(TokenInput(tokens), InferParams(prefill_only=True))
    chat.session.set_callbacks(before)
    np.testing.assert_allclose(events[1].hidden, np.concatenate(rows), rtol=1e-5, atol=1e-5)


@with_history
def test_logits(start: Start, chat: Chat, version: str) -> None:
    tokens = [5, 70, 6]
    client = start(version)
    _, events = client.run(client.tokens(tokens), mode=2)
    wanted = np.concatenate(list(chat.context.logits(tokens, chat.session.callbacks.embed)))
    assert events[0].logits is not None and events[0].hidden is None
    np.testing.assert_allclose(events[0].logits, wanted, rtol=1e-5, atol=1e-5)
    assert ids_of(events)[0] == wanted[-1].argmax() and events[-1].state == "FINISH"
    prompted = client.run(QUESTION, mode=2)[1]
    assert prompted[0].logits is not None and len(prompted[0].logits) > 10


@pytest.mark.parametrize("mode", [1, 2])
@with_roles
def test_a_pause_behind_the_rows(start: Start, version: str, mode: int) -> None:
    client = start(version)
    client.answer = lambda event: int(event.hidden is not None or event.logits is not None)
    code, events = client.run(QUESTION, mode=mode)
    assert code == 0 and len(events) == 3 - mode
    assert clear(client) == 0
    client.answer = lambda event: 0
    assert "42" in said(client.run(client.prompt(QUESTION, enable_thinking=False))[1])


def pausing(events: int) -> Callable[[Event], int]:
    count: list[Event] = []

    def answered(event: Event) -> int:
        count.append(event)
        return int(len(count) == events)

    return answered


@with_roles
def test_pause_and_go_on(start: Start, chat: Chat, version: str) -> None:
    client, given = start(version), lambda: client.prompt(QUESTION, enable_thinking=False)
    wanted = answer(chat, QUESTION)
    client.answer = pausing(4)
    code, events = client.run(given())
    assert code == 0 and len(events) == 4 and wanted.startswith(said(events)) and events[-1].state == "NORMAL"
    held, before = sizes(client)[0], said(events)
    assert held > 10
    assert before + said(client.run(given())[1]) == wanted and client.events[-1].state == "FINISH"
    begin, end = (ct.c_int * 1)(0), (ct.c_int * 1)(1)
    assert client.call("rkllm_clear_kv_cache", 0, begin, end) == -1  # no run is paused
    client.answer = pausing(4)
    client.run(given())
    assert clear(client) == 0 and said(client.run(given())[1]) == wanted


@with_roles
def test_a_part_of_the_cache(start: Start, chat: Chat, version: str) -> None:
    tokens = chat.session.rendered(MessagesInput([{"role": "user", "content": QUESTION}]))
    client = start(version)
    client.answer = pausing(2)
    answered = ids_of(client.run(client.tokens(tokens))[1])
    begin, end = (ct.c_int * 1)(2), (ct.c_int * 1)(4)
    assert client.call("rkllm_clear_kv_cache", 0, begin, end) == 0
    left = tokens[:2] + tokens[4:] + answered
    assert sizes(client) == [len(left)]
    assert ids_of(client.run(client.tokens(tokens))[1]) == heard(chat, TokenInput(left))


@each
def test_abort(start: Start, version: str) -> None:
    client = start(version, max_new_tokens=-1, max_context_len=512)
    assert client.call("rkllm_abort") == -1
    stopped: list[int] = []

    def answered(event: Event) -> int:
        if not stopped:
            stopped.append(client.call("rkllm_abort"))
        return 0

    client.answer = answered
    code, events = client.run(QUESTION)
    if client.abi.callback_returns:
        assert code == 0 and stopped == [0] and len(events) == 2 and events[-1].state == "FINISH"
    client.answer = lambda event: 0
    assert client.run(QUESTION)[0] == 0


@each
def test_run_async(start: Start, version: str) -> None:
    client = start(version)
    wanted = said(client.run(QUESTION)[1])
    given, infer = client.prompt(QUESTION), client.infer()
    client.events, threads = [], set()
    running: list[int] = []

    def answered(event: Event) -> int:
        threads.add(threading.get_ident())
        running.append(client.call("rkllm_is_running"))
        return 0

    client.answer = answered
    idle = client.call("rkllm_is_running")
    assert client.call("rkllm_run_async", given, infer, None) == 0
    del given, infer
    end = time.monotonic() + 10
    while (not client.events or client.events[-1].state != "FINISH") and time.monotonic() < end:
        time.sleep(0.01)
    assert said(client.events) == wanted
    if client.abi.callback_returns:
        assert threading.get_ident() not in threads
        assert (idle, set(running)) == ((0, {1}) if version == "1.3.0" else (1, {0}))


def test_two_runs_at_once_and_calls_from_a_callback(start: Start) -> None:
    client = start("1.2.3")
    codes: list[int] = []

    def answered(event: Event) -> int:
        if not codes:
            codes.append(client.call("rkllm_run", client.prompt("b"), client.infer(), None))
            codes.append(clear(client))
            codes.append(client.call("rkllm_destroy"))
        return 0

    client.answer = answered
    assert client.run(QUESTION)[0] == 0
    assert codes == [-1, -1, -1] and client.events[-1].state == "FINISH"
    assert client.run(QUESTION)[0] == 0


# -- parameters ---------------------------------------------------------------------------------------------------


def test_sampling_and_length_of_a_run(start: Start, chat: Chat) -> None:
    client = start("1.3.0", top_k=40, temperature=5.0)
    own = client.abi.RKLLMSamplingParam(top_k=1, top_p=1.0, temperature=1.0, repeat_penalty=1.0)
    given = lambda: client.prompt(QUESTION, enable_thinking=False)  # noqa: E731
    assert said(client.run(given(), sampling_params=own)[1]) == answer(chat, QUESTION)
    assert len(client.run(given(), sampling_params=own, max_new_tokens=4)[1]) == 5
    own.mirostat = 2
    assert client.run(given(), sampling_params=own)[0] == -1
    client.destroy()
    client = start("1.3.0", ignore_eos_token=True, max_new_tokens=40)
    assert len(ids_of(client.run(given())[1])) == 40


@with_roles
def test_batches(start: Start, chat: Chat, version: str) -> None:
    questions = [QUESTION, "What is 1 + 2?", "Hi"]
    client = start(version, n_batch=3)
    code, events = client.run([client.prompt(text, enable_thinking=False) for text in questions])
    assert code == 0 and events[-1].state == "FINISH"
    told = [b"".join(event.batch[at] or b"" for event in events).decode() for at in range(3)]
    assert told == [answer(chat, text) for text in questions]
    assert client.run([client.prompt("a")] * 3, mode=2)[0] == -1
    client.answer = pausing(2)
    given = [client.prompt(text, enable_thinking=False) for text in questions]
    first = client.run(given)[1]
    second = client.run(given)[1]
    assert [b"".join(event.batch[at] or b"" for event in first + second).decode() for at in range(3)] == told
    assert sizes(client) == [0, 0, 0]


@with_roles
def test_no_cross_attention(start: Start, tmp_path: Path, version: str) -> None:
    client = start(version)
    assert client.call("rkllm_set_cross_attn_params", client.abi.RKLLMCrossAttnParam()) == -1
    other = Ours(version)
    assert other.init(standing(tmp_path), use_cross_attn=1) == -1 and not other.handle


@pytest.mark.parametrize(
    "settings", [{"n_batch": 0}, {"n_batch": 101}, {"mirostat": 1}, {"max_context_len": -5}]
)
def test_parameters_that_are_refused(start: Start, tmp_path: Path, settings: dict[str, int]) -> None:
    start("1.2.3")
    client = Ours("1.2.3")
    assert client.init(standing(tmp_path), **settings) == -1 and not client.handle


@pytest.mark.parametrize(("program", "library"), [("1.2.3", "1.3.0"), ("1.3.0", "1.2.3")])
def test_a_program_of_another_version(
    start: Start, tmp_path: Path, program: str, library: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Structures have no version: what lies in the wrong places is told."""
    start("1.2.3")
    client = Ours(library)
    tags = {"img_start": b"<v>", "img_end": b"</v>", "img_content": b"~"} if program == "1.2.3" else {}
    theirs = revision_of(program).RKLLMParam(
        model_path=str(standing(tmp_path)).encode(), max_context_len=64, **tags
    )
    theirs.extend_param.n_batch = 1
    theirs.extend_param.enabled_cpus_num, theirs.extend_param.enabled_cpus_mask = 4, 0xF0
    space = (ct.c_byte * 512)()
    ct.memmove(space, ct.byref(theirs), ct.sizeof(theirs))
    given = client.abi.RKLLMParam.from_buffer(space)
    assert client.init_param(given) == -1 and not client.handle
    assert "name it in RKNNLITE_RKLLM_VERSION" in capfd.readouterr().err
