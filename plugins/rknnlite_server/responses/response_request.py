"""A request for a response, put into the words of chat."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional

from ..chat import ChatRequest, chat_request
from ..errors import ApiError, bad_request
from ..request_body import Body
from ..served_model import ServedModel
from .input_items import Item, as_messages, input_items
from .stored_responses import StoredResponse, StoredResponses

__all__ = ["ResponseRequest", "response_request"]

_SAME = (
    "temperature", "top_p", "top_k", "min_p", "seed", "stop", "frequency_penalty", "presence_penalty", "repeat_penalty",
    "logit_bias", "parallel_tool_calls", "grammar", "guided_regex", "guided_choice", "guided_grammar", "stream",
)  # fmt: skip
"""What has the same name in a chat. OpenAI's route has not all of them; local servers do."""
_NEVER = {
    "background": "answers are computed while their client waits",
    "conversation": "give previous_response_id, or the whole conversation as input",
    "prompt": "no prompts are kept here; give instructions and input",
}
_LOGPROBS = "message.output_text.logprobs"
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_SUMMARIES = ("auto", "concise", "detailed")
_RENAMED = {
    "messages": "input",
    "max_completion_tokens": "max_output_tokens",
    "response_format": "text.format",
}


@dataclass(frozen=True)
class ResponseRequest:
    """What is to be answered. ``head``: the fields of the response that are known before it; ``input``: the whole
    conversation, whose last ``new`` items came with this request; ``summary``: thoughts are told as summaries."""

    chat: ChatRequest
    head: Mapping[str, Any]
    input: tuple[Item, ...]
    new: int
    summary: bool


async def response_request(
    body: Body, model: ServedModel, limit: int, owner: str, stored: StoredResponses
) -> ResponseRequest:
    """Read a request; ``limit`` is the number of items. Raises ApiError, ParamInvalid."""
    for name, instead in _NEVER.items():
        if body.has(name) and body.fields[name] is not False:
            raise bad_request(f"{name} is not supported: {instead}", name)
    if body.text("truncation", "disabled", ("auto", "disabled")) == "auto":
        raise bad_request("truncation auto is not supported: no conversation is cut", "truncation")
    before = _previous(body, owner, stored)
    new = input_items(body, lambda name: stored.item(owner, name), limit)
    items = (*(before.items if before is not None else ()), *new)
    messages = as_messages(items, body.text("instructions"))
    tools = [_tool(tool, f"tools[{number}]") for number, tool in enumerate(body.items("tools") or [])]
    tools, choice = _choice(body, tools)
    reasoning = body.object("reasoning")
    thinking = _thinking(reasoning, model)
    summary = reasoning.text("summary", reasoning.text("generate_summary", "", _SUMMARIES), _SUMMARIES)
    arguments = {**thinking, **body.object("chat_template_kwargs").fields}
    fields = {
        **{name: body.fields[name] for name in _SAME if body.has(name)},
        "messages": messages,
        "tools": tools,
        "tool_choice": choice,
        "chat_template_kwargs": arguments,
        "response_format": _format(body.object("text").object("format")),
        "max_completion_tokens": body.whole("max_output_tokens", -1, 1, 1 << 30),
        **_logprobs(body),
    }
    try:
        chat = await chat_request(Body(fields), model, limit)
    except ApiError as error:
        error.param = _RENAMED.get(error.param or "", error.param)
        raise
    return ResponseRequest(chat, _head(body, chat), items, len(new), bool(summary))


def _previous(body: Body, owner: str, stored: StoredResponses) -> Optional[StoredResponse]:
    name = body.text("previous_response_id")
    if not name:
        return None
    found = stored.get(owner, name)
    if found is None:
        raise bad_request(
            f"Previous response with id '{name[:80]}' not found. The least recently used ones leave (--response-bytes); give the "
            "whole conversation as input",
            "previous_response_id",
            "previous_response_not_found",
        )
    return found


