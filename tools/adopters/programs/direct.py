"""What the programs here share: files of this repository, the outputs of a plain program, and what was seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT / "tests" / "data"
DIGITS = ROOT / "examples" / "resnet18" / "resnet18_for_RK3588.rknn"
DIGIT = ROOT / "examples" / "resnet18" / "digit_224.png"
SCENE = ROOT / "examples" / "detect" / "scene.jpg"
DETECTOR = ROOT / "examples" / "detect" / "detect_for_RK3588.rknn"


def inference(path: Path, *inputs: np.ndarray, **words: Any) -> list[np.ndarray]:
    """The outputs of a plain program."""
    from rknnlite.api import RKNNLite

    rknn = RKNNLite()
    if rknn.load_rknn(str(path)) or rknn.init_runtime():
        raise SystemExit(f"{path.name} cannot be used")
    outputs = rknn.inference(inputs=list(inputs), **words)
    rknn.release()
    return outputs


def demand(condition: object, what: str) -> None:
    if not condition:
        raise SystemExit(f"not as expected: {what}")


def demand_equal(got: Any, expected: Any, what: str) -> None:
    """To the bit."""
    got, expected = np.asarray(got), np.asarray(expected)
    demand(got.shape == expected.shape, f"{what}: shape {got.shape}, a plain program has {expected.shape}")
    far = np.abs(got.astype(np.float64) - expected.astype(np.float64)).max()
    demand(far == 0, f"{what}: up to {far} from a plain program")


def seen(text: str) -> None:
    print(f"seen: {text}")
