"""The vendor's pattern for vision-language models, from pictures to an answer: a genuine encoder, a language model behind it."""

from __future__ import annotations

import json
import lzma
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rknnlite_llm import EmbedTable, Package, Tokenizer, export_llm, open_llm

import rknnlite
from rknnlite.spi.llm import (
    AuxInput,
    ImageBlock,
    InferParams,
    LlmCallbacks,
    MessagesInput,
    MultimodalInput,
    VideoBlock,
)
from tests.llm.media_goldens import DATA, write_model

pytest.importorskip("tokenizers", reason="needs the package tokenizers (extra llm)")
pytest.importorskip("jinja2", reason="needs the package jinja2 (extra llm)")
Image = pytest.importorskip("PIL.Image", reason="needs the package Pillow (extra pictures)")

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "examples" / "vision_language" / "ask.py"
MARKS = {
    "<|vision_start|>": 640,
    "<|vision_end|>": 641,
    "<|image_pad|>": 642,
    "<|video_pad|>": 643,
}
COUNT = 6


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package, an encoder and some pictures."""
    made = tmp_path_factory.mktemp("vision")
    write_model("example", made / "hf")
    trained = ROOT / "examples" / "llm_chat" / "trained"
    words = json.loads((trained / "tokenizer.json").read_text())
    mark = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    words["added_tokens"] += [{"id": number, "content": text, **mark} for text, number in MARKS.items()]
    (made / "hf" / "tokenizer.json").write_text(json.dumps(words))
    (made / "hf" / "tokenizer_config.json").write_bytes((trained / "tokenizer_config.json").read_bytes())
    export_llm(made / "hf", made / "p", weights="f32")
    (made / "encoder.rknn").write_bytes(lzma.decompress((DATA / "encoder.rknn.xz").read_bytes()))
    for number in range(4):
        pixels = np.random.default_rng(number).integers(0, 256, (16, 16, 3), np.uint8)
        Image.fromarray(pixels).save(made / f"{number}.png")
    return made


def program(folder: Path, prompt: str, *words: str) -> list[str]:
    environment = {**os.environ, "RKNNLITE_BACKEND": "cpu"}
    command = [
        sys.executable, str(PROGRAM), "encoder.rknn", "p", prompt, "--patch", "4", "--max-new-tokens", str(COUNT), *words
    ]  # fmt: skip
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env=environment, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def encoded(folder: Path, pairs: list[tuple[int, int]]) -> list[np.ndarray]:
    """Rows of some pictures, put together here in another way than the program does."""
    found = []
    with rknnlite.open(folder / "encoder.rknn") as encoder:
        for numbers in pairs:
            frames = [np.asarray(Image.open(folder / f"{number}.png"), np.float32) for number in numbers]
            rows = [
                np.concatenate(
                    [
                        frame[y : y + 4, x : x + 4, channel].ravel() / 127.5 - 1
                        for channel in range(3)
                        for frame in frames
                    ]
                )
                for top in (0, 8)
                for left in (0, 8)
                for y in (top, top + 4)
                for x in (left, left + 4)
            ]
            found.append(encoder.infer([np.array(rows, np.float32)]))
    return [np.stack(rows).astype(np.float16) for rows in zip(*found)]


def answered(
    folder: Path, prompt: str, rows: list[np.ndarray], block: ImageBlock | VideoBlock
) -> tuple[list[int], int]:
    """The tokens of the answer of the core's own session, and how many tokens went in."""
    package, said = Package.of(folder / "p"), []
    tokenizer = Tokenizer(str(package.tokenizer))
    kind = block.tag.strip("<>")
    with open_llm(package.model) as context:
        table = EmbedTable(package.embed, context.config.vocab_size, context.config.embedding_dim)
        callbacks = LlmCallbacks(lambda result, state: said.extend(result.token_ids), tokenizer.encode, table)
        session = context.session(callbacks=callbacks)
        inputs = [MultimodalInput(prompt, **{kind: block})]
        aux = [AuxInput(2 + number, values) for number, values in enumerate(rows[1:])]
        summary = session.run([*inputs, *aux], InferParams(max_new_tokens=COUNT))
    return said, summary.n_prefill_tokens


@pytest.mark.parametrize("count", [1, 2])
def test_the_program_answers_about_images(folder: Path, count: int) -> None:
    prompt = "<image>" * count + "What day comes after Sunday?"
    lines = program(folder, prompt, "--image", *[f"{number}.png" for number in range(count)])
    rows = encoded(folder, [(number, number) for number in range(count)])
    block = ImageBlock(
        rows[0], 4, count, "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", width=16, height=16
    )
    said, given = answered(folder, prompt, rows, block)
    text = Tokenizer(str(folder / "p.tokenizer.gguf")).decode(said)
    assert "\n".join(lines[:-1]) == text.rstrip("\n")
    assert lines[-1] == f"{given} tokens in, {len(said)} tokens out"


def test_the_program_answers_about_a_video(folder: Path) -> None:
    """Two frames make one picture of the encoder."""
    prompt = "<video>What happens?"
    lines = program(folder, prompt, "--frames", *[f"{number}.png" for number in range(4)])
    rows = encoded(folder, [(0, 1), (2, 3)])
    block = VideoBlock(
        rows[0], 4, 2, 1, "<|vision_start|>", "<|vision_end|>", "<|video_pad|>", width=16, height=16
    )
    said, given = answered(folder, prompt, rows, block)
    assert lines[-1] == f"{given} tokens in, {len(said)} tokens out"
    assert "\n".join(lines[:-1]) == Tokenizer(str(folder / "p.tokenizer.gguf")).decode(said).rstrip("\n")


def test_a_conversation_is_not_computed_again_behind_an_image(folder: Path) -> None:
    """The next turn finds image and answer in the cache, and stands where a fresh session has it."""
    package = Package.of(folder / "p")
    rows = encoded(folder, [(0, 0)])
    aux = [AuxInput(2 + number, values) for number, values in enumerate(rows[1:])]
    block = ImageBlock(
        rows[0], 4, 1, "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", width=16, height=16
    )
    first = {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "What is this?"}]}
    longer = [first, {"role": "assistant", "content": "A dog."}, {"role": "user", "content": "Really?"}]
    tokenizer = Tokenizer(str(package.tokenizer))
    with open_llm(package.model) as context:
        table = EmbedTable(package.embed, context.config.vocab_size, context.config.embedding_dim)

        def talk(*turns: list[dict]) -> tuple[np.ndarray, int]:
            shown: list[np.ndarray] = []
            session = context.session(
                callbacks=LlmCallbacks(
                    tokenizer=tokenizer.encode,
                    embed=table,
                    output=lambda outputs, state: shown.append(outputs[0].data[0].copy()),
                    outputs=(0,),
                )
            )
            for turn in turns:
                summary = session.run(
                    [MessagesInput(turn, image=block), *aux], InferParams(prefill_only=True)
                )
            return shown[-1], summary.n_cached_tokens

        behind, cached = talk([first], longer)
        fresh, none = talk(longer)
    assert cached > 6
    assert none == 0
    assert np.abs(behind - fresh).max() < 1e-4


def test_the_encoder_says_what_the_float_one_says(folder: Path) -> None:
    """What transformers computed in float32 of one picture; the file computes in float16."""
    golden = np.load(DATA / "example.npz")
    with rknnlite.open(folder / "encoder.rknn") as encoder:
        outputs = encoder.infer([golden["picture"]])
    assert len(outputs) == 4
    for number, output in enumerate(outputs):
        wanted = golden[f"float{number}"]
        assert np.abs(output - wanted).max() < 2e-3 * np.abs(wanted).max()
