"""Items of ``input`` and what becomes of them: messages of a chat."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Any, Optional

from ..errors import bad_request
from ..request_body import Body

__all__ = ["Item", "as_messages", "input_items"]

Item = dict[str, Any]
Find = Callable[[str], Optional[Item]]

_ROLES = ("user", "assistant", "system", "developer")
_TEXTS = ("input_text", "output_text", "text")
_SHOWN = 60


def input_items(body: Body, find: Find, most: int) -> list[Item]:
    """``input``, each item with an id; ``find`` gives the item that a reference names. Raises ApiError."""
    given = body.fields.get("input")
    if isinstance(given, str):
        given = [{"role": "user", "content": given}]
    if not isinstance(given, list) or not given:
        raise bad_request("input must be text or a list with one item or more", "input")
    if len(given) > most:
        raise bad_request(f"input has {len(given)} items, {most} are allowed", "input")
    return [_item(item, f"input[{number}]", find) for number, item in enumerate(given)]


def as_messages(items: Sequence[Item], instructions: str = "") -> list[dict[str, Any]]:
    """A conversation as messages: thoughts, text and calls of one turn become one message of the assistant.

    ``instructions`` go before everything. Raises ApiError for a result whose call is not there.
    """
    messages: list[dict[str, Any]] = []
    thought, called = "", set()
    for item in items:
        kind = item["type"]
        last = messages[-1] if messages and messages[-1]["role"] == "assistant" else None
        if kind == "reasoning":
            thought += _thought(item)
            continue
        if kind == "function_call":
            called.add(item["call_id"])
            function = {"name": item["name"], "arguments": item["arguments"]}
            call = {"id": item["call_id"], "type": "function", "function": function}
            if last is None or thought:
                last = {"role": "assistant", "content": None}
                messages.append(last)
            last.setdefault("tool_calls", []).append(call)
        elif kind == "function_call_output":
            if item["call_id"] not in called:
                raise bad_request(
                    f"No tool call found for function call output with call_id {item['call_id'][:_SHOWN]}.",
                    "input",
                )
            messages.append({"role": "tool", "tool_call_id": item["call_id"], "content": item["output"]})
        else:
            messages.append({"role": item["role"], "content": item["content"]})
        if thought and messages[-1]["role"] == "assistant":
            messages[-1]["reasoning_content"] = thought
        thought = ""
    return _instructed(messages, instructions) if instructions else messages


def _instructed(messages: list[dict[str, Any]], instructions: str) -> list[dict[str, Any]]:
    """Many templates take one system message only, so that of the input is joined to it."""
    first = {"role": "system", "content": [{"type": "input_text", "text": instructions}]}
    if messages and messages[0]["role"] in ("system", "developer"):
        first["content"] = [
            {"type": "input_text", "text": f"{instructions}\n\n"},
            *messages[0]["content"],
        ]
        messages = messages[1:]
    return [first, *messages]


def _item(given: Any, place: str, find: Find) -> Item:
    if not isinstance(given, dict):
        raise bad_request(f"{place} must be an object", "input")
    kind = given.get("type") or ("message" if "role" in given else "item_reference")
    if kind == "item_reference":
        found = find(str(given.get("id")))
        if found is None:
            raise bad_request(f"{place}: Item with id {_short(given.get('id'))} not found.", "input")
        return found
    if kind not in _READ:
        known = ", ".join([*_READ, "item_reference"])
        raise bad_request(f"{place}.type is {_short(kind)}, must be one of {known}", "input")
    name, read = _READ[kind]
    item = read(given, place)
    return {"id": _id(given, name), "type": kind, "status": "completed", **item}


def _id(given: Item, name: str) -> str:
    value = given.get("id")
    return value if isinstance(value, str) and value else f"{name}_{secrets.token_hex(16)}"


def _message(given: Item, place: str) -> Item:
    role = given.get("role")
    if role not in _ROLES:
        raise bad_request(f"{place}.role is {_short(role)}, must be one of {', '.join(_ROLES)}", "input")
    kind = "output_text" if role == "assistant" else "input_text"
    return {"role": role, "content": _content(given.get("content"), f"{place}.content", kind)}


def _content(content: Any, place: str, kind: str = "input_text") -> list[Item]:
    if isinstance(content, str):
        return [{"type": kind, "text": content}]
    if not isinstance(content, list):
        raise bad_request(f"{place} must be text or a list of parts", "input")
    for number, part in enumerate(content):
        if not _is_part(part):
            raise bad_request(
                f"{place}[{number}] is {_short(part)}; parts are input_text, output_text, refusal with their text, and "
                "input_image with image_url, data:image/...;base64,...",
                "input",
            )
    return content


def _is_part(part: Any) -> bool:
    if not isinstance(part, dict):
        return False
    kind = part.get("type")
    if kind in _TEXTS:
        return isinstance(part.get("text"), str)
    if kind == "refusal":
        return isinstance(part.get("refusal"), str)
    # sound is refused where the model is known
    return (kind == "input_image" and isinstance(part.get("image_url"), str)) or kind == "input_audio"


def _call(given: Item, place: str) -> Item:
    body = Body(given, place)
    call, name = body.text("call_id"), body.text("name")
    if not call or not name:
        raise bad_request(f"{place}: a function_call has call_id, name and arguments", "input")
    return {"call_id": call, "name": name, "arguments": body.text("arguments")}


def _output(given: Item, place: str) -> Item:
    call, output = Body(given, place).text("call_id"), given.get("output")
    if not call or output is None:
        raise bad_request(f"{place}: a function_call_output has call_id and output", "input")
    return {
        "call_id": call,
        "output": output if isinstance(output, str) else _content(output, f"{place}.output"),
    }


def _reasoning(given: Item, place: str) -> Item:
    body = Body(given, place)
    parts = {name: body.items(name) or [] for name in ("summary", "content")}
    for name, found in parts.items():
        if not all(isinstance(part, dict) and isinstance(part.get("text"), str) for part in found):
            raise body.wrong(name, "a list of objects with text")
    return {**parts, "encrypted_content": None}


def _thought(item: Item) -> str:
    """A thought itself where it is there, else its summary."""
    return "".join(part["text"] for part in item["content"] or item["summary"])


_READ: dict[str, tuple[str, Callable[[Item, str], Item]]] = {
    "message": ("msg", _message),
    "function_call": ("fc", _call),
    "function_call_output": ("fco", _output),
    "reasoning": ("rs", _reasoning),
}
"""Type of an item -> what its id begins with, and how it is read."""


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
