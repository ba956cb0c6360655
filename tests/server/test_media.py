"""Pictures in messages, with a network of ours as the encoder: its values are the embeddings that the model sees."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_server.media import media_of
from rknnlite_server.settings import ServerSettings

import rknnlite
from rknnlite.errors import ModelInvalid, ParamInvalid
from rknnlite.spi.llm import ImageBlock, InferParams, MultimodalInput

from .conftest import MODEL, Served, running

Image = pytest.importorskip("PIL.Image")

ENCODER = Path(__file__).parents[1] / "data" / "conv_relu.rk3588.i8.rknn"  # 24 x 24 pixels to 18 x 128 values
SIGHTED = replace(MODEL, model2=str(ENCODER), img_start="[", img_end="]", img_content="~")
TOKENS = 18


@pytest.fixture(scope="module")
def sighted() -> Iterator[Served]:
    with running(ServerSettings(models=(SIGHTED,))) as served:
        yield served


def picture(seed: int, size: tuple[int, int] = (24, 24)) -> tuple[np.ndarray, str]:
    """Noise, as pixels and as a data URL."""
    pixels = np.random.default_rng(seed).integers(0, 256, (*size[::-1], 3)).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return pixels, "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def asked(*urls: str) -> list[dict[str, Any]]:
    parts = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    return [{"role": "user", "content": [*parts, {"type": "text", "text": "What is this?"}]}]


def test_the_model_sees_what_the_encoder_says(sighted: Served) -> None:
    (model,) = sighted.state.models.values()
    for seed in (1, 2):
        pixels, url = picture(seed)
        found = sighted.chat(messages=asked(url), max_tokens=12).json()
        with rknnlite.open(str(ENCODER), backend="cpu") as encoder:
            (values,) = encoder.infer([pixels[None]])
        text = f"[{'~' * TOKENS}]What is this?"
        prompt = f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"
        block = ImageBlock(values.reshape(TOKENS, -1), TOKENS, content="~")
        said: list[int] = []
        calls = replace(
            model.callbacks, result=lambda result, state, said=said: said.extend(result.token_ids)
        )
        session = model.context.session(replace(model.pool._free[0]._params), calls)
        tokens = model.tokenizer.encode(prompt)
        session.run(MultimodalInput(tokens=tokens, image=block), InferParams(max_new_tokens=12))
        session.close()
        assert found["choices"][0]["message"]["content"] == model.tokenizer.decode(said)
        assert found["usage"]["prompt_tokens"] == len(tokens)


def test_a_response_sees_the_same(sighted: Served) -> None:
    _, url = picture(1)
    parts = [
        {"type": "input_image", "image_url": url, "detail": "auto"},
        {"type": "input_text", "text": "What is this?"},
    ]
    asked_for = {"input": [{"role": "user", "content": parts}], "max_output_tokens": 12}
    found = sighted.post("/v1/responses", **asked_for).json()
    chat = sighted.chat(messages=asked(url), max_tokens=12).json()["choices"][0]["message"]
    assert found["output"][0]["content"][0]["text"] == chat["content"]
    sound = [{"type": "input_audio", "input_audio": {"data": "", "format": "wav"}}]
    error = sighted.post("/v1/responses", input=[{"role": "user", "content": sound}]).json()["error"]
    assert error["param"] == "input" and "sound" in error["message"]


def test_several_pictures_streams_and_text_afterwards(sighted: Served) -> None:
    (_, first), (_, second) = picture(1), picture(2, (100, 50))
    one = sighted.chat(messages=asked(first), max_tokens=4).json()["usage"]["prompt_tokens"]
    two = sighted.chat(messages=asked(first, second), max_tokens=4).json()["usage"]["prompt_tokens"]
    assert two == one + TOKENS + 2
    assert sighted.chat(messages=asked(second), max_tokens=4, stream=True).text.endswith("[DONE]\n\n")
    assert sighted.chat().json()["choices"][0]["message"]["content"] == "2 + 3 = 5"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("https://page.example/cat.png", "nothing is fetched"), ("data:image/png;base64,%%%", "damaged"),
        ("data:image/png;base64,aGVsbG8=", "no picture"), ("", "nothing is fetched"), (None, "nothing is fetched"),
    ],
)  # fmt: skip
def test_pictures_that_are_none(sighted: Served, url: Any, said: str) -> None:
    response = sighted.chat(messages=asked(url))
    assert response.status_code == 400 and said in response.json()["error"]["message"]


def test_pictures_that_are_too_many_or_too_large(sighted: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    _, url = picture(1)
    assert "16 are allowed" in sighted.chat(messages=asked(*[url] * 17)).json()["error"]["message"]
    monkeypatch.setattr("rknnlite_server.media.MOST_PIXELS", 100)
    assert "too large" in sighted.chat(messages=asked(url)).json()["error"]["message"]


def test_sound_is_refused(sighted: Served) -> None:
    part = {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}}
    response = sighted.chat(messages=[{"role": "user", "content": [part]}])
    assert response.status_code == 400 and "--mel-filter" in response.json()["error"]["message"]


def test_encoders_that_do_not_fit() -> None:
    with pytest.raises(ModelInvalid, match="width 100"):
        media_of(SIGHTED, str(ENCODER), "", 100)
    with pytest.raises(ParamInvalid, match="24 x 24"):
        media_of(replace(SIGHTED, img_width=32), str(ENCODER), "", 128)
    with pytest.raises(ParamInvalid, match="--img-content"):
        media_of(replace(SIGHTED, img_content=""), str(ENCODER), "", 128)


def test_an_encoder_of_sound_is_told_to_be_without_effect(caplog: pytest.LogCaptureFixture) -> None:
    media_of(replace(MODEL, model3="sound.rknn"), "", "", 128).close()
    assert "--model3 has no effect" in caplog.text
