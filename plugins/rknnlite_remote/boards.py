"""Which board is meant: addresses, keys and certificates, from ``device_id``, ``RKNNLITE_REMOTE`` and ``remotes``."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from rknnlite import config
from rknnlite.errors import BackendUnavailable, ParamInvalid, shown
from rknnlite.files.reading import open_file

__all__ = ["Board", "configured", "host_of", "meant", "parts"]

_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.%\w]+\]|[A-Za-z0-9][A-Za-z0-9._-]*):([0-9]{1,5})")
_ADB = 5555
"""Port of adb over a network: ``192.168.1.20:5555`` is a serial number of adb, which is ignored here."""


@dataclass(frozen=True)
class Board:
    """One board, or several alike that are balanced: ``HOST:PORT`` each."""

    addresses: tuple[str, ...]
    name: str = ""
    key: str = field(default="", repr=False)
    ca: str = ""
    server_name: str = ""
    tls: bool = False
    key_without_tls: bool = False

    @property
    def label(self) -> str:
        """What messages call it."""
        where = ",".join(self.addresses)
        return f"{self.name} ({where})" if self.name else where

    @property
    def encrypted(self) -> bool:
        """Whether the connection is."""
        return self.tls or bool(self.ca)

    def check_key(self) -> None:
        """Raise ParamInvalid where the key would be readable on its way."""
        open_ways = [address for address in self.addresses if not _is_here(host_of(address))]
        if self.key and open_ways and not (self.encrypted or self.key_without_tls):
            raise ParamInvalid(
                f"board {self.label}: its key would go to {open_ways[0]} unencrypted, where everybody on the way can read "
                "it; give its certificate (ca) in remotes, or say key_without_tls: true"
            )


def meant(device_id: str | None) -> Board | None:
    """The board that ``device_id`` names, else ``RKNNLITE_REMOTE``; None for an id of something else.

    Raises:
        BackendUnavailable: neither names anything. ParamInvalid: what is named cannot be used.
    """
    if device_id:
        found = _by_name(device_id) or _by_address(device_id)
        if found is not None or not config.get("remote"):
            return found
    named = config.get("remote")
    if not named:
        raise BackendUnavailable("no board is named; give device_id='HOST:PORT', or set RKNNLITE_REMOTE")
    found = _by_name(named) or _by_address(named)
    if found is None:
        known = ", ".join(config.entries("remotes")) or "none"
        raise ParamInvalid(
            f"RKNNLITE_REMOTE is {shown(named)}, which is neither HOST:PORT nor among remotes (there: {known})"
        )
    return found


def parts(device_id: str) -> list[str]:
    """Every board that an id names, or several with commas between, by an id of its own; none where one is unknown.

    Raises:
        ParamInvalid: an entry of ``remotes`` that cannot be used.
    """
    found: list[str] = []
    for part in map(str.strip, device_id.split(",")):
        board = _by_name(part) or _by_address(part)
        if board is None:
            return []
        found += [part] if len(board.addresses) == 1 else board.addresses
    return list(dict.fromkeys(found))


def configured() -> list[Board]:
    """The boards of the configuration, and that of ``RKNNLITE_REMOTE``; those that cannot be used are left out."""
    found: list[Board] = []
    for name in [*config.entries("remotes"), config.get("remote")]:
        try:
            board = (_by_name(name) or _by_address(name)) if name else None
        except ParamInvalid:
            continue
        if board is not None and board not in found:
            found.append(board)
    return found


def host_of(address: str) -> str:
    """The host of ``HOST:PORT``, without the brackets of IPv6."""
    return address.rpartition(":")[0].strip("[]")


def _by_name(name: str) -> Board | None:
    entry = config.entries("remotes").get(name)
    if entry is None:
        return None
    addresses = _addresses(entry.get("address", ""))
    if addresses is None:
        raise ParamInvalid(
            f"remotes.{name}: address is {shown(entry.get('address', ''))}, must be HOST:PORT, or several"
        )
    return Board(
        addresses,
        name,
        _key(name, entry),
        _path(entry.get("ca", "")),
        entry.get("server_name", ""),
        entry.get("tls", "0") not in ("", "0"),
        entry.get("key_without_tls", "0") not in ("", "0"),
    )


def _by_address(text: str) -> Board | None:
    """A board by its addresses; what ``remotes`` says of an entry that has them all holds for it."""
    addresses = _addresses(text)
    if addresses is None:
        return None
    for name, entry in config.entries("remotes").items():
        known = _addresses(entry.get("address", "")) or ()
        if set(addresses) <= set(known):
            board = _by_name(name)
            if board is not None:
                return replace(board, addresses=addresses, name=name if len(known) == len(addresses) else "")
    return Board(addresses)


def _addresses(text: str) -> tuple[str, ...] | None:
    found = []
    for part in text.split(","):
        match = _ADDRESS.fullmatch(part.strip())
        if match is None or not 0 < int(match[2]) < 1 << 16 or int(match[2]) == _ADB:
            return None
        found.append(part.strip())
    return tuple(dict.fromkeys(found))


def _key(name: str, entry: dict[str, str]) -> str:
    if "key_file" not in entry:
        return entry.get("key", "")
    file = _path(entry["key_file"])
    try:
        with open_file(Path(file)) as opened:
            line = opened.read(4096).decode("ascii").partition("\n")[0].strip()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "no text of ASCII"
        raise ParamInvalid(f"remotes.{name}: the key file {file} cannot be read: {why}") from None
    if not line:
        raise ParamInvalid(f"remotes.{name}: the first line of the key file {file} is empty")
    return line


def _path(text: str) -> str:
    return str(Path(text).expanduser()) if text else ""


def _is_here(host: str) -> bool:
    """Whether it is this very machine."""
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host == "localhost"
