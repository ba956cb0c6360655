"""Running a server: until a signal comes, or until another thread stops it."""

from __future__ import annotations

import enum
import logging
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional, Union

from rknnlite.errors import BackendUnavailable, ContextInvalid, ParamInvalid
from rknnlite.extras import missing
from rknnlite.files.json_text import parse_json
from rknnlite.files.reading import check_file

from .settings import ServerSettings, settings_from_params, settings_of

if TYPE_CHECKING:
    from .app_state import State

__all__ = ["ServerStatus", "serve", "start_server", "stop_server"]

_BACKLOG = 2048
_LEVELS = ("error", "warning", "info", "debug", "trace")
Config = Union[ServerSettings, Mapping[str, Any], str, "os.PathLike[str]"]


class ServerStatus(enum.Enum):
    """What a status callback hears, each with a text (RKNN3 guide, 3.5)."""

    MODEL_INITED = "initialised"
    EXITED = "exited"
    ERROR = "error"


StatusCallback = Callable[[ServerStatus, str], None]


def serve(
    settings: ServerSettings,
    on_status: StatusCallback = lambda status, text: None,
    log_level: int = 0,
    listening: Callable[[str, str], None] = lambda url, grpc: None,
) -> None:
    """Serve until SIGTERM or SIGINT; what runs is finished first, within ``settings.drain`` seconds.

    ``listening`` hears the address when clients can connect, before the models are loaded, and a sentence about gRPC, empty
    where nobody asked for it. ``log_level`` 0 (errors) to 4.
    Raises BackendUnavailable when a package or the address is missing, ParamInvalid for unusable settings.
    """
    _Running(settings, on_status, log_level).run(listening)


def start_server(config: Config, status_callback: Optional[StatusCallback] = None) -> None:
    """Serve until ``stop_server`` is called from another thread; one server per process.

    In the main thread SIGTERM and SIGINT end it as well; it then returns as usual.

    Args:
        config: settings, or what a file of parameters holds (as an object or as JSON), or the path of one.
        status_callback: hears ``(ServerStatus, text)``, in threads of the server.

    Raises:
        ContextInvalid: a server runs already.
        ParamInvalid, BackendUnavailable: as ``serve``.
    """
    global _current
    settings = _settings(config)
    with _lock:
        if _current is not None:
            raise ContextInvalid("a server runs in this process already; call stop_server first")
        on_status = status_callback or (lambda status, text: None)
        try:
            running = _current = _Running(settings, on_status, 1)
        except (BackendUnavailable, ParamInvalid) as error:
            on_status(ServerStatus.ERROR, str(error))
            raise
    try:
        running.run()
    finally:
        with _lock:
            _current = None


def stop_server() -> None:
    """End the server of ``start_server`` when its requests are answered; without one it does nothing."""
    with _lock:
        running = _current
    if running is not None:
        running.stop()


class _Running:
    """One uvicorn server."""

    def __init__(self, settings: ServerSettings, on_status: StatusCallback, log_level: int) -> None:
        try:
            import uvicorn

            from .app import make_app
            from .http_server import Connection, Server, listening
        except ImportError as error:
            raise missing("server", "the server cannot run", error) from None
        if not 0 <= log_level < len(_LEVELS):
            raise ParamInvalid(f"log-level is {log_level}, must be in 0..{len(_LEVELS) - 1}")
        self._callback, self._settings, self._ended = on_status, settings, False
        app = make_app(settings, on_status=self._on_status)
        self._state: State = app.state.rknnlite
        try:
            for path in filter(None, (settings.tls_cert, settings.tls_key)):
                check_file(Path(path))
            config = uvicorn.Config(
                app,
                log_level=_LEVELS[log_level],
                lifespan="on",
                http=Connection,
                ws="none",
                timeout_keep_alive=30,
                ssl_certfile=settings.tls_cert or None,
                ssl_keyfile=settings.tls_key or None,
                server_header=False,
            )
            config.load()
            logging.getLogger("uvicorn.access").addFilter(_without_query)
        except OSError as error:
            raise ParamInvalid(
                f"the certificate {settings.tls_cert} or its key {settings.tls_key} cannot be used: {error}"
            ) from None
        self._server = Server(config, settings.drain, self._state.end_runs, self._state.end_rpc)
        try:
            self._sockets = listening(settings.host, settings.port)
        except (OSError, UnicodeError, OverflowError) as error:
            text = f"{settings.host}:{settings.port} cannot be listened on ({error}); is another server running there?"
            raise BackendUnavailable(text) from None
        try:
            if self._state.rpc is not None:
                self._state.rpc.bind()
        except BackendUnavailable:
            self._close()
            raise

    @property
    def url(self) -> str:
        """Where clients connect."""
        host, port = self._sockets[0].getsockname()[:2]
        scheme = "https" if self._settings.tls_cert else "http"
        return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"

    @property
    def grpc(self) -> str:
        """What there is to say about gRPC."""
        return self._state.no_rpc if self._state.rpc is None else f"gRPC at {self._state.rpc.address}"

    def run(self, listening: Callable[[str, str], None] = lambda url, grpc: None) -> None:
        """Until the end."""
        try:
            for made in self._sockets:  # who hears the address may connect at once
                made.listen(_BACKLOG)
            with self._server.signals():
                listening(self.url, self.grpc)
                self._server.run(sockets=self._sockets)
        finally:
            self._close()
            self._state.close()
            self._on_status(ServerStatus.EXITED.value, "")

    def _close(self) -> None:
        for made in self._sockets:
            made.close()

    def stop(self) -> None:
        """End it, from any thread."""
        self._server.should_exit = True

    def _on_status(self, status: str, text: str) -> None:
        """The end is told once."""
        if not self._ended:
            self._ended = status == ServerStatus.EXITED.value
            self._callback(ServerStatus(status), text)


def _settings(config: Config) -> ServerSettings:
    if isinstance(config, ServerSettings):
        return config.checked()
    if isinstance(config, str) and config.lstrip().startswith("{"):
        try:
            config = parse_json(config)
        except ValueError as error:
            raise ParamInvalid(f"the configuration is no JSON: {error}") from None
    if isinstance(config, Mapping):
        return settings_of(config, ServerSettings(), "the configuration")
    return settings_from_params(os.fspath(config), ServerSettings())


def _without_query(record: logging.LogRecord) -> bool:
    """Cut what follows the question mark: careless clients put keys there, and none of our routes reads it."""
    if isinstance(record.args, tuple):
        record.args = tuple(arg.partition("?")[0] if isinstance(arg, str) else arg for arg in record.args)
    return True


_lock = threading.Lock()
_current: Optional[_Running] = None
