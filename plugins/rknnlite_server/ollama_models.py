"""What Ollama's API tells of models: ``/api/tags``, ``/api/show``, ``/api/ps``, ``/api/version``; and what it cannot do here."""

from __future__ import annotations

import datetime
import hashlib
import json
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from rknnlite import __version__

from .app_state import state_of
from .errors import ApiError
from .ollama_requests import model_of
from .served_model import ServedModel

__all__ = ["API_VERSION", "ps", "pull", "show", "tags", "timestamp", "unsupported", "version"]

API_VERSION = "0.12.11"
"""The version of Ollama that answers are modelled on; clients decide by it what they may ask for."""

_NEVER = "9999-12-31T23:59:59Z"  # models stay as long as the server runs
_LATEST = ":latest"
_DEFAULTS = ("temperature", "top_k", "top_p", "repeat_penalty", "presence_penalty", "frequency_penalty")


def timestamp(seconds: float) -> str:
    """Seconds since 1970 as clients parse it."""
    moment = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


async def version(request: Request) -> Response:
    """``GET /api/version``."""
    return JSONResponse({"version": API_VERSION, "server": f"rknnlite {__version__}"})


async def tags(request: Request) -> Response:
    """``GET /api/tags``: the models."""
    state = state_of(request)
    state.check_ready()
    return JSONResponse({"models": [_card(model) for model in state.models.values()]})


async def ps(request: Request) -> Response:
    """``GET /api/ps``: the same models, all of them loaded."""
    state = state_of(request)
    state.check_ready()
    models = [
        {**_card(model), "expires_at": _NEVER, "size_vram": _on_device(model), "context_length": model.limit}
        for model in state.models.values()
    ]
    return JSONResponse({"models": models})


async def show(request: Request) -> Response:
    """``POST /api/show``: one model."""
    body = await state_of(request).json(request)
    model = model_of(request, body)
    family, meta, sampling = _family(model), model.meta, model.settings.sampling
    told = {
        "modelfile": f"# {model.name} is served by rknnlite; it has no Modelfile\n",
        "parameters": "\n".join(f"{name:<30} {getattr(sampling, name):g}" for name in _DEFAULTS),
        "template": model.chat_template,
        "details": _details(model),
        "model_info": {
            "general.architecture": family,
            "general.basename": model.name,
            **({"general.parameter_count": meta["n_params"]} if meta["n_params"] else {}),
            f"{family}.context_length": model.limit,
            f"{family}.embedding_length": meta["n_embd"],
            f"{family}.vocab_size": meta["n_vocab"],
            "tokenizer.ggml.bos_token_id": model.tokenizer.bos_id,
            "tokenizer.ggml.eos_token_id": model.tokenizer.eos_id,
        },
        "capabilities": list(model.abilities),
        "modified_at": timestamp(model.created),
    }
    return JSONResponse(told)


async def pull(request: Request) -> Response:
    """``POST /api/pull``: a model that is served is there already; others cannot be fetched."""
    body = await state_of(request).json(request)
    try:
        model_of(request, body)
    except ApiError as error:
        if error.status != 404:
            raise
        raise ApiError(
            404,
            error.kind,
            f"{error.message}: this server has the models that it was started with, and fetches none",
            "model",
        ) from None
    if body.flag("stream", True):
        return Response(json.dumps({"status": "success"}) + "\n", media_type="application/x-ndjson")
    return JSONResponse({"status": "success"})


async def unsupported(request: Request) -> Response:
    """What changes models."""
    raise ApiError(
        501,
        "not_supported_error",
        f"{request.url.path} is not available: this server has the models that it was started with, and changes none",
    )


def _card(model: ServedModel) -> dict[str, Any]:
    name = model.name if ":" in model.name.rpartition("/")[2] else model.name + _LATEST
    size = model.meta["size"]
    identity = f"{name} {size} {model.meta}"
    return {
        "name": name,
        "model": name,
        "modified_at": timestamp(model.created),
        "size": size,
        "digest": hashlib.sha256(identity.encode()).hexdigest(),
        "details": _details(model),
    }


def _details(model: ServedModel) -> dict[str, Any]:
    family = _family(model)
    count = model.meta["n_params"]
    return {
        "parent_model": "",
        "format": "rknn",
        "family": family,
        "families": [family],
        "parameter_size": _millions(count) if count else "",
        "quantization_level": "",
    }


def _family(model: ServedModel) -> str:
    return model.config.model_type or "rknn"


def _millions(count: int) -> str:
    return f"{count / 1e9:.1f}B" if count >= 1e9 else f"{count / 1e6:.2f}M"


def _on_device(model: ServedModel) -> int:
    """Bytes outside of the host's memory: the CPU reference has none there."""
    return 0 if model.context.backend_name == "cpu" else model.meta["size"]
