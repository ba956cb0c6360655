"""Builds the test double of librkllmrt and steers it: a real shared library of any layout, written in C, own code.

The C declarations are made of the ctypes table, see ``declare.py``; models of the double are texts, see ``model.c``:

>>> content = model("op say hello", "limit 2048", toolkit="1.2.3")
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from rknnlite_llm.chat_template import CHATML
from rknnlite_llm.gguf import write_gguf
from rknnlite_rkllm.abi.revisions import VERSIONS, revision_of

from tests.doubles.double import FLAGS, Double, compile_c

from .declare import header

__all__ = ["SANITIZE", "StandIn", "build", "model", "records", "tokenizer"]

HERE = Path(__file__).parent
NAME = "librkllmrt.so"
SANITIZE = ("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer")
"""Flags of the variant that finds mistakes of memory; a program that loads it preloads libasan."""


def build(
    version: str | None = None,
    marker: str | None = None,
    layout: str | None = None,
    flags: tuple[str, ...] = (),
    cc: str | None = None,
) -> Path:
    """The library of a version: its layout, its exports, its marker in the file.

    ``version`` None: the environment variable ``RKLLM_DOUBLE_VERSION``, else 1.2.3. ``marker`` other than None: the version
    that the file claims, ``""`` for none, ``"1.1.4+1.2.0"`` for two that contradict. ``layout`` None: that of the version.
    ``cc`` is another compiler; ``RKNN_DOUBLE_DIR`` a folder with libraries that were built before and
    ``RKNN_DOUBLE_CFLAGS`` more flags, as for the other doubles.
    """
    version = version or os.environ.get("RKLLM_DOUBLE_VERSION") or "1.2.3"
    ready = os.environ.get("RKNN_DOUBLE_DIR")
    if ready and marker is None and layout is None and not flags and cc is None:
        return Path(ready) / version / NAME
    sources = [HERE.parent / "control.c", *sorted(HERE.glob("*.c"))]
    includes = (
        "-O1",
        "-D_GNU_SOURCE",
        "-include",
        str(declarations(layout or version)),
        "-include",
        str(HERE / "standin.h"),
    )
    extra = tuple(os.environ.get("RKNN_DOUBLE_CFLAGS", "").split())
    claims = (version if marker is None else marker).split("+")
    claimed = (
        f'-DMARKER="{claims[0]}"' if claims[0] else "-DNO_MARKER",
        *(f'-DOTHER_MARKER="{c}"' for c in claims[1:]),
    )
    return compile_c(
        sources,
        (*FLAGS, f"-Wl,-soname,{NAME}", *includes, f'-DVERSION="{version}"', *claimed, *flags, *extra),
        NAME,
        cc,
    )


def declarations(version: str) -> Path:
    """A file with the C declarations of a version's layout, named by its content."""
    text = header(revision_of(version))
    folder = Path(tempfile.gettempdir()) / f"rknnlite-native-{os.getuid()}"
    path = folder / f"rkllm-{hashlib.sha256(text.encode()).hexdigest()[:16]}.h"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=folder, delete=False) as file:
            file.write(text)
        Path(file.name).replace(path)
    return path


def model(*lines: str, toolkit: str | None = "1.2.3") -> bytes:
    """The bytes of a ``.rkllm`` file of the double; from outside it looks like a genuine one.

    ``toolkit`` None: without the text at the end.
    """
    head = (
        b"\x91\x1e\xa7\x5c"
        + (3).to_bytes(4, "little")
        + (7).to_bytes(8, "little")
        + (5).to_bytes(8, "little")
    )
    body = "\n".join(["RKLLM DOUBLE 1", *lines, ""]).encode()
    return head + body + (f"rkllm-toolkit version: {toolkit}".encode() if toolkit else b"")


def tokenizer(template: str = CHATML) -> bytes:
    """The bytes of a ``.tokenizer.gguf`` whose tokens are those of the double: bytes."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in shown]
    names = {**{byte: chr(byte) for byte in shown}, **{byte: chr(256 + n) for n, byte in enumerate(others)}}
    special = ["<unused>", "<eos>", "<video>", "<image>"]
    return write_gguf({
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "qwen2", "tokenizer.ggml.merges": [],
        "tokenizer.ggml.tokens": [*(names[byte] for byte in range(256)), *special],
        "tokenizer.ggml.token_type": np.array([1] * 256 + [3] * len(special), np.int32),
        "tokenizer.ggml.eos_token_id": 257, "tokenizer.chat_template": template,
    })  # fmt: skip


def records(log: Path, call: str | None = None) -> list[dict[str, Any]]:
    """What ``RKLLM_DOUBLE_LOG`` holds: one entry per call, in order; those of one function if asked for."""
    lines = log.read_text(encoding="utf-8", errors="surrogateescape").splitlines() if log.exists() else []
    entries = [json.loads(line) for line in lines]
    return [entry for entry in entries if call in (None, entry["call"])]


class StandIn(Double):
    """The loaded double: faults, counters, modes, and what is alive in it."""

    KINDS = ("handles", "buffers", "caches", "loras", "threads", "misordered", "races", "stale")

    def mode(self, **settings: str | int) -> None:
        """Change how it behaves, see ``modes_t``: ``mode(token_us=500, strike="crash@5")``."""
        self.lib.double_mode(",".join(f"{name}={value}" for name, value in settings.items()).encode())

    def plain(self) -> None:
        """Forget modes, faults and counts."""
        self.lib.double_plain()
        self.reset()


def _main(given: list[str]) -> None:
    """``VERSION``: print the path of its library. ``FOLDER`` with CC: one library per version, for another machine."""
    if not given or not Path(given[0]).is_dir():
        print(build(given[0] if given else None))
        return
    for version in VERSIONS:
        place = Path(given[0]) / version
        place.mkdir(exist_ok=True)
        shutil.copy(build(version, cc=os.environ["CC"]), place)


if __name__ == "__main__":
    _main(sys.argv[1:])
