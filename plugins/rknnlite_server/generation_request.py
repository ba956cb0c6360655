"""What a request for text asks for: sampling, limits, stop strings, what the answer must look like."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional

from rknnlite_llm.constraints import Choice, Gbnf, JsonObject, JsonSchema, Lark, Regex, Rule

from rknnlite.spi.llm import SamplingParams

from .errors import ApiError, bad_request
from .request_body import Body
from .served_model import ServedModel

__all__ = ["Common", "common", "response_rule", "room", "top_logprobs"]

_MOST_STOPS = 16
_MOST_CHOICES = 16
_MOST_TOP = 20
_MOST_BIASES = 1024
_LONGEST_ID = 12
_SEEDS = 2**64
"""Any whole number of 64 bits is a seed, with a sign or without; -1 is none."""


@dataclass(frozen=True)
class Common:
    """What chat and plain completions have in common. ``top`` None: no probabilities are asked for."""

    sampling: SamplingParams
    stop: tuple[str, ...]
    count: int
    stream: bool
    usage_in_stream: bool
    top: Optional[int]


def common(body: Body, model: ServedModel, top: Optional[int]) -> Common:
    """Read the fields; raises ApiError."""
    options = body.object("stream_options")
    return Common(
        _sampling(body, model),
        _stops(body) if body.has("stop") else model.settings.made.stop,
        body.whole("n", 1, 1, _MOST_CHOICES),
        body.flag("stream"),
        options.flag("include_usage"),
        top,
    )


def _stops(body: Body) -> tuple[str, ...]:
    stops = body.texts("stop", _MOST_STOPS)
    if any(not stop for stop in stops):
        raise body.wrong("stop", "text of one character or more")
    return stops


def _sampling(body: Body, model: ServedModel) -> SamplingParams:
    default = model.settings.sampling
    repeat = "repeat_penalty" if body.has("repeat_penalty") else "repetition_penalty"
    return SamplingParams(
        top_k=body.whole("top_k", default.top_k, -1, 1 << 30),
        top_p=body.number("top_p", default.top_p, 0, 1),
        temperature=body.number("temperature", default.temperature, 0, 100),
        repeat_penalty=body.number(repeat, default.repeat_penalty, 0.01, 100),
        frequency_penalty=body.number("frequency_penalty", default.frequency_penalty, -100, 100),
        presence_penalty=body.number("presence_penalty", default.presence_penalty, -100, 100),
        seed=_seed(body, model.settings.made.seed),
        min_p=body.number("min_p", model.settings.made.min_p, 0, 1),
        logit_bias=_biases(body, model.config.vocab_size),
    )


def _seed(body: Body, default: int) -> Optional[int]:
    """A seed from 0 up; None: each answer has another."""
    seed = body.whole("seed", default, -_SEEDS // 2, _SEEDS - 1)
    return None if seed == -1 else seed % _SEEDS


def _biases(body: Body, vocab: int) -> tuple[tuple[int, float], ...]:
    biases = body.object("logit_bias")
    if len(biases.fields) > _MOST_BIASES:
        raise bad_request(
            f"logit_bias has {len(biases.fields)} entries, {_MOST_BIASES} are allowed", "logit_bias"
        )
    found = []
    for key in biases.fields:
        if not (key.isascii() and key.isdigit() and len(key) < _LONGEST_ID and int(key) < vocab):
            raise bad_request(
                f"logit_bias names {key[:40]!r}, must be a token id in 0..{vocab - 1}", "logit_bias"
            )
        found.append((int(key), biases.number(key, 0, -100, 100)))
    return tuple(found)


def top_logprobs(body: Body) -> Optional[int]:
    """How many likely tokens a chat wants beside each; None for no probabilities at all."""
    if not body.flag("logprobs"):
        if body.has("top_logprobs"):
            raise bad_request("top_logprobs needs logprobs: true", "top_logprobs")
        return None
    return body.whole("top_logprobs", 0, 0, _MOST_TOP)


def room(body: Body, model: ServedModel, prompt: int) -> int:
    """Tokens that may be generated behind so many; raises ApiError when the prompt does not fit."""
    left = model.limit - prompt
    if left < 1:
        raise ApiError(
            400,
            "invalid_request_error",
            f"the prompt has {prompt} tokens, the context of {model.name} holds {model.limit} and needs room for an answer",
            "messages",
            "context_length_exceeded",
        )
    names = ("max_completion_tokens", "max_tokens", "n_predict", "num_predict")
    name = next((name for name in names if body.has(name)), None)
    wanted = body.whole(name, -1, -2, 1 << 30) if name else model.settings.predict
    if name and wanted == 0:
        raise body.wrong(name, "1 or more; -1 means as much as fits")
    return left if wanted < 0 else min(left, wanted)


def response_rule(body: Body) -> Optional[Rule]:
    """What the answer must look like; None when anything will do."""
    rules = [rule for rule in (_format(body.object("response_format")), *_others(body)) if rule is not None]
    if len(rules) > 1:
        raise bad_request(
            "the answer cannot be bound twice: give one of response_format, json_schema, grammar and regex"
        )
    return rules[0] if rules else None


def _format(body: Body) -> Optional[Rule]:
    kind = body.text("type", "text", ("text", "json_object", "json_schema"))
    if kind == "text":
        return None
    if kind == "json_object":
        return JsonSchema(body.object("schema").fields) if body.has("schema") else JsonObject()
    inner = body.object("json_schema")
    if not inner.has("schema"):
        raise bad_request(f"{inner.name('schema')} is missing", inner.name("schema"))
    return JsonSchema(_schema(inner.fields["schema"], inner.name("schema")))


def _schema(value: Any, name: str) -> Any:
    if not isinstance(value, (dict, bool)):
        raise bad_request(f"{name} must be a JSON Schema", name)
    return value


def _others(body: Body) -> list[Optional[Rule]]:
    """The words of other servers for the same."""
    choices = body.items("guided_choice")
    if choices is not None and not (
        choices and all(isinstance(choice, str) and choice for choice in choices)
    ):
        raise body.wrong("guided_choice", "a list of texts")
    return [
        JsonSchema(_schema(body.fields[name], name)) if body.has(name) else None
        for name in ("json_schema", "guided_json")
    ] + [
        Gbnf(body.text("grammar")) if body.has("grammar") else None,
        Lark(body.text("guided_grammar")) if body.has("guided_grammar") else None,
        Regex(body.text("guided_regex")) if body.has("guided_regex") else None,
        Choice(tuple(choices)) if choices else None,
    ]
