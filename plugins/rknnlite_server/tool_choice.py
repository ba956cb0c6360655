"""Tools that a request offers, and whether the model may, must or must not call them."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional

from .errors import bad_request
from .request_body import Body

__all__ = ["Tools", "call_id", "tools_of"]

_MOST_TOOLS = 128
_LONGEST_NAME = 128  # as in Anthropic's API; OpenAI's has 64


@dataclass(frozen=True)
class Tools:
    """``offered`` as the model's template takes them; ``required`` by ``name``, or any."""

    offered: tuple[Mapping[str, Any], ...] = ()
    required: bool = False
    name: Optional[str] = None
    parallel: bool = True


def tools_of(body: Body) -> Tools:
    """Read ``tools``, ``tool_choice`` and ``parallel_tool_calls``; raises ApiError."""
    given = body.items("tools") or []
    if len(given) > _MOST_TOOLS:
        raise bad_request(f"{len(given)} tools, {_MOST_TOOLS} are allowed", "tools")
    offered = tuple(_tool(tool, f"tools[{number}]") for number, tool in enumerate(given))
    names = [tool["function"]["name"] for tool in offered]
    choice = body.fields.get("tool_choice")
    parallel = body.flag("parallel_tool_calls", True)
    if choice is None or choice == "auto":
        return Tools(offered, parallel=parallel)
    if choice == "none":
        return Tools()
    if not offered:
        raise bad_request("tool_choice without tools", "tool_choice")
    if choice == "required":
        return Tools(offered, True, parallel=parallel)
    function = choice.get("function") if isinstance(choice, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if name not in names:
        raise body.wrong("tool_choice", f"auto, none, required or one of the functions {', '.join(names)}")
    return Tools(offered, True, name, parallel)


def _tool(tool: Any, place: str) -> Mapping[str, Any]:
    function = tool.get("function") if isinstance(tool, dict) else None
    if not isinstance(function, dict) or tool.get("type", "function") != "function":
        raise bad_request(
            f"{place} must be {{type: function, function: {{name, description, parameters}}}}", place
        )
    name = function.get("name")
    plain = isinstance(name, str) and name.replace("_", "").replace("-", "").replace(".", "").isalnum()
    if not plain or len(name) > _LONGEST_NAME:
        raise bad_request(
            f"{place}.function.name must be 1 to {_LONGEST_NAME} letters, digits, dots, dashes and underscores",
            place,
        )
    if not isinstance(function.get("parameters", {}), dict):
        raise bad_request(f"{place}.function.parameters must be a JSON Schema", place)
    return {"type": "function", "function": dict(function)}


def call_id() -> str:
    """A name for a call, by which its result comes back."""
    return f"call_{secrets.token_hex(12)}"
