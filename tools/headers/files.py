"""Which headers there are, and where they lie."""

from __future__ import annotations

from pathlib import Path

from .parts import Header
from .rkllm import RKLLM
from .rkllm3_server import SERVER3
from .rknn import API
from .rknn3 import API3, FLOAT16, OP3
from .rknn_custom_op import CUSTOM_OP, OP
from .rknn_matmul import MATMUL

__all__ = ["HEADERS", "ROOT", "texts"]

ROOT = Path(__file__).resolve().parents[2]
_LIBRKNNRT = "plugins/rknnlite_librknnrt/include"
_LIBRKLLMRT = "plugins/rknnlite_librknnrt/rkllm_include"
_PLUGINS = "rknnlite/abi/include"
HEADERS: dict[str, tuple[Header, ...]] = {
    _LIBRKNNRT: (API, MATMUL, CUSTOM_OP, API3, FLOAT16, SERVER3),
    _PLUGINS: (OP, OP3),
    **{f"{_LIBRKLLMRT}/{version}": (header,) for version, header in RKLLM.items()},
}
"""Folder below the repository's -> its headers."""


def texts() -> dict[str, str]:
    """Path below the repository's folder -> the file's text."""
    return {
        f"{folder}/{header.file}": header.text() for folder, headers in HEADERS.items() for header in headers
    }
