"""``POST /v1/completions``: text goes on where the prompt ends, without a chat template."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace
from typing import Any, Optional

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from .app_state import served, state_of
from .async_helpers import closing
from .chat import usage_of
from .errors import bad_request
from .generation import Ended, Piece, Work, generate
from .generation_request import Common, common, response_rule, room, top_logprobs
from .logprobs import plain_logprobs
from .request_body import Body
from .served_model import ServedModel
from .streaming import event_stream, while_connected
from .tool_choice import Tools

__all__ = ["completion_work", "completions"]

_MOST_PROMPTS = 64
_MOST_BEST = 20
_MOST_TOP = 5


@dataclass(frozen=True)
class _Prompt:
    """One prompt: its text, as far as it is known, and the work behind it."""

    text: str
    work: Work


async def completions(request: Request) -> Response:
    """The route."""
    state = state_of(request)
    body = await state.json(request)
    model = await served(request, body.text("model"))
    model.must_generate()
    shared = common(body, model, body.whole("logprobs", 0, 0, _MOST_TOP) if body.has("logprobs") else None)
    if body.text("suffix"):
        raise bad_request("suffix is not supported: text goes on where the prompt ends", "suffix")
    if body.whole("best_of", shared.count, 1, _MOST_BEST) > shared.count:
        raise bad_request("best_of above n is not supported: all answers are returned", "best_of")
    prompts = await _prompts(body, model, shared)
    echo = body.flag("echo")
    head = {
        "id": f"cmpl-{secrets.token_hex(12)}",
        "object": "text_completion",
        "created": int(time.time()),
        "model": model.name,
    }
    timeout = state.settings.timeout
    if shared.stream:
        return await event_stream(request, _chunks(model, prompts, head, shared, echo, timeout))
    choices, ends = [], []
    for prompt in prompts:
        pieces, ended = await while_connected(request, _whole(model, prompt.work, timeout))
        text = "".join(piece.text for piece in pieces)
        choices.append(
            {
                "index": len(choices),
                "text": prompt.text + text if echo else text,
                "finish_reason": ended.reason,
                "logprobs": plain_logprobs(pieces, model, shared.top, len(prompt.text) if echo else 0),
            }
        )
        ends.append(ended)
    return JSONResponse({**head, "choices": choices, "usage": _usage(ends, shared.count)})


async def completion_work(body: Body, model: ServedModel) -> tuple[Common, Work]:
    """The work behind one prompt that is text; raises ApiError."""
    shared = common(body, model, top_logprobs(body))
    (prompt,) = await _prompts(body, model, shared)
    return shared, prompt.work


async def _whole(model: ServedModel, work: Work, timeout: float) -> tuple[list[Piece], Ended]:
    pieces: list[Piece] = []
    async with closing(generate(model, work, timeout)) as items:
        async for item in items:
            if isinstance(item, Ended):
                return pieces, item
            pieces.append(item)
    raise AssertionError("an answer ends with Ended")


async def _chunks(
    model: ServedModel,
    prompts: list[_Prompt],
    head: dict[str, Any],
    shared: Common,
    echo: bool,
    timeout: float,
) -> AsyncGenerator[str, None]:
    ends: list[Optional[Ended]] = []
    for index, prompt in enumerate(prompts):
        before = prompt.text if echo else ""
        async with closing(generate(model, prompt.work, timeout)) as items:
            async for item in items:
                choice: dict[str, Any] = {
                    "index": index,
                    "text": before,
                    "logprobs": None,
                    "finish_reason": None,
                }
                before = ""
                if isinstance(item, Ended):
                    choice["finish_reason"] = item.reason
                    ends.append(item)
                else:
                    choice["text"] += item.text
                    choice["logprobs"] = plain_logprobs([item], model, shared.top, 0)
                yield json.dumps({**head, "choices": [choice]}, ensure_ascii=False)
    if shared.usage_in_stream:
        yield json.dumps({**head, "choices": [], "usage": _usage(ends, shared.count)})


async def _prompts(body: Body, model: ServedModel, shared: Common) -> list[_Prompt]:
    """Each prompt as often as answers are wanted; raises ApiError."""
    given = body.fields.get("prompt")
    if isinstance(given, str) or (isinstance(given, list) and given and isinstance(given[0], int)):
        given = [given]
    if not isinstance(given, list) or not given or len(given) > _MOST_PROMPTS:
        raise body.wrong("prompt", f"text, tokens, or a list of at most {_MOST_PROMPTS} of them")
    constraint = await asyncio.to_thread(model.constraint, response_rule(body), Tools())
    made = []
    for prompt in given:
        text, tokens = await asyncio.to_thread(_tokens, body, model, prompt)
        for number in range(shared.count):
            seed = shared.sampling.seed
            sampling = shared.sampling if seed is None else replace(shared.sampling, seed=seed + number)
            work = Work(tokens, sampling, room(body, model, len(tokens)), shared.stop, constraint, shared.top)
            made.append(_Prompt(text, work))
    return made


def _tokens(body: Body, model: ServedModel, prompt: Any) -> tuple[str, tuple[int, ...]]:
    if isinstance(prompt, str):
        tokens = tuple(model.tokenizer.encode(prompt))
        if not tokens:
            raise bad_request("the prompt is empty", "prompt")
        return prompt, tokens
    size = model.config.vocab_size
    plain = isinstance(prompt, list) and all(type(token) is int and 0 <= token < size for token in prompt)
    if not plain or not prompt:
        raise bad_request(f"prompt must be text, or token ids in 0..{size - 1}", "prompt")
    return model.tokenizer.decode(prompt), tuple(prompt)


def _usage(ends: list[Optional[Ended]], count: int) -> dict[str, Any]:
    """Tokens of all prompts and answers; a prompt with several answers counts once."""
    usage = usage_of(ends)
    known = [end for end in ends if end is not None]
    prompt = sum(end.prompt_tokens for end in known[::count])
    usage.update(prompt_tokens=prompt, total_tokens=prompt + usage["completion_tokens"])
    return usage
