"""Running a server: until a signal comes, or until another thread stops it."""

from __future__ import annotations

import enum
import inspect
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any, Optional, Union

from rknnlite.errors import BackendUnavailable, ContextInvalid, ParamInvalid
from rknnlite.extras import missing

from .settings import ServerSettings, settings_from_params, settings_of

__all__ = ["ServerStatus", "serve", "start_server", "stop_server"]

Config = Union[ServerSettings, Mapping[str, Any], str, "os.PathLike[str]"]


class ServerStatus(enum.Enum):
    """What a status callback hears, each with a text (RKNN3 guide, 3.5)."""

    MODEL_INITED = "initialised"
    EXITED = "exited"
    ERROR = "error"


StatusCallback = Callable[[ServerStatus, str], None]


def serve(
    settings: ServerSettings, told: StatusCallback = lambda status, text: None, log_level: str = "info"
) -> None:
    """Serve until SIGTERM or SIGINT; what runs is finished first, within ``settings.drain`` seconds.

    Raises BackendUnavailable when a package or the address is missing, ParamInvalid for unusable settings.
    """
    _Running(settings, told, log_level).run()


def start_server(config: Config, status_callback: Optional[StatusCallback] = None) -> None:
    """Serve until ``stop_server`` is called from another thread; one server per process.

    Args:
        config: settings, or what a file of parameters holds, or the path of one.
        status_callback: hears ``(ServerStatus, text)``, in threads of the server.

    Raises:
        ContextInvalid: a server runs already.
        ParamInvalid, BackendUnavailable: as ``serve``.
    """
    global _current
    settings = _settings(config)
    running = _Running(settings, status_callback or (lambda status, text: None), "warning")
    with _lock:
        if _current is not None:
            raise ContextInvalid("a server runs in this process already; call stop_server first")
        _current = running
    try:
        running.run(signals=False)
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

    def __init__(self, settings: ServerSettings, told: StatusCallback, log_level: str) -> None:
        try:
            import uvicorn

            from .app import make_app
        except ImportError as error:
            raise missing("server", "the server cannot run", error) from None
        self._told, self._settings = told, settings
        app = make_app(settings, told=lambda status, text: told(ServerStatus(status), text))
        wanted: dict[str, Any] = {
            "host": settings.host, "port": settings.port, "log_level": log_level, "lifespan": "on",
            "ssl_certfile": settings.tls_cert or None, "ssl_keyfile": settings.tls_key or None,
            "timeout_graceful_shutdown": int(settings.drain), "timeout_keep_alive": 30, "server_header": False,
            "h11_max_incomplete_event_size": 1 << 16,
        }  # fmt: skip
        known = inspect.signature(uvicorn.Config).parameters  # older ones have fewer
        try:
            config = uvicorn.Config(app, **{name: value for name, value in wanted.items() if name in known})
            if settings.tls_cert:
                config.load()
        except OSError as error:
            raise ParamInvalid(f"the certificate or its key cannot be used: {error}") from None
        self._server = uvicorn.Server(config)

    def run(self, signals: bool = True) -> None:
        """Until the end."""
        if not signals:
            self._server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
            self._server.capture_signals = _no_signals  # type: ignore[method-assign]
        try:
            self._server.run()
        except SystemExit:
            raise BackendUnavailable(
                f"{self._settings.host}:{self._settings.port} cannot be listened on; is another server running there?"
            ) from None

    def stop(self) -> None:
        """End it, from any thread."""
        self._server.should_exit = True


class _no_signals:
    """In the place of uvicorn's signal handlers: threads that are not the main one have none."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exc: object) -> None:
        return None


def _settings(config: Config) -> ServerSettings:
    if isinstance(config, ServerSettings):
        return config.checked()
    if isinstance(config, Mapping):
        return settings_of(config, ServerSettings(), "the configuration")
    return settings_from_params(os.fspath(config), ServerSettings())


_lock = threading.Lock()
_current: Optional[_Running] = None
