"""What goes wrong with a request, as OpenAI's API and the RKNN3 guide (section 3.5) put it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Optional, Union

from rknnlite_llm.tokenizer import TextTooLong
from rknnlite_protocol.error_status import CODE_KEY, ERROR_KEY, status_of

from rknnlite.errors import (
    BackendUnavailable,
    ContextInvalid,
    InputInvalid,
    ModelInvalid,
    ModelUnsupported,
    OutOfMemory,
    ParamInvalid,
    RknnError,
)

__all__ = [
    "ApiError",
    "as_api_error",
    "as_network_error",
    "bad_request",
    "is_anthropic",
    "is_inference",
    "problem_of",
    "unknown_model",
]

_INFERENCE = "health|models|repository|logging|trace|(system|cuda)sharedmemory"
_INFERENCE_PATH = re.compile(rf"/v2(/?$|/({_INFERENCE})(/|$))")


def is_inference(path: str) -> bool:
    """Whether a path is one of the Open Inference Protocol.

    Ollama's begin with /api/, Anthropic's with /v1/messages, all others are OpenAI's.
    """
    return _INFERENCE_PATH.match(path) is not None


def is_anthropic(path: str, headers: Mapping[str, str]) -> bool:
    """Whether a request speaks Anthropic's API: OpenAI's has a list of models at the same path."""
    return path.startswith("/v1/messages") or (
        path.startswith("/v1/models") and "anthropic-version" in headers
    )


_ANTHROPIC = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    501: "invalid_request_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
"""Anthropic's words for types of errors, by status."""


class ApiError(Exception):
    """An answer with an HTTP status of 400 or more; ``kind`` is OpenAI's word for its type."""

    def __init__(
        self,
        status: int,
        kind: str,
        message: str,
        param: Optional[str] = None,
        code: Optional[Union[str, int]] = None,
        retry_after: Optional[int] = None,
    ) -> None:
        super().__init__(message)
        self.status, self.kind, self.message, self.param = status, kind, message, param
        self.code = status if code is None else code
        self.headers = {} if retry_after is None else {"Retry-After": str(retry_after)}

    @property
    def body(self) -> dict[str, Any]:
        """The object that clients get."""
        error = {"code": self.code, "message": self.message, "type": self.kind, "param": self.param}
        return {"error": error}

    @property
    def plain_body(self) -> dict[str, Any]:
        """The same for clients of Ollama's API and of the Open Inference Protocol."""
        return {"error": self.message}

    @property
    def anthropic_body(self) -> dict[str, Any]:
        """The same for clients of Anthropic's API."""
        kind = _ANTHROPIC.get(self.status, "invalid_request_error" if self.status < 500 else "api_error")
        return {"type": "error", "error": {"type": kind, "message": self.message}}

    def body_for(self, path: str, headers: Mapping[str, str] = MappingProxyType({})) -> dict[str, Any]:
        """The object that clients of that route get; ``headers`` are those of the request."""
        if is_anthropic(path, headers):
            return self.anthropic_body
        return self.plain_body if path.startswith("/api/") or is_inference(path) else self.body


def bad_request(message: str, param: Optional[str] = None, code: Optional[str] = None) -> ApiError:
    """400: the request itself is wrong."""
    return ApiError(400, "invalid_request_error", message, param, code)


_MOST_NAMES = 20
_THEIRS = (InputInvalid, ParamInvalid)
_BUSY = (ContextInvalid, OutOfMemory, BackendUnavailable)
_NO_MEMORY = "the server has no memory for this at present; send less, or again later"
_OURS = (ModelInvalid, ModelUnsupported)


def unknown_model(name: str, known: Iterable[str]) -> ApiError:
    """404 for a name that no model has; ``known`` are those that there are."""
    names = list(known)
    there = ", ".join(names[:_MOST_NAMES]) or "none"
    there += f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ApiError(
        404,
        "invalid_request_error",
        f"The model {name[:200]!r} does not exist here; there is {there}",
        "model",
        "model_not_found",
    )


def as_api_error(error: BaseException) -> ApiError:
    """An error of the library as an answer; what nobody foresaw tells no more than its type."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, TextTooLong):
        return ApiError(400, "invalid_request_error", str(error), code="context_length_exceeded")
    if isinstance(error, _THEIRS):
        return bad_request(str(error))
    if isinstance(error, _BUSY):
        return ApiError(503, "unavailable_error", str(error), retry_after=1)
    if isinstance(error, MemoryError):  # of numpy, Pillow, or Python itself
        return ApiError(503, "unavailable_error", _NO_MEMORY, retry_after=1)
    if isinstance(error, (*_OURS, RknnError)):
        return ApiError(500, "server_error", str(error))
    return ApiError(
        500, "server_error", f"the server failed unexpectedly ({type(error).__name__}); its log says more"
    )


def as_network_error(error: BaseException) -> ApiError:
    """The same for the Open Inference Protocol: headers name the class of an error of the library, and its number."""
    if not isinstance(error, RknnError):
        return as_api_error(error)
    status = status_of(error).http
    kind = "invalid_request_error" if status < 500 else "server_error"
    problem = ApiError(status, kind, str(error), retry_after=1 if status == 503 else None)
    problem.headers.update({ERROR_KEY: type(error).__name__, CODE_KEY: str(error.code)})
    return problem


def problem_of(error: BaseException, path: str) -> ApiError:
    """An error as an answer to clients of that route."""
    if is_inference(path):
        return as_network_error(error)
    problem = as_api_error(error)
    if problem.status == 429 and is_anthropic(
        path, {}
    ):  # the queue is full: 429 is what a key has too much of
        problem.status = problem.code = 529
    return problem
