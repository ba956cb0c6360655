"""Pictures end to end: a vision ``.rknn`` makes the embeddings, a ``.rkllm`` file speaks of them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from rknnlite_llm import open_llm

import rknnlite
from rknnlite.spi.llm import ImageBlock, InferParams, LlmCallbacks, LlmParams, MultimodalInput
from tests.doubles.double import compiler
from tests.doubles.rkllm.standin import build, model, records

if compiler() is None:
    pytest.skip("no C compiler is installed", allow_module_level=True)

ROOT = Path(__file__).parents[2]
TINY = ROOT / "examples" / "llm_chat" / "models" / "tiny.tokenizer.gguf"
ENCODER = ROOT / "tests" / "data" / "conv_relu.rk3588.i8.rknn"
TAGS = ("[", "]", "~")


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RKLLM_DOUBLE_LOG", str(tmp_path / "calls"))
    return tmp_path / "calls"


@pytest.mark.parametrize("version", ["1.1.4", "1.2.3", "1.3.0"])
def test_an_encoder_beside_a_session(version: str, tmp_path: Path, log: Path) -> None:
    path = tmp_path / "m.rkllm"
    path.write_bytes(model("op show", "limit 512"))
    picture = np.random.default_rng(1).integers(0, 256, (1, 24, 24, 3)).astype(np.uint8)
    with rknnlite.open(str(ENCODER), backend="cpu") as encoder:
        (values,) = encoder.infer([picture])
    rows = values.reshape(-1, values.shape[-1])
    said: list[str] = []
    block = ImageBlock(rows, len(rows), 1, *TAGS, width=24, height=24)
    with open_llm(path, backend="rkllm", library=str(build(version)), image_tags=TAGS) as context:
        calls = LlmCallbacks(result=lambda result, state: said.append(result.text or ""))
        session = context.session(LlmParams(512), calls)
        session.run(MultimodalInput("see <image>", image=block), InferParams(max_new_tokens=400))
    assert "*" * len(rows) in "".join(said)
    (run,) = records(log, "rkllm_run")
    assert f'"n_image_tokens": {len(rows)}' in json.dumps(run)


@pytest.mark.parametrize(("version", "backend"), [("1.2.3", ""), ("1.3.0", ""), ("1.3.0", "rkllm")])
def test_pictures_in_messages_of_the_server(
    version: str, backend: str, tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("uvicorn", "httpx", "PIL.Image"):
        pytest.importorskip(package)
    from rknnlite_server.settings import ModelSettings, ServerSettings

    from tests.server.conftest import running
    from tests.server.test_media import asked, picture

    monkeypatch.setenv("RKNNLITE_RKLLM_LIBRARY", str(build(version)))
    path = tmp_path / "m.rkllm"
    path.write_bytes(model("op show"))
    shutil.copy(TINY, path.with_suffix(".tokenizer.gguf"))
    one = ModelSettings(
        model=str(path), alias="m", backend=backend, ctx_size=2048, temp=1.0, model2=str(ENCODER),
        img_start=TAGS[0], img_end=TAGS[1], img_content=TAGS[2],
    )  # fmt: skip
    with running(ServerSettings(models=(one,))) as served:
        found = served.chat(messages=asked(picture(1)[1]), max_tokens=600)
        assert found.status_code == 200, found.text
        rows = served.state.models["m"].media.tokens  # type: ignore[attr-defined]
        twice = served.chat(messages=asked(picture(1)[1], picture(2)[1]), max_tokens=600)
        assert twice.status_code == 200, twice.text
        assert served.chat(max_tokens=5).status_code == 200
    runs = [json.dumps(entry["input"]) for entry in records(log, "rkllm_run")]
    for shown, count in zip(runs, (1, 2)):  # the whole prompt, by the model's template
        assert f'"n_image_tokens": {rows}' in shown and f'"n_image": {count}' in shown
        assert f"<|im_start|>user\\n{'<image>' * count}What is this?<|im_end|>" in shown
