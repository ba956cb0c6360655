"""ez-rknn-async: its session, which is written in C++ and loads librknnrt.so, on the library that rknnlite brings."""

from __future__ import annotations

import cv2
import numpy as np
import ztu_somemodelruntime_ez_rknn_async as ez
from direct import DIGIT, DIGITS, demand, demand_equal, inference, seen

picture = cv2.cvtColor(cv2.imread(str(DIGIT)), cv2.COLOR_BGR2RGB)[None]
(expected,) = inference(DIGITS, picture)
session = ez.InferenceSession(str(DIGITS))
names = [node.name for node in session.get_inputs()]
demand(names == ["input"], f"inputs {names}")
got = session.run(
    None, {"input": np.ascontiguousarray(picture.transpose(0, 3, 1, 2))}
)  # it speaks ONNX: NCHW
demand_equal(np.reshape(got[0], expected.shape), expected, "scores")
seen("InferenceSession.run: the numbers of a plain program")
