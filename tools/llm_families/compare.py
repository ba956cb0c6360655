"""Our export and our decoder on the models of ``truth.py``: what agrees, and how well."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from cases import CASES, GGUF, Case
from family_packages import export_case
from random_families import random_case
from rknnlite_llm import EmbedTable, Package, open_llm
from rknnlite_llm.gguf import read_gguf

from rknnlite.errors import RknnError
from rknnlite.spi.llm import InferParams, LlmCallbacks, LlmContext, LlmParams, TokenInput, VocabInfo

__all__ = ["Result", "compare", "read_results", "write_results"]

_NEVER_ENDS = LlmParams(vocab=VocabInfo(ignore_eos_token=True))
_CHUNK = 7
_WANTED = 1e-3


@dataclass
class Result:
    """How a model agrees. Tokens are counted until the first that differs; ``error`` says what went wrong instead."""

    name: str
    models: str
    family: str = ""
    logits: float = -1.0
    chunked: float = -1.0
    greedy: int = 0
    again: int = 0
    loaded: int = 0
    embedding: float = -1.0
    score: float = -1.0
    error: str = ""
    of: list[int] = field(default_factory=list)

    @property
    def good(self) -> bool:
        """Numbers are within 1e-3 and all tokens are the same."""
        if self.error:
            return False
        if max(self.embedding, self.score) >= 0:
            return max(self.embedding, self.score) < _WANTED
        return (
            0 <= max(self.logits, self.chunked) < _WANTED
            and [self.greedy, self.again, self.loaded] == self.of
        )


class _Talk:
    """One session, and what it said and showed."""

    def __init__(self, context: LlmContext, table: EmbedTable) -> None:
        self.said: list[int] = []
        self.logits: list[np.ndarray] = []
        callbacks = LlmCallbacks(
            lambda tokens, state: self.said.extend(tokens.token_ids),
            embed=table,
            output=lambda outputs, state: self.logits.append(outputs[0].data[0].copy()),
            outputs=(0,),
        )
        self.session = context.session(_NEVER_ENDS, callbacks)

    def run(self, ids: np.ndarray, count: int, keep: bool = False) -> list[int]:
        self.said.clear()
        self.logits.clear()
        self.session.run(TokenInput(ids), InferParams(max_new_tokens=count, keep_history=keep))
        return list(self.said)


def compare(folder: Path, only: list[str]) -> list[Result]:
    """These cases, or all of families, whose truth is in ``folder``."""
    known = {case.name: case for case in (*CASES, *GGUF)}
    wanted = [known.get(name) or random_case(name) for name in only or [case.name for case in CASES]]
    return [_one(case, folder / case.name) for case in wanted]


def _one(case: Case, folder: Path) -> Result:
    result = Result(case.name, case.models)
    failed = folder / "failed.txt"
    if failed.exists() or not (folder / "truth.npz").exists():
        result.error = (
            f"transformers: {failed.read_text()}" if failed.exists() else "transformers was not run"
        )
        return result
    truth = np.load(folder / "truth.npz")
    try:
        result.family = json.loads((folder / "config.json").read_text())["model_type"]
        source, unread = folder / "model.gguf", folder / "unconverted.txt"
        if case in GGUF and unread.exists():
            result.error = f"the converter: {unread.read_text()}"
            return result
        if case in GGUF:
            result.family = str(read_gguf(memoryview(source.read_bytes()), "")["general.architecture"])
        source = source if case in GGUF else folder
        package = export_case(case, source, folder / "ours")
        (_scores if case.scores else _embeddings if case.embeds else _decoder)(case, truth, package, result)
    except RknnError as error:
        result.error = f"{type(error).__name__}: {error}"
    return result


def _decoder(case: Case, truth: dict[str, np.ndarray], package: Package, result: Result) -> None:
    first, second, wanted = truth["first"], truth["second"], truth["logits"]
    greedy, again = truth["greedy"].tolist(), truth["again"].tolist()
    saved = str(package.model.with_name("kv"))
    with open_llm(package.model) as context:
        talk = _Talk(context, _table(package, context))
        said = talk.run(first, len(greedy))
        result.logits = float(np.abs(talk.logits[0] - wanted[-1]).max())
    with open_llm(package.model, prefill_chunk=_CHUNK) as context:
        talk = _Talk(context, _table(package, context))
        pieces = talk.run(first, len(greedy))
        ends = [*range(_CHUNK - 1, len(first) - 1, _CHUNK), len(first) - 1]
        result.chunked = max(float(np.abs(ours - wanted[end]).max()) for ours, end in zip(talk.logits, ends))
        talk.session.save_kvcache(saved)
        further = talk.run(second, len(again), keep=True)
        other = _Talk(context, _table(package, context))
        other.session.load_kvcache(saved)
        loaded = other.run(second, len(again), keep=True)
    result.greedy = min(_same(said, greedy), _same(pieces, greedy))
    result.again, result.loaded = _same(further, again), _same(loaded, again)
    result.of = [len(greedy), len(again), len(again)]


def _table(package: Package, context: LlmContext) -> EmbedTable:
    return EmbedTable(package.embed, context.config.vocab_size, context.config.embedding_dim)


def _same(ours: list[int], theirs: list[int]) -> int:
    """Tokens before the first that differs."""
    return next(
        (i for i, pair in enumerate(zip(ours, theirs)) if pair[0] != pair[1]), min(len(ours), len(theirs))
    )


def _embeddings(case: Case, truth: dict[str, np.ndarray], package: Package, result: Result) -> None:
    count = sum(name.startswith("text") for name in truth)
    pick = {
        "last": lambda rows: rows[-1],
        "cls": lambda rows: rows[0],
        "mean": lambda rows: rows.mean(axis=0),
    }[case.embeds]
    wanted = np.array([pick(truth[f"hidden{i}"]) for i in range(count)])
    wanted /= np.linalg.norm(wanted, axis=1)[:, None]
    with open_llm(package.model, prefill_chunk=_CHUNK) as context:
        found = context.embed([truth[f"text{i}"] for i in range(count)], _table(package, context))
    result.embedding = float(np.abs(found - wanted).max())


def _scores(case: Case, truth: dict[str, np.ndarray], package: Package, result: Result) -> None:
    given = [truth[f"text{i}"] for i in range(len(truth["scores"]))]
    with open_llm(package.model, prefill_chunk=_CHUNK) as context:
        found = context.score(given, [len(ids) // 2 for ids in given], _table(package, context))
    result.score = float(np.abs(found - truth["scores"]).max())


def write_results(results: list[Result], path: Path) -> None:
    """As JSON, a line per model."""
    lines = [json.dumps(asdict(result)) for result in results]
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n")


def read_results(path: Path) -> list[Result]:
    """What ``write_results`` wrote."""
    return [Result(**entry) for entry in json.loads(path.read_text())]
