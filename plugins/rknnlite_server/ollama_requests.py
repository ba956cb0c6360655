"""Requests of Ollama's API, put into the words of OpenAI's: one reading of options, messages and tools for both."""

from __future__ import annotations

from typing import Any, Optional

from starlette.requests import Request

from .app_state import hold, state_of, taken
from .durations import seconds_of
from .errors import ApiError, bad_request
from .language_models.model_entry import ModelEntry
from .request_body import Body
from .served_model import ServedModel

__all__ = [
    "as_chat",
    "as_completion",
    "chat_messages",
    "entry_of",
    "generate_messages",
    "keep_alive",
    "model_of",
    "name_in",
]

_LATEST = ":latest"
_OPTIONS = (
    "num_predict",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "repeat_penalty",
    "presence_penalty",
    "frequency_penalty",
    "seed",
    "stop",
)
_NEUTRAL = {
    "mirostat": 0,
    "typical_p": 1,
    "tfs_z": 1,
}  # ways of sampling that are not here, and how they are off
_LEVELS = ("low", "medium", "high", "max")
_IMAGES = {"/9j/": "jpeg", "UklG": "webp", "R0lG": "gif"}  # first letters in base64


def name_in(body: Body) -> str:
    """What a request calls its model, without ``:latest``. Raises ApiError."""
    name = body.text("model") or body.text("name")
    if not name:
        raise bad_request("model is required", "model")
    return name


async def entry_of(request: Request, body: Body) -> ModelEntry:
    """The model of a request, open or not; ``NAME:latest`` is ``NAME``. Raises ApiError."""
    state = state_of(request)
    state.check_ready()
    name = name_in(body)
    try:
        return await state.library.find(name if name in state.models else name.removesuffix(_LATEST))
    except ApiError as error:
        if error.status != 404:
            raise
        raise ApiError(
            404, error.kind, f"model '{name[:200]}' not found", "model", "model_not_found"
        ) from None


async def model_of(request: Request, body: Body) -> ServedModel:
    """The same, opened, until the answer is sent; then it stays for ``keep_alive``. Raises ApiError."""
    seconds = keep_alive(body)
    found = await entry_of(request, body)
    held = hold(request, await taken(request, found))
    if seconds is not None:
        held.place.keep = seconds
    return held.model


def as_chat(body: Body, model: ServedModel, messages: list[Any]) -> Body:
    """A request for a chat; raises ApiError."""
    # the template would leave them out without a word
    if body.items("tools") and "tools" not in model.abilities:
        raise bad_request(f'"{model.name}" does not support tools', "tools")
    return Body(
        {**_common(body), **_thinking(body, model), "messages": messages, "tools": body.items("tools")}
    )


def as_completion(body: Body) -> Body:
    """A request for text behind ``prompt``, which no template changes; raises ApiError."""
    return Body({**_common(body), "prompt": body.text("prompt")})


def chat_messages(body: Body) -> list[Any]:
    """``messages``; raises ApiError."""
    return [
        _message(message, f"messages[{number}]")
        for number, message in enumerate(body.items("messages") or [])
    ]


def generate_messages(body: Body, model: ServedModel) -> list[Any]:
    """The conversation of ``/api/generate``; raises ApiError for what only Ollama's own templates can do."""
    if body.has("suffix") and body.text("suffix"):
        raise bad_request(f"{model.name} does not support insert: leave suffix out", "suffix")
    if body.has("template") and body.text("template"):
        raise bad_request(
            "template: Ollama's templates do not work here; put the text together yourself and send it with raw: true",
            "template",
        )
    if body.items("context"):
        raise bad_request(
            "context cannot be continued here; send the whole conversation to /api/chat, its tokens stay cached",
            "context",
        )
    system = [{"role": "system", "content": body.text("system")}] if body.text("system") else []
    said = {"role": "user", "content": body.text("prompt"), "images": body.fields.get("images")}
    return [*system, _message(said, "prompt")]


def keep_alive(body: Body) -> Optional[float]:
    """Seconds that a model stays behind this request, negative for ever; None: as the server was told.

    Raises ApiError for what is no duration.
    """
    value = body.fields.get("keep_alive")
    if value is None or value == "":
        return None
    text = str(value) if isinstance(value, (str, int, float)) and not isinstance(value, bool) else ""
    seconds = seconds_of(text)
    if seconds is None:
        raise body.wrong("keep_alive", "a number of seconds or a duration such as 5m")
    return seconds


def _common(body: Body) -> dict[str, Any]:
    """Options, format and the like. What is about memory and threads was decided when the server started."""
    options = body.object("options")
    for name, neutral in _NEUTRAL.items():
        if options.number(name, neutral, -1e9, 1e9) != neutral:
            raise bad_request(f"options.{name} is not available here; leave it out", f"options.{name}")
    fields = {name: options.fields[name] for name in _OPTIONS if options.has(name)}
    if options.whole("repeat_last_n", -1, -1, 1 << 30) == 0:
        fields.pop("repeat_penalty", None)
    if fields.get("stop") == []:
        del fields["stop"]
    for name in ("logprobs", "top_logprobs"):
        if body.has(name) and (name == "logprobs" or body.flag("logprobs")):
            fields[name] = body.fields[name]
    return {**fields, "stream": body.flag("stream", True), "response_format": _format(body)}


def _format(body: Body) -> Any:
    wanted = body.fields.get("format")
    if wanted is None or wanted == "":
        return None
    if wanted == "json":
        return {"type": "json_object"}
    if isinstance(wanted, dict):
        return {"type": "json_schema", "json_schema": {"schema": wanted}}
    raise body.wrong("format", '"json" or a JSON Schema')


def _thinking(body: Body, model: ServedModel) -> dict[str, Any]:
    think = body.fields.get("think")
    if think is None or think == "":
        return {}
    if not isinstance(think, bool) and think not in _LEVELS:
        raise body.wrong("think", f"true, false or one of {', '.join(_LEVELS)}")
    if think and "thinking" not in model.abilities:
        raise bad_request(f'"{model.name}" does not support thinking', "think")
    return {"chat_template_kwargs": {"enable_thinking": bool(think)}}


def _message(message: Any, place: str) -> Any:
    """One message in OpenAI's form; what is no object is complained about later, with its number."""
    if not isinstance(message, dict):
        return message
    made = {
        key: message[key] for key in ("role", "content", "tool_calls", "tool_call_id") if message.get(key)
    }
    made.setdefault("content", "")
    for theirs, ours in (("thinking", "reasoning_content"), ("tool_name", "name")):
        if message.get(theirs):
            made[ours] = message[theirs]
    images = message.get("images")
    if images:
        if not isinstance(images, list) or not all(isinstance(image, str) for image in images):
            raise bad_request(f"{place}: images must be a list of base64 texts", "messages")
        made["content"] = [*map(_image, images), {"type": "text", "text": made["content"]}]
    return made


def _image(data: str) -> dict[str, Any]:
    kind = _IMAGES.get(data[:4], "png")
    return {"type": "image_url", "image_url": {"url": f"data:image/{kind};base64,{data}"}}
