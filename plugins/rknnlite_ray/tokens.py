"""Whether a cluster asks for a token: one that does not runs programs for whoever connects."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

from rknnlite.errors import DeviceUnavailable, ParamInvalid
from rknnlite.extras import missing

__all__ = ["check_token"]

_CONNECT, _SECONDS = 5.0, 60.0
_SETTINGS = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
_REFUSED = "AuthenticationError"
"""What Ray's command ends with where a token is missing or wrong."""


def check_token(address: str, insecure: bool = False) -> bool:
    """Ask a cluster without a token, and then with ours; whether it wants one.

    Args:
        address: of the head, ``HOST:PORT``.
        insecure: accept a cluster that wants none.

    Raises:
        ParamInvalid: it answers without a token, or ours is none of its.
        DeviceUnavailable: nobody answers there. MissingExtra: Ray is not installed.
    """
    try:
        import ray  # noqa: F401  its command is run
    except ImportError as error:
        raise missing("ray", "a cluster cannot be asked", error) from None

    _reach(address)
    without = {name: value for name, value in os.environ.items() if name not in _SETTINGS}
    if _answers(address, {**without, "RAY_AUTH_MODE": "disabled"}):
        if insecure:
            return False
        raise ParamInvalid(
            f"the cluster at {address} answers without a token, so whoever reaches it can run programs on all its nodes, "
            "and would on this one. Start its head with RAY_AUTH_MODE=token (Ray 2.52 and newer); --insecure accepts it "
            "in a network of its own"
        )
    try:
        ours = _answers(address, {**os.environ, "RAY_AUTH_MODE": "token"})
    except DeviceUnavailable:  # it answered just now: Ray ends where this machine has no token at all
        ours = False
    if not ours:
        raise ParamInvalid(
            f"the cluster at {address} asks for a token that this machine does not have; copy ~/.ray/auth_token of its "
            "head to here"
        )
    return True


def _reach(address: str) -> None:
    """Raise DeviceUnavailable at once where nobody listens, for which Ray waits 40 s."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise ParamInvalid(f"{address!r} is no address of a head; name HOST:PORT, such as 192.168.1.10:6379")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT).close()
    except (OSError, OverflowError) as error:
        raise DeviceUnavailable(f"{address}: no cluster answered: {error}") from None


def _answers(address: str, environment: dict[str, str]) -> bool:
    """True for an answer, False where the token is wrong. A process of its own: Ray reads its settings once."""
    command = [sys.executable, "-m", "ray.scripts.scripts", "health-check", "--address", address]
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise DeviceUnavailable(f"{address}: no cluster answered within {_SECONDS:g} s") from None
    if done.returncode == 0:
        return True
    if _REFUSED in done.stderr:
        return False
    lines = done.stderr.strip().splitlines()
    raise DeviceUnavailable(f"{address}: no cluster answered{': ' + lines[-1] if lines else ''}")
