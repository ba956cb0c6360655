"""A server of models: OpenAI's API for language models, over the sessions of any backend.

``from rknnlite_server.control import start_server, stop_server`` runs one inside of a program.

* Starting: ``command`` (``rknnlite serve``, ``rkllm3-server``), ``arguments``, ``settings``, ``durations``, ``control``
  (``start_server``, signals).
* Below the routes: ``http_server`` (sockets, patience, end), ``app`` (routes, errors), ``app_state``, ``async_helpers``,
  ``compression``, ``openapi``, ``metrics``, ``traced`` (spans), ``route_paths``, ``page``.
* Who is answered: ``origins`` (by a server without keys), ``access`` (by one with ``keys``, within their ``rate_limits``),
  ``audit``.
* A language model: ``served_model``, ``session_pool``, ``queueing``, ``generation`` (one answer), ``media``, ``stop_strings``.
* Requests and answers: ``request_body``, ``form_body``, ``generation_request``, ``tool_choice``, ``streaming``, ``logprobs``,
  ``errors``.
* OpenAI's routes: ``chat``, ``completions``, ``embeddings``, ``responses``, ``model_routes``. Ollama's: ``ollama``,
  ``ollama_requests``, ``ollama_models``, ``ollama_embed``. Anthropic's: ``anthropic``, ``anthropic_requests``,
  ``anthropic_models``, ``anthropic_headers``. The requests of both are put into OpenAI's words and read once.
* Speech: ``served_speech`` (a model), ``transcriptions``, ``speech`` (OpenAI's routes).
* ``language_models``: those that come and go. ``networks``: the Open Inference Protocol. ``jobs``: files and batches.
  ``vision``: what networks see in pictures.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rknnlite import hookimpl

if TYPE_CHECKING:
    from rknnlite.spi.command import Command

__all__ = ["rknnlite_register_commands"]


@hookimpl
def rknnlite_register_commands(register: Callable[[Command], None]) -> None:
    """Offer what people ask for; without starlette and uvicorn the command says what to install."""
    from rknnlite.libraries import commands_of

    for command in commands_of("server"):
        register(command)
