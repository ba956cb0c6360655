"""Keys that clients must have one of: a line each in a file that may be changed while the server runs.

::

    # key, then what it is called in the audit, and its limits: requests and tokens a minute, requests at a time
    7dN1cJ0mQm2w
    kq83hLxZ5bYt name=alice requests=60 tokens=20000 concurrent=4
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

from rknnlite.errors import ParamInvalid, shown
from rknnlite.files.reading import read_text

from .rate_limits import Account, Limits

__all__ = ["Key", "Keyring", "read_keys"]

logger = logging.getLogger("rknnlite.server")
_LOOK_SECONDS = 1.0
_MOST = 1 << 30
_LIMITS = ("requests", "tokens", "concurrent")


@dataclass(frozen=True)
class Key:
    """``secret`` is what clients send, ``name`` what the audit calls it."""

    secret: bytes = field(repr=False)
    name: str
    limits: Limits = field(default_factory=Limits)


def keys_of(lines: Iterable[str], label: str) -> tuple[Key, ...]:
    """The keys that lines hold; raises ParamInvalid, which names the line and never the key."""
    found: dict[bytes, Key] = {}
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        key = _key(words, f"key-{len(found) + 1}", f"{label}, line {number}")
        if key.secret in found:
            raise ParamInvalid(f"{label}, line {number}: this key is there before")
        found[key.secret] = key
    return tuple(found.values())


def _key(words: list[str], name: str, label: str) -> Key:
    given: dict[str, int] = {}
    for word in words[1:]:
        option, sign, value = word.partition("=")
        if option == "name" and value:
            name = value
        elif option in _LIMITS and value.isascii() and value.isdigit() and 0 < int(value[:12]) <= _MOST:
            given[option] = int(value)
        elif sign and option in _LIMITS:
            raise ParamInvalid(f"{label}: {option} must be a whole number in 1..{_MOST}")
        else:
            raise ParamInvalid(f"{label}: behind the key there may be name=, {'=, '.join(_LIMITS)}=")
    return Key(words[0].encode(), name, Limits(**given))


def read_keys(path: str) -> tuple[Key, ...]:
    """The keys of a file, at least one; raises ParamInvalid."""
    found = _read(path)
    if not found:
        raise ParamInvalid(f"--api-key-file {path}: holds no key; write one a line")
    return found


def _read(path: str) -> tuple[Key, ...]:
    try:
        return keys_of(read_text(Path(path)).splitlines(), f"--api-key-file {path}")
    except (OSError, ValueError) as error:
        raise ParamInvalid(f"--api-key-file {path}: {shown(error)}") from None


class Keyring:
    """Finds the account of a request. ``clock`` in seconds; for one event loop."""

    def __init__(
        self, lines: tuple[str, ...] = (), path: str = "", clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Keys that stay, and those of a file, which is looked at again as requests come. Raises ParamInvalid."""
        self._fixed, self._path, self._clock = keys_of(lines, "api_keys"), path, clock
        self._accounts: dict[bytes, Account] = {}
        self._state: Optional[tuple[int, ...]] = None
        self._looked = clock()
        self.open = not lines and not path
        """Whether there are no keys, and everybody is let in."""
        self._state = self._file_state()
        self._take(read_keys(path) if path else ())
        if path:
            self._warn()

    def account(self, authorization: str) -> Optional[Account]:
        """Whose request it is by its header ``Authorization``, None for nobody's; takes the same time for each key.

        Headers are bytes, read as Latin-1.
        """
        scheme, _, key = authorization.partition(" ")
        given = key.strip().encode("latin-1") if scheme.lower() == "bearer" else b""
        self._look()
        found = None
        for secret, account in self._accounts.items():
            if hmac.compare_digest(given, secret):
                found = account
        return found

    def of_identity(self, identity: str) -> Optional[Account]:
        """The account of that identity, None where its key is gone."""
        self._look()
        return next((one for one in self._accounts.values() if one.identity == identity), None)

    def _look(self) -> None:
        """Read a file that was changed. One that cannot be read changes nothing; one without keys leaves none."""
        if not self._path or self._clock() - self._looked < _LOOK_SECONDS:
            return
        self._looked = self._clock()
        state = self._file_state()
        if state == self._state:
            return
        self._state = state
        try:
            found = _read(self._path)
        except ParamInvalid as error:
            logger.error("%s; the keys stay as they were", error)
            return
        self._take(found)
        self._warn()
        logger.info("--api-key-file %s was changed: %d keys", self._path, len(found))

    def _warn(self) -> None:
        """Others should not read the keys; who is in the file's group may be meant to."""
        try:
            mode = os.stat(self._path).st_mode  # noqa: PTH116
        except (OSError, ValueError):
            return
        if os.name == "posix" and mode & 0o007:
            logger.warning(
                "--api-key-file %s: every user of this machine may read it; run chmod o= on it", self._path
            )

    def _file_state(self) -> Optional[tuple[int, ...]]:
        try:
            found = os.stat(self._path)  # noqa: PTH116  a number is a path too
        except (OSError, ValueError):
            return None
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns

    def _take(self, keys: Iterable[Key]) -> None:
        """Keys that are known already go on with what they have spent."""
        before, self._accounts = self._accounts, {}
        for key in (*self._fixed, *keys):
            account = before.get(key.secret)
            if account is None:
                account = Account(key.name, key.limits, self._clock, _identity(key.secret))
            else:
                account.change(key.name, key.limits)
            self._accounts[key.secret] = account


def _identity(secret: bytes) -> str:
    """Of the owner of files, which lie in a private folder: tells a key from others, and not what it is."""
    return hashlib.blake2b(secret, digest_size=16, person=b"rknnlite-owner").hexdigest()