def _tool(tool: Any, place: str) -> dict[str, Any]:
    if not isinstance(tool, dict) or tool.get("type") != "function":
        raise bad_request(
            f"{place} must be {{type: function, name, description, parameters}}; the server has no tools of its own",
            place,
        )
    names = ("name", "description", "parameters")
    function = {name: tool[name] for name in names if tool.get(name) is not None}
    return {"type": "function", "function": function}


def _choice(body: Body, tools: list[Any]) -> tuple[list[Any], Any]:
    """The tools that may be called, and whether one must be."""
    choice = body.fields.get("tool_choice")
    if not isinstance(choice, dict):
        return tools, choice
    if choice.get("type") == "allowed_tools":
        given = Body(choice, "tool_choice")
        names = [tool.get("name") for tool in given.items("tools") or [] if isinstance(tool, dict)]
        allowed = [tool for tool in tools if tool["function"].get("name") in names]
        if not allowed:
            raise given.wrong("tools", "some of the tools of the request")
        return allowed, given.text("mode", "auto", ("auto", "required"))
    return tools, {"type": choice.get("type"), "function": {"name": choice.get("name")}}


def _thinking(reasoning: Body, model: ServedModel) -> dict[str, Any]:
    """What the template is told; no model thinks unasked."""
    effort = reasoning.text("effort", "", _EFFORTS)
    if not effort or effort == "none":
        return {}
    if "thinking" not in model.abilities and model.form.name != "harmony":  # whose models always think
        raise bad_request(
            f"Unsupported parameter: 'reasoning.effort' is not supported with this model; {model.name} does not think",
            "reasoning.effort",
            "unsupported_parameter",
        )
    return {"enable_thinking": True, "reasoning_effort": effort}


def _format(given: Body) -> Optional[dict[str, Any]]:
    kind = given.text("type", "text", ("text", "json_object", "json_schema"))
    if kind != "json_schema":
        return {"type": kind}
    if not given.has("schema"):
        raise bad_request("text.format.schema is missing", "text.format.schema")
    return {"type": kind, "json_schema": {"schema": given.fields["schema"]}}


def _logprobs(body: Body) -> dict[str, Any]:
    """Probabilities are told where ``include`` or ``top_logprobs`` asks for them."""
    if _LOGPROBS not in (body.items("include") or []) and not body.has("top_logprobs"):
        return {}
    return {"logprobs": True, "top_logprobs": body.fields.get("top_logprobs")}


def _head(body: Body, chat: ChatRequest) -> dict[str, Any]:
    """The fields of the response but its end: OpenAI's clients want all of them."""
    reasoning = body.object("reasoning").fields
    given = {
        name: body.fields.get(name)
        for name in (
            "instructions", "max_output_tokens", "max_tool_calls", "previous_response_id", "prompt_cache_key",
            "safety_identifier", "user",
        )
    }  # fmt: skip
    choice = body.fields.get("tool_choice")
    return {
        "id": f"resp_{secrets.token_hex(24)}",
        "object": "response",
        "created_at": int(time.time()),
        "status": "in_progress",
        "background": False,
        "completed_at": None,
        "error": None,
        "incomplete_details": None,
        **given,
        "metadata": body.object("metadata").fields,
        "model": chat.model.name,
        "output": [],
        "parallel_tool_calls": body.flag("parallel_tool_calls", True),
        "reasoning": {"effort": reasoning.get("effort"), "summary": reasoning.get("summary")},
        "service_tier": "default",
        "store": body.flag("store", True),
        "temperature": chat.common.sampling.temperature,
        "text": {"format": {"type": "text"}, **body.object("text").fields},
        "tool_choice": "auto" if choice is None else choice,
        "tools": body.items("tools") or [],
        "top_logprobs": chat.common.top or 0,
        "top_p": chat.common.sampling.top_p,
        "truncation": "disabled",
        "usage": None,
    }
