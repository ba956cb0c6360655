"""The calls of programs that people run on their boards, in the order in which these make them, on the CPU reference.

The scripts are our own; what is as in the field is which calls are made, with which arguments, from which thread.
docs/adopting.md names the programs.
"""

from __future__ import annotations

import logging
import multiprocessing
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import Any, Optional

import numpy as np
import pytest

from rknnlite.api import RKNNLite

from .corpus import genuine

RK3588 = genuine("mobilenetv2_like.rk3588.i8")
RK3566 = genuine("lenet_like.rk3566.i8")
MANY_OUTPUTS = genuine("kept.rk3588.i8")
SOCS = ("rk3562", "rk3566", "rk3568", "rk3576", "rk3588")
WITH_MASKS = ("rk3576", "rk3588")


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch: pytest.MonkeyPatch, cpu: None) -> None:
    monkeypatch.setenv("RKNNLITE_BACKEND", "cpu")


def device_tree(folder: Path, *words: str) -> Path:
    """``/proc/device-tree/compatible``: words that end with a zero byte."""
    path = folder / "compatible"
    path.write_bytes(b"".join(word.encode() + b"\0" for word in words))
    return path


def shape_of(rknn: RKNNLite) -> tuple[int, ...]:
    attr = rknn.rknn_runtime.get_tensor_attr(0)
    return tuple(attr.dims[: attr.n_dims])


def frames(rknn: RKNNLite, count: int) -> list[np.ndarray]:
    """Pictures, NHWC, each another one."""
    random = np.random.default_rng(3)
    return [random.integers(0, 256, shape_of(rknn), np.uint8) for _ in range(count)]


def reference(path: Path, inputs: list[np.ndarray]) -> list[list[np.ndarray]]:
    """The outputs of a plain program, one frame after the other."""
    rknn = RKNNLite()
    assert rknn.load_rknn(str(path)) == 0 and rknn.init_runtime() == 0
    outputs = [rknn.inference(inputs=[array]) for array in inputs]
    rknn.release()
    return outputs


def same(got: Optional[list[np.ndarray]], expected: list[np.ndarray]) -> bool:
    return (
        got is not None
        and len(got) == len(expected)
        and all(np.array_equal(a, b) for a, b in zip(got, expected))
    )


# -- faces: real values past the conversion of the runtime -------------------------------------------------


def test_a_program_for_faces(capfd: pytest.CaptureFixture[str]) -> None:
    """float32 passed through to a network of float16 is taken, and said once."""
    path = genuine("depthwise_3x3.rk3588.fp16")
    rknn = RKNNLite()
    assert rknn.load_rknn(str(path)) == 0 and rknn.init_runtime() == 0
    image = frames(rknn, 1)[0].astype(np.float32) / 255
    calls = [rknn.inference(inputs=[image], data_type="float32", inputs_pass_through=[1]) for _ in range(2)]
    plain = rknn.inference(inputs=[image.astype(np.float16)], inputs_pass_through=[1])
    rknn.release()
    assert plain is not None and all(same(outputs, plain) for outputs in calls)
    assert capfd.readouterr().err.count("float32 passed through to a FLOAT16 tensor") == 1


# -- photo server: a pool over a queue of futures ----------------------------------------------------------


class PhotoServer:
    """Immich: the SoC from the device tree, a mask only where there are several cores, a pool of contexts, NCHW floats."""

    def __init__(self, path: Path, tree: Path, threads: int) -> None:
        text = tree.read_text()
        self.soc = next(soc for soc in SOCS if soc in text)
        self.contexts = [self.start(path) for _ in range(threads)]
        self.threads = ThreadPoolExecutor(max_workers=threads)
        self.waiting: Queue[Future[Any]] = Queue()
        self.count = 0

    def start(self, path: Path) -> RKNNLite:
        rknn = RKNNLite()
        rknn.rknn_log.logger.setLevel(logging.ERROR)
        assert rknn.load_rknn(path.as_posix()) == 0
        masked = {"core_mask": RKNNLite.NPU_CORE_AUTO} if self.soc in WITH_MASKS else {}
        assert rknn.init_runtime(**masked) == 0
        return rknn

    def put(self, inputs: list[np.ndarray]) -> None:
        rknn = self.contexts[self.count % len(self.contexts)]
        self.waiting.put(self.threads.submit(rknn.inference, inputs=inputs, data_format="nchw"))
        self.count += 1

    def get(self) -> Any:
        return None if self.waiting.empty() else self.waiting.get().result()

    def release(self) -> None:
        self.threads.shutdown()
        for rknn in self.contexts:
            rknn.release()

    def __del__(self) -> None:
        self.release()


