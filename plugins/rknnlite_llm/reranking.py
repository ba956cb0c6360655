"""How well documents answer a query: a package that gives scores, or one that says yes or no, with its tokenizer and its table."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import InputInvalid, ModelUnsupported
from rknnlite.formats import ModelFile
from rknnlite.spi.llm import EmbedCallback, InferParams, LlmCallbacks, LlmContext, LlmParams, TokenInput

from .container.description import read_llm
from .container.families import FAMILIES
from .opening import open_llm
from .package import Package
from .tokenizer import Tokenizer

__all__ = ["Reranker", "yes_or_no"]

Array = NDArray[Any]
_BEFORE = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. Note that "
    'the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n'
)
_BEHIND = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
_INSTRUCTION = "Given a web search query, retrieve relevant passages that answer the query"


class Reranker:
    """``Reranker("models/reranker").rank("a question", documents)``: documents by how well they answer it, best first.

    Two kinds of packages: of a model "for sequence classification" with one label (bge-reranker and other cross-encoders), and of
    one that generates text and was trained to say yes or no (Qwen3-Reranker), whose words are put around the texts here.

    Examples:
        >>> with Reranker("examples/llm_chat/models/tiny", yes="y", no="n") as reranker:  # not made for it
        ...     scores = reranker.score("What is 1 + 2?", ["It is 3.", "It is Monday."])
        >>> scores.shape, bool(((0 <= scores) & (scores <= 1)).all())
        ((2,), True)
    """

    def __init__(
        self,
        prefix: str | os.PathLike[str],
        instruction: str = _INSTRUCTION,
        yes: str = "yes",
        no: str = "no",
        **options: Any,
    ) -> None:
        """Open the package ``PREFIX``; ``options`` as in ``open_llm``, which says what is raised.

        ``instruction``, ``yes`` and ``no`` are for models that say yes or no. Raises ModelUnsupported for one that does neither.
        """
        package = Package.of(os.fspath(prefix))
        self.context: LlmContext = open_llm(package.model, package.weight, **options)
        try:
            config = self.context.config
            self.config, self._instruction = config, instruction
            self.tokenizer = Tokenizer(package.tokenizer)
            self._table = package.table(self.context)
            self._model = read_llm(ModelFile(package.model))
            scorer = self._model.arch.scorer
            if scorer is not None and scorer.labels != 1:
                raise ModelUnsupported(
                    f"{package.model}: the model tells {scorer.labels} labels apart; documents need one score"
                )
            if scorer is None and self._model.embedding is not None:
                raise ModelUnsupported(
                    f"{package.model}: the model makes embeddings and no scores; use Embedder"
                )
            self._words = None if scorer else (self._word(yes), self._word(no))
        except BaseException:
            self.context.close()
            raise

    def _word(self, word: str) -> int:
        ids = self.tokenizer.encode(word)
        if len(ids) != 1:
            raise ModelUnsupported(
                f"{word!r} is {len(ids)} tokens of this model; a model that says yes or no has one for each"
            )
        return ids[0]

    def score(self, query: str, documents: Sequence[str], truncate: bool = False) -> Array:
        """Between 0 and 1 for every document, float32 (documents,); ``truncate`` leaves out the ends of long ones.

        Raises:
            InputInvalid: query and document together are longer than the model takes, and ``truncate`` is off.
        """
        if self._words is not None:
            texts = [self._asked(query, document, truncate) for document in documents]
            return yes_or_no(self.context, self._table, texts, *self._words)
        pairs = [self._pair(query, document, truncate) for document in documents]
        logits = self.context.score([ids for ids, _ in pairs], [second for _, second in pairs], self._table)
        return np.array(
            [1 / (1 + math.exp(-min(max(float(v), -700), 700))) for v in logits[:, 0]], np.float32
        )

    def rank(
        self, query: str, documents: Sequence[str], top: Optional[int] = None, truncate: bool = False
    ) -> list[tuple[int, float]]:
        """Numbers of the documents with their scores, best first, ``top`` of them."""
        scores = self.score(query, documents, truncate)
        return [(int(i), float(scores[i])) for i in np.argsort(-scores, kind="stable")[:top]]

    def _pair(self, query: str, document: str, truncate: bool) -> tuple[list[int], int]:
        """Both texts with special tokens around them, and where the second begins."""
        encode, mark = self.tokenizer.encode, self.tokenizer.encode("", special=True)[-1:]
        doubled = FAMILIES[self._model.arch.family].doubled_mark
        first = encode(query, special=True) + (mark if doubled else [])
        return first + self._fitting(encode(document), len(first) + len(mark), truncate) + mark, len(first)

    def _asked(self, query: str, document: str, truncate: bool) -> list[int]:
        encode = self.tokenizer.encode
        before = encode(f"{_BEFORE}<Instruct>: {self._instruction}\n<Query>: {query}\n<Document>: ")
        behind = encode(_BEHIND)
        return before + self._fitting(encode(document), len(before) + len(behind), truncate) + behind

    def _fitting(self, document: list[int], others: int, truncate: bool) -> list[int]:
        room = self.config.max_ctx_len - others
        if len(document) <= room:
            return document
        if not truncate or room < 1:
            raise InputInvalid(
                f"a document of {len(document)} tokens with {others} of the query is longer than the {self.config.max_ctx_len} "
                "that the model takes; cut it, or let truncate do so"
            )
        return document[:room]

    def close(self) -> None:
        """Release everything; may be called again."""
        self.context.close()

    def __enter__(self) -> Reranker:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def yes_or_no(
    context: LlmContext, table: EmbedCallback, texts: Sequence[Sequence[int]], yes: int, no: int
) -> Array:
    """How likely token ``yes`` is behind every text when it is that or ``no``: float32 (texts,)."""
    found: list[float] = []
    shown: list[Array] = []
    index = next(i for i, attr in enumerate(context.outputs) if attr.name == "logits")
    calls = LlmCallbacks(
        embed=table, output=lambda outputs, state: shown.append(outputs[0].data[0]), outputs=(index,)
    )
    with context.session(LlmParams(), calls) as session:
        for text in texts:
            session.run(TokenInput(np.asarray(text, np.int32)), InferParams(prefill_only=True))
            apart = float(shown[-1][no]) - float(shown[-1][yes])
            found.append(1 / (1 + math.exp(min(apart, 700))))
    return np.array(found, np.float32)
