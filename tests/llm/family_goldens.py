"""Write ``tests/llm/data/families/*.npz`` from what ``tools/llm_families --keep FOLDER`` left there.

    python -m tests.llm.family_goldens FOLDER

The tensors of a model follow from their names and shapes (``tools/llm_families/made.py``), so a file has these, the model's
``config.json``, and what transformers computed of it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from rknnlite_llm.container.safetensors import write_safetensors

TOOLS = Path(__file__).parents[2] / "tools" / "llm_families"
DATA = Path(__file__).parent / "data" / "families"
sys.path.insert(0, str(TOOLS))

from cases import CASES  # noqa: E402
from made import made  # noqa: E402
from stand_ins import STAND_INS  # noqa: E402

ROWS = 3
"""Rows of logits that are kept of a prompt, the last one among them."""
KEPT = 48
"""Greedy tokens that are kept of a turn."""


def write_golden(folder: Path, path: Path) -> None:
    """One model's file from a folder of the tool."""
    truth, config = np.load(folder / "truth.npz"), json.loads((folder / "config.json").read_text())
    shapes = json.loads((folder / "shapes.json").read_text())
    kept: dict[str, Any] = {"config": json.dumps(config), "shapes": json.dumps(shapes)}
    if "logits" in truth:
        rows = np.linspace(20, len(truth["logits"]) - 1, ROWS).astype(int)
        kept.update(rows=rows, logits=truth["logits"][rows], first=truth["first"].astype(np.uint8))
        kept.update(second=truth["second"].astype(np.uint8))
        kept.update(greedy=truth["greedy"].astype(np.uint8), again=truth["again"][:KEPT].astype(np.uint8))
    else:
        kept.update({"scores": truth["scores"]} if "scores" in truth else {})
        kept.update({key: truth[key] for key in truth if key.startswith("text")})
        for key in (key for key in truth if key.startswith("hidden")):
            kept[key] = np.array([truth[key].mean(axis=0), truth[key][0], truth[key][-1]])
    np.savez_compressed(path, **kept)


def write_family(name: str, folder: Path) -> dict[str, np.ndarray]:
    """The model of a golden as a Hugging Face directory; returns the golden."""
    golden = dict(np.load(DATA / f"{name}.npz"))
    tensors = {key: made(key, tuple(shape)) for key, shape in json.loads(str(golden["shapes"])).items()}
    config = json.loads(str(golden["config"]))
    stand_in = next(case.stand_in for case in CASES if case.name == name)
    if stand_in:
        tensors = STAND_INS[stand_in].saved(tensors, config)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    write_safetensors(
        folder / "model.safetensors",
        {key: ("F32", array) for key, array in tensors.items()},
        {"format": "pt"},
    )
    return golden


if __name__ == "__main__":
    DATA.mkdir(exist_ok=True)
    for case in CASES:
        write_golden(Path(sys.argv[1]) / case.name, DATA / f"{case.name}.npz")
    print(sum(path.stat().st_size for path in DATA.iterdir()), "bytes")
