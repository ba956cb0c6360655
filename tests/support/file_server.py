"""A server of files that can be told to cut its answers and to send clients elsewhere."""

from __future__ import annotations

import hashlib
import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["serving"]


class _Files(http.server.BaseHTTPRequestHandler):
    """Files of ``server.folder``, with ranges and ETags."""

    server: Any

    def log_message(self, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        path = Path(self.server.folder) / self.path.lstrip("/")
        self.server.asked.append((path.name, self.headers.get("Range")))
        if path.name in self.server.own:
            self.server.own[path.name](self)
            return
        if path.name in self.server.moved:
            self.send_response(302)
            self.send_header("Location", self.server.moved[path.name])
            self.end_headers()
            return
        if not path.is_file():
            self.send_error(404)
            return
        data, start = path.read_bytes(), 0
        tag = f'"{hashlib.sha256(data).hexdigest()[:16]}"'
        if self.headers.get("If-None-Match") == tag:
            self.send_response(304)
            self.end_headers()
            return
        given = self.headers.get("Range", "")
        if given and self.headers.get("If-Range") == tag:
            start = int(given[6:-1])
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        else:
            self.send_response(200)
        self.server.sent.append(path.name)
        self.send_header("ETag", tag)
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        if self.server.cuts.get(path.name, 0) > 0:
            self.server.cuts[path.name] -= 1
            self.wfile.write(data[start : start + (len(data) - start) // 2])
            self.close_connection = True
            return
        self.wfile.write(data[start:])


@contextmanager
def serving(folder: Path) -> Iterator[Any]:
    """A server with ``url``; ``cuts`` says how often the second half of a file is left out, ``asked`` lists (name, range),
    ``moved`` has other addresses by name, ``own`` what answers instead, given the handler; ``sent`` lists names."""
    made: Any = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Files)
    made.folder, made.cuts, made.asked, made.moved, made.own, made.sent = folder, {}, [], {}, {}, []
    threading.Thread(target=made.serve_forever, args=(0.02,), daemon=True).start()
    made.url = f"http://127.0.0.1:{made.server_port}"
    try:
        yield made
    finally:
        made.shutdown()
        made.server_close()
