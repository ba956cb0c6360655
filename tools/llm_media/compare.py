"""Our export and our language models on what the encoders gave: how far logits are from those of transformers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Optional

import numpy as np
from cases import AUDIO, CASES, IMAGE, VIDEO, VOCAB, Case, Turn
from rknnlite_llm import EmbedTable, Package, export_llm, open_llm
from rknnlite_llm.towers import Vision, export_vision, has_tower

import rknnlite
from rknnlite.spi.llm import (
    AudioBlock,
    AuxInput,
    ImageBlock,
    InferParams,
    LlmCallbacks,
    LlmContext,
    LlmInput,
    LlmOutput,
    LlmParams,
    MultimodalInput,
    OutputState,
    SamplingParams,
    TokenInput,
    VideoBlock,
    VocabInfo,
)

__all__ = ["Result", "TurnResult", "compare", "encode", "turn_inputs"]

WANTED = 2e-3
"""Logits may differ by so much."""
PIECES = 7
TOWER = 1e-4
"""So far a tower's rows may be from transformers' own."""
_SHOWN = (OutputState.PREFILL_FINISHED, OutputState.DECODE_PROCESSING)
_TEXT_ONLY = LlmParams(
    sampling=SamplingParams(logit_bias=tuple((token, -1e3) for token in range(IMAGE, VOCAB))),
    vocab=VocabInfo(ignore_eos_token=True),
)
"""Greedy, and a marker is no answer."""
_MARKERS = {"<image_pad>": IMAGE, "<video_pad>": VIDEO, "<audio_pad>": AUDIO}
Encoded = dict[str, list[np.ndarray]]


@dataclass
class TurnResult:
    """One turn: logits of all steps in one piece and in pieces, at most, and whether the tokens are the same."""

    name: str
    logits: float = 0.0
    pieces: float = 0.0
    same: bool = True


@dataclass
class Result:
    """One model. ``tower``: how far the tower that ``export_vision`` writes is from the float one, at most;
    ``encoder``: how far a converted encoder is from the float one, as a share of the largest value."""

    name: str
    models: str
    turns: list[TurnResult] = field(default_factory=list)
    tower: Optional[float] = None
    encoder: Optional[float] = None
    encoded: Optional[float] = None

    @property
    def good(self) -> bool:
        """All turns are as they should be."""
        worst = max([max(turn.logits, turn.pieces) for turn in self.turns] + [self.encoded or 0.0])
        return (
            bool(self.turns)
            and (self.tower or 0.0) < TOWER
            and worst < WANTED
            and all(turn.same for turn in self.turns)
        )


class _Talk:
    """A session that shows its logits."""

    def __init__(self, context: LlmContext, package: Package) -> None:
        self.shown: list[np.ndarray] = []
        config = context.config
        callbacks = LlmCallbacks(
            tokenizer=lambda text: [_MARKERS[text]],
            embed=EmbedTable(package.embed, config.vocab_size, config.embedding_dim),
            output=self._show,
            outputs=(0,),
        )
        self.session = context.session(_TEXT_ONLY, callbacks)

    def _show(self, outputs: Any, state: OutputState) -> None:
        found: LlmOutput = outputs[0]
        if state in _SHOWN:
            self.shown.append(found.data[0].copy())

    def run(self, inputs: list[LlmInput], count: int, keep: bool) -> np.ndarray:
        self.shown.clear()
        self.session.run(inputs, InferParams(max_new_tokens=count, keep_history=keep))
        return np.array(self.shown)


def turn_inputs(
    case: Case, turn: Turn, said: np.ndarray, encoded: Encoded, used: dict[str, int]
) -> list[LlmInput]:
    """The inputs of one turn; ``used`` counts the pictures that went before."""
    height, width = case.size
    blocks: dict[str, Any] = {}
    further: list[tuple[int, list[np.ndarray]]] = []
    for kind in ("image", "video", "audio"):
        words = [part for part in turn.parts if part == kind or (kind, part) == ("video", "frames")]
        if not words:
            continue
        each = 3 if kind == "video" else 1
        rows = [values[used[kind] : used[kind] + each * len(words)] for values in encoded[kind]]
        used[kind] += each * len(words)
        tokens = rows[0].shape[1]
        if kind == "image":
            blocks[kind] = ImageBlock(
                rows[0], tokens, len(words), content="<image_pad>", width=width, height=height
            )
        elif kind == "audio":
            blocks[kind] = AudioBlock(rows[0], tokens, len(words), content="<audio_pad>")
        else:
            blocks[kind] = VideoBlock(
                rows[0], tokens, 3, len(words), content="<video_pad>", width=width, height=height,
                seconds=turn.seconds,
            )  # fmt: skip
        if kind != "audio":
            further.append(
                (turn.parts.index(words[0]), [values.reshape(-1, values.shape[-1]) for values in rows[1:]])
            )
    ordered = [rows for _, rows in sorted(further, key=lambda one: one[0])]  # as they stand in the text
    aux = [AuxInput(2 + layer, np.concatenate(values)) for layer, values in enumerate(zip(*ordered))]
    return [MultimodalInput(tokens=said, **blocks), *aux] if blocks else [TokenInput(said)]


def _listed(path: Path) -> Encoded:
    found: Encoded = {}
    stored = np.load(path)
    for name in sorted(stored):
        found.setdefault(name.rstrip("0123456789"), []).append(stored[name])
    return found


def _differences(
    case: Case, package: Package, encoded: Encoded, truth: Any, pieces: Optional[int]
) -> Iterator[tuple[Turn, float, bool]]:
    options = {"prefill_chunk": pieces} if pieces else {}
    with open_llm(package.model, **options) as context:
        for number, turns in enumerate(case.talks):
            talk, used = _Talk(context, package), {"image": 0, "video": 0, "audio": 0}
            for step, turn in enumerate(turns):
                key = f"{number}.{step}"
                wanted, answer = truth[f"logits{key}"], truth[f"answer{key}"]
                inputs = turn_inputs(case, turn, truth[f"said{key}"], encoded, used)
                found = talk.run(inputs, len(answer), step > 0)
                same = found[:, :IMAGE].argmax(axis=1).tolist() == answer.tolist()
                yield turn, float(np.abs(found - wanted).max()), same


def compare(folder: Path, only: list[str]) -> list[Result]:
    """All cases whose truth is in ``folder``."""
    return [_one(case, folder / case.name) for case in CASES if not only or case.name in only]


def _one(case: Case, folder: Path) -> Result:
    result = Result(case.name, case.models)
    package = export_llm(folder, folder / "ours" / "p", "f32")
    encoded, truth = _listed(folder / "encoded_float.npz"), np.load(folder / "truth.npz")
    whole = _differences(case, package, encoded, truth, None)
    pieces = _differences(case, package, encoded, truth, PIECES)
    for (turn, far, same), (_, apart, alike) in zip(whole, pieces):
        result.turns.append(TurnResult(turn.name, far, apart, same and alike))
    if has_tower(folder):
        result.tower = _tower(case, folder, encoded)
    if (folder / "truth_encoded.npz").exists():
        given, truth = _listed(folder / "encoded.npz"), np.load(folder / "truth_encoded.npz")
        result.encoder = max(
            float(np.abs(mine - theirs).max() / np.abs(theirs).max())
            for kind in given
            for mine, theirs in zip(given[kind], encoded[kind])
        )
        result.encoded = max(far for _, far, _ in _differences(case, package, given, truth, None))
    return result


def _tower(case: Case, folder: Path, encoded: Encoded) -> float:
    """The largest difference of any number of any picture."""
    import onnxruntime

    path, *_ = export_vision(folder, folder / "ours" / "p", Vision(case.size))
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    name, worst = session.get_inputs()[0].name, 0.0
    for number, picture in enumerate(np.load(folder / "inputs.npz")["image"]):
        for found, wanted in zip(session.run(None, {name: picture}), encoded["image"]):
            worst = max(worst, float(np.abs(found - wanted[number]).max()))
    return worst


def encode(folder: Path) -> None:
    """Write ``encoded.npz``: what the converted encoders give on the CPU reference, as float16 that goes into a language model."""
    inputs, found = np.load(folder / "inputs.npz"), {}
    for kind in inputs:
        path = folder / f"{'audio' if kind == 'audio' else 'image'}.rknn"
        with rknnlite.open(path) as context:
            outputs = [
                context.infer([np.ascontiguousarray(value)], layout="nchw" if value.ndim == 4 else None)
                for value in inputs[kind]
            ]
        for number, rows in enumerate(zip(*outputs)):
            stacked = np.stack([row.reshape(-1, row.shape[-1]) for row in rows])
            found[f"{kind}{number}"] = stacked.astype(np.float16).astype(np.float32)
    np.savez_compressed(folder / "encoded.npz", **found)


def write_results(results: list[Result], path: Path) -> None:
    """As JSON."""
    path.write_text(json.dumps([asdict(result) for result in results], indent=1) + "\n")
