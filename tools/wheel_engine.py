#!/usr/bin/env python3
"""Whether the rknnlite that is installed computes with the native engine it came with:

    tools/wheel_engine.py MODEL.rknn [...]      (run it by the Python of that environment)

No compiler is found and nothing can be kept, so what computes is the library that the wheel has for this processor. Each
network is given random inputs, and all results must have the bytes of the numpy kernels; those of float16 and float32 are bounded
instead. The digest of a network's bytes of 8 bits is the same on every processor.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

BOUND = 4e-3
"""Of floats, beside the largest value."""


def main(models: Sequence[Path]) -> int:
    """Print the library and a line per network; 1 for one that differs, or without a library."""
    with tempfile.TemporaryDirectory() as empty:
        os.environ.update(PATH=empty, CC="no-compiler", RKNNLITE_CACHE="/proc/none")
        os.environ.pop("RKNNLITE_ENGINE", None)
        from rknnlite_cpu.engines import choice
        from rknnlite_cpu.engines.native.library import library
        from rknnlite_cpu.engines.native.prebuilt import prebuilt

        file = prebuilt()
        if file is None or choice.candidates()[:1] not in (["native"], ["native+onnxruntime"]):
            print(f"{platform.machine()}: no library of the wheel fits this processor")
            return 1
        print(f"{platform.machine()}: {file.name}, {library().build.partition(' ')[0]}", flush=True)
        wrong = [path for path in models if not same(path)]
        return 1 if wrong else 0


def same(path: Path) -> bool:
    """Compare a network on the native engine with the numpy kernels; prints it."""
    import rknnlite

    results = []
    for engine in ("numpy", "native"):
        with rknnlite.open(path, backend="cpu", engine=engine) as context:
            random = np.random.default_rng(0)
            inputs = [random.integers(0, 256, attr.dims).astype(np.uint8) for attr in context.inputs]
            results.append([output.data for output in context.infer(inputs, raw=True)])
            if engine == "native":
                accelerator = context._shapes.current.plan._accelerator  # type: ignore[attr-defined]
                nodes = sum(len(island.segment.nodes) for island in accelerator.islands({}))
    digest, far = hashlib.sha256(), 0.0
    for ours, theirs in zip(*results):
        if ours.dtype.kind == "f":
            largest = max(1e-6, float(np.abs(ours).max(initial=0)))
            far = max(far, float(np.abs(ours - theirs).max(initial=0)) / largest)
        else:
            digest.update(theirs.tobytes())
            far = max(far, float(not np.array_equal(ours, theirs)))
    good = far <= BOUND and nodes > 0
    told = f"{path.name}: {digest.hexdigest()[:16]}, {nodes} nodes on it, {far:.2g} apart"
    print(f"{'same' if good else 'DIFFERS'} {told}", flush=True)
    return good


if __name__ == "__main__":
    sys.exit(main([Path(word) for word in sys.argv[1:]]))
