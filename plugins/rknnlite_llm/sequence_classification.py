"""Models that give scores ("for sequence classification"): what their files say, and the tensors behind the last layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from rknnlite.errors import ModelUnsupported

from .container.architecture import Architecture, Scorer
from .container.families import FAMILIES
from .container.family import Pooling
from .hf_folder import HfFolder

__all__ = ["scorer_of", "with_scorer", "write_scorer"]

_ENDING = "ForSequenceClassification"


def scorer_of(config: Mapping[str, Any]) -> Scorer | None:
    """How the model's scores are made; None for one that gives none. Raises ModelUnsupported."""
    names = config.get("architectures") or [""]
    if not str(names[0]).endswith(_ENDING):
        return None
    family = FAMILIES[str(config.get("model_type"))]
    dense, norm = bool(family.tensors.score_dense), bool(family.tensors.score_norm)
    modern = not family.causal
    pooling = Pooling(config.get("classifier_pooling", "cls")) if dense else Pooling.LAST
    activation = str(config.get("classifier_activation", "gelu")) if modern else family.score_activation
    if modern and activation not in ("gelu", "tanh", "relu", "silu"):
        raise ModelUnsupported(
            f"config.json: classifier_activation is {activation!r}, which is not computed here"
        )
    return Scorer(
        pooling=pooling if modern else Pooling.CLS if dense else Pooling.LAST,
        labels=len(config.get("id2label") or ()) or int(config.get("num_labels", 2)),
        dense=dense,
        activation=activation,
        norm=norm,
        dense_bias=bool(config.get("classifier_bias", False)) if modern else dense,
        out_bias=dense,
    )


def with_scorer(arch: Architecture, scorer: Scorer | None, config: Mapping[str, Any]) -> Architecture:
    """The architecture of a model that gives scores; BERT tells the second of two texts from the first."""
    if scorer is None:
        return arch
    # others have one type whatever their table has
    typed = arch.encoder and not FAMILIES[arch.family].doubled_mark
    return replace(arch, scorer=scorer, second_type=typed and config.get("type_vocab_size", 2) > 1)


def write_scorer(
    source: HfFolder, arch: Architecture, plain: Callable[[str, dict[str, NDArray[Any]]], None]
) -> None:
    """The tensors behind the last layer, under ``score.``; ``plain`` takes a prefix and float32 arrays."""
    scorer, names = arch.scorer, FAMILIES[arch.family].tensors
    assert scorer is not None
    made = {"out": source.head(f"{names.score_out}.weight", scorer.labels, arch.hidden)}
    if scorer.out_bias:
        made["out_bias"] = source.head(f"{names.score_out}.bias", scorer.labels)
    if scorer.dense:
        made["dense"] = source.head(f"{names.score_dense}.weight", arch.hidden, arch.hidden)
    if scorer.dense_bias:
        made["dense_bias"] = source.head(f"{names.score_dense}.bias", arch.hidden)
    if scorer.norm:
        made["norm"] = source.head(f"{names.score_norm}.weight", arch.hidden)
        if arch.norm_bias:
            made["norm_bias"] = source.head(f"{names.score_norm}.bias", arch.hidden)
    plain("score.", made)
