#!/usr/bin/env python3
"""The ResNet-18 behind Ray Serve, under load: replicas come as they are needed, and no answer is wrong.

python serve.py                         # three nodes on this machine, on the CPU reference
python serve.py --address auto          # the boards of a cluster that is there
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

try:
    from cluster import connected
    from ray import serve
except ImportError as error:
    sys.exit(f"{error}: pip install 'ray[data,serve]'")

from rknnlite_ray import deployment, typed_errors, wanted

MODEL = Path(__file__).resolve().parents[1] / "resnet18" / "resnet18_for_RK3588.rknn"
SHAPE = (1, 224, 224, 3)
LENGTH = "Inference-Header-Content-Length"


def ask(url: str, picture: np.ndarray) -> bytes:
    """The ten scores of a picture as bytes; the same request goes to ``rknnlite serve``."""
    entry = {"name": "input", "datatype": "UINT8", "shape": SHAPE}
    entry["parameters"] = {"binary_data_size": picture.nbytes}
    head = json.dumps({"inputs": [entry], "parameters": {"binary_data_output": True}}).encode()
    request = urllib.request.Request(f"{url}/infer", head + picture.tobytes(), {LENGTH: str(len(head))})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read()[int(answer.headers[LENGTH]) :]


def client(url: str, pictures: np.ndarray, expected: list[bytes], seconds: float) -> Counter:
    """One that asks as fast as it gets answers; what became of its requests."""
    end, found = time.monotonic() + seconds, Counter()
    numbers = itertools.cycle(range(len(pictures)))
    while time.monotonic() < end:
        number = next(numbers)
        try:
            found["right" if ask(url, pictures[number]) == expected[number] else "WRONG"] += 1
        except urllib.error.HTTPError as error:
            found[f"status {error.code}"] += 1
            time.sleep(0.2)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--address", help="of the cluster; left out: three nodes on this machine")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--clients", type=int, default=6)
    options = parser.parse_args()
    url = f"http://127.0.0.1:{options.port}/v2/models/resnet18"
    pictures = np.random.default_rng(0).integers(0, 255, (4, *SHAPE)).astype(np.uint8)
    with connected(options.address) as backend, typed_errors():
        serve.start(http_options={"host": "127.0.0.1", "port": options.port})
        application = deployment(
            MODEL, "resnet18", backend=backend, replicas=(1, 3), resources=wanted(MODEL), num_cpus=1,
            autoscaling={"target_ongoing_requests": 1, "upscale_delay_s": 2},
        )  # fmt: skip
        serve.run(application, route_prefix="/")
        expected = [ask(url, picture) for picture in pictures]
        with ThreadPoolExecutor(options.clients) as pool:
            work = [(url, pictures, expected, options.seconds)] * options.clients
            found = sum(pool.map(lambda each: client(*each), work), Counter())
        (state,) = serve.status().applications["default"].deployments.values()
        print(
            f"{dict(found)} in {options.seconds:g} s; {state.replica_states['RUNNING']} replicas at the end"
        )
        serve.shutdown()


if __name__ == "__main__":
    main()
