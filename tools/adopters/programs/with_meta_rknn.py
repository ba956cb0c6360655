"""meta-rknn's classifier, which takes RKNNLite where the machine is an aarch64 and the vendor's PC toolkit elsewhere."""

from __future__ import annotations

import cv2
from direct import DIGIT, DIGITS, demand, demand_equal, inference, seen
from metarknn.app import Classification

picture = cv2.cvtColor(cv2.imread(str(DIGIT)), cv2.COLOR_BGR2RGB)
classifier = Classification(str(DIGITS), 224, 224)
classifier.infer(picture)
demand_equal(classifier.det_output, inference(DIGITS, picture[None])[0], "scores")
demand(classifier.det_output.argmax() == 7, "the digit is not a seven")
seen("Classification.infer: a seven, the numbers of a plain program")
