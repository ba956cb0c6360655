"""What Ollama's API tells of models: ``/api/tags``, ``/api/show``, ``/api/ps``, ``/api/version``; and what it cannot do here."""

from __future__ import annotations

import datetime
import hashlib
import math
import time
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from rknnlite import __version__

from .app_state import state_of
from .errors import ApiError
from .language_models.model_entry import ModelEntry
from .ollama_requests import model_of
from .served_model import ServedModel

__all__ = ["API_VERSION", "ps", "show", "tags", "timestamp", "unsupported", "version"]

API_VERSION = "0.12.11"
"""The version of Ollama that answers are modelled on; clients decide by it what they may ask for."""

_NEVER = "9999-12-31T23:59:59Z"  # models stay as long as the server runs
_LATEST = ":latest"
_UNKNOWN = {
    "parent_model": "",
    "family": "",
    "families": [],
    "parameter_size": "",
    "quantization_level": "",
}
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
    return JSONResponse({"models": [_entry_card(entry) for entry in await state.library.index()]})


async def ps(request: Request) -> Response:
    """``GET /api/ps``: the same models, all of them loaded."""
    state = state_of(request)
    state.check_ready()
    entries = [entry for entry in await state.library.index() if entry.model is not None]
    return JSONResponse({"models": [_running(entry, entry.model) for entry in entries if entry.model]})


async def show(request: Request) -> Response:
    """``POST /api/show``: one model."""
    body = await state_of(request).json(request)
    model = await model_of(request, body)
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


async def unsupported(request: Request) -> Response:
    """What sends models to others."""
    raise ApiError(
        501,
        "not_supported_error",
        f"{request.url.path} is not available: models are published elsewhere; pull, create, copy and delete are here",
    )


def _running(entry: ModelEntry, model: ServedModel) -> dict[str, Any]:
    ends = _NEVER if math.isinf(entry.left) else timestamp(time.time() + entry.left)
    return {
        **_card(model),
        "expires_at": ends,
        "size_vram": _on_device(model),
        "context_length": model.limit,
    }


def _entry_card(entry: ModelEntry) -> dict[str, Any]:
    """What the list says: of a model that is not open, what its files tell."""
    stored = entry.stored
    if stored is None:
        assert entry.model is not None
        return _card(entry.model)
    name = _tagged(entry.name)
    details = _details(entry.model) if entry.model is not None else _UNKNOWN
    return {
        "name": name,
        "model": name,
        "modified_at": timestamp(entry.modified),
        "size": entry.file_size,
        "digest": entry.state,
        "details": {**details, "format": stored.kind.value},
    }


def _tagged(name: str) -> str:
    return name if ":" in name.rpartition("/")[2] else name + _LATEST


def _card(model: ServedModel) -> dict[str, Any]:
    name = _tagged(model.name)
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
