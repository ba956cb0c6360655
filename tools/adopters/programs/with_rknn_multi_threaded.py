"""leafqycc's pool from a checkout: six contexts on three cores, frames in the order in which they were put."""

from __future__ import annotations

import sys

import cv2
import numpy as np
from direct import DIGIT, DIGITS, demand, demand_equal, inference, seen

sys.path.insert(0, sys.argv[1])
from rknnpool import rknnPoolExecutor

digit = cv2.cvtColor(cv2.imread(str(DIGIT)), cv2.COLOR_BGR2RGB)
frames = [np.roll(digit, 7 * shift, axis=1)[None] for shift in range(18)]
pool = rknnPoolExecutor(
    rknnModel=str(DIGITS), TPEs=6, func=lambda rknn, frame: rknn.inference(inputs=[frame])[0]
)
for frame in frames:
    pool.put(frame)
answers = [pool.get() for _ in frames]
demand(all(there for _, there in answers) and pool.get() == (None, False), "the pool lost a frame")
for frame, (scores, _) in zip(frames, answers):
    demand_equal(scores, inference(DIGITS, frame)[0], "scores")
pool.release()
seen(f"{len(frames)} frames through six contexts on three cores, in order, as of a plain program")
