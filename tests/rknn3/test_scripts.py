"""Programs as the field writes them, unmodified but for their paths, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rknnlite_llm import Package, export_llm

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
