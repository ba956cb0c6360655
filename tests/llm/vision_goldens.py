"""Write ``tests/llm/data/media/whole_*.npz`` from what ``tools/llm_media/whole.py FOLDER`` left there.

    python -m tests.llm.vision_goldens FOLDER

Tensors follow from their names and shapes, as in ``media_goldens``. Kept are the other files, tokens and answer, and the first
numbers of every row that the tower gives.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from rknnlite_llm.container.safetensors import write_safetensors

from tests.llm.media_goldens import DATA, cases, made

WHOLE = cases.WHOLE
TRAINED = Path(__file__).parents[2] / "examples" / "llm_chat" / "trained"
KEPT = 8
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


if __name__ == "__main__":
    for case in WHOLE:
        write_golden(Path(sys.argv[1]) / case.name, DATA / f"whole_{case.name}.npz")
    print(sum(path.stat().st_size for path in DATA.glob("whole_*")), "bytes")
