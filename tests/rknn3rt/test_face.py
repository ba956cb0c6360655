"""Programs written for rknn3-toolkit-lite, on the double: ``rknn3lite.api`` over the backend ``rknn3rt``."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rknn3lite.api import (
    LLMCallState,
    LLMGetEmbedCallback,
    LLMResultCallback,
    LLMTokenizerCallback,
    RKLLMCallback,
    RKNN3Lite,
    RKNN3QueryCmd,
)
from tests.doubles.rknn3.double3 import Double3, model

from .conftest import CNN, HIDDEN, LLM, VOCAB, callbacks

IMAGE = np.arange(72, dtype=np.uint8).reshape(1, 4, 6, 3)
Face = Callable[..., RKNN3Lite]


@pytest.fixture
def face(double: Double3, tmp_path: Path) -> Iterator[Face]:
    """``face(*lines, llm_mode=, **options)``: an initialised ``RKNN3Lite``; released after the test."""
    made: list[RKNN3Lite] = []

    def make(*lines: str, llm_mode: bool = False, core_mask: int = 0, **options: Any) -> RKNN3Lite:
        (tmp_path / "net.rknn").write_bytes(model(*lines, "weight 3"))
        (tmp_path / "net.weight").write_bytes(b"abc")
        rknn = RKNN3Lite(llm_mode)
        made.append(rknn)
        assert rknn.load_rknn(str(tmp_path / "net.rknn"), str(tmp_path / "net.weight")) == 0
        assert rknn.init_runtime("rk1820", core_mask, **options) == 0
        return rknn

    yield make
    for rknn in made:
        rknn.release()


def test_a_network(face: Face, version: str) -> None:
    rknn = face(*CNN, core_mask=1, device_id=RKNN3Lite().get_devices_id()[0])
    wanted = IMAGE.transpose(0, 3, 1, 2).reshape(1, 72) * np.float32(2) + 1
    outputs = rknn.inference(inputs=[IMAGE])
    assert outputs is not None and np.array_equal(outputs[0], wanted)
    attrs = rknn.get_inputs_tensor_attr()
    assert attrs is not None and list(attrs[0].shape[:4]) == [1, 4, 6, 3] and attrs[0].aligned_size == 128
    banner = rknn.get_sdk_version()
    assert banner is not None and f"API: {version}" in banner
    assert rknn.rknn3_query(RKNN3QueryCmd.RKNN3_QUERY_CORE_NUMBER).value == 1
    assert rknn.rknn3_query(RKNN3QueryCmd.RKNN3_QUERY_CORE_MEM_SIZE)[0].weight_size == 3


def test_devices(double: Double3) -> None:
    double.devices(3)
    assert RKNN3Lite().get_devices_id() == [b"pcie-0", b"pcie-1", b"pcie-2"]


def test_a_core_mask_that_does_not_match(
    face: Face, double: Double3, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rknn = face(*CNN)
    assert rknn.init_runtime("rk1820", 0xF) == -1
    assert rknn.inference([IMAGE]) is None
    assert "core mask 0xf does not fit" in capfd.readouterr().err


def test_wrong_inputs(face: Face) -> None:
    rknn = face(*CNN)
    assert rknn.inference([IMAGE[0, 0]]) is None
    assert rknn.inference(None) is None
    assert rknn.inference([IMAGE]) is not None


def test_dynamic_shapes(face: Face) -> None:
    rknn = face(
        "input x float32 nhwc 4 1 4 4 3",
        "output y float32 nchw 4 1 3 4 4",
        "shape 1 4 4 3 1 3 4 4",
        "shape 1 8 6 3 1 3 8 6",
    )
    data = np.random.default_rng(0).random((1, 8, 6, 3), np.float32)
    outputs = rknn.inference([data])
    assert outputs is not None and np.array_equal(outputs[0], data.transpose(0, 3, 1, 2))
    infos = rknn.get_dynamic_shape_infos()
    assert infos is not None and [info["is_current"] for info in infos] == [False, True]


def vendor_style(heard: list[Any]) -> RKLLMCallback:
    """Callbacks as the vendor's example scripts write them."""

    def result(userdata: Any, result_ptr: Any, state: int) -> int:
        found = result_ptr.contents
        heard.append((state, [found.token_ids[i] for i in range(found.num_tokens)]))
        return 0

    def tokenizer(userdata: Any, text: bytes, length: int, tokens: Any, room: int) -> int:
        ids = list(text.decode("utf-8").encode())
        for i, token in enumerate(ids):
            tokens[i] = token
        return len(ids)

    def embed(userdata: Any, tokens: Any, count: int, where: Any, size: int) -> int:
        if size != count * HIDDEN * 2:
            return -1
        rows = np.zeros((count, HIDDEN), np.float16)
        rows[:, 0] = [tokens[i] for i in range(count)]
        ctypes.memmove(where, rows.ctypes.data, size)
        return 0

    callback = RKLLMCallback()
    callback.result_callback = LLMResultCallback(result)
    callback.tokenizer_callback = LLMTokenizerCallback(tokenizer)
    callback.embed_callback = LLMGetEmbedCallback(embed)
    return callback


