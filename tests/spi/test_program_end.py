"""Contexts that are asked at the very end of a program refuse with an error of ours: nothing that computes is there any more."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

MODEL = Path(__file__).parents[2] / "examples" / "resnet18" / "resnet18_for_RK3588.rknn"
PROGRAM = """
import atexit, json, os, sys
import numpy as np, rknnlite
class Late:
    def __init__(self):
        self.context = rknnlite.open(sys.argv[1], backend="cpu", engine=sys.argv[2])
    def __del__(self, image=np.zeros((1, 224, 224, 3), np.uint8), refused=rknnlite.RknnError, write=os.write):
        try:
            write(1, b"computed %d" % len(self.context.CALL))
        except refused as error:
            write(1, b"refused: " + str(error).encode())
json.late = Late()  # lives longer than this module
atexit.register(lambda: print("at exit:", len(json.late.context.infer(np.zeros((1, 224, 224, 3), np.uint8))), flush=True))
"""


@pytest.mark.parametrize("engine", ["numpy", "onnxruntime"])
@pytest.mark.parametrize("call", ["infer(image)", "infer(image, raw=True)", "infer_async(image).result()"])
def test_infer_in_a_finaliser(call: str, engine: str) -> None:
    if engine != "numpy":
        pytest.importorskip(engine)
    command = [sys.executable, "-c", PROGRAM.replace("CALL", call), str(MODEL), engine]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert not done.stderr
    assert done.stdout.startswith("at exit: 1\nrefused: the program is ending")
