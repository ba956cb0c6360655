"""Language models that cannot be opened, and arguments that mean nothing."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_llm import Package, export_llm

from rknn3lite.api import RKNN3Lite
from tests.rknn3.conftest import ARGS, Opener, Talk
from tests.support.llm_models import write_model

Captured = pytest.CaptureFixture[str]


def loaded(model: Any, weight: Any) -> RKNN3Lite:
    rknn = RKNN3Lite(llm_mode=True)
    assert rknn.load_rknn(model, weight) == 0
    return rknn


def last_line(capsys: Captured) -> str:
    printed = capsys.readouterr()
    assert "Traceback" not in printed.err and not printed.out
    return printed.err.splitlines()[-1]


def test_both_files_are_needed(package: Package, tmp_path: Path, capsys: Captured) -> None:
    rknn = RKNN3Lite(llm_mode=True)
    for model, weight in (
        (package.model, tmp_path / "w"),
        (tmp_path / "m", package.weight),
        (package.model, None),
    ):
        assert rknn.load_rknn(model, weight) == -1
        assert last_line(capsys) == f"E Invalid RKNN weight path or model path: {weight} or {model}"
    assert rknn.init_runtime("rk1820", 0xFF) == -1
    assert "Model is not loaded yet" in last_line(capsys)


def test_wrong_and_damaged_files(package: Package, tmp_path: Path, capsys: Captured) -> None:
    short, other = tmp_path / "short.weight", tmp_path / "other"
    short.write_bytes(package.weight.read_bytes()[:-100])
    write_model(other / "hf", "qwen2", seed=5, vocab_size=320)
    stranger = export_llm(other / "hf", other / "tiny", "f32")
    junk = tmp_path / "junk.rknn"
    junk.write_bytes(b"junk" * 100)
    empty = tmp_path / "empty"
    empty.touch()
    cut = tmp_path / "cut.rknn"
    cut.write_bytes(package.model.read_bytes()[:200])
    for model, weight in (
        (package.model, short),
        (package.model, package.embed),
        (package.model, empty),
        (package.model, stranger.weight),
        (package.weight, package.model),
        (junk, package.weight),
        (empty, package.weight),
        (cut, package.weight),
    ):
        rknn = loaded(model, weight)
        assert rknn.init_runtime("rk1820", 0xFF) == -1
        assert last_line(capsys).startswith("E ")
        assert rknn.rknn_runtime is None and rknn.llm is None
        assert rknn.session_run(prompt="x") == (-1, [])
        rknn.release()


def test_core_masks_must_match_the_model(package: Package, capsys: Captured) -> None:
    rknn = loaded(package.model, package.weight)
    for mask in (0x0F, 1, 0x1FF, 0xFF00, -1):
        assert rknn.init_runtime("rk1820", mask) == -1
        line = last_line(capsys)
    assert rknn.init_runtime("rk1820", 0x0F) == -1
    line = last_line(capsys)
    assert line.startswith("E rknn3_model_init, core_mask f is not match with npu core number 8!")
    for mask in (0, 0xFF, 0xFFFFFFFF, RKNN3Lite.RKNN3CoreMask.RKNN3_NPU_CORE_ALL):
        assert rknn.init_runtime("rk1828", mask) == 0
    rknn.release()


def test_a_library_that_was_asked_for_and_is_not_there(
    package: Package, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setenv("RKNNLITE_BACKEND", "rknnrt3")
    for llm in (False, True):
        rknn = RKNN3Lite(llm_mode=llm)
        rknn.load_rknn(package.model, package.weight)
        assert rknn.init_runtime("rk1820", 0xFF) == -1
        line = last_line(capsys)
        assert line.startswith("E Catch exception when load library!") and "rknnrt3" in line


@pytest.mark.parametrize(
    "args",
    [
        7, "top_k", [7], [], {"top_k": "many"}, {"top_p": None}, {"top_p": 3.0}, {"temperature": -1},
        {"vocab_size": 321}, {"vocab_size": -1}, {"max_context_len": 257}, {"max_context_len": -5},
        {"special_eos_id": 320}, {"special_eos_id": "end"}, {"special_bos_id": [1] * 65}, {"logits_name": 5},
        {"repeat_penalty": 0}, {"max_new_tokens": 2.5},
    ],
)  # fmt: skip
def test_arguments_that_mean_nothing(args: Any, package: Package, talk: Talk, capsys: Captured) -> None:
    rknn = loaded(package.model, package.weight)
    assert rknn.init_runtime("rk1820", 0xFF, args, talk.callback()) == -1
    assert last_line(capsys).startswith("E Catch exception when init llm session!")
    assert rknn.llm is None and rknn.rknn_runtime is None
    rknn.release()


@pytest.mark.parametrize(
    "args",
    [
        None, {}, (ARGS,), [ARGS, {"top_k": "ignored"}], {"logits_name": "logits"}, {"logits_name": b"output"},
        {"mirostat": 2}, {"special_eos_id": -1, "special_bos_id": [-1]}, {"max_context_len": 128, "seed": 4},
        {"top_k": np.int64(3), "top_p": np.float32(0.5), "keep_history": True},
    ],
)  # fmt: skip
@pytest.mark.usefixtures("extras")
def test_arguments_that_are_well(args: Any, package: Package, talk: Talk) -> None:
    rknn = loaded(package.model, package.weight)
    assert rknn.init_runtime("rk1820", 0xFF, args, talk.callback()) == 0
    assert rknn.session_run(tokens=[1, 2], max_new_tokens=1)[0] == 0
    rknn.release()


def test_what_a_run_may_be_given(rknn: RKNN3Lite, talk: Talk, capsys: Captured) -> None:
    rows = talk.table[:3]
    turns: list[tuple[dict[str, Any], str]] = [
        ({}, "nothing was given"),
        ({"prompt": "x", "embeds": rows}, "prompt and embeds were given together"),
        ({"prompt": "x", "tokens": [1]}, "prompt and tokens were given together"),
        ({"tokens": []}, "one or more token ids"),
        ({"tokens": [[1], [2]]}, "one or more token ids"),
        ({"tokens": [0.5]}, "one or more token ids"),
        ({"tokens": [320]}, "token id 320"),
        ({"tokens": [-1]}, "token id -1"),
        ({"tokens": "abc"}, "one or more token ids"),
        ({"prompt": 7}, "the prompt is int, not str"),
        ({"prompt": "x", "max_new_tokens": 0}, "max_new_tokens is 0"),
        ({"prompt": "x", "max_new_tokens": -1}, "max_new_tokens is -1"),
        ({"prompt": "x", "max_new_tokens": "many"}, ""),
        ({"prompt": "x" * 300}, "tokens long, the context holds 256"),
        ({"embeds": rows.astype(np.int8)}, "needed is float16"),
        ({"embeds": rows[:, :-1]}, "needed is float16"),
        ({"embeds": rows[:0]}, "needed is float16"),
        ({"embeds": np.stack([rows, rows])}, "a run takes one sequence"),
        ({"embeds": [[0.0], [0.0, 0.0]]}, ""),
        ({"embeds": "rows"}, "needed is float16"),
        ({"embeds": np.full_like(rows, np.inf)}, "not finite"),
        ({"embeds": rows, "inputs": [object()]}, "inputs holds a object"),
    ]
    for turn, text in turns:
        talk.calls.clear()
        assert rknn.session_run(**turn) == (-1, [])
        printed = capsys.readouterr().err
        assert text in printed and "E Catch exception when running LLM model." in printed
        assert set(talk.states) <= {5}
    assert rknn.session_run(prompt="x")[0] == 0


def test_a_prompt_that_is_nothing_but_template(rknn: RKNN3Lite, capsys: Captured) -> None:
    assert rknn.set_chat_template("", "", "") == 0
    assert rknn.session_run(prompt="") == (-1, [])
    capsys.readouterr()
    for parts in ((None, "", ""), (1, 2, 3)):
        assert rknn.set_chat_template(*parts) == -1
        assert "E Catch exception when setting chat template." in last_line(capsys)
    assert rknn.set_chat_template(b"", "Q: ", "") == 0
    assert rknn.session_run(prompt="\U0001f600\0\ud800")[0] == 0


def test_everything_without_a_session(package: Package, capsys: Captured) -> None:
    rknn = RKNN3Lite(llm_mode=True)
    answers = [
        rknn.session_run(prompt="x"), rknn.session_run_async(prompt="x"), rknn.session_wait(),
        rknn.session_stop(), rknn.session_query_state(), rknn.set_chat_template("", "", ""),
        rknn.set_function_tools("[]"), rknn.set_llm_param({}), rknn.set_kvcache_policy(), rknn.clear_kvcache(),
        rknn.save_kvcache("x"), rknn.load_kvcache("x"), rknn.init_llm_session(), rknn.get_inputs_tensor_attr(),
        rknn.rknn3_query(0), rknn.create_output_tensors(), rknn.destroy_mem(None), rknn.inference([]),
    ]  # fmt: skip
    failed = ((-1, []), -1, None, (None, 0))
    assert all(answer in failed for answer in answers)
    printed = capsys.readouterr().err
    text = "LLM runtime environment is not inited, please call init_runtime and set llm_init first!"
    assert printed.count(text) == 13 and "Traceback" not in printed
    assert "please use session_run for LLM model inference!" in printed
    rknn.release()


def test_release_twice_and_use_after_it(opened: Opener, talk: Talk, capsys: Captured) -> None:
    rknn = opened()
    session = rknn.llm
    rknn.release()
    rknn.release()
    assert rknn.llm is None and rknn.model_data is not None
    assert rknn.session_run(prompt="x") == (-1, [])
    assert session.core.state().n_total_tokens == 0  # the closed session still answers
    assert rknn.init_runtime("rk1820", 0xFF, [ARGS], talk.callback()) == 0
    assert rknn.session_run(prompt="x")[0] == 0


def test_a_second_init_drops_the_first(opened: Opener, talk: Talk) -> None:
    rknn = opened()
    rknn.session_run(prompt="x")
    assert rknn.init_runtime("rk1820", 0xFF, [ARGS], talk.callback()) == 0
    assert rknn.session_query_state().n_total_tokens == 0


@pytest.mark.usefixtures("extras")
def test_the_files_may_go_after_loading(package: Package, talk: Talk, tmp_path: Path) -> None:
    for path in (package.model, package.weight):
        shutil.copy(path, tmp_path)
    rknn = loaded(tmp_path / package.model.name, tmp_path / package.weight.name)
    for path in tmp_path.iterdir():
        path.unlink()
    assert rknn.init_runtime("rk1820", 0xFF, [ARGS], talk.callback()) == 0
    assert rknn.session_run(prompt="x")[0] == 0
    rknn.release()
