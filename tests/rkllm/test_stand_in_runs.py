"""The double of librkllmrt runs as the genuine library is said to, in all seven layouts, by raw ctypes."""

from __future__ import annotations

import ctypes as ct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from rknnlite_rkllm.abi.results import CallbackReturn
from rknnlite_rkllm.abi.revisions import REVISIONS

from tests.doubles.double import compiler
from tests.doubles.rkllm.standin import model, records

from .raw import Client, Event, said

pytestmark = pytest.mark.slow

if compiler() is None:
    pytest.skip("no C compiler is installed", allow_module_level=True)

EVERY = list(REVISIONS)
each = pytest.mark.parametrize("version", EVERY)
with_inputs = pytest.mark.parametrize("version", EVERY[2:])
with_history = pytest.mark.parametrize("version", EVERY[3:])
with_roles = pytest.mark.parametrize("version", EVERY[5:])
Start = Callable[..., Client]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Loads a model of the double: its version, its lines, parameters; at the end nothing may be left."""
    clients: list[Client] = []

    def opened(version: str, *lines: str, **settings: object) -> Client:
        path = tmp_path / f"{len(clients)}.rkllm"
        path.write_bytes(model(*lines))
        client = Client(version)
        clients.append(client)
        client.double.mode(quiet=1)
        assert client.init(path, max_context_len=1024, **settings) == 0 and client.handle
        return client

    yield opened
    for client in clients:
        if client.handle:
            assert client.destroy() == 0
    assert all(client.double.live() == {} for client in clients)


def raw(client: Client) -> None:
    """Prompts go to the model as they are."""
    if client.has("rkllm_set_chat_template"):
        assert client.call("rkllm_set_chat_template", b"", b"", b"") == 0


@each
def test_a_run(start: Start, version: str) -> None:
    client = start(version)
    code, events = client.run("Guten Tag", userdata=7)
    assert code == 0 and said(events) == "Guten Tag"
    assert [event.state for event in events] == ["NORMAL"] * 9 + ["FINISH"]
    assert {event.userdata for event in events} == {7} and events[-1].text is None
    if client.abi.RKLLMResult is not None:
        assert [event.token_id for event in events[:-1]] == list(b"Guten Tag")
    if client.abi.RKLLMPerfStat is not None:
        assert events[-1].perf is not None and events[-1].perf["generate_tokens"] == 9


@each
def test_characters_of_several_bytes(start: Start, version: str) -> None:
    client = start(version)
    _, events = client.run("aé😀")
    assert said(events) == "aé😀"
    states = [event.state for event in events]
    if hasattr(client.abi.LLMCallState, "WAITING"):
        assert states == ["NORMAL", "WAITING", "NORMAL", *["WAITING"] * 3, "NORMAL", "FINISH"]
        assert [event.text for event in events[:3]] == [b"a", None, "é".encode()]
        assert [event.token_id for event in events[:-1]] == list("aé😀".encode())
    else:  # pieces of characters
        assert states == ["NORMAL"] * 7 + ["FINISH"] and events[1].text == b"\xc3"
    client.double.mode(split=1)
    assert [event.text for event in client.run("é")[1]][:2] == [b"\xc3", b"\xa9"]


@each
def test_the_most_tokens(start: Start, version: str) -> None:
    client = start(version, "op count", max_new_tokens=8)
    code, events = client.run("go")
    assert code == 0 and said(events) == "1 2 3 4 "
    client.destroy()
    client = start(version, "op count", max_new_tokens=-1)
    raw(client)
    assert len(client.run("go")[1]) == 1024 - 2 + 1  # what fits into the context, and the end


@with_inputs
def test_ids_and_embeddings(start: Start, version: str) -> None:
    client = start(version, "hidden 4")
    assert said(client.run(client.tokens(b"by number"))[1]) == "by number"
    rows = np.zeros((3, 4), np.float32)
    rows[:, 0] = list(b"row")
    assert said(client.run(client.embeddings(rows))[1]) == "row"
    assert client.run(client.tokens([]))[0] == -1
    assert [event.state for event in client.events] == ["ERROR"]


@with_inputs
def test_hidden_states(start: Start, version: str) -> None:
    client = start(version, "hidden 4")
    _, events = client.run(client.tokens([5, 70]), mode=1)
    assert events[0].state == "NORMAL" and events[0].hidden is None
    wanted = "GET_LAST_HIDDEN_LAYER" if version == "1.1.0" else "NORMAL"
    assert events[1].state == wanted and events[1].hidden is not None
    np.testing.assert_allclose(events[1].hidden, [[5, 5.01, 5.02, 5.03], [70, 70.01, 70.02, 70.03]])
    assert client.double.live() == {"handles": 1, "buffers": 1}  # it stays until the end


@with_history
def test_logits(start: Start, version: str) -> None:
    client = start(version)
    _, events = client.run(client.tokens([5, 70, 6]), mode=2)
    ids, column = np.array([[5], [70], [6]]), np.arange(260)
    assert events[0].logits is not None and events[0].hidden is None
    np.testing.assert_allclose(
        events[0].logits, (31 * ids + 7 * column + np.arange(3)[:, None]) % 97 / 97, rtol=1e-6
    )


def test_an_answer_frees_the_rows(start: Start) -> None:
    client = start("1.3.0")
    client.answer = lambda event: CallbackReturn.RELEASE if event.logits is not None else 0
    client.run(client.tokens([5, 70]), mode=2)
    assert client.double.live() == {"handles": 1}


@each
def test_a_template(start: Start, version: str) -> None:
    client = start(version, "op show")
    if not client.has("rkllm_set_chat_template"):
        assert said(client.run("hi")[1]) == "hi"
        return
    assert said(client.run("hi")[1]) == "<|system|>You are a double.<|user|>hi<|assistant|>"
    client.call("rkllm_set_chat_template", b"S:", b"[", b"]")
    assert said(client.run("hi")[1]) == "S:[hi]"
    raw(client)
    assert said(client.run("hi")[1]) == "hi"
    client.destroy()
    assert said(start(version, "op show", "template none").run("hi")[1]) == "hi"


@with_roles
def test_roles_thinking_and_tools(start: Start, version: str) -> None:
    client = start(version, "op show")
    head = "<|system|>You are a double."
    assert said(client.run(client.prompt("hi", enable_thinking=False))[1]).endswith(
        "<|assistant|><|nothink|>"
    )
    assert client.call("rkllm_set_function_tools", b"Help.", b'[{"name":"f"}]', b"tool_response") == 0
    assert said(client.run("hi")[1]).startswith('<|system|>Help.<tools>[{"name":"f"}]</tools><|user|>')
    result = said(client.run(client.prompt("[1]", role=b"tool"))[1])
    assert result.endswith("<|tool|><tool_response>[1]</tool_response><|assistant|>")
    raw(client)  # after it tools and thinking do nothing
    assert said(client.run(client.prompt("hi", enable_thinking=False))[1]) == "hi"
    assert head not in result


def sizes(client: Client) -> list[int]:
    found = (ct.c_int * client.n_batch)()
    assert client.call("rkllm_get_kv_cache_size", found) == 0
    return list(found)


def clear(client: Client, keep_system: int = 0) -> int:
    more = (None, None) if len(client.abi.functions["rkllm_clear_kv_cache"].argtypes) == 4 else ()
    return client.call("rkllm_clear_kv_cache", keep_system, *more)


@with_history
def test_history(start: Start, version: str) -> None:
    client = start(version, "op show")
    client.call("rkllm_set_chat_template", b"S:", b"[", b"]")
    client.run("a", keep_history=1)
    assert said(client.run("b", keep_history=1)[1]) == "S:[a]S:[a][b]"
    assert clear(client, 1) == 0
    assert said(client.run("c", keep_history=1)[1]) == "S:[c]"
    assert clear(client) == 0
    assert said(client.run("d")[1]) == "S:[d]" == said(client.run("d")[1])


@with_roles
def test_the_size_of_the_cache(start: Start, version: str) -> None:
    client = start(version)
    raw(client)
    client.run("abc", keep_history=1)
    assert sizes(client) == [6]  # prompt and answer
    client.run("de")
    assert sizes(client) == [0]


def test_before_histories(start: Start) -> None:
    client = start("1.1.0", "op show")
    client.run("a")
    assert said(client.run("b")[1]) == "b"


def pausing(events: int) -> Callable[[Event], int]:
    heard: list[Event] = []

    def answer(event: Event) -> int:
        heard.append(event)
        return CallbackReturn.PAUSE if len(heard) == events else CallbackReturn.CONTINUE

    return answer


@with_roles
def test_pause_and_go_on(start: Start, version: str) -> None:
    client = start(version, "op count", max_new_tokens=12)
    raw(client)
    client.answer = pausing(4)
    code, events = client.run("go")
    assert code == 0 and said(events) == "1 2 " and len(events) == 4
    assert sizes(client) == [6]
    begin, end = (ct.c_int * 1)(0), (ct.c_int * 1)(1)
    assert client.call("rkllm_clear_kv_cache", 0, begin, end) == 0 and sizes(client) == [5]
    assert said(client.run("ignored")[1]) == "3 4 5 6 " and client.events[-1].state == "FINISH"
    assert client.call("rkllm_clear_kv_cache", 0, begin, end) == -1  # no run is paused
    client.answer = pausing(1)
    client.run("go")
    assert clear(client) == 0
    client.answer = lambda event: 0
    assert said(client.run("go")[1]).startswith("1 2")


@pytest.mark.parametrize("version", EVERY[:5])
def test_a_callback_that_returns_nothing_stops_nothing(start: Start, version: str) -> None:
    client = start(version)
    client.answer = lambda event: 1
    assert said(client.run("abc")[1]) == "abc"


@pytest.mark.parametrize("version", EVERY[1:])
@pytest.mark.parametrize(
    ("mode", "last", "code"), [("finish", "FINISH", 0), ("error", "ERROR", -1), ("none", "NORMAL", 0)]
)
def test_abort(start: Start, version: str, mode: str, last: str, code: int) -> None:
    client = start(version, "op count", "token_us 1000", max_new_tokens=500)
    client.double.mode(abort=mode)
    assert client.call("rkllm_abort") == -1  # without a run
    stopper = threading.Timer(0.05, lambda: client.call("rkllm_abort"))
    stopper.start()
    assert client.run("go")[0] == code
    stopper.join()
    assert 1 < len(client.events) < 500 and client.events[-1].state == last


@pytest.mark.parametrize("version", EVERY[1:])
def test_abort_waits_for_the_prefill(start: Start, version: str) -> None:
    client = start(version, "prefill_us 30000")
    raw(client)
    asked: list[float] = []

    def stop() -> None:
        asked.append(time.monotonic())
        client.call("rkllm_abort")

    stopper = threading.Timer(0.03, stop)
    stopper.start()
    began = time.monotonic()
    client.run("x" * 10)
    stopper.join()
    assert [event.state for event in client.events] == ["FINISH"]
    assert time.monotonic() - began >= 0.3 > asked[0] - began


@with_inputs
def test_is_running(start: Start, version: str) -> None:
    client = start(version, "op count", "token_us 1000", max_new_tokens=100)
    idle = client.call("rkllm_is_running")
    seen: list[int] = []
    asker = threading.Timer(0.03, lambda: seen.append(client.call("rkllm_is_running")))
    asker.start()
    client.run("go")
    asker.join()
    assert (idle, seen) == ((0, [1]) if version == "1.3.0" else (1, [0]))


def test_two_runs_at_once(start: Start) -> None:
    client = start("1.2.1", "op count", "token_us 1000", max_new_tokens=100)
    codes: list[int] = []
    second = threading.Timer(
        0.03, lambda: codes.append(client.call("rkllm_run", client.prompt("b"), client.infer(), None))
    )
    second.start()
    assert client.run("a")[0] == 0
    second.join()
    assert codes == [-1] and client.double.live() == {"handles": 1, "races": 1}
    client.double.reset()


@with_inputs
def test_run_async(start: Start, version: str) -> None:
    client = start(version)
    given, infer = client.prompt("abc"), client.infer()
    assert client.call("rkllm_run_async", given, infer, None) == 0
    time.sleep(0.1)
    assert said(client.events) == ("" if version == "1.1.0" else "abc")  # 1.1 never calls back


@with_inputs
def test_prompt_cache(start: Start, version: str, tmp_path: Path) -> None:
    path = str(tmp_path / "cache").encode()
    client = start(version, "prefill_us 2000")
    raw(client)
    cache = client.abi.RKLLMPromptCacheParam(1, path)
    client.run("x" * 50, prompt_cache_params=cache)
    assert client.call("rkllm_load_prompt_cache", path + b".not") == -1
    assert client.call("rkllm_load_prompt_cache", path) == 0
    assert client.double.live() == {"handles": 1, "caches": 1}
    began = time.monotonic()
    _, events = client.run("x" * 50 + "y")
    assert said(events) == "x" * 50 + "y" and time.monotonic() - began < 0.1
    if client.abi.RKLLMPerfStat is not None:
        assert events[-1].perf is not None and events[-1].perf["prefill_tokens"] == 1
    assert client.call("rkllm_release_prompt_cache") == 0


@with_inputs
def test_lora(start: Start, version: str, tmp_path: Path) -> None:
    client = start(version)
    path = tmp_path / "adapter.rkllm"
    path.write_bytes(b"")
    adapter = client.abi.RKLLMLoraAdapter(str(path).encode(), b"style", 0.5)
    assert client.call("rkllm_load_lora", adapter) == 0
    chosen = client.abi.RKLLMLoraParam(b"style")
    assert said(client.run("hi", lora_params=chosen)[1]) == "(style 0.5) hi"
    assert said(client.run("hi")[1]) == "hi"
    assert client.double.live() == {"handles": 1, "loras": 1}


@each
def test_sampling(start: Start, version: str) -> None:
    client = start(version, "op sampling", top_k=3)
    assert said(client.run("?")[1]).startswith("top_k=3 top_p=0.9 temperature=0.8 repeat_penalty=1.1")
    if client.abi.RKLLMSamplingParam is None:
        return
    own = client.abi.RKLLMSamplingParam(top_k=1, top_p=0.5)
    assert said(client.run("?", sampling_params=own)[1]).startswith("top_k=1 top_p=0.5 temperature=0 ")
    assert len(client.run("?", max_new_tokens=4)[1]) == 5
    client.destroy()
    client = start(version, ignore_eos_token=True, max_new_tokens=20)
    assert said(client.run("hi")[1]) == "hi" + "." * 18


@with_roles
def test_batches(start: Start, version: str) -> None:
    client = start(version, n_batch=3)
    raw(client)
    code, events = client.run([client.prompt(text) for text in ("ab", "c", "")])
    assert code == -1 and events[-1].state == "ERROR"  # an empty prompt
    code, events = client.run([client.prompt(text) for text in ("ab", "c", "xyz")])
    assert code == 0 and [event.batch for event in events] == [
        [b"a", b"c", b"x"], [b"b", None, b"y"], [None, None, b"z"], [None] * 3,
    ]  # fmt: skip
    assert client.run([client.prompt("a")] * 3, mode=2)[0] == -1


def image(client: Client, prompt: bytes, rows: np.ndarray, items: int = 1) -> object:
    """A multimodal input with as many tokens per image as fit."""
    made = client.input("MULTIMODAL")
    place = made.u.multimodal_input
    place.prompt = prompt
    inside = getattr(place, "image", place)
    inside.image_embed = rows.ctypes.data_as(ct.POINTER(ct.c_float))
    inside.n_image_tokens = len(rows) // max(items, 1)
    if client.abi.has_field(type(inside).__name__, "n_image") or hasattr(inside, "n_image"):
        inside.n_image = items
    if hasattr(inside, "image_start"):
        inside.image_start, inside.image_end, inside.image_content = b"<v>", b"</v>", b"<pad>"
    return made


@with_inputs
def test_images(start: Start, version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RKLLM_DOUBLE_LOG", str(tmp_path / "log"))
    per_run = REVISIONS[version].has_field("RKLLMMultiModalInput_image", "image_start")
    tags = {} if per_run else {"img_start": b"<v>", "img_end": b"</v>", "img_content": b"<pad>"}
    client = start(version, "op show", "hidden 4", **tags)
    raw(client)
    rows = np.arange(24, dtype=np.float32).reshape(6, 4)
    several = version not in ("1.1.0", "1.2.0")
    if several:
        _, events = client.run(image(client, b"<image>and<image>?", rows, 2))
        assert said(events) == "<v>***</v>and<v>***</v>?"
        assert client.run(image(client, b"<image>", rows, 2))[0] == -1
        assert client.run(image(client, b"<image>", rows, 0))[0] == -1
    _, events = client.run(image(client, b"<image>?", rows))
    assert said(events) == "<v>******</v>?"
    entry = records(tmp_path / "log", "embedding")[-1]
    assert entry["floats"] == rows.tobytes().hex() and entry["content"] == "<pad>"


def test_videos(start: Start) -> None:
    client = start("1.3.0", "op show", "hidden 4")
    raw(client)
    rows = np.zeros((12, 4), np.float32)
    made = client.input("MULTIMODAL")
    video = made.u.multimodal_input.video
    made.u.multimodal_input.prompt = b"<video>?"
    video.video_embed = rows.ctypes.data_as(ct.POINTER(ct.c_float))
    video.n_frame_tokens, video.n_frame_per_video, video.n_video = 3, 4, 1
    video.video_start, video.video_end, video.video_content = b"<v>", b"</v>", b"<pad>"
    assert said(client.run(made)[1]) == "<v>%%%%%%%%%%%%</v>?"


@with_roles
def test_cross_attention(start: Start, version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = start(version, use_cross_attn=1)
    monkeypatch.setenv("RKLLM_DOUBLE_LOG", str(tmp_path / "log"))
    assert client.run("hi")[0] == -1  # not before they are set
    keys = np.arange(2 * 3 * 1 * 4, dtype=np.float32)
    mask, positions = np.ones(3, np.float32), np.arange(3, dtype=np.int32)
    floats, ints = ct.POINTER(ct.c_float), ct.POINTER(ct.c_int32)
    params = client.abi.RKLLMCrossAttnParam(
        keys.ctypes.data_as(floats), keys.ctypes.data_as(floats), mask.ctypes.data_as(floats),
        positions.ctypes.data_as(ints), 3,
    )  # fmt: skip
    assert client.call("rkllm_set_cross_attn_params", params) == 0
    assert said(client.run("hi")[1]) == "hi"
    entry = records(tmp_path / "log", "rkllm_set_cross_attn_params")[-1]
    assert entry["keys"] == keys.tobytes().hex() and entry["positions"] == positions.tobytes().hex()


def test_callbacks_of_models_without_tokenizer(tmp_path: Path) -> None:
    path = tmp_path / "bare.rkllm"
    path.write_bytes(model("tokenizer 0", "embed 0", "hidden 4"))
    client = Client("1.3.0")
    client.double.mode(quiet=1)
    heard: list[object] = []

    def tokenizer(userdata: int, text: bytes, length: int, ids: object, room: int) -> int:
        heard.append((userdata, text, length, room > 2))
        ids[0], ids[1] = 7, 8  # type: ignore[index]
        return 2

    def embed(userdata: int, ids: object, count: int, rows: int, size: int) -> int:
        heard.append((userdata, [ids[at] for at in range(count)], size))  # type: ignore[index]
        return 0

    abi = client.abi
    given = {
        "tokenizer_callback": abi.LLMTokenizerCallback(tokenizer), "tokenizer_userdata": 5,
        "embed_callback": abi.LLMGetEmbedCallback(embed), "embed_userdata": 6, "result_userdata": 9,
    }  # fmt: skip
    assert client.init_param(client.param(path), **given) == 0
    client.call("rkllm_set_chat_template", b"", b"", b"")
    _, events = client.run("any text")
    assert [event.token_id for event in events[:-1]] == [7, 8] and events[0].text is None
    assert {event.userdata for event in events} == {9}  # as the run named none
    assert heard == [(5, b"any text", 8, True), (6, [7, 8], 32), (6, [7], 16), (6, [8], 16)]
    client.destroy()


def test_a_model_of_an_unknown_op_is_none(start: Start) -> None:
    with pytest.raises(AssertionError):
        start("1.3.0", "op ecco")
