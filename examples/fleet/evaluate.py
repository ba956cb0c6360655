#!/usr/bin/env python3
"""How many handwritten digits the ResNet-18 names correctly, over all 1,797, on a cluster of Ray.

    python evaluate.py                      # a cluster of three nodes on this machine, on the CPU reference
    python evaluate.py --address auto       # the boards of a cluster that is there

Kill it and start it again: what is in the folder of results is not computed again.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
RESNET = HERE.parent / "resnet18"
sys.path.insert(0, str(RESNET))
try:
    import digits
    import ray
    from cluster import connected
    from rknnlite_ray import Results, RknnPredictor, map_arguments, typed_errors, wanted
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split
except ImportError as error:
    sys.exit(f"{error}: pip install 'ray[data,serve]' opencv-python-headless scikit-learn")

ray.cloudpickle.register_pickle_by_value(digits)  # the boards do not have that file
MODEL = RESNET / "resnet18_for_RK3588.rknn"


def pictures(batch: Mapping[str, Any]) -> dict[str, Any]:
    """The picture of each digit: 224 x 224 x 3, RGB, uint8; always the same one for a number."""
    made = [
        digits.compose(np.float32(digit) / 16, 224, np.random.default_rng([digits.SEED, number]))
        for number, digit in zip(batch["id"], batch["digit"])
    ]
    return {"id": batch["id"], "label": batch["label"], "picture": np.array(made, np.uint8)}


def rows(count: int) -> ray.data.Dataset:
    """Rows of number, label and 8 x 8 pixels."""
    data = load_digits()
    columns = range(count), data.target.tolist(), data.images.astype(np.uint8)
    return ray.data.from_items(
        [{"id": number, "label": label, "digit": digit} for number, label, digit in zip(*columns)],
        override_num_blocks=min(60, count),
    )


def report(results: Results) -> None:
    """Shares of digits that were named correctly: those of the training, and those that were held out of it."""
    table = results.read().to_pandas()
    split = {"test_size": digits.HELD_OUT, "stratify": load_digits().target, "random_state": digits.SEED}
    held_out = train_test_split(np.arange(1797), **split)[1]  # as digits.load_split divides them
    right, held = table["best"] == table["label"], table["id"].isin(held_out)
    for name, chosen in (("all", held | ~held), ("held out", held), ("seen in training", ~held)):
        if chosen.any():
            print(
                f"{name}: {right[chosen].sum()} of {chosen.sum()} digits, {100 * right[chosen].mean():.1f} %"
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--address", help="of the cluster; left out: three nodes on this machine")
    parser.add_argument("--out", default="digits", help="folder of results")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--digits", type=int, default=1797, help="the first so many")
    options = parser.parse_args()
    with connected(options.address) as backend, typed_errors():
        results = Results(options.out)
        print(f"{len(results.keys())} of {options.digits} digits are in {options.out} already", flush=True)
        arguments = map_arguments(
            MODEL, options.workers, backend=backend, resources=wanted(MODEL), batch_size=8,
            inputs="picture", outputs="best", post=lambda outputs: int(outputs[0].argmax()),
        )  # fmt: skip
        missing = results.missing(rows(options.digits)).map_batches(pictures, batch_size=8)
        results.write(missing.map_batches(RknnPredictor, **arguments))
        report(results)


if __name__ == "__main__":
    main()
