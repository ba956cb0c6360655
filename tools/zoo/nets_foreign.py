"""Networks of frameworks that do not go with torch: their scripts run in environments of their own (setup.sh).

``ZOO_TF`` and ``ZOO_PADDLE`` name those environments' Pythons.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from network import Exporter, image, network

_SCRIPTS = {
    Exporter.TF: ("ZOO_TF", "foreign_tf.py"),
    Exporter.PADDLE: ("ZOO_PADDLE", "foreign_paddle.py"),
}
_NETWORKS = (
    ("keras_mobilenet_v3", 96, Exporter.TF),
    ("keras_efficientnet_v2", 64, Exporter.TF),
    ("keras_unet", 64, Exporter.TF),
    ("paddle_mobilenet_v3", 96, Exporter.PADDLE),
    ("paddle_shufflenet_v2", 96, Exporter.PADDLE),
    ("paddle_resnet", 64, Exporter.PADDLE),
)


def from_tflite(source: Path) -> Path:
    """A TensorFlow Lite file as ONNX, its inputs NCHW."""
    path = Path(tempfile.mkdtemp()) / "model.onnx"
    subprocess.run(
        [_python(Exporter.TF), str(Path(__file__).with_name("foreign_tflite.py")), str(source), str(path)],
        check=True,
    )
    return path


def _python(exporter: Exporter) -> str:
    variable = _SCRIPTS[exporter][0]
    python = os.environ.get(variable)
    if python is None:
        raise FileNotFoundError(
            f"{variable} does not name a Python with {exporter.value}: see tools/zoo/setup.sh"
        )
    return python


def _exported(name: str, exporter: Exporter) -> Callable[[], Path]:
    def build() -> Path:
        python, script = _python(exporter), _SCRIPTS[exporter][1]
        path = Path(tempfile.mkdtemp()) / "model.onnx"
        subprocess.run([python, str(Path(__file__).with_name(script)), name, str(path)], check=True)
        return path

    return build


for _name, _size, _exporter in _NETWORKS:
    network(_name, image(_size, name="in0"), exporter=_exporter, mean=(127.5,), std=(127.5,))(
        _exported(_name, _exporter)
    )
