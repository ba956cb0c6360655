"""Ways to a ``.rkllm`` file: the command line, the server, RKNN3Lite in LLM mode."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_llm.package import no_table

from rknn3lite.api import RKNN3Lite
from rknnlite.abi.rknn3_llm import RKNN3Image
from rknnlite.cli.program import main
from rknnlite.errors import ModelUnsupported
from rknnlite.spi.llm import ImageBlock
from tests.doubles.double import compiler
from tests.doubles.rkllm.standin import build, model, records, tokenizer

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
    from rknnlite_llm import open_llm

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
    assert (told["toolkit_version"], told["soc"], told["dtype"], told["known_head"]) == (
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


@pytest.mark.slow
def test_images_in_the_vendors_llm_mode(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path.write_bytes(model("op show", "hidden 8"))
    rknn = RKNN3Lite(llm_mode=True)
    assert rknn.load_rknn(str(path), None) == 0
    assert rknn.init_runtime(None, 0, llm_args={"max_new_tokens": 99, "max_context_len": 512}) == 0
    rows = np.ones((2, 8), np.float32)
    block = ImageBlock(rows, 2, 1, "[", "]", "~")
    assert "see [**]<" in "".join(rknn.stream("see <image>", inputs=[block]))
    image = RKNN3Image(n_image=1, n_image_tokens=2, image_content=b"~")
    image.image_embed = rows.ctypes.data_as(type(image.image_embed))
    assert rknn.session_run(prompt="see <image>", inputs=[image])[0] == -1
    assert "nobody tells how wide the embeddings of this model are" in capsys.readouterr().err
    rknn.release()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("weight", "target", "args", "said"),
    [
        ("m.weight", None, {}, "holds its weights: give None for weight_path"),
        (None, "rk3588", {}, "runs on the NPU of this board, so give target None"),
        (None, "rk1820", {}, "runs on the NPU of this board, so give target None"),
        (None, None, {"max_context_len": 99999}, "max_context_len is 99999, librkllmrt 1.3.0 has 16384"),
        (None, None, {"vocab_size": 5}, "takes the model's own vocabulary"),
        (None, None, {"seed": 5}, "librkllmrt has no seed"),
        (None, None, {"top_k": 0}, "top_k is 0"),
    ],
)
def test_wrong_arguments_of_the_vendors_llm_mode(
    path: Path, capsys: pytest.CaptureFixture[str], weight: Any, target: Any, args: Any, said: str
) -> None:
    rknn = RKNN3Lite(llm_mode=True)
    assert rknn.load_rknn(str(path), weight) == 0 or weight
    assert weight or rknn.init_runtime(target, 0, llm_args=[args]) == -1
    assert said in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("version", ["1.1.4", "1.3.0"])
def test_speed(
    path: Path, version: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where an answer cannot be told to go on; what was computed before is not computed again in no time."""
    monkeypatch.setenv("RKNNLITE_RKLLM_LIBRARY", str(build(version)))
    monkeypatch.setenv("RKLLM_DOUBLE_LOG", str(path.with_suffix(".log")))
    path.write_bytes(model("op count"))
    assert main(["bench-llm", str(path), "--prompt-tokens", "20", "--new-tokens", "9", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    (row,) = told["rows"]
    assert (row["prompt_tokens"], row["new_tokens"], told["own_bytes"]) == (20, 9, None)
    calls = [entry["call"] for entry in records(path.with_suffix(".log"))]
    if version == "1.3.0":
        runs = [at for at, call in enumerate(calls) if call == "rkllm_run"]
        assert len(runs) == 4 and all("rkllm_clear_kv_cache" in calls[at - 2 : at] for at in runs)
    path.write_bytes(model("op say", "say x"))
    if version == "1.1.4":
        assert main(["bench-llm", str(path), "--prompt-tokens", "20"]) != 0
        assert "ended its answer after 1 tokens" in capsys.readouterr().err


@pytest.mark.slow
def test_doctor(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["doctor", str(path)])
    said = capsys.readouterr().out
    assert "rk3588 w8a8 by its name" in said and "a language model; backend rkllm runs it" in said
    path.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:abc\nsize 5\n")
    assert main(["doctor", str(path)]) != 0
    said = capsys.readouterr().out
    assert "pointer of Git LFS" in said and "runs it" not in said


def test_embeddings_and_scores_are_refused(path: Path) -> None:
    from rknnlite_llm import Embedder, open_llm

    with open_llm(path) as context, pytest.raises(ModelUnsupported, match="a session hands them over"):
        context.embed([[1, 2]], no_table)
    path.with_suffix(".tokenizer.gguf").write_bytes(tokenizer())
    with Embedder(path) as embedder, pytest.raises(ModelUnsupported, match="a session hands them over"):
        embedder.embed("text")


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
