"""Write ``tests/llm/data/media/*.npz`` from what ``tools/llm_media --keep FOLDER`` left there.

    python -m tests.llm.media_goldens FOLDER

As ``family_goldens`` does: tensors follow from their names and shapes, and so do the rows that stand for what encoders give.
Kept of every turn are its tokens, its answer, and the logits behind its last step.
"""

from __future__ import annotations

import importlib.util
import json
import lzma
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
from rknnlite_llm.container.safetensors import write_safetensors

TOOLS = Path(__file__).parents[2] / "tools"
DATA = Path(__file__).parent / "data" / "media"
_OTHERS = ("visual", "vision", "audio_tower", "connector", "projector")
"""Words in the names of tensors that are not of the language part."""


def _tool(path: str) -> ModuleType:
    """A module of a tool, under a name of its own: several have one of that name."""
    name = path.replace("/", "_")
    spec = importlib.util.spec_from_file_location(name, TOOLS / f"{path}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


cases, made = _tool("llm_media/cases"), _tool("llm_families/made").made
CASES, EXAMPLE, Case, Turn = cases.CASES, cases.EXAMPLE, cases.Case, cases.Turn
MARKERS = {"<image_pad>": cases.IMAGE, "<video_pad>": cases.VIDEO, "<audio_pad>": cases.AUDIO}


def write_golden(folder: Path, path: Path) -> None:
    """One model's file from a folder of the tool."""
    truth, config = np.load(folder / "truth_made.npz"), json.loads((folder / "config.json").read_text())
    shapes = json.loads((folder / "shapes.json").read_text())
    shapes = {name: shape for name, shape in shapes.items() if not any(word in name for word in _OTHERS)}
    rows = {name: rows.shape for name, rows in np.load(folder / "encoded_float.npz").items()}
    kept = {name: truth[name].astype(np.uint8) for name in truth if name.startswith(("said", "answer"))}
    kept.update({name: truth[name][-1] for name in truth if name.startswith("logits")})
    if folder.name == EXAMPLE.name:  # its encoder is there too
        kept["picture"] = np.load(folder / "inputs.npz")["image"][0]
        floats = np.load(folder / "encoded_float.npz")
        kept.update({f"float{i}": floats[f"image{i}"][0] for i in range(1 + EXAMPLE.deepstack)})
    words = {"config": config, "shapes": shapes, "rows": rows}
    np.savez_compressed(path, **kept, **{name: json.dumps(value) for name, value in words.items()})


def write_model(name: str, folder: Path) -> dict[str, np.ndarray]:
    """The model of a golden as a Hugging Face directory; returns the golden, with the rows of its encoder."""
    golden = dict(np.load(DATA / f"{name}.npz"))
    shapes = {key: tuple(shape) for key, shape in json.loads(str(golden["shapes"])).items()}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(str(golden["config"]))
    tensors = {
        key: ("F32", made(key.replace("llm.", "", 1), shape, halves=True)) for key, shape in shapes.items()
    }
    write_safetensors(folder / "model.safetensors", tensors, {"format": "pt"})
    rows = json.loads(str(golden["rows"]))
    return {**golden, **{key: made(f"rows.{key}", tuple(shape), halves=True) for key, shape in rows.items()}}


if __name__ == "__main__":
    DATA.mkdir(exist_ok=True)
    for case in (*CASES, EXAMPLE):
        write_golden(Path(sys.argv[1]) / case.name, DATA / f"{case.name}.npz")
    encoder = Path(sys.argv[1]) / EXAMPLE.name / "image.rknn"
    (DATA / "encoder.rknn.xz").write_bytes(lzma.compress(encoder.read_bytes(), preset=9))
    print(sum(path.stat().st_size for path in DATA.iterdir()), "bytes")
