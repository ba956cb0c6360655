"""Programs as the field writes them, unmodified but for their paths, each in a process of its own."""

from __future__ import annotations

import json
import lzma
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_llm import Chat, Package, export_llm
from rknnlite_llm.towers import Vision, VisionEncoder, export_vision

from rknnlite.spi.llm import AuxInput, InferParams, MultimodalInput, VideoBlock
from tests.llm.media_goldens import DATA
from tests.llm.vision_goldens import CONVERTED, write_whole
from tests.rknn3.conftest import write_tokenizer
from tests.support.corpus import ROOT, genuine, goldens
from tests.support.llm_models import write_model

SCRIPTS = Path(__file__).parent / "scripts"
VOCAB = 151936
SPECIAL = {"<|endoftext|>": 151643, "<|im_start|>": 151644, "<|im_end|>": 151645}


def run(script: str, *arguments: object) -> str:
    """Output of a script; it must end with status 0 and without a word about ignored exceptions."""
    paths = [str(SCRIPTS), str(ROOT), str(ROOT / "plugins")]
    done = subprocess.run(
        [sys.executable, str(SCRIPTS / script), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "ignored" not in done.stderr and "Traceback" not in done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Package:
    """A random model with the vocabulary that programs for Qwen2.5 hard-code."""
    pytest.importorskip("tokenizers")
    folder = tmp_path_factory.mktemp("qwen")
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "max_position_embeddings": 2048}
    write_model(folder / "hf", "qwen2", vocab_size=VOCAB, eos_token_id=151645, **sizes)
    write_tokenizer(folder / "hf", SPECIAL)
    return export_llm(folder / "hf", folder / "Qwen2.5-0.5B-Instruct", "f16")


def test_chat(large: Package) -> None:
    output = run(
        "chat.py", "--rknn_path", large.model, "--weight_path", large.weight,
        "--tokenizer_path", large.model.parent / "hf", "--embed_path", large.embed,
    )  # fmt: skip
    assert output.count("[enough] 12 tokens") + output.count("[finished]") == 3
    assert output.count("Prefill") == 3 and output.rstrip().endswith("done")


def test_chat_with_embeddings(large: Package) -> None:
    files = (large.model, large.weight, large.model.parent / "hf", large.embed)
    output = run("chat_embed.py", *files)
    assert output.count("Generate") == 2 and output.rstrip().endswith("done")


def test_mobilenet(tmp_path: Path) -> None:
    model = genuine("mobilenetv2_like.rk3588.i8")
    golden = goldens(model.with_suffix(".npz"))[0]
    weight = tmp_path / "empty.weight"
    weight.touch()
    np.save(tmp_path / "image.npy", golden.inputs[0])
    output = run("mobilenet.py", model, weight, tmp_path / "image.npy", tmp_path / "out.npy")
    assert output.startswith("input_0: name=") and "output_0: name=" in output
    assert np.allclose(np.load(tmp_path / "out.npy"), golden.outputs[0], atol=0.05)


def seen(folder: Path, name: str, form: str, *words: object) -> tuple[list[dict[str, Any]], Package, str]:
    """What the program about pictures said in two runs, the package, and all that it printed."""
    pytest.importorskip("tokenizers", reason="needs the package tokenizers (extra llm)")
    pytest.importorskip("cv2", reason="needs the package OpenCV (extra cpu)")
    package = export_llm(folder / "hf", folder / "p", "f16")
    encoder = folder / "vision.rknn"
    encoder.write_bytes(lzma.decompress((DATA / f"{name}.{form}.rknn.xz").read_bytes()))
    encoder.with_suffix(".weight").touch()
    output = run(
        "vision.py", "--rknn_vision_path", encoder, "--rknn_llm_path", package.model, "--tokenizer_path", folder / "hf",
        "--embed_path", package.embed, "--vocab_size", 648, "--eos", 2, "--size", 16, "--patch", 4,
        "--out", folder / "ids.json", *words,
    )  # fmt: skip
    return json.loads((folder / "ids.json").read_text()), package, output


@pytest.mark.parametrize(("name", "form"), CONVERTED)
def test_a_picture(name: str, form: str, tmp_path: Path) -> None:
    """The ids of all tokens are those of transformers' generate, also in a second run, which finds all but one in the cache."""
    golden = write_whole(name, tmp_path / "hf")
    clip = ["--clip"] if "2.5" in name else []
    runs, _, output = seen(tmp_path, name, form, "--image", tmp_path / "hf" / "picture.png", *clip)
    count = len(golden["ids"])
    assert [one["ids"] for one in runs] == [golden["answer"].tolist()] * 2
    assert [(one["prefill"], one["decode"]) for one in runs] == [(count, 16)] * 2
    assert "rknn_llm input_1: name=position_ids, n_dims=3, shape=[3, 1, " in output
    assert f"rknn_vision input_0: name={form}, n_dims={2 if form == 'patches' else 4}" in output


def test_a_video(tmp_path: Path) -> None:
    """The ids of all tokens are those of a session of the core, given what the float tower makes of the same frames."""
    pytest.importorskip("onnxruntime", reason="needs the package onnxruntime (extra fast)")
    Image = pytest.importorskip("PIL.Image", reason="needs the package Pillow (extra pictures)")
    write_whole("tiny-qwen3-vl", tmp_path / "hf")
    frames = np.random.default_rng(1).integers(0, 256, (2, 2, 16, 16, 3), np.uint8)
    paths = [tmp_path / f"{number}.png" for number in range(4)]
    for path, frame in zip(paths, frames.reshape(4, 16, 16, 3)):
        Image.fromarray(frame).save(path)
    runs, package, _ = seen(tmp_path, "tiny-qwen3-vl", "patches", "--frames", *paths)
    export_vision(tmp_path / "hf", tmp_path / "p", Vision((16, 16)))
    with VisionEncoder(tmp_path / "p") as encoder:
        rows, *further = encoder.encode_pixels(frames)
    block = VideoBlock(
        rows, 4, 2, 1, "<|vision_start|>", "<|vision_end|>", "<|video_pad|>", width=16, height=16
    )
    aux = [AuxInput(2 + number, values) for number, values in enumerate(further)]
    text = "<|im_start|>user\n<video>What is this?<|im_end|>\n<|im_start|>assistant\n"
    with Chat(package.model, backend="cpu") as chat:
        ids: list[int] = []
        calls = replace(chat.session.callbacks, result=lambda result, state: ids.extend(result.token_ids))
        chat.session.set_callbacks(calls)
        chat.session.set_chat_template("", "", "")
        chat.session.run([MultimodalInput(text, video=block), *aux], InferParams(max_new_tokens=16))
    assert [one["ids"] for one in runs] == [ids, ids]
