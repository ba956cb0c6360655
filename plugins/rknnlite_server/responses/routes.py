"""``/v1/responses``: an answer, whole or as named events, and what is kept of answers."""

from __future__ import annotations

import itertools
import json
import logging
import time
from collections.abc import AsyncGenerator
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from ..app_state import State, served, state_of
from ..async_helpers import closing
from ..chat import parts
from ..errors import ApiError, as_api_error, bad_request
from ..generation import Ended, Piece
from ..logprobs import chat_logprobs
from ..rate_limits import owner_of_task
from ..request_body import Body
from ..streaming import named_event_stream, while_connected
from .output_items import Event, OutputItems
from .response_request import ResponseRequest, response_request
from .stored_responses import StoredResponse

__all__ = ["response_routes"]

logger = logging.getLogger("rknnlite.server")
_PAGE, _LARGEST_PAGE = 20, 100


def response_routes() -> list[BaseRoute]:
    """All routes below ``/v1/responses``."""
    one = "/v1/responses/{response_id}"
    return [
        Route("/v1/responses", create, methods=["POST"]),
        Route("/v1/responses/input_tokens", count_tokens, methods=["POST"]),
        Route(one, retrieve),
        Route(one, delete, methods=["DELETE"]),
        Route(f"{one}/input_items", list_input),
    ]


async def create(request: Request) -> Response:
    """``POST /v1/responses``."""
    state, owner = state_of(request), owner_of_task()
    asked = await _asked(request)
    if asked.chat.common.stream:
        return await named_event_stream(request, _stream(asked, state, owner))
    return JSONResponse(await while_connected(request, _whole(asked, state, owner)))


async def count_tokens(request: Request) -> Response:
    """``POST /v1/responses/input_tokens``: what a request would have the model read."""
    asked = await _asked(request)
    return JSONResponse({"object": "response.input_tokens", "input_tokens": len(asked.chat.work.tokens)})


async def retrieve(request: Request) -> Response:
    """``GET /v1/responses/{response_id}``."""
    stored = _stored(request)
    if request.query_params.get("stream") == "true":
        raise bad_request("stream is not supported here: events are not kept", "stream")
    return JSONResponse(stored.response)


async def delete(request: Request) -> Response:
    """``DELETE /v1/responses/{response_id}``."""
    state, name = state_of(request), _stored(request).response["id"]
    state.responses.delete(owner_of_task(), name)
    return JSONResponse({"id": name, "object": "response", "deleted": True})


async def list_input(request: Request) -> Response:
    """``GET /v1/responses/{response_id}/input_items``: what the answer was given for, the newest first."""
    items = list(_stored(request).input)
    asked = Body({**request.query_params})
    if asked.text("order", "desc", ("asc", "desc")) == "desc":
        items.reverse()
    size = asked.text("limit", str(_PAGE))
    if not (size.isascii() and size.isdigit() and len(size) < 4 and 1 <= int(size) <= _LARGEST_PAGE):
        raise asked.wrong("limit", f"a whole number in 1..{_LARGEST_PAGE}")
    names = [item["id"] for item in items]
    after = asked.text("after")
    if after and after not in names:
        raise asked.wrong("after", "the id of one of the items")
    start = names.index(after) + 1 if after else 0
    page = items[start : start + int(size)]
    ends = {"first_id": page[0]["id"], "last_id": page[-1]["id"]} if page else {}
    return JSONResponse({"object": "list", "data": page, "has_more": start + len(page) < len(items), **ends})


async def _asked(request: Request) -> ResponseRequest:
    state = state_of(request)
    body = await state.json(request)
    model = await served(request, body.text("model"))
    model.must_generate()
    owner = owner_of_task()
    return await response_request(body, model, state.settings.max_messages, owner, state.responses)


def _stored(request: Request) -> StoredResponse:
    state, name = state_of(request), request.path_params["response_id"]
    found = state.responses.get(owner_of_task(), name)
    if found is None:
        raise ApiError(
            404,
            "invalid_request_error",
            f"Response with id '{name[:80]}' not found.",
            "response_id",
            "response_not_found",
        )
    return found


async def _whole(asked: ResponseRequest, state: State, owner: str) -> dict[str, Any]:
    response: dict[str, Any] = {}
    async with closing(_events(asked, state, owner)) as steps:
        async for events in steps:
            for _, fields in events:
                response = fields.get("response", response)
    return response


async def _stream(asked: ResponseRequest, state: State, owner: str) -> AsyncGenerator[str, None]:
    """Named events as text, those of one step together. What fails before the first is an ordinary error, later a response that
    failed.
    """
    numbers = itertools.count()

    def told(kind: str, fields: dict[str, Any]) -> str:
        event = {"type": kind, "sequence_number": next(numbers), **fields}
        return f"event: {kind}\ndata: {json.dumps(event, ensure_ascii=False)}"

    begun = False
    try:
        async with closing(_events(asked, state, owner)) as steps:
            async for events in steps:
                begun = True
                yield "\n\n".join(told(kind, fields) for kind, fields in events)
    except Exception as error:
        if not begun:
            raise
        problem = as_api_error(error)
        if not isinstance(error, ApiError):
            logger.error("a stream failed: %s", error, exc_info=problem.status == 500)
        failed = {"code": "server_error", "message": problem.message}
        yield told("response.failed", {"response": {**asked.head, "status": "failed", "error": failed}})


async def _events(asked: ResponseRequest, state: State, owner: str) -> AsyncGenerator[list[Event], None]:
    """What happens, in OpenAI's order and step by step; the last event has the complete response, which is kept by then."""
    chat, output, begun = asked.chat, OutputItems(asked.summary), False
    async with closing(parts(chat, chat.work, state.settings.timeout)) as items:
        async for found, item in items:
            events: list[Event] = []
            if not begun:  # only now is it certain that there will be an answer
                begun = True
                events += [
                    (f"response.{kind}", {"response": asked.head}) for kind in ("created", "in_progress")
                ]
            chances = chat_logprobs([item], chat.model, chat.common.top) if isinstance(item, Piece) else None
            events += output.add(found, item, chances["content"] if chances else [])
            if isinstance(item, Ended):
                response = _complete(asked, output, item)
                if response["store"]:
                    new = (*asked.input[len(asked.input) - asked.new :], *output.items)
                    response["store"] = state.responses.put(StoredResponse(owner, response, asked.input, new))
                events.append((f"response.{response['status']}", {"response": response}))
            if events:
                yield events


def _complete(asked: ResponseRequest, output: OutputItems, ended: Ended) -> dict[str, Any]:
    cut = ended.reason == "length"
    return {
        **asked.head,
        "status": "incomplete" if cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "completed_at": None if cut else int(time.time()),
        "output": output.items,
        "usage": {
            "input_tokens": ended.prompt_tokens,
            "input_tokens_details": {"cached_tokens": ended.cached_tokens, "cache_write_tokens": 0},
            "output_tokens": ended.completion_tokens,
            "output_tokens_details": {"reasoning_tokens": output.reasoning_tokens},
            "total_tokens": ended.prompt_tokens + ended.completion_tokens,
        },
    }
