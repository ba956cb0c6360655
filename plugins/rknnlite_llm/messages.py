"""Conversations as OpenAI's API has them: a list of messages, made ready for a model's template.

Templates expect what Hugging Face's tokenizers hand them: text as text, arguments of tool calls as objects. Parts that
are no text become the tags ``<image>``, ``<audio>`` and ``<video>``, whose data go beside the messages (``MessagesInput``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rknnlite.errors import ParamInvalid
from rknnlite.files.json_text import parse_json

__all__ = ["MEDIA_TAGS", "Message", "checked_messages", "leading_system", "media_parts"]

Message = dict[str, Any]

_ROLES = {role: role for role in ("system", "user", "assistant", "tool")}
_ROLES["developer"] = "system"  # OpenAI's newer word
_ROLES["function"] = "tool"  # and an older one
_TAGS = {
    "image": "<image>",
    "image_url": "<image>",
    "input_image": "<image>",
    "audio": "<audio>",
    "audio_url": "<audio>",
    "input_audio": "<audio>",
    "video": "<video>",
    "video_url": "<video>",
}
MEDIA_TAGS = frozenset(_TAGS.values())
"""What stands for parts that are no text."""
_TEXTS = ("text", "input_text", "output_text")
_KEPT = ("name", "reasoning_content", "tool_call_id")
_SHOWN = 60


def checked_messages(messages: Sequence[Mapping[str, Any]]) -> list[Message]:
    """Messages with known roles, text as ``str``, tool calls with parsed arguments; the given ones are not changed.

    Raises ParamInvalid naming the message by its number, from 0.
    """
    if not isinstance(messages, Sequence) or isinstance(messages, (str, bytes)):
        raise ParamInvalid(f"messages are {type(messages).__name__}, must be a list of objects")
    if not messages:
        raise ParamInvalid("messages are empty; a conversation has at least one")
    return [_message(message, f"messages[{number}]") for number, message in enumerate(messages)]


def media_parts(messages: Sequence[Mapping[str, Any]]) -> int:
    """Number of parts that are no text, in messages that have been checked to be such."""
    contents = [message.get("content") for message in messages]
    parts = [part for content in contents if isinstance(content, (list, tuple)) for part in content]
    return sum(part.get("type") in _TAGS for part in parts)


def leading_system(messages: Sequence[Message]) -> list[Message]:
    """The system messages that come before everything else."""
    count = next((i for i, message in enumerate(messages) if message["role"] != "system"), len(messages))
    return list(messages[:count])


def _message(given: Mapping[str, Any], place: str) -> Message:
    if not isinstance(given, Mapping):
        raise ParamInvalid(f"{place} is {type(given).__name__}, must be an object with role and content")
    role = given.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        raise ParamInvalid(f"{place}: role is {_short(role)}, must be system, user, assistant or tool")
    message: Message = {"role": _ROLES[role], "content": _content(given.get("content"), place)}
    calls = given.get("tool_calls")
    if calls:
        if message["role"] != "assistant":
            raise ParamInvalid(
                f"{place}: tool_calls in a message of role {role!r}; only assistants call tools"
            )
        message["tool_calls"] = _calls(calls, place)
    elif given.get("content") is None:
        raise ParamInvalid(f"{place}: content is missing")
    for key in _KEPT:
        value = given.get(key)
        if value is not None:
            if not isinstance(value, str):
                raise ParamInvalid(f"{place}: {key} is {_short(value)}, must be text")
            message[key] = value
    return message


def _content(content: Any, place: str) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence) and not isinstance(content, (bytes, bytearray)):
        return "".join(_part(part, f"{place}.content[{number}]") for number, part in enumerate(content))
    raise ParamInvalid(f"{place}: content is {_short(content)}, must be text or a list of parts")


def _part(part: Any, place: str) -> str:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind in _TEXTS and isinstance(part.get("text"), str):
        return str(part["text"])
    if kind == "refusal" and isinstance(part.get("refusal"), str):
        return str(part["refusal"])
    if isinstance(kind, str) and kind in _TAGS:
        return _TAGS[kind]
    raise ParamInvalid(f"{place} is {_short(part)}; parts are text, image_url, input_audio and video_url")


def _calls(calls: Any, place: str) -> list[dict[str, Any]]:
    if not isinstance(calls, Sequence) or isinstance(calls, (str, bytes)):
        raise ParamInvalid(f"{place}: tool_calls is {_short(calls)}, must be a list")
    return [_call(call, f"{place}.tool_calls[{number}]") for number, call in enumerate(calls)]


def _call(call: Any, place: str) -> dict[str, Any]:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise ParamInvalid(
            f"{place} is {_short(call)}; needed is {{'function': {{'name': ..., 'arguments': ...}}}}"
        )
    made: dict[str, Any] = {
        "type": "function",
        "function": {
            "name": function["name"],
            "arguments": _arguments(function.get("arguments"), place),
        },
    }
    if isinstance(call.get("id"), str):
        made["id"] = call["id"]
    return made


def _arguments(arguments: Any, place: str) -> Any:
    """An object; text that is none stays text, because a model may have said it."""
    if arguments is None or arguments == "":
        return {}
    if isinstance(arguments, Mapping):
        return dict(arguments)
    if not isinstance(arguments, str):
        raise ParamInvalid(f"{place}: arguments are {_short(arguments)}, must be JSON text or an object")
    try:
        parsed = parse_json(arguments)
    except ValueError:
        return arguments
    return parsed if isinstance(parsed, dict) else arguments


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
