"""The same question by a plain client in C's words and by a session: the library gets the same, and answers the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rknnlite_llm import open_llm
from rknnlite_rkllm.abi.revisions import REVISIONS

from rknnlite.spi.llm import InferParams, LlmCallbacks, LlmParams, PromptInput, SamplingParams
from tests.doubles.double import compiler
from tests.doubles.rkllm.standin import build, model, records
from tests.rkllm.raw import Client, said

pytestmark = pytest.mark.slow

if compiler() is None:
    pytest.skip("no C compiler is installed", allow_module_level=True)

TEXT = "Grüße, 世界 🙂!"
SAMPLING = {"top_k": 40, "top_p": 0.9, "temperature": 0.8, "repeat_penalty": 1.1}


@pytest.mark.parametrize("version", REVISIONS)
def test_a_plain_client_and_a_session(version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, logs = tmp_path / "m.rkllm", [tmp_path / "plain", tmp_path / "session"]
    path.write_bytes(model("op show"))
    monkeypatch.setenv("RKLLM_DOUBLE_LOG", str(logs[0]))
    client = Client(version)
    has = client.abi.has_field
    given: dict[str, Any] = {"max_context_len": 512, "max_new_tokens": 200, **SAMPLING}
    given |= {"skip_special_token": True} if has("RKLLMParam", "skip_special_token") else {}
    given |= {"embed_flash": 1} if has("RKLLMExtendParam", "embed_flash") else {}
    assert client.init(path, **given) == 0
    first = said(
        client.run(client.prompt(TEXT, **({"enable_thinking": False} if has("RKLLMInput", "role") else {})))[
            1
        ]
    )
    client.destroy()
    monkeypatch.setenv("RKLLM_DOUBLE_LOG", str(logs[1]))
    heard: list[str] = []
    with open_llm(
        path, backend="rkllm", library=str(build(version)), in_process=True, max_new_tokens=200
    ) as context:
        calls = LlmCallbacks(result=lambda result, state: heard.append(result.text or ""))
        session = context.session(LlmParams(512, sampling=SamplingParams(**SAMPLING)), calls)
        session.run(PromptInput(TEXT), InferParams(max_new_tokens=200))
    assert "".join(heard) == first
    for call, part in (("rkllm_init", "param"), ("rkllm_run", "input")):
        (plain,), (ours,) = (records(log, call) for log in logs)
        assert ours.get(part) == plain.get(part), call
