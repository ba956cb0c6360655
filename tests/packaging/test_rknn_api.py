"""tools/rknn_api: ``from rknn.api import RKNN`` for files that are converted, as an installed distribution of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

from rknnlite import __version__
from tests.support.corpus import EXAMPLES, ROOT, genuine

SOURCE = ROOT / "tools" / "rknn_api"
RESNET = EXAMPLES / "resnet18" / "resnet18_for_RK3588.rknn"
pytestmark = pytest.mark.skipif(not SOURCE.is_dir(), reason="an installed package has no tools")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that pip has built and installed it into, without asking any index."""
    setuptools = pytest.importorskip("setuptools")
    pytest.importorskip("pip")
    if tuple(map(int, setuptools.__version__.split(".")[:2])) < (70, 1):
        pytest.importorskip("wheel")  # which makes wheels for older ones
    folder = tmp_path_factory.mktemp("rknn_api")
    source = shutil.copytree(SOURCE, folder / "source", ignore=shutil.ignore_patterns("__pycache__"))
    words = [
        "install",
        "-q",
        "--no-deps",
        "--no-index",
        "--no-build-isolation",
        "--target",
        folder / "site",
        source,
    ]
    subprocess.run([sys.executable, "-m", "pip", *words], check=True, capture_output=True, text=True)
    return folder / "site"


def run(installed: Path, text: str, *words: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a program that finds it."""
    path = os.pathsep.join(
        [str(installed), str(ROOT), str(ROOT / "plugins"), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text), *map(str, words)],
        env={**os.environ, "PYTHONPATH": path, "RKNNLITE_BACKEND": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done


@pytest.mark.slow
def test_what_it_is(installed: Path) -> None:
    (found,) = metadata.distributions(name="rknnlite-rknn-api", path=[str(installed)])
    assert (found.version, found.requires) == (__version__, ["rknnlite[cpu]"])


DEMO = """
    import argparse, sys
    import numpy as np
    from rknn.api import RKNN

    class Executor:
        def __init__(self, model_path, target=None, device_id=None):
            rknn = RKNN()
            rknn.load_rknn(model_path)
            ret = rknn.init_runtime() if target is None else rknn.init_runtime(target=target, device_id=device_id)
            if ret != 0:
                print("Init runtime environment failed")
                exit(ret)
            self.rknn = rknn

        def run(self, inputs):
            return self.rknn.inference(inputs=inputs if isinstance(inputs, (list, tuple)) else [inputs])

        def release(self):
            self.rknn.release()
            self.rknn = None

    parser = argparse.ArgumentParser()
    parser.add_argument("--model_path")
    parser.add_argument("--target", default="rk3588")
    parser.add_argument("--device_id")
    args = parser.parse_args()
    model = Executor(args.model_path, args.target, args.device_id)
    image = np.arange(224 * 224 * 3, dtype=np.uint32).reshape(1, 224, 224, 3).astype(np.uint8)
    np.save(sys.stdout.buffer, model.run([image])[0])
    model.release()
"""


def test_a_demo_as_in_collections_of_models(installed: Path, tmp_path: Path) -> None:
    """The numbers are those of ``RKNNLite``."""
    from rknnlite.api import RKNNLite

    script = DEMO.replace("sys.stdout.buffer", repr(str(tmp_path / "out.npy")))
    run(installed, script, "--model_path", RESNET, "--target", "rk3588")
    rknn = RKNNLite()
    assert rknn.load_rknn(str(RESNET)) == 0 and rknn.init_runtime(target="rk3588") == 0
    image = np.arange(224 * 224 * 3, dtype=np.uint32).reshape(1, 224, 224, 3).astype(np.uint8)
    expected = rknn.inference(inputs=[image])
    rknn.release()
    assert expected is not None and np.array_equal(np.load(tmp_path / "out.npy"), expected[0])


def test_measuring_and_comparing(installed: Path, tmp_path: Path) -> None:
    script = """
        import sys
        import numpy as np
        from rknn.api import RKNN
        rknn = RKNN()
        assert rknn.load_rknn(sys.argv[1]) == 0
        assert rknn.init_runtime(target="rk3588", perf_debug=True, eval_mem=True, core_mask=RKNN.NPU_CORE_0) == 0
        image = np.zeros((1, 24, 24, 3), np.uint8)
        np.save(sys.argv[2] + "/in.npy", image)
        assert "Network Layer Information Table" in rknn.eval_perf(is_print=False)
        assert rknn.eval_memory(is_print=False)["weight_memory"] > 0
        assert rknn.accuracy_analysis(inputs=[sys.argv[2] + "/in.npy"], output_dir=sys.argv[2] + "/snapshot") == 0
        assert rknn.accuracy_analysis(inputs=[image, image]) == -1
        assert rknn.inference([image], ["nhwc"], [0])[0].shape == (1, 16, 12, 12)
        assert "RKNN VERSION" in rknn.get_sdk_version() and rknn.list_devices() == ([], [])
        rknn.release()
    """
    done = run(installed, script, genuine("conv_relu.rk3588.i8"), tmp_path)
    table = (tmp_path / "snapshot" / "error_analysis.txt").read_text()
    assert "[ConvRelu] out0" in table and "single" in table and table in done.stdout
    assert "2 inputs given, the model has 1" in done.stderr


def test_what_converts_says_what_to_install(installed: Path) -> None:
    script = """
        from rknn.api import RKNN
        from rknn.api.custom_op import get_node_attr
        rknn = RKNN(verbose=False)
        print(rknn.config(mean_values=[[0, 0, 0]], target_platform="rk3588"), rknn.load_onnx(model="net.onnx"),
              rknn.build(do_quantization=True, dataset="d.txt"), rknn.export_rknn("net.rknn"), rknn.hybrid_quantization_step1())
        print(rknn.eval_perf(), rknn.accuracy_analysis(inputs=[]), rknn.init_runtime(), rknn.inference(inputs=[]))
    """
    done = run(installed, script)
    assert done.stdout.splitlines() == ["-1 -1 -1 -1 -1", "None -1 -1 None"]
    lines = [line for line in done.stderr.splitlines() if line.startswith("E ")]
    assert len(lines) == 9 and "E config is not in rknnlite: it converts" in lines[0]
    assert all("pip install rknn-toolkit2" in line for line in lines[:5])


def test_it_refuses_beside_the_vendors(installed: Path, tmp_path: Path) -> None:
    site = shutil.copytree(installed, tmp_path / "site")
    (site / "rknn_toolkit2-2.3.2.dist-info").mkdir()
    (site / "rknn_toolkit2-2.3.2.dist-info/METADATA").write_text(
        "Metadata-Version: 2.1\nName: rknn-toolkit2\nVersion: 2.3.2\n"
    )
    done = run(site, "from rknn.api import RKNN", code=1)
    assert (
        "rknn-toolkit2 2.3.2 and rknnlite-rknn-api are both installed, and both are imported as rknn: remove one"
        in done.stderr
    )
