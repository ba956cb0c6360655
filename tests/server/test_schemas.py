"""Schemas as pydantic writes them: whatever a model says at random, each answer that ends is one of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, Optional, Union

import pytest

from .conftest import QUESTION, Served

pydantic: Any = pytest.importorskip("pydantic")
Field: Any = pydantic.Field
SHORT = Field(max_length=6)


class Point(pydantic.BaseModel):  # type: ignore[misc]
    x: int = Field(ge=0, le=99)
    y: Optional[bool] = None


class Circle(pydantic.BaseModel):  # type: ignore[misc]
    kind: Literal["circle"]
    centre: Point
    radius: float = Field(ge=0, le=9)


class Box(pydantic.BaseModel):  # type: ignore[misc]
    kind: Literal["box"]
    corners: list[Point] = Field(max_length=2)
    label: Optional[Annotated[str, SHORT]] = None


class Drawing(pydantic.BaseModel):  # type: ignore[misc]
    title: Optional[Annotated[str, SHORT]]
    shapes: list[Annotated[Union[Circle, Box], Field(discriminator="kind")]] = Field(
        min_length=1, max_length=2
    )
    colour: Literal["red", "blue"] = "red"
    grid: list[Annotated[list[bool], Field(max_length=2)]] = Field(default=[], max_length=2)
    either: Union[bool, Point, None] = None


SCHEMA = Drawing.model_json_schema()
DRAWN = {"temperature": 1.0, "top_k": 0, "top_p": 1.0}


def chat(server: Served, seed: int) -> Any:
    rule = {"type": "json_schema", "json_schema": {"name": "drawing", "schema": SCHEMA}}
    (choice,) = server.chat(response_format=rule, max_tokens=900, seed=seed, **DRAWN).json()["choices"]
    assert choice["finish_reason"] == "stop"
    return choice["message"]["content"]


def responses(server: Served, seed: int) -> Any:
    rule = {"format": {"type": "json_schema", "name": "drawing", "schema": SCHEMA}}
    body = {"input": QUESTION, "text": rule, "max_output_tokens": 900, "seed": seed, **DRAWN}
    answer = server.post("/v1/responses", **body).json()
    assert answer["status"] == "completed"
    return answer["output"][0]["content"][0]["text"]


def messages(server: Served, seed: int) -> Any:
    rule = {"format": {"type": "json_schema", "schema": SCHEMA}}
    body = {
        "model": "tiny",
        "messages": QUESTION,
        "output_config": rule,
        "max_tokens": 900,
        "seed": seed,
        **DRAWN,
    }
    answer = server.post("/v1/messages", **body).json()
    assert answer["stop_reason"] == "end_turn"
    return answer["content"][0]["text"]


def ollama(server: Served, seed: int) -> Any:
    options = {"num_predict": 900, "seed": seed, **DRAWN}
    body = {"model": "tiny", "messages": QUESTION, "format": SCHEMA, "options": options, "stream": False}
    answer = server.post("/api/chat", **body).json()
    assert answer["done_reason"] == "stop"
    return answer["message"]["content"]


@pytest.mark.parametrize("ask", [chat, responses, messages, ollama], ids=lambda ask: ask.__name__)
def test_nested_models_end(server: Served, ask: Callable[[Served, int], Any]) -> None:
    pytest.importorskip("llguidance")
    for seed in range(3):
        assert isinstance(Drawing.model_validate_json(ask(server, seed)), Drawing)
