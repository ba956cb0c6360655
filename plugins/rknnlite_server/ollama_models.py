"""What Ollama's API tells of models: ``/api/tags``, ``/api/show``, ``/api/ps``, ``/api/version``; and what it cannot do here."""

from __future__ import annotations

import asyncio
import datetime
import hashlib
import math
import time
from dataclasses import replace
from typing import Any, Optional

from rknnlite_llm.model_facts import ModelFacts, facts_of
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from rknnlite import __version__

from .app_state import state_of
from .errors import ApiError
from .language_models.model_entry import ModelEntry
from .language_models.parameters import modelfile, parameter_lines
from .ollama_requests import entry_of
from .served_model import ServedModel, abilities_of

__all__ = ["API_VERSION", "ps", "show", "tags", "timestamp", "unsupported", "version"]

API_VERSION = "0.12.11"
"""The version of Ollama that answers are modelled on; clients decide by it what they may ask for."""

_LEFT_OUT = ("system", "license", "messages")
_NEVER = "9999-12-31T23:59:59Z"  # models stay as long as the server runs
_LATEST = ":latest"
_UNKNOWN = {
    "parent_model": "",
    "family": "",
    "families": [],
    "parameter_size": "",
    "quantization_level": "",
}


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
    """``GET /api/ps``: the models that are loaded, each by the name under which it was."""
    state = state_of(request)
    state.check_ready()
    loaded = [(entry, entry.place.model) for entry in await state.library.index()]
    return JSONResponse(
        {"models": [_running(entry, model) for entry, model in loaded if model and model.name == entry.name]}
    )


async def show(request: Request) -> Response:
    """``POST /api/show``: one model, which is not opened for that."""
    state = state_of(request)
    body = await state.json(request)
    entry = await entry_of(request, body)
    settings, model = entry.settings, entry.model
    facts = await asyncio.to_thread(_facts, entry, model)
    template = settings.made.template or facts.template
    sees, embeds = bool(settings.model2), settings.embedding or facts.embeds
    info = {
        "general.architecture": facts.family,
        "general.basename": entry.name,
        "general.parameter_count": model.meta["n_params"] if model is not None else None,
        f"{facts.family}.context_length": facts.context or None,
        f"{facts.family}.embedding_length": facts.hidden or None,
        f"{facts.family}.vocab_size": facts.vocabulary or None,
        "tokenizer.ggml.bos_token_id": facts.bos,
        "tokenizer.ggml.eos_token_id": facts.eos,
    }
    told = {
        "modelfile": modelfile(entry.name, settings, template),
        "parameters": "\n".join(f"{name:<30} {value}" for name, value in parameter_lines(settings)),
        "template": template,
        "system": settings.made.system,
        "license": settings.made.license,
        "messages": list(settings.made.messages),
        "details": _details(model) if model is not None else _details_of_files(entry, facts),
        "model_info": {name: value for name, value in info.items() if value is not None},
        "capabilities": abilities_of(template, embeds, sees),
        "modified_at": timestamp(entry.modified if model is None else model.created),
    }
    return JSONResponse({name: value for name, value in told.items() if value or name not in _LEFT_OUT})


def _facts(entry: ModelEntry, model: Optional[ServedModel]) -> ModelFacts:
    if model is None:
        facts = facts_of(entry.stored) if entry.stored is not None else ModelFacts()
        limit = entry.settings.ctx_size or facts.context
        return replace(facts, context=min(limit, facts.context))
    meta, tokenizer = model.meta, model.tokenizer
    return ModelFacts(
        _family(model),
        model.limit,
        meta["n_embd"],
        meta["n_vocab"],
        model.chat_template,
        model.embeds,
        tokenizer.bos_id,
        tokenizer.eos_id,
    )


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
        **(
            {"digest": entry.place.identity, "details": _entry_card(entry)["details"]} if entry.stored else {}
        ),
        "expires_at": ends,
        "size": entry.place.size or model.meta["size"],
        "size_vram": _on_device(model),
        "context_length": model.limit,
    }


def _details_of_files(entry: ModelEntry, facts: ModelFacts) -> dict[str, Any]:
    kind = entry.stored.kind.value if entry.stored is not None else "rknn"
    families = [facts.family] if facts.family else []
    return {**_UNKNOWN, "format": kind, "family": facts.family, "families": families}


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
        "digest": entry.place.identity,
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
