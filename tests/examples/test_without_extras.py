"""Examples without what they need beside rknnlite say so in one sentence and end with status 1; and leave nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.brothers import first_of_each
from tests.support.corpus import EXAMPLES, ROOT

EXTRAS = (
    "cv2 tokenizers onnx onnxruntime openvino jinja2 pyopencl matplotlib PIL safetensors gguf skimage torch"
)

HIDING = """
import runpy, sys
class Without:
    def __init__(self, finders): self.finders = finders
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in HIDDEN: return None
        return next(filter(None, (f.find_spec(name, path, target) for f in self.finders)), None)
HIDDEN = set(sys.argv[1].split())
sys.meta_path[:] = [Without(list(sys.meta_path))]
sys.argv = sys.argv[2:]
sys.path.insert(0, sys.argv[0].rpartition("/")[0])
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Runs a program as if those packages were not installed."""

NEEDS = {
    "custom_op/test.py c": "C compiler",
    "custom_op/test.py gpu": "C compiler",
    "detect/test.py": "pillow",
    "dynamic_shape/test.py": "opencv-python-headless",
    "llm_chat/function_calling.py": "jinja2",
    "llm_chat/kvcache.py": "jinja2",
    "llm_chat/multi_turn.py": "jinja2",
    "llm_chat/score.py 1": "jinja2",
    "llm_chat/stop.py": "jinja2",
    "llm_chat/test.py": "jinja2",
    "resnet18/test.py": "opencv-python-headless",
    "rknn1/test.py": "opencv-python-headless",
    "video_pipeline/make_video.py": "opencv-python-headless",
    "video_pipeline/test.py 0 found.avi": "opencv-python-headless",
    "yolo_postprocess/test.py": "pillow",
}


def run(program: str, folder: Path, hidden: str = EXTRAS, path: str = "") -> subprocess.CompletedProcess[str]:
    name, *arguments = program.split()
    environment = {
        **os.environ,
        "PATH": path or str(folder),  # no compiler there
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "plugins")]),
        "RKNNLITE_BACKEND": "cpu",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return subprocess.run(
        [sys.executable, "-c", HIDING, hidden, str(EXAMPLES / name), *arguments], cwd=folder, env=environment,
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_every_example_is_tried() -> None:
    tried = {program.partition("/")[0] for program in NEEDS} | {"rkllm_chat"}
    assert tried == {path.parent.name for path in EXAMPLES.glob("*/test.py")}


@pytest.mark.parametrize(
    "program", first_of_each(lambda name: (name.partition("/")[0], NEEDS[name]), sorted(NEEDS))
)
def test_a_sentence_says_what_is_missing(program: str, tmp_path: Path) -> None:
    done = run(program, tmp_path)
    said = [line for line in (done.stdout + done.stderr).splitlines() if NEEDS[program] in line]
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert len(said) == 1, done.stderr
    assert "pip install" in said[0] or "apt install" in said[0]
    assert not list(tmp_path.iterdir())


def test_an_example_without_a_model_of_its_own_asks_for_one(tmp_path: Path) -> None:
    done = run("rkllm_chat/test.py", tmp_path)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "name one: python test.py MODEL.rkllm" in done.stderr
    assert not list(tmp_path.iterdir())


def test_the_riscv_compiler_is_named(tmp_path: Path) -> None:
    pytest.importorskip("cv2")
    done = run("yolo_postprocess/test.py riscv", tmp_path, hidden="")
    assert done.returncode == 1
    assert "riscv64-unknown-elf-gcc is not installed: apt install" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_needs_nothing_runs_without(tmp_path: Path) -> None:
    """An OpenCL operator has its Python class to fall back on."""
    done = run("custom_op/test.py python opencl", tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 2
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "error", [pytest.param("ValueError('a bad frame')", marks=pytest.mark.slow), "KeyboardInterrupt()"]
)
def test_nothing_is_left_when_the_work_ends_early(error: str, tmp_path: Path) -> None:
    """An error in the middle takes the half-written video away; after Ctrl-C what there is can be played."""
    cv2 = pytest.importorskip("cv2")
    folder, out = EXAMPLES / "video_pipeline", tmp_path / "out.avi"
    program = f"""
import runpy, sys
import rknnlite_vision
drawn = []
def draw(frame, found, name_of):
    drawn.append(1)
    if len(drawn) == 20:
        raise {error}
    return frame
rknnlite_vision.draw = draw
sys.path.insert(0, {str(folder)!r})
from make_video import make
make("film.avi", 30)
sys.argv = ["test.py", "film.avi", {str(out)!r}]
runpy.run_path({str(folder / "test.py")!r}, run_name="__main__")
"""
    environment = {**os.environ, "RKNNLITE_BACKEND": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )  # fmt: skip
    if "Keyboard" in error:
        assert done.returncode == 0, done.stderr
        assert int(cv2.VideoCapture(str(out)).get(cv2.CAP_PROP_FRAME_COUNT)) == 19
    else:
        assert done.returncode == 1 and "sink, picture 20: ValueError: a bad frame" in done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {
        "film.avi",
        *(["out.avi"] if "Keyboard" in error else []),
    }