ARGS = [{"vocab_size": VOCAB, "max_context_len": 128, "max_new_tokens": 64, "special_eos_id": 299}]


def test_a_chat(face: Face) -> None:
    heard: list[Any] = []
    rknn = face(
        *LLM, "generate echo", llm_mode=True, core_mask=3, llm_args=ARGS, llm_callback=vendor_style(heard)
    )
    assert rknn.set_chat_template("", "<", ">") == 0
    for prompt in ("Grüße", "你好"):
        heard.clear()
        code, (decoded, prefilled, begin, end) = rknn.session_run(prompt=prompt)
        text = bytes(i for _, ids in heard for i in ids).decode()
        assert code == 0 and text == f"<{prompt}>" and begin < end
        assert prefilled == len(text.encode()) and decoded >= prefilled
        assert heard[-1][0] == LLMCallState.RKLLM_RUN_FINISH and LLMCallState.RKLLM_RUN_WAITING in [
            s for s, _ in heard
        ]
    state = rknn.session_query_state()
    assert state is not None and state.n_max_tokens == 128
    assert rknn.clear_kvcache() == 0


def test_embeds_and_tokens(face: Face) -> None:
    heard: list[Any] = []
    rknn = face(*LLM, llm_mode=True, core_mask=3, llm_args=ARGS, llm_callback=vendor_style(heard))
    rows = np.zeros((1, 2, HIDDEN), np.float16)
    rows[0, :, 0] = 7, 8
    assert rknn.session_run(embeds=rows, max_new_tokens=2)[0] == 0
    assert rknn.session_run(tokens=[30], max_new_tokens=1)[0] == 0
    assert [i for _, ids in heard for i in ids] == [9, 10, 31]


def test_streaming_and_stopping(face: Face, double: Double3) -> None:
    rknn = face(*LLM, "generate echo", llm_mode=True, core_mask=3, llm_callback=callbacks())
    pieces = rknn.stream("häl你o", decode=lambda ids: bytes(ids).decode("utf-8", "replace"))
    assert "".join(pieces) == "häl你o"
    double.latency(300)
    long = rknn.stream("x" * 100, decode=lambda ids: bytes(ids).decode("utf-8", "replace"))
    assert next(long) == "x"
    long.close()
    assert rknn.session_run(prompt="y")[0] == 0


def test_stop_inside_a_callback(face: Face) -> None:
    seen: list[int] = []

    def result(found: Any, state: int) -> None:
        seen.append(state)
        if len(seen) == 3:
            assert rknn.session_stop() == 0

    rknn = face(*LLM, llm_mode=True, core_mask=3, llm_callback=callbacks(result=result))
    assert rknn.session_run(tokens=[1], max_new_tokens=200)[0] == 0
    assert seen[-1] == LLMCallState.RKLLM_RUN_STOP


def test_an_exception_in_a_callback_is_raised(face: Face) -> None:
    def embed(tokens: Any) -> Any:
        raise LookupError("no such row")

    rknn = face(*LLM, llm_mode=True, core_mask=3, llm_callback=callbacks(embed=embed))
    with pytest.raises(LookupError, match="no such row"):
        rknn.session_run(tokens=[1])


def test_kv_cache_and_policy(face: Face, tmp_path: Path) -> None:
    rknn = face(*LLM, llm_mode=True, core_mask=3, llm_callback=callbacks())
    assert rknn.session_run(tokens=[1, 2, 3], max_new_tokens=1)[0] == 0
    assert rknn.save_kvcache(str(tmp_path / "kv")) == 0
    assert rknn.clear_kvcache() == 0
    assert rknn.load_kvcache(str(tmp_path / "kv")) == 0
    state = rknn.session_query_state()
    assert state is not None and state.n_total_tokens == 3
    assert rknn.load_kvcache(str(tmp_path / "none")) == -1
    assert rknn.set_kvcache_policy(2) == 0
    assert rknn.set_function_tools([{"name": "clock"}]) == 0


def test_release_gives_everything_back(face: Face, double: Double3) -> None:
    rknn = face(*LLM, llm_mode=True, core_mask=3, llm_callback=callbacks())
    rknn.session_run(tokens=[1], max_new_tokens=2)
    rknn.release()
    rknn.release()
    assert double.live() == {}
    assert rknn.init_runtime("rk1820", 3) == 0
