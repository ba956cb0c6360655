"""Ways to a ``.rkllm`` file: the command line, the server, RKNN3Lite in LLM mode."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from rknn3lite.api import RKNN3Lite
from rknnlite.cli.program import main
from tests.doubles.double import compiler
from tests.doubles.rkllm.standin import build, model

if compiler() is None:
    pytest.skip("no C compiler is installed", allow_module_level=True)

TINY = Path(__file__).parents[2] / "examples" / "llm_chat" / "models" / "tiny.tokenizer.gguf"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A model of the double that echoes; the library is configured, as on a board."""
    monkeypatch.setenv("RKNNLITE_RKLLM_LIBRARY", str(build("1.3.0")))
    file = tmp_path / "echo_w8a8_rk3588.rkllm"
    file.write_bytes(model("op echo"))
    yield file


def test_the_backend_is_chosen_by_the_file(path: Path) -> None:
    from rknnlite.llm import open_llm

    with open_llm(path) as context:
        assert context.backend_name == "rkllm"
        assert context.versions.library == "librkllmrt"


def test_chat(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chat", str(path), "--ask", "Grüße 🙂", "--ask", "again"]) == 0
    said = capsys.readouterr().out
    assert "Grüße 🙂" in said and "again" in said


def test_info(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["toolkit"], told["soc"], told["dtype"], told["known_head"]) == (
        "1.2.3",
        "rk3588",
        "w8a8",
        True,
    )


def test_the_vendors_llm_mode(path: Path) -> None:
    rknn = RKNN3Lite(llm_mode=True)
    assert rknn.load_rknn(str(path), None) == 0
    assert rknn.init_runtime(None, 0, llm_args=[{"max_new_tokens": 32, "max_context_len": 512}]) == 0
    code, figures = rknn.session_run(prompt="hello")
    assert (code, figures[0]) == (0, 5)
    assert "".join(rknn.stream("Grüße")) == "Grüße"
    rknn.release()


def test_the_server(path: Path) -> None:
    pytest.importorskip("uvicorn")
    pytest.importorskip("httpx")
    from rknnlite_server.settings import ModelSettings, ServerSettings

    from tests.server.conftest import running

    path.write_bytes(model("op count"))
    shutil.copy(TINY, path.with_suffix(".tokenizer.gguf"))
    settings = ServerSettings(models=(ModelSettings(model=str(path), alias="echo", ctx_size=512, temp=0.5),))
    with running(settings) as served:
        answer = served.chat(max_tokens=5)
        assert answer.status_code == 200, answer.text
        assert answer.json()["choices"][0]["finish_reason"] == "length"
        assert answer.json()["usage"]["completion_tokens"] == 5
        streamed = served.chat(max_tokens=5, stream=True)
        assert "[DONE]" in streamed.text
        refused = served.chat(max_tokens=5, seed=3)
        assert refused.status_code == 400 and "no seed" in refused.text
        schema = {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}}
        assert served.chat(response_format=schema).status_code == 501
        assert served.chat(logprobs=True).status_code == 501
