"""Language models: open a package, talk to it, export one.

>>> from rknnlite.llm import Chat
>>> with Chat("models/tiny") as chat:                     # doctest: +SKIP
...     for piece in chat.stream("What is 12 + 30?"):
...         print(piece, end="", flush=True)
"""

from __future__ import annotations

from .embedding import Embedder
from .export import export_llm
from .opening import Chat, open_llm
from .package import EmbedTable, Package
from .reranking import Reranker
from .stream import astream, stream
from .tokenizer import Tokenizer

__all__ = [
    "Chat", "EmbedTable", "Embedder", "Package", "Reranker", "Tokenizer", "astream", "export_llm", "open_llm", "stream",
]  # fmt: skip
