"""One replica behind Ray Serve: a context on a core of its own, and what it answers."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Optional
from urllib.parse import unquote

from rknnlite_protocol.error_status import CODE_KEY, ERROR_KEY, Status, status_of
from rknnlite_protocol.execution import answer
from rknnlite_protocol.metadata import VERSION, model_metadata
from rknnlite_protocol.requests import InferRequest, InferResponse
from rknnlite_protocol.rest_codec import HEADER_LENGTH, parse_request, response_body
from rknnlite_protocol.traces import in_this_trace, traces_until_the_end

from rknnlite._version import __version__
from rknnlite.errors import RknnError, shown

from .cores import WorkerCores
from .opening import open_on_node
from .problems import public_class, with_place

__all__ = ["Replica"]

logger = logging.getLogger("rknnlite.ray")
_MODEL = re.compile(r"/v2/models/([^/]+)(?:/versions/([^/]+))?(/ready|/infer)?")
_EXTENSIONS = ("binary_tensor_data",)
_OUR_FAULT = (Status.AWAY, Status.FAILED, Status.FULL, Status.LATE)


class Refused(Exception):
    """A request that has no place here: its status and what to say."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Replica:
    """The class of the deployment. Serve calls it with a request of starlette and wants a response of it.

    Raises:
        What ``rknnlite.open`` raises, with the machine's name; Serve then reports the deployment as failed.
    """

    def __init__(
        self,
        model: Any,
        name: str,
        backend: Optional[str],
        cores: WorkerCores,
        max_body: int,
        traces: Optional[str] = None,
        **options: Any,
    ) -> None:
        self._name, self._max_body = name, max_body
        self._traces = traces_until_the_end(self, traces)
        try:
            self._opened = open_on_node(model, backend, cores, threads=_processors(), **options)
        except RknnError as error:
            raise with_place(f"model {name} cannot be opened", error) from error
        self._thread = ThreadPoolExecutor(1, "rknnlite")
        self._broken: Optional[RknnError] = None

    async def __call__(self, request: Any) -> Any:
        """Answer a request; every error is an answer too."""
        if self._traces is None:
            return await self._answered(request)
        found = _MODEL.fullmatch(_path(request))
        route = f"/v2/models/{{name}}{found[3] or ''}" if found else "/v2"
        attributes = {"http.request.method": request.method, "http.route": route}
        name = f"{request.method} {route}"
        with self._traces.span(name, "SERVER", dict(request.headers), attributes) as span:
            answered = await self._answered(request)
            span.set_attribute("http.response.status_code", answered.status_code)
            if answered.status_code >= 500:
                self._traces.failed(span, str(answered.status_code))
            return answered

    async def _answered(self, request: Any) -> Any:
        from starlette.responses import JSONResponse

        try:
            return await self._routed(request, _path(request))
        except Refused as error:
            return JSONResponse({"error": str(error)}, error.status)
        except RknnError as error:
            status = status_of(error)
            if status in _OUR_FAULT:
                self._broken = error
                logger.error("%s: %s", request.url.path, error, exc_info=error)
            headers = {ERROR_KEY: public_class(error).__name__, CODE_KEY: str(error.code)}
            return JSONResponse({"error": str(error)}, status.http, headers)

    def check_health(self) -> None:
        """Serve asks now and then, and replaces a replica whose NPU or runtime failed."""
        if self._broken is not None:
            raise self._broken

    def close(self) -> None:
        """Give context and core back; Serve ends the process instead."""
        self._thread.shutdown()
        self._opened.close()

    # -- routes -------------------------------------------------------------------------------------------

    async def _routed(self, request: Any, path: str) -> Any:
        found = _MODEL.fullmatch(path)
        action = found[3] if found else None
        wanted = "POST" if action == "/infer" else "GET"
        if found is None and path not in ("/v2", "/v2/health/live", "/v2/health/ready"):
            raise Refused(404, f"{request.method} {path}: there is no such path")
        if request.method != wanted and (request.method, wanted) != ("HEAD", "GET"):
            raise Refused(405, f"{path} answers {wanted}, not {request.method}")
        if found is None:
            return self._of_server(path)
        self._check_name(unquote(found[1]), found[2])
        if action == "/infer":
            return await self._infer(request)
        return _json({"name": self._name, "ready": True} if action else self._metadata())

    def _of_server(self, path: str) -> Any:
        if path == "/v2":
            return _json({"name": "rknnlite", "version": __version__, "extensions": list(_EXTENSIONS)})
        return _json({path.rpartition("/")[2]: True})

    def _check_name(self, name: str, version: Optional[str]) -> None:
        if name != self._name:
            raise Refused(404, f"there is no model {shown(name)} here, but {self._name!r}")
        if version not in (None, VERSION):
            raise Refused(404, f"model {self._name} has the version {VERSION}, not {shown(version)}")

    def _metadata(self) -> dict[str, Any]:
        context = self._opened.context
        return model_metadata(self._name, context, shapes=context.shapes)

    async def _infer(self, request: Any) -> Any:
        asked = parse_request(self._name, await self._body(request), request.headers.get(HEADER_LENGTH))
        response = await asyncio.get_running_loop().run_in_executor(
            self._thread, in_this_trace(self._answer), asked
        )
        parts, length = response_body(asked, response)
        if length is None:
            return _response(parts[0], "application/json", {})
        return _response(b"".join(parts), "application/octet-stream", {HEADER_LENGTH: str(length)})

    def _answer(self, request: InferRequest) -> InferResponse:
        return answer(self._opened.context, request)

    async def _body(self, request: Any) -> bytes:
        data = bytearray()
        async for chunk in request.stream():
            data += chunk
            if len(data) > self._max_body:
                raise Refused(
                    413, f"the body has more than {self._max_body} bytes, the most that is taken here"
                )
        return bytes(data)


def _path(request: Any) -> str:
    """From ``/v2`` on, wherever the application was put: at the root, below a word, or at its model's own path."""
    path, root = request.scope["path"], request.scope.get("root_path", "").rstrip("/")
    whole = str(path if path.startswith(root) else root + path).rstrip("/")
    return whole[max(0, whole.find("/v2")) :]


def _processors() -> int:
    """Threads of the CPU reference: the processors that Ray gave to this replica, at least one."""
    import ray

    return max(1, int(ray.get_runtime_context().get_assigned_resources().get("CPU", 1)))


def _json(value: Any) -> Any:
    return _response(json.dumps(value).encode(), "application/json", {})


def _response(body: Any, kind: str, headers: dict[str, str]) -> Any:
    from starlette.responses import Response

    return Response(body, media_type=kind, headers=headers)
