"""Who may add models to a server and delete them."""

from __future__ import annotations

import ipaddress
from pathlib import Path

from starlette.requests import Request

from ..app_state import state_of
from ..errors import ApiError

__all__ = ["is_local", "managed_folder"]

_PROXIES = ("forwarded", "x-forwarded-for", "x-real-ip")
"""Headers by which a proxy says that somebody else asks."""


def managed_folder(request: Request) -> Path:
    """The folder of models, for a request that may change it: of a program on this machine, or with ``--allow-manage``.

    The key was checked before. Raises ApiError: 501 without a folder, 403 for others.
    """
    state = state_of(request)
    state.check_ready()
    folder = state.library.folder
    if folder is None:
        raise ApiError(
            501,
            "not_supported_error",
            f"{request.url.path} is not available: this server has the models that it was started with; --llm-repository DIR "
            "gives it a folder for others",
        )
    if not state.settings.allow_manage and not is_local(request):
        raise ApiError(
            403,
            "permission_error",
            f"{request.url.path} is for programs on the server's own machine; --allow-manage opens it to others",
            code="not_local",
        )
    return folder


def is_local(request: Request) -> bool:
    """Whether a program of this machine asks, and no proxy for somebody else."""
    if request.client is None or any(name in request.headers for name in _PROXIES):
        return False
    try:
        address = ipaddress.ip_address(request.client.host.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)
