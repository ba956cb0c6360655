"""Write ``tests/llm/data/media/whole_*.npz`` from what ``tools/llm_media/whole.py FOLDER`` left there.

    python -m tests.llm.vision_goldens FOLDER [TOOLKIT]

Tensors follow from their names and shapes, as in ``media_goldens``. Kept are the other files, tokens and answer, and the first
numbers of every row that the tower gives. With a Python that has the vendor's toolkit the smallest towers are converted, too.
"""

from __future__ import annotations

import json
import lzma
import sys
import tempfile
from pathlib import Path

import numpy as np
from rknnlite_llm.container.safetensors import write_safetensors
from rknnlite_llm.towers import Vision, export_vision, vision_path

from tests.llm.media_goldens import DATA, cases, made

WHOLE = cases.WHOLE
TRAINED = Path(__file__).parents[2] / "examples" / "llm_chat" / "trained"
KEPT = 8
CONVERTED = (("tiny-qwen2.5-vl", "patches"), ("tiny-qwen2.5-vl", "pixels"), ("tiny-qwen3-vl", "patches"))
"""Towers that are there as ``.rknn`` files, ``NAME.FORM.rknn.xz``."""
FILES = ("config.json", "preprocessor_config.json")


def write_golden(folder: Path, path: Path) -> None:
    """One model's file from a folder of the tool."""
    truth = dict(np.load(folder / "whole.npz"))
    kept = {name: values[:, :KEPT] for name, values in truth.items() if name.startswith("float")}
    words = {name: (folder / name).read_text() for name in (*FILES, "shapes.json")}
    words["tokens"] = json.dumps(json.loads((folder / "tokenizer.json").read_text())["added_tokens"])
    picture = (folder / "picture.png").read_bytes()
    np.savez_compressed(
        path,
        ids=truth["ids"],
        answer=truth["answer"],
        picture=np.frombuffer(picture, np.uint8),
        **kept,
        **words,
    )


def write_whole(name: str, folder: Path) -> dict[str, np.ndarray]:
    """The model of a golden as a Hugging Face directory with ``picture.png``; returns the golden."""
    golden = dict(np.load(DATA / f"whole_{name}.npz"))
    folder.mkdir(parents=True, exist_ok=True)
    for file in FILES:
        (folder / file).write_text(str(golden[file]))
    words = json.loads((TRAINED / "tokenizer.json").read_text())
    words["added_tokens"] = json.loads(str(golden["tokens"]))
    (folder / "tokenizer.json").write_text(json.dumps(words))
    (folder / "tokenizer_config.json").write_bytes((TRAINED / "tokenizer_config.json").read_bytes())
    (folder / "picture.png").write_bytes(golden["picture"].tobytes())
    shapes = {key: tuple(shape) for key, shape in json.loads(str(golden["shapes.json"])).items()}
    tensors = {key: ("F32", made(key, shape, halves=True)) for key, shape in shapes.items()}
    write_safetensors(folder / "model.safetensors", tensors, {"format": "pt"})
    return golden


def write_resampler(folder: Path) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """MiniCPM-V's tower of ``tools/llm_media/resampler.py`` as a Hugging Face directory; its golden, and the pixels of it."""
    golden = dict(np.load(DATA / "resampler.npz"))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(str(golden["config"]))
    shapes = {key: tuple(shape) for key, shape in json.loads(str(golden["shapes"])).items()}
    write_safetensors(
        folder / "model.safetensors", {key: ("F32", made(key, shape)) for key, shape in shapes.items()}, {}
    )
    return golden, made("pixels", (1, 3, 20, 28))


def write_converted(name: str, form: str, source: Path, toolkit: Path) -> None:
    """One tower as the toolkit makes it."""
    size = next(case.size for case in WHOLE if case.name == name)
    with tempfile.TemporaryDirectory() as folder:
        export_vision(source / name, Path(folder) / "p", Vision(size, form, toolkit))
        made = vision_path(Path(folder) / "p", "rknn").read_bytes()
    (DATA / f"{name}.{form}.rknn.xz").write_bytes(lzma.compress(made, preset=9))


if __name__ == "__main__":
    for case in WHOLE:
        write_golden(Path(sys.argv[1]) / case.name, DATA / f"whole_{case.name}.npz")
    for name, form in CONVERTED if len(sys.argv) > 2 else ():
        write_converted(name, form, Path(sys.argv[1]), Path(sys.argv[2]))
    print(sum(path.stat().st_size for path in DATA.glob("whole_*")), "bytes")
