"""Texts to embeddings: a package, its tokenizer and its table, opened together."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Optional, Union

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import InputInvalid, ParamInvalid

from .opening import open_llm
from .package import Package
from .tokenizer import Tokenizer

__all__ = ["Embedder", "length_one", "shortened", "text_tokens"]

Array = NDArray[Any]


class Embedder:
    """``Embedder("models/bge").embed(["a text", "another"])``: float32 (2, dimensions), to be compared by dot products.

    Prompts that a model wants in front of a text (``query: ``, instructions) are the caller's to put there.

    Examples:
        >>> with Embedder("examples/llm_chat/models/tiny") as embedder:
        ...     found = embedder.embed(["What is 1 + 2?", "What day is it?"])
        >>> found.shape[0], found.dtype.name
        (2, 'float32')
    """

    def __init__(self, prefix: str | os.PathLike[str], **options: Any) -> None:
        """Open the package ``PREFIX``; ``options`` as in ``open_llm``, which says what is raised."""
        package = Package.of(os.fspath(prefix))
        self.context = open_llm(package.model, package.weight, **options)
        try:
            self.config = self.context.config
            self.tokenizer = Tokenizer(package.tokenizer)
            self._table = package.table(self.context)
        except BaseException:
            self.context.close()
            raise

    def tokens(self, text: str, truncate: bool = False) -> list[int]:
        """A text as the model sees it, special tokens around it; at most ``config.max_ctx_len`` if ``truncate``."""
        return text_tokens(self.tokenizer, text, self.config.max_ctx_len if truncate else None)

    def embed(
        self, texts: Union[str, Sequence[str]], dimensions: Optional[int] = None, truncate: bool = False
    ) -> Array:
        """Embeddings, float32 (texts, ``dimensions``); a single text counts as a list of one.

        Args:
            texts: any number, of any length; they go through the model together.
            dimensions: the first ones only, of length 1 again, for models that were trained for it (Matryoshka).
            truncate: leave out the end of a text that is longer than the model takes.

        Raises:
            InputInvalid: a text is longer than that, and ``truncate`` is off.
            ParamInvalid: ``dimensions`` the model does not have.
        """
        given = [texts] if isinstance(texts, str) else list(texts)
        if not all(isinstance(text, str) for text in given):
            raise InputInvalid("embed takes text, or a list of texts")
        return self.embed_tokens([self.tokens(text, truncate) for text in given], dimensions)

    def embed_tokens(self, texts: Sequence[Sequence[int]], dimensions: Optional[int] = None) -> Array:
        """As ``embed``, of token ids, to which nothing is added."""
        width = self.config.embedding_dim
        if dimensions is not None and not 1 <= dimensions <= width:
            raise ParamInvalid(f"dimensions is {dimensions!r}, the model has 1..{width}")
        found = self.context.embed(texts, self._table)
        return found if dimensions is None else shortened(found, dimensions)

    def close(self) -> None:
        """Release everything; may be called again."""
        self.context.close()

    def __enter__(self) -> Embedder:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def text_tokens(tokenizer: Tokenizer, text: str, most: Optional[int] = None) -> list[int]:
    """Token ids with special ones around the text, which loses its end where there are more than ``most``."""
    if most is not None:
        text = tokenizer.cut(text, most)
    whole = tokenizer.encode(text, special=True)
    if most is None or len(whole) <= most:
        return whole
    inner = tokenizer.encode(text)
    extra = len(whole) - len(inner)
    before = next((n for n in range(extra + 1) if whole[n : n + len(inner)] == inner), None)
    if before is None or extra >= most:
        raise InputInvalid(
            f"a text of {len(whole)} tokens cannot be cut to {most}: its special tokens lie inside; give fewer"
        )
    return whole[:before] + inner[: most - extra] + whole[before + len(inner) :]


def shortened(embeddings: Array, dimensions: int) -> Array:
    """The first dimensions of embeddings (n, d), of length 1."""
    return length_one(embeddings[:, :dimensions])


def length_one(embeddings: Array) -> Array:
    """Embeddings (n, d) of length 1; zeros stay zeros."""
    length = np.sqrt(np.einsum("ij,ij->i", embeddings, embeddings, dtype=np.float64))[:, None]
    return np.asarray(embeddings / np.maximum(length, 1e-12), np.float32)
