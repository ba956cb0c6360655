"""Write ``tests/llm/data/families/*.npz`` from what ``tools/llm_families --keep FOLDER`` left there.

    python -m tests.llm.family_goldens FOLDER  # those that lie there

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

from cases import CASES, Case  # noqa: E402
from family_packages import export_case as export_case  # noqa: E402
from made import made_for  # noqa: E402
from random_families import random_case  # noqa: E402
from stand_ins import STAND_INS  # noqa: E402

ROWS = 3
"""Rows of logits that are kept of a prompt, the last one among them."""
KEPT = 48
"""Greedy tokens that are kept of a turn."""


RANDOM = tuple(f"random-1-{number}" for number in (1, 7, 13, 16, 24, 34, 41, 47, 49, 57, 58, 60, 62, 64))
"""Configurations of the random generator that have a golden."""


def known_case(name: str) -> Case:
    """The case of a golden."""
    return next((case for case in CASES if case.name == name), None) or random_case(name)


def write_golden(folder: Path, path: Path) -> None:
    """One model's file from a folder of the tool."""
    truth, config = np.load(folder / "truth.npz"), json.loads((folder / "config.json").read_text())
    shapes = json.loads((folder / "shapes.json").read_text())
    kept: dict[str, Any] = {"config": json.dumps(config), "shapes": json.dumps(shapes)}
    if "logits" in truth:
        rows = np.linspace(20, len(truth["logits"]) - 1, ROWS).astype(int)
        kept.update(rows=rows, logits=truth["logits"][rows], first=truth["first"].astype(np.uint16))
        kept.update(second=truth["second"].astype(np.uint16))
        kept.update(greedy=truth["greedy"].astype(np.uint16), again=truth["again"][:KEPT].astype(np.uint16))
    else:
        kept.update({"scores": truth["scores"]} if "scores" in truth else {})
        kept.update({key: truth[key] for key in truth if key.startswith("text")})
        for key in (key for key in truth if key.startswith("hidden")):
            kept[key] = np.array([truth[key].mean(axis=0), truth[key][0], truth[key][-1]])
    np.savez_compressed(path, **kept)


def write_family(name: str, folder: Path) -> dict[str, np.ndarray]:
    """The model of a golden as a Hugging Face directory; returns the golden."""
    golden = dict(np.load(DATA / f"{name}.npz"))
    case = known_case(name)
    tensors = {
        key: made_for(key, tuple(shape), case.kind, case.weights)
        for key, shape in json.loads(str(golden["shapes"])).items()
    }
    config = json.loads(str(golden["config"]))
    stand_in = case.stand_in
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
    for name in [*(case.name for case in CASES), *RANDOM]:
        folder = Path(sys.argv[1]) / name
        if folder.exists():
            write_golden(folder, DATA / f"{name}.npz")
    print(sum(path.stat().st_size for path in DATA.iterdir()), "bytes")
