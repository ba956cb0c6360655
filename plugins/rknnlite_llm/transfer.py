"""One file from a URL or a path, in pieces, going on where it was cut."""

from __future__ import annotations

import base64
import binascii
import errno
import hashlib
import http.client
import re
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, Optional

from rknnlite.errors import BackendUnavailable, ModelInvalid, ParamInvalid
from rknnlite.files.reading import open_file, read_bytes
from rknnlite.files.writing import DiskFull, GrowingFile, write_file

from .public_hosts import ANY_HOST, public_opener

__all__ = ["Transfer", "check_room", "is_url"]

_BLOCK = 1 << 18
_TRIES = 4
_PATIENCE = 60.0  # seconds without a byte
_HEAD = 4096  # bytes by which it is told what a file is
_SLOWEST = 1024  # bytes a second
_KEEP_FREE = 64 << 20  # bytes of the disk that a file may not take
_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")
_MARK = re.compile(r'(?:W/)?"[\x21\x23-\x7e]{0,200}"')
_NOT_MODIFIED = 304
_GONE = (401, 403, 404, 410)


def is_url(source: str) -> bool:
    """Whether it is fetched over the network."""
    return source.lower().startswith(("http://", "https://"))


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Redirections stay within HTTP, and https does not become http."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        downgraded = req.full_url.lower().startswith("https:") and not newurl.lower().startswith("https:")
        if not is_url(newurl) or downgraded:
            raise ModelInvalid(f"{req.full_url} leads to {newurl[:200]}, which is not followed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class Transfer:
    """Brings ``address`` to ``target``; what came so far lies in ``target.part``, the server's mark of it in ``target.mark``.

    ``hosts`` as ``Fetch`` has them.
    """

    def __init__(
        self,
        address: str,
        target: Path,
        progress: Callable[[int, int], None],
        hosts: Optional[Collection[str]] = None,
    ) -> None:
        self._address, self._target, self._progress = address, target, progress
        everywhere = hosts is None or ANY_HOST in hosts
        self._opener = (
            urllib.request.build_opener(_Redirects) if everywhere else public_opener(hosts or (), _Redirects)
        )
        self._part = target.with_name(f"{target.name}.part")
        self._mark = target.with_name(f"{target.name}.mark")

    def run(self, refused: Callable[[bytes], Optional[str]], optional: bool) -> bool:
        """True when it is there; False where an optional file does not exist.

        ``refused`` says of the first bytes why the file is not wanted. Raises as ``fetch_model``.
        """
        if not is_url(self._address):
            return self._copy(refused, optional)
        for left in reversed(range(_TRIES)):
            before = self._size()
            self._progress(before, 0)
            try:
                return self._get(refused, optional)
            except _Cut as cut:
                if not left or (self._size() <= before and cut.refused):
                    raise BackendUnavailable(
                        f"{self._address}: {cut}; {self._size()} bytes are here, and the next try goes on behind them"
                    ) from None
                time.sleep(0.1)
        raise AssertionError

    def is_as_it_was(self) -> bool:
        """Whether the server still has the file that a former call brought to ``target``; raises BackendUnavailable."""
        mark = self._read_mark()
        if not mark:
            return False
        headers = {"User-Agent": "rknnlite", "If-None-Match": mark}
        try:
            request = urllib.request.Request(self._address, headers=headers)
            self._opener.open(request, timeout=_PATIENCE).close()
        except urllib.error.HTTPError as error:
            with error:
                return error.code == _NOT_MODIFIED
        except (OSError, http.client.HTTPException) as error:
            raise BackendUnavailable(f"{self._address}: nobody answers ({error})") from None
        return False

    def _read_mark(self) -> str:
        return read_bytes(self._mark).decode("ascii", "replace") if self._mark.is_file() else ""

    def _size(self) -> int:
        return self._part.stat().st_size if self._part.exists() else 0

    def _get(self, refused: Callable[[bytes], Optional[str]], optional: bool) -> bool:
        mark = self._read_mark()
        start = self._size() if mark else 0
        headers = {"User-Agent": "rknnlite", "Accept-Encoding": "identity"}
        if start:
            headers.update({"Range": f"bytes={start}-", "If-Range": mark})
        try:
            request = urllib.request.Request(self._address, headers=headers)
            answer = self._opener.open(request, timeout=_PATIENCE)
        except urllib.error.HTTPError as error:
            with error:
                if error.code in _GONE:
                    if optional and error.code in (404, 410):
                        return False
                    raise ModelInvalid(
                        f"{self._address}: the server answers {error.code} {error.reason}"
                    ) from None
                if 300 <= error.code < 400:
                    raise ModelInvalid(
                        f"{self._address}: leads to what is not followed: {error.reason}"
                    ) from None
                if error.code == 416:  # what is here is not a beginning of what is there
                    self._discard()
                raise _Cut(f"the server answers {error.code} {error.reason}", error.code != 416) from None
        except (OSError, http.client.HTTPException) as error:
            raise _Cut(f"nobody answers ({getattr(error, 'reason', error)})", True) from None
        except ValueError as error:
            raise ParamInvalid(f"{self._address[:200]}: no address: {error}") from None
        with answer:
            encoding = answer.headers.get("Content-Encoding", "identity").strip().lower()
            if encoding not in ("", "identity"):
                raise ModelInvalid(
                    f"{self._address}: the server sends it packed ({encoding[:40]}), though asked not to"
                )
            match = _RANGE.fullmatch(answer.headers.get("Content-Range", ""))
            goes_on = start > 0 and answer.status == 206 and match is not None and int(match[1]) == start
            if not goes_on:
                if answer.status == 206:
                    self._discard()
                    raise _Cut("the server answers another part than was asked for", True)
                self._discard()
            length = answer.headers.get("Content-Length", "")
            total = (self._size() + int(length)) if length.isdigit() else 0
            found = answer.headers.get("ETag", "")
            # a weak mark does not say that bytes are the same
            strong = _MARK.fullmatch(found) is not None and not found.startswith("W/")
            self._mark.unlink(missing_ok=True)
            if strong:
                write_file(self._mark, found.encode("ascii"))
            self._receive(answer, total, refused)
            self._check_digest(answer.headers.get("Repr-Digest", ""))
        self._finish()
        return True

    def _receive(self, answer: Any, total: int, refused: Callable[[bytes], Optional[str]]) -> None:
        file = GrowingFile(self._part)
        try:
            done = checked = file.size
            check_room(self._part.parent, total - done)
            for block in _blocks(answer, 0 if done else _HEAD):
                if not done:
                    if len(block) < min(total, _HEAD):
                        raise _Cut(f"the connection was cut behind {len(block)} of {total} bytes", False)
                    why = refused(block[:_HEAD])
                    if why:
                        file.discard()
                        raise ModelInvalid(f"{self._address}: {why}")
                file.append(block)
                done += len(block)
                self._progress(done, total)
                if done - checked > _KEEP_FREE // 2:  # nobody needs to say how much will come, or the truth
                    checked = done
                    check_room(self._part.parent, max(1, total - done))
            if total and done < total:
                raise _Cut(f"the connection was cut behind {done} of {total} bytes", False)
        finally:
            file.close()

    def _copy(self, refused: Callable[[bytes], Optional[str]], optional: bool) -> bool:
        path = Path(self._address)
        if not path.exists():
            if optional:
                return False
            raise ModelInvalid(f"{path}: no such file")
        self._discard()
        try:
            with open_file(path) as source:
                total = path.stat().st_size
                self._receive(source, total, refused)
        except _Cut as cut:
            raise ModelInvalid(f"{path}: {cut}") from None
        self._finish()
        return True

    def _check_digest(self, told: str) -> None:
        """Compare with what the server itself says (RFC 9530)."""
        match = re.search(r"sha-256=:([A-Za-z0-9+/=]+):", told)
        if match is None:
            return
        digest = hashlib.sha256()
        with open_file(self._part) as file:
            for block in iter(lambda: file.read(1 << 20), b""):
                digest.update(block)
        try:
            wanted = base64.b64decode(match[1], validate=True)
        except (binascii.Error, ValueError):
            return
        if digest.digest() != wanted:
            self._discard()
            raise ModelInvalid(
                f"{self._address}: SHA-256 {digest.hexdigest()}, its server says {wanted.hex()}; nothing of it is kept"
            )

    def _finish(self) -> None:
        self._part.chmod(0o644)
        self._part.replace(self._target)

    def _discard(self) -> None:
        self._part.unlink(missing_ok=True)
        self._mark.unlink(missing_ok=True)


def check_room(folder: Path, wanted: int) -> None:
    """Before so many bytes come: raises DiskFull where they would not fit, with some room left for others."""
    free = shutil.disk_usage(folder).free
    if wanted > 0 and wanted + _KEEP_FREE > free:
        text = f"{wanted} bytes are to come, and {free} are free; make room"
        raise DiskFull(errno.ENOSPC, text, str(folder))


def _blocks(source: Any, head: int) -> Iterator[bytes]:
    """What comes, as it comes: a slow server is seen to be one. The first block has ``head`` bytes, or is all. Raises _Cut."""
    read = getattr(source, "read1", source.read)
    first, count, since = b"", 0, time.monotonic()
    while True:
        try:
            block = read(_BLOCK)
        except (OSError, http.client.HTTPException) as error:
            raise _Cut(f"the connection was cut ({error})", False) from None
        count += len(block)
        if time.monotonic() - since > _PATIENCE:
            if count < _PATIENCE * _SLOWEST:
                raise _Cut(f"the server sends less than {_SLOWEST} bytes a second", False)
            count, since = 0, time.monotonic()
        if head:
            first += block
            if block and len(first) < head:
                continue
            block, head = first, 0
        if not block:
            return
        yield block


class _Cut(Exception):
    """It may go on; ``refused``: by a server that would answer the same again at once."""

    def __init__(self, text: str, refused: bool) -> None:
        super().__init__(text)
        self.refused = refused
