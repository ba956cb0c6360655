"""Requests of Anthropic's Messages API, put into the words of OpenAI's: one reading of options, messages and tools for both."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request

from .errors import ApiError, bad_request
from .request_body import Body
from .served_model import ServedModel

__all__ = ["as_chat", "check_version"]

_VERSIONS = ("2026-10-21", "2023-06-01")
"""Versions of the API. The newer one leaves fields out that are still read here, such as ``temperature``."""
_ROLES = ("user", "assistant", "system")
_SAME = ("stream", "temperature", "top_k", "top_p", "seed")
"""Fields that are called the same; ``seed`` is no field of Anthropic's, and useful here."""
_THEIR_SERVERS = ("container", "mcp_servers")
"""Fields that ask for work on Anthropic's own servers."""
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}
_MOST_STOPS = 16
_BETWEEN_TURNS = {"type": "text", "text": "\n\n"}


def check_version(request: Request) -> None:
    """Raise ApiError for a version of the API that is not served; without the header it is the newest."""
    version = request.headers.get("anthropic-version", _VERSIONS[0])
    if version not in _VERSIONS:
        raise bad_request(f"anthropic-version: {version[:40]!r} is none of {', '.join(_VERSIONS)}")


def as_chat(body: Body, model: ServedModel, counting: bool = False) -> Body:
    """A request for a chat; ``counting``: its tokens are to be counted, no answer is wanted. Raises ApiError."""
    for name in _THEIR_SERVERS:
        if body.has(name) and body.fields[name]:
            raise bad_request(f"{name}: nothing is run on this server; leave it out", name)
    fields = {name: body.fields[name] for name in _SAME if body.has(name)}
    if not counting:
        if not body.has("max_tokens"):
            raise bad_request("max_tokens: Field required", "max_tokens")
        fields["max_tokens"] = body.whole("max_tokens", 1, 1, 1 << 30)
    stops = body.texts("stop_sequences", _MOST_STOPS)
    if not all(stops):
        raise body.wrong("stop_sequences", "a list of texts of one character or more")
    if stops:
        fields["stop"] = list(stops)
    messages = [*_system(body), *_messages(body)]
    return Body(
        {
            **fields,
            **_tools(body, model),
            **_thinking(body, model),
            "messages": messages,
            "continue_final_message": bool(messages) and messages[-1]["role"] == "assistant",
            "response_format": _format(body),
        }
    )


def _system(body: Body) -> list[dict[str, Any]]:
    system = body.fields.get("system")
    return [{"role": "system", "content": _parts(system, "system")}] if system else []


def _messages(body: Body) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    for number, message in enumerate(body.items("messages") or []):
        place = f"messages.{number}"
        if not isinstance(message, dict):
            raise bad_request(f"{place}: Input should be an object with role and content", "messages")
        role = message.get("role")
        if role not in _ROLES:
            raise bad_request(
                f"{place}.role: {str(role)[:40]!r}, must be one of {', '.join(_ROLES)}", "messages"
            )
        read = _answer if role == "assistant" else _said
        for piece in read(role, message.get("content"), f"{place}.content"):
            _add(made, piece)
    return made


def _add(made: list[dict[str, Any]], message: dict[str, Any]) -> None:
    """One more message; turns of the same role in a row are one turn, as Anthropic's API has it."""
    last = made[-1] if made else {"role": ""}
    if last["role"] != message["role"] or message["role"] == "tool":
        made.append(message)
        return
    between = [_BETWEEN_TURNS] if last["content"] and message["content"] else []
    last["content"] = [*last["content"], *between, *message["content"]]
    for name, empty in (("tool_calls", []), ("reasoning_content", "")):
        if name in message:
            last[name] = last.get(name, empty) + message[name]


def _said(role: str, content: Any, place: str) -> list[dict[str, Any]]:
    """What a user says; each result of a tool becomes a message of its own."""
    if not isinstance(content, list):
        return [{"role": role, "content": _parts(content, place)}]
    made: list[dict[str, Any]] = []
    for number, block in enumerate(content):
        where = f"{place}.{number}"
        if isinstance(block, dict) and block.get("type") == "tool_result":
            name = block.get("tool_use_id")
            if not isinstance(name, str) or not name:
                raise bad_request(f"{where}.tool_use_id: Field required", "messages")
            result = _parts(block.get("content") or "", f"{where}.content")
            if block.get("is_error") is True:  # no template has a word for it
                result.insert(0, {"type": "text", "text": "Error: "})
            made.append({"role": "tool", "tool_call_id": name, "content": result})
        elif made and made[-1]["role"] == role:
            made[-1]["content"] += _part(block, where)
        else:
            made.append({"role": role, "content": _part(block, where)})
    return made


def _answer(role: str, content: Any, place: str) -> list[dict[str, Any]]:
    """An earlier answer: text, thoughts and calls of tools."""
    if not isinstance(content, list):
        return [{"role": role, "content": _parts(content, place)}]
    message: dict[str, Any] = {"role": role, "content": []}
    for number, block in enumerate(content):
        kind = block.get("type") if isinstance(block, dict) else None
        where = f"{place}.{number}"
        if kind == "thinking":
            if not isinstance(block.get("thinking"), str):
                raise bad_request(f"{where}.thinking: Input should be a valid string", "messages")
            message["reasoning_content"] = message.get("reasoning_content", "") + block["thinking"]
        elif kind == "tool_use":
            message.setdefault("tool_calls", []).append(_call(block, where))
        elif kind != "redacted_thinking":  # which nobody but Anthropic can read
            message["content"] += _part(block, where)
    return [message]


