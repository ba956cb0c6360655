"""What mmpose and rtmlib make of the heat maps and axes in tests/vision/heat_map_outputs.py.

    python tools/vision/heat_map_goldens.py    # needs mmpose, torch and rtmlib; writes tests/vision/data/heat_maps.npz

mmpose's arithmetic is loaded without the package around it, which wants mmcv. Rows are x, y in pixels of the network, and a score.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from rtmlib.tools.pose_estimation.rtmpose import RTMPose

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "plugins")]

from tests.vision import heat_map_outputs as made  # noqa: E402

TARGET = ROOT / "tests" / "vision" / "data" / "heat_maps.npz"


def codecs() -> tuple[Any, Any]:
    """mmpose's modules of codecs: what finds maxima, and what refines them."""
    spec = importlib.util.find_spec("mmpose")
    assert spec and spec.submodule_search_locations
    package = ModuleType("codecs_of_mmpose")
    package.__path__ = [str(Path(spec.submodule_search_locations[0]) / "codecs" / "utils")]
    sys.modules[package.__name__] = package
    maxima, refined = (
        importlib.import_module(f"{package.__name__}.{n}") for n in ("post_processing", "refinement")
    )
    return maxima, refined


def heat_maps() -> np.ndarray:
    """Of the codec for MSRA's heat maps."""
    maxima, refined = codecs()
    maps = made.MAPS[0].copy()
    places, scores = maxima.get_heatmap_maximum(maps)
    places = refined.refine_keypoints(places[None], maps)[0]
    pixels = places * np.array(made.SIZE) / maps.shape[:0:-1]
    return np.concatenate([pixels, scores[:, None]], axis=1).astype(np.float32)


def axes() -> np.ndarray:
    """Of rtmlib's RTMPose, for a person that fills the network's picture."""
    network = RTMPose.__new__(RTMPose)
    network.model_input_size = made.SIZE
    size = np.array(made.SIZE)
    places, scores = network.postprocess([a.copy() for a in made.AXES], size / 2, size)
    return np.concatenate([places[0], scores[0][:, None]], axis=1).astype(np.float32)


if __name__ == "__main__":
    np.savez_compressed(TARGET, maps=heat_maps(), axes=axes())
    print(f"written: {TARGET.relative_to(ROOT)}")
