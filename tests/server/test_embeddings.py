"""OpenAI's embeddings: texts and tokens, floats and base64, models that make none."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tokenizers", reason="needs the package tokenizers (extra server)")

from rknnlite_llm import Embedder, export_llm
from rknnlite_server.settings import ModelSettings, ServerSettings

from tests.support.embedding_models import TOKENIZERS, write_encoder

from .conftest import TINY, Served, running

TEXTS = ["the cat sat on the mat", "chips", "how warm is it today?"]


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("embedding")
    source = write_encoder(folder / "hf", "bert")
    TOKENIZERS["bert"](source / "tokenizer.json")
    export_llm(source, folder / "bert", "f32")
    return folder / "bert"


@pytest.fixture(scope="module")
def server(prefix: Path) -> Iterator[Served]:
    models = (
        ModelSettings(model=f"{prefix}.rknn", alias="bert"),
        ModelSettings(model=str(TINY), alias="talks"),
        ModelSettings(model=str(TINY), alias="both", embedding=True),
    )
    with running(ServerSettings(models=models, parallel=2)) as served:
        yield served


@pytest.fixture(scope="module")
def wanted(prefix: Path) -> np.ndarray:
    with Embedder(prefix) as embedder:
        return embedder.embed(TEXTS)


def _rows(response: Any) -> np.ndarray:
    assert response.status_code == 200, response.text
    data = response.json()["data"]
    assert [(entry["index"], entry["object"]) for entry in data] == [
        (i, "embedding") for i in range(len(data))
    ]
    return np.array([entry["embedding"] for entry in data], np.float32)


def test_texts(server: Served, wanted: np.ndarray) -> None:
    response = server.post("/v1/embeddings", model="bert", input=TEXTS)
    assert np.abs(_rows(response) - wanted).max() < 1e-6
    found = response.json()
    assert (found["object"], found["model"]) == ("list", "bert")
    tokens = found["usage"]["prompt_tokens"]
    assert tokens == found["usage"]["total_tokens"] > 3 * 3
    one = server.post("/embeddings", model="bert", input=TEXTS[0])
    assert np.abs(_rows(one) - wanted[:1]).max() < 1e-6


def test_tokens(server: Served, prefix: Path, wanted: np.ndarray) -> None:
    with Embedder(prefix) as embedder:
        tokens = [embedder.tokens(text) for text in TEXTS]
    assert np.abs(_rows(server.post("/v1/embeddings", model="bert", input=tokens)) - wanted).max() < 1e-6
    one = server.post("/v1/embeddings", model="bert", input=tokens[1])
    assert np.abs(_rows(one) - wanted[1:2]).max() < 1e-6
    assert one.json()["usage"]["prompt_tokens"] == len(tokens[1])


def test_dimensions(server: Served, wanted: np.ndarray) -> None:
    found = _rows(server.post("/v1/embeddings", model="bert", input=TEXTS, dimensions=8))
    cut = wanted[:, :8]
    assert np.abs(found - cut / np.linalg.norm(cut, axis=1)[:, None]).max() < 1e-6


def test_base64_has_the_same_numbers(server: Served) -> None:
    ask = {"model": "bert", "input": TEXTS}
    floats = _rows(server.post("/v1/embeddings", **ask))
    coded = server.post("/v1/embeddings", encoding_format="base64", **ask).json()["data"]
    rows = [np.frombuffer(base64.b64decode(entry["embedding"]), "<f4") for entry in coded]
    assert np.array_equal(np.array(rows), floats)


def test_many_inputs_are_computed_in_batches(server: Served, wanted: np.ndarray) -> None:
    found = _rows(server.post("/v1/embeddings", model="bert", input=TEXTS * 200))
    assert found.shape == (600, 32)
    assert np.abs(found - np.tile(wanted, (200, 1))).max() < 2e-6


def test_a_model_that_generates_embeds_when_told_to(server: Served) -> None:
    found = _rows(server.post("/v1/embeddings", model="both", input="What is 1 + 2?"))
    assert np.isclose(np.linalg.norm(found), 1, atol=1e-5)
    response = server.post("/v1/embeddings", model="talks", input="x")
    error = response.json()["error"]
    assert (response.status_code, error["type"]) == (501, "not_supported_error") and "--embedding" in error[
        "message"
    ]


def test_a_model_of_embeddings_does_not_talk(server: Served) -> None:
    response = server.chat(model="bert")
    assert (response.status_code, response.json()["error"]["type"]) == (501, "not_supported_error")
    assert server.post("/v1/completions", model="bert", prompt="x").status_code == 501
    (card,) = [c for c in server.http.get("/v1/models").json()["data"] if c["id"] == "bert"]
    assert (card["meta"]["n_embd"], card["meta"]["n_ctx"]) == (32, 66)


@pytest.mark.parametrize(
    ("body", "param", "message"),
    [
        ({}, "input", "must be text, tokens"),
        ({"input": []}, "input", "1..2048"),
        ({"input": ["x"] * 2049}, "input", "1..2048"),
        ({"input": ""}, "input", "input is empty"),
        ({"input": ["x", ""]}, "input", "input[1] is empty"),
        ({"input": ["x", 7]}, "input", "input[1] must be text"),
        ({"input": [1, 10**6]}, "input", "token ids in 0..159"),
        ({"input": [1, True]}, "input", "token ids"),
        ({"input": [[]]}, "input", "input[0] must be"),
        ({"input": {"a": 1}}, "input", "must be text"),
        ({"input": "x", "dimensions": 33}, "dimensions", "1..32"),
        ({"input": "x", "dimensions": 0}, "dimensions", "1..32"),
        ({"input": "x", "encoding_format": "int8"}, "encoding_format", "float, base64"),
        ({"input": "cat " * 100}, "input", "the model bert takes 1..66"),
        ({"input": [5] * 67}, "input", "67 tokens long"),
    ],
)  # fmt: skip
def test_bad_requests(server: Served, body: Any, param: str, message: str) -> None:
    response = server.post("/v1/embeddings", model="bert", **body)
    error = response.json()["error"]
    assert (response.status_code, error["type"], error["param"]) == (400, "invalid_request_error", param)
    assert message in error["message"]


def test_the_openai_package_gets_the_same_numbers(server: Served, wanted: np.ndarray) -> None:
    openai = pytest.importorskip("openai", reason="needs the package openai (extra test)")
    client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none")
    for options in ({}, {"encoding_format": "float"}):  # the package asks for base64 by itself
        found = client.embeddings.create(model="bert", input=TEXTS, **options)
        rows = np.array([entry.embedding for entry in found.data])
        assert np.abs(rows - wanted).max() < 1e-6
    coded = client.embeddings.create(model="bert", input=TEXTS, encoding_format="base64").data
    rows = np.array([np.frombuffer(base64.b64decode(entry.embedding), "<f4") for entry in coded])
    assert np.abs(rows - wanted).max() < 1e-6
    short = client.embeddings.create(model="bert", input="chips", dimensions=4)
    assert len(short.data[0].embedding) == 4 and short.usage.prompt_tokens >= 3
    with pytest.raises(openai.BadRequestError):
        client.embeddings.create(model="bert", input="cat " * 100)


# -- Ollama's API ------------------------------------------------------------------------------------------


def test_ollama_embeds(server: Served, wanted: np.ndarray) -> None:
    found = server.post("/api/embed", model="bert:latest", input=TEXTS).json()
    assert np.abs(np.array(found["embeddings"]) - wanted).max() < 1e-6
    usage = server.post("/v1/embeddings", model="bert", input=TEXTS).json()["usage"]
    assert found["prompt_eval_count"] == usage["prompt_tokens"] and found["total_duration"] > 0
    old = server.post("/api/embeddings", model="bert", prompt=TEXTS[1]).json()["embedding"]
    assert np.abs(np.array(old) - wanted[1]).max() < 1e-6
    assert server.post("/api/embed", model="bert", input="").json()["embeddings"] == []
    short = server.post("/api/embed", model="bert", input=TEXTS[0], dimensions=4).json()["embeddings"]
    assert np.array(short).shape == (1, 4) and abs(np.linalg.norm(short) - 1) < 1e-5
    assert server.post("/api/show", model="bert").json()["capabilities"] == ["embedding"]


def test_ollama_cuts_long_texts_unless_told_not_to(server: Served) -> None:
    text = "the cat " * 3000
    (model,) = (model for name, model in server.state.models.items() if name == "bert")
    assert server.post("/api/embed", model="bert", input=text).json()["prompt_eval_count"] == model.limit
    refused = server.post("/api/embed", model="bert", input=text, truncate=False)
    assert refused.status_code == 400 and "shorten it" in refused.json()["error"]
    assert server.post("/api/chat", model="bert", messages=[]).status_code == 501
    assert "--embedding" in server.post("/api/embed", model="talks", input="x").json()["error"]


def test_ollamas_package_embeds(server: Served, wanted: np.ndarray) -> None:
    client = pytest.importorskip("ollama").Client(host=server.url)
    assert np.abs(np.array(client.embed("bert", TEXTS).embeddings) - wanted).max() < 1e-6
    assert np.abs(np.array(client.embeddings("bert", TEXTS[0]).embedding) - wanted[0]).max() < 1e-6


def test_openais_package_embeds(server: Served, wanted: np.ndarray) -> None:
    """It asks for base64 by itself, and reads it."""
    client = pytest.importorskip("openai").OpenAI(base_url=f"{server.url}/v1", api_key="none")
    found = client.embeddings.create(model="bert", input=TEXTS)
    assert np.abs(np.array([entry.embedding for entry in found.data]) - wanted).max() < 1e-6