def _call(block: Mapping[str, Any], place: str) -> dict[str, Any]:
    name, given, made = block.get("id"), block.get("input", {}), block.get("name")
    if not isinstance(name, str) or not isinstance(made, str) or not isinstance(given, dict):
        raise bad_request(f"{place} must be {{type: tool_use, id, name, input: an object}}", "messages")
    arguments = json.dumps(given, ensure_ascii=False)
    return {"id": name, "type": "function", "function": {"name": made, "arguments": arguments}}


def _parts(content: Any, place: str) -> list[dict[str, Any]]:
    """Text or a list of blocks as parts of a message."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list):
        raise bad_request(f"{place}: Input should be a valid string or a list of blocks", "messages")
    return [part for number, block in enumerate(content) for part in _part(block, f"{place}.{number}")]


def _part(block: Any, place: str) -> list[dict[str, Any]]:
    """A block of text, a picture or a document of text."""
    kind = block.get("type") if isinstance(block, dict) else None
    if kind == "text" and isinstance(block.get("text"), str):
        return [{"type": "text", "text": block["text"]}]
    source = block.get("source") if isinstance(block, dict) else None
    if kind == "image" and isinstance(source, dict):
        return [{"type": "image_url", "image_url": {"url": _picture(source, place)}}]
    if kind == "document" and isinstance(source, dict):
        return _document(source, place)
    if kind == "search_result":
        return _parts(block.get("content"), f"{place}.content")
    raise bad_request(
        f"{place}: a block of type {str(kind)[:40]!r} cannot be read here; "
        "text, image, document, search_result, tool_use, tool_result and thinking can, each with its fields",
        "messages",
    )


def _picture(source: Mapping[str, Any], place: str) -> str:
    kind, data = source.get("media_type"), source.get("data")
    if source.get("type") != "base64" or not isinstance(kind, str) or not isinstance(data, str):
        raise bad_request(
            f"{place}.source must be {{type: base64, media_type, data}}; nothing is fetched", "messages"
        )
    return f"data:{kind};base64,{data}"


def _document(source: Mapping[str, Any], place: str) -> list[dict[str, Any]]:
    if source.get("type") == "text" and isinstance(source.get("data"), str):
        return [{"type": "text", "text": source["data"]}]
    if source.get("type") == "content":
        return _parts(source.get("content"), f"{place}.source.content")
    raise bad_request(f"{place}.source: documents of text are read here, others are not", "messages")


def _tools(body: Body, model: ServedModel) -> dict[str, Any]:
    tools = [_tool(tool, f"tools.{number}") for number, tool in enumerate(body.items("tools") or [])]
    choice = body.object("tool_choice")
    kind = choice.text("type", "auto", ("auto", "any", "tool", "none"))
    if not tools:
        return {"tool_choice": "required"} if kind in ("any", "tool") else {}
    # the template would leave them out without a word
    if "tools" not in model.abilities:
        raise bad_request(f"{model.name} does not support tools", "tools")
    wanted: Any = _CHOICES.get(kind) or {"type": "function", "function": {"name": choice.text("name")}}
    several = not choice.flag("disable_parallel_tool_use")
    return {"tools": tools, "tool_choice": wanted, "parallel_tool_calls": several}


def _tool(tool: Any, place: str) -> dict[str, Any]:
    kind = tool.get("type") if isinstance(tool, dict) else None
    if not isinstance(tool, dict) or kind not in (None, "custom"):
        raise bad_request(
            f"{place}: a tool of type {str(kind)[:40]!r} is Anthropic's own, and not served here; give name and input_schema",
            "tools",
        )
    if not isinstance(tool.get("input_schema"), dict):
        raise bad_request(f"{place}.input_schema: Input should be a JSON Schema", "tools")
    function = {"name": tool.get("name"), "parameters": tool["input_schema"]}
    if tool.get("description"):
        function["description"] = tool["description"]
    return {"type": "function", "function": function}


def _thinking(body: Body, model: ServedModel) -> dict[str, Any]:
    """``enabled`` demands a model that thinks, ``adaptive`` takes what there is."""
    thinking = body.object("thinking")
    kind = thinking.text("type", "disabled", ("enabled", "disabled", "adaptive", "between_tools"))
    able = "thinking" in model.abilities
    if kind == "enabled":
        if not able:
            raise bad_request(f"{model.name} does not support thinking", "thinking")
        if not thinking.has("budget_tokens"):
            raise bad_request("thinking.budget_tokens: Field required", "thinking.budget_tokens")
        budget = thinking.whole("budget_tokens", 1, 1, 1 << 30)
        return {"chat_template_kwargs": {"enable_thinking": True}, "thinking_budget_tokens": budget}
    return {"chat_template_kwargs": {"enable_thinking": able and kind != "disabled"}}


def _format(body: Body) -> Any:
    """What the answer must look like: ``output_config.format``, formerly ``output_format``."""
    config = body.object("output_config")
    wanted = config.object("format") if config.has("format") else body.object("output_format")
    if not wanted.fields:
        return None
    if wanted.text("type") != "json_schema" or not wanted.has("schema"):
        raise ApiError(
            400, "invalid_request_error", "output_config.format must be {type: json_schema, schema}"
        )
    return {"type": "json_schema", "json_schema": {"schema": wanted.fields["schema"]}}