@pytest.mark.parametrize(
    ("path", "words"),
    [(RK3588, ("vendor,board", "rockchip,rk3588s")), (RK3566, ("vendor,b", "rockchip,rk3566"))],
)
def test_a_photo_server(
    path: Path, words: tuple[str, ...], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    server = PhotoServer(path, device_tree(tmp_path, *words), threads=2)
    arrays = frames(server.contexts[0], 6)
    expected = reference(path, arrays)
    for array in arrays:
        server.put([np.ascontiguousarray(np.float32(array).transpose(0, 3, 1, 2))])
    assert all(same(server.get(), outputs) for outputs in expected)
    assert server.get() is None
    server.release()
    del server  # releases once more
    assert "E " not in [line[:2] for line in capfd.readouterr().err.splitlines()]


# -- detectors of cameras: a context per core --------------------------------------------------------------


def test_a_pool_with_a_core_per_thread_in_turn() -> None:
    """rknnpool and what was made of it: masks 0, 1, 2 in turn, and results in the order of the frames."""
    masks = (RKNNLite.NPU_CORE_0, RKNNLite.NPU_CORE_1, RKNNLite.NPU_CORE_2, RKNNLite.NPU_CORE_0_1_2)
    contexts = []
    for number in range(6):
        rknn = RKNNLite(verbose=False)
        assert rknn.load_rknn(str(RK3588)) == 0
        assert rknn.init_runtime(core_mask=masks[number % len(masks)]) == 0
        contexts.append(rknn)
    arrays = frames(contexts[0], 18)
    expected = reference(RK3588, arrays)
    waiting: Queue[Future[Any]] = Queue()
    with ThreadPoolExecutor(max_workers=len(contexts)) as threads:
        for number, array in enumerate(arrays):
            rknn = contexts[number % len(contexts)]
            waiting.put(threads.submit(lambda face, data: face.inference(inputs=[data]), rknn, array))
            if number >= len(contexts):  # the camera waits for the oldest frame
                assert same(waiting.get().result(), expected[number - len(contexts)])
        for outputs in expected[-len(contexts) :]:
            assert same(waiting.get().result(), outputs)
    for rknn in contexts:
        rknn.release()


class Recorder:
    """Frigate: the SoC is what stands behind the last comma, the mask is computed of a number of cores, 0 by default."""

    def __init__(self, path: Path, tree: Path, num_cores: int = 0) -> None:
        self.rknn: Any = None
        with tree.open() as file:
            self.soc = file.read().split(",")[-1].strip("\x00")
        assert self.soc in (*SOCS, "rk3588s")
        self.rknn = RKNNLite(verbose=False)
        if self.rknn.load_rknn(str(path)) != 0:
            raise RuntimeError("load")
        if self.rknn.init_runtime(core_mask=2**num_cores - 1) != 0:
            raise RuntimeError("init")

    def run(self, inputs: dict[str, np.ndarray]) -> Any:
        given = inputs.get("input")
        if given is None:  # embeddings come as networks for other runtimes take them
            given = np.transpose(inputs["pixel_values"], (0, 2, 3, 1))
        return self.rknn.inference(inputs=[given])

    def __del__(self) -> None:
        if self.rknn:
            self.rknn.release()


@pytest.mark.parametrize("num_cores", range(4))
def test_a_video_recorder(num_cores: int, tmp_path: Path) -> None:
    recorder = Recorder(RK3588, device_tree(tmp_path, "vendor,board", "rockchip,rk3588s"), num_cores)
    (array,) = frames(recorder.rknn, 1)
    (expected,) = reference(RK3588, [array])
    assert recorder.soc == "rk3588s"
    assert same(recorder.run({"input": array}), expected)
    assert same(recorder.run({"pixel_values": np.float32(array).transpose(0, 3, 1, 2)}), expected)


def test_a_video_recorder_on_one_core(tmp_path: Path) -> None:
    """``core_mask=0`` is passed there, too, and is taken; others are refused as on the board."""
    tree = device_tree(tmp_path, "vendor,board", "rockchip,rk3566")
    recorder = Recorder(RK3566, tree)
    (array,) = frames(recorder.rknn, 1)
    assert same(recorder.run({"input": array}), reference(RK3566, [array])[0])
    with pytest.raises(RuntimeError, match="init"):
        Recorder(RK3566, tree, 1)


def _detect(path: str, array: np.ndarray, answers: Any) -> None:
    """A detector process: everything of ours happens here."""
    rknn = RKNNLite(verbose=False)
    codes = rknn.load_rknn(path), rknn.init_runtime(core_mask=0)
    answers.send((codes, rknn.inference(inputs=[array])))
    rknn.release()


def test_a_detector_in_a_process_of_its_own() -> None:
    rknn = RKNNLite()
    assert rknn.load_rknn(str(RK3588)) == 0 and rknn.init_runtime() == 0
    (array,) = frames(rknn, 1)
    expected = rknn.inference(inputs=[array])
    processes = multiprocessing.get_context("fork")
    answers, theirs = processes.Pipe(duplex=False)
    worker = processes.Process(target=_detect, args=(str(RK3588), array, theirs))
    worker.start()
    codes, outputs = answers.recv()
    worker.join(20)
    assert codes == (0, 0) and same(outputs, expected)
    rknn.release()


# -- the vendor's model zoo --------------------------------------------------------------------------------


class Container:
    """rknn_model_zoo's py_utils: target and device by keyword, a bare array or a list, nothing after release."""

    def __init__(self, path: Path, target: Optional[str] = None, device_id: Optional[str] = None) -> None:
        self.rknn: Any = RKNNLite()
        self.rknn.load_rknn(str(path))
        code = (
            self.rknn.init_runtime(target=target, device_id=device_id) if target else self.rknn.init_runtime()
        )
        assert code == 0

    def run(self, inputs: Any) -> Any:
        if self.rknn is None:
            return []
        return self.rknn.inference(inputs=inputs if isinstance(inputs, (list, tuple)) else [inputs])

    def release(self) -> None:
        self.rknn.release()
        self.rknn = None


@pytest.mark.parametrize("target", [None, "rk3588"])
def test_the_model_zoo(target: Optional[str]) -> None:
    container = Container(MANY_OUTPUTS, target)
    array = np.random.default_rng(1).integers(0, 256, shape_of(container.rknn), np.uint8)
    (expected,) = reference(MANY_OUTPUTS, [array])
    assert all(same(container.run(form), expected) for form in (array, [array], (array,)))
    assert all(output.dtype == np.float32 and output.flags.writeable for output in expected)
    container.release()
    assert container.run(array) == []


# -- programs that look before they run --------------------------------------------------------------------


@pytest.mark.parametrize("path", [RK3588, RK3566, MANY_OUTPUTS], ids=lambda p: p.stem)
def test_faces_speech_and_others_ask_for_sizes(path: Path) -> None:
    """Signatures of all inputs and outputs, and the size of a picture, from the runtime's attributes."""
    rknn = RKNNLite()
    assert rknn.load_rknn(str(path)) == 0 and rknn.init_runtime() == 0
    runtime = rknn.rknn_runtime
    counts = runtime.get_in_out_num()
    (array,) = frames(rknn, 1)
    outputs = rknn.inference(inputs=[array])
    assert counts == (1, len(outputs))
    height, width = [dim for dim in list(runtime.get_tensor_attr(0).dims)[:4] if dim > 3][:2]
    assert (height, width) == array.shape[1:3]
    for number, output in enumerate(outputs):
        attr = runtime.get_tensor_attr(number, is_output=True)
        assert attr.name.decode() and [int(dim) for dim in attr.dims][: int(attr.n_dims)] == list(
            output.shape
        )
        assert attr.n_elems == output.size and attr.size == output.size * {1: 2, 2: 1}[attr.type]
    rknn.release()


# -- nodes of robots ---------------------------------------------------------------------------------------


class LifecycleNode:
    """ROS 2: opened when configured, called from threads of an executor, released, and configured again."""

    def __init__(self) -> None:
        self.rknn = RKNNLite()
        self.seen: list[Any] = []

    def on_configure(self) -> None:
        assert self.rknn.load_rknn(str(RK3588)) == 0
        assert self.rknn.init_runtime(core_mask=RKNNLite.NPU_CORE_0_1_2) == 0

    def on_image(self, image: np.ndarray) -> None:
        self.seen.append(self.rknn.inference(inputs=[np.expand_dims(image, 0)]))

    def on_cleanup(self) -> None:
        self.rknn.release()


@pytest.fixture
def node() -> Iterator[LifecycleNode]:
    found = LifecycleNode()
    yield found
    found.on_cleanup()


def test_a_node_of_a_robot(node: LifecycleNode) -> None:
    for _ in range(2):
        starter = threading.Thread(target=node.on_configure)
        starter.start()
        starter.join()
        arrays = frames(node.rknn, 4)
        expected = reference(RK3588, arrays)
        node.seen.clear()
        for array in arrays:  # callbacks of one group come one after the other, each from another thread
            caller = threading.Thread(target=node.on_image, args=(array[0],))
            caller.start()
            caller.join()
        assert all(same(got, outputs) for got, outputs in zip(node.seen, expected)) and len(node.seen) == 4
        node.on_cleanup()


def test_callbacks_that_overlap_wait_for_their_turn(
    node: LifecycleNode, capfd: pytest.CaptureFixture[str]
) -> None:
    """A group that is reentrant lets several in at once: each gets its own outputs."""
    node.on_configure()
    arrays = frames(node.rknn, 12)
    expected = reference(RK3588, arrays)
    with ThreadPoolExecutor(4) as executor:
        got = list(executor.map(lambda array: node.rknn.inference(inputs=[array]), arrays))
    assert all(same(outputs, right) for outputs, right in zip(got, expected))
    assert "E " not in [line[:2] for line in capfd.readouterr().err.splitlines()]
