"""Embeddings by sessions, for backends whose model shows its last hidden state to the output callback."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray
from rknnlite_llm.embedding import length_one

from rknnlite.errors import ModelInvalid, ModelUnsupported
from rknnlite.spi.llm import (
    EmbedCallback,
    InferParams,
    LlmCallbacks,
    LlmContext,
    LlmOutput,
    LlmParams,
    OutputState,
    TaskType,
    TokenInput,
)

__all__ = ["embed_by_session"]

Array = NDArray[Any]
_NAME = "last_hidden_state"


def embed_by_session(context: LlmContext, texts: Sequence[Sequence[int]], embed: EmbedCallback) -> Array:
    """Embeddings of texts, float32 (texts, hidden): the hidden state of each one's last token, of length 1.

    The runtime says nothing about pooling; an output of more than one row is refused, because nobody says which one counts.
    """
    config = context.config
    index = next((attr.index for attr in context.outputs if attr.name == _NAME), None)
    if config.task_type is not TaskType.EMBEDDING or index is None:
        names = ", ".join(attr.name for attr in context.outputs)
        raise ModelUnsupported(
            f"the model was converted for {config.task_type.name} and has the outputs {names}; embeddings need one converted "
            f"for EMBEDDING with an output {_NAME}"
        )
    found = np.empty((len(texts), config.embedding_dim), np.float32)
    shown: list[Optional[Array]] = [None]

    def output(outputs: Sequence[LlmOutput], state: OutputState) -> None:
        if state is OutputState.PREFILL_FINISHED:
            shown[0] = np.array(outputs[0].data, np.float32).reshape(-1)

    calls = LlmCallbacks(embed=embed, output=output, outputs=(index,))
    with context.session(LlmParams(), calls) as session:
        for number, tokens in enumerate(texts):
            shown[0] = None
            session.run(TokenInput(tokens), InferParams(prefill_only=True))
            row = shown[0]
            if row is None or row.size != config.embedding_dim:
                size = "nothing" if row is None else f"{row.size} values"
                raise ModelInvalid(
                    f"text {number}: the runtime showed {size} of {_NAME}, needed is one row of {config.embedding_dim}"
                )
            found[number] = row
    return length_one(found)
