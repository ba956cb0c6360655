"""Convert both networks with the vendor's toolkit: python convert.py models/whisper rk3588"""

import sys
from pathlib import Path

from rknn.api import RKNN

folder, platform = Path(sys.argv[1]), sys.argv[2]
for name in ("encoder", "decoder"):
    rknn = RKNN()
    rknn.config(target_platform=platform)
    for code in (
        rknn.load_onnx(str(folder / f"{name}.onnx")),
        rknn.build(do_quantization=False),
        rknn.export_rknn(str(folder / f"{name}.rknn")),
    ):
        if code:
            sys.exit(f"{name}: the toolkit failed with {code}")
    rknn.release()
