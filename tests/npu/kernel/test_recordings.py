"""What reaches the vendor's kernel is what was recorded: every word and record, read by the rig when a job is submitted."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from rknnlite_npu.command_words import TAIL
from rknnlite_npu.core_jobs import tasks_in
from rknnlite_npu.machine_transport import MachineTransport
from rknnlite_npu.rknpu_abi import Submit
from rknnlite_npu.task import as_table

from tests.npu.recordings import CAPTURES, GENUINE, genuine_runtime, recorded
from tests.support.corpus import DATA, EXAMPLES, SILICON
from tools.npu_rig.driver import Program
from tools.npu_rig.gem import as_structure
from tools.npu_rig.rknpu import RknpuDriver, ranges_of

from .rigs import KERNELS, rig

RUN = """
import sys
import numpy as np
from rknnlite.errors import RknnError
from rknnlite.formats import ModelFile
from rknnlite.spi import OpenOptions
from rknnlite_npu.backend import KernelBackend
with KernelBackend().open_on(sys.argv[1], ModelFile(sys.argv[2]), OpenOptions()) as context:
    kind = {"pixels": np.uint8, "floats": np.float32}[sys.argv[3]]
    context.infer(*(np.ones(attr.dims, kind) for attr in context.inputs))
"""


class Placing(MachineTransport):
    """Buffers lie where they are told to, in the order in which we ask for them."""

    def __init__(self, addresses: list[int]) -> None:
        super().__init__("RKNPU v2")
        self._addresses = addresses

    def _room(self, size: int) -> int:
        return self._addresses.pop(0)


class Recorder(RknpuDriver):
    """Keeps what is submitted: (name, record, words), and the words from the beginning of all."""

    def __init__(self, weight: int, internal: int, task: int, io: list[int]) -> None:
        super().__init__()
        self._transport = Placing([weight, *io, internal, task])
        self.seen: list[tuple[str, tuple[int, ...], np.ndarray]] = []
        self.submits: list[Submit] = []
        self._commands, self.words = weight, np.zeros(0, np.uint64)

    def commands(self, offset: int, count: int) -> None:
        """Keep so many words, from there on in the weight buffer, too."""
        self._wanted = self._commands + offset, 8 * count

    def _submit(self, program: Program, argument: bytearray) -> None:
        submit = as_structure(Submit, argument)
        self.submits.append(Submit.from_buffer_copy(argument))
        memory, content = self._transport.memory, self._object(program, submit.task_obj_addr).memory.ndarray
        if hasattr(self, "_wanted"):
            self.words = memory.view(*self._wanted).view(np.uint64).copy()
        for core, part in enumerate(ranges_of(submit)):
            for index, task in zip(part, tasks_in(content, part)):
                words = memory.view(task.address, 8 * (task.amount + TAIL)).view(np.uint64).copy()
                self.seen.append((f"task{self.jobs}_{core}_{index}", tuple(task), words))
        super()._submit(program, argument)


def submitted(driver: Recorder, model: Path, what: str, folder: Path) -> None:
    """Run a model once on the rig."""
    with rig("rknpu", folder / "cache", driver) as found:
        found.python(RUN, KERNELS["rknpu"][0], model, what)
    assert not driver.refusals
    assert {(request.flags, request.core_mask, request.fence_fd) for request in driver.submits} == {
        (5, 1, -1)
    }


@recorded(GENUINE)
def test_the_kernel_is_given_what_the_genuine_runtime_gives_it(name: str, tmp_path: Path) -> None:
    recording = genuine_runtime(name)
    with np.load(SILICON / "genuine-1.6.0" / f"{name}.npz") as stored:
        task, weight, internal, *io = stored["buffers"][:, 1].tolist()
    model = DATA / f"{name}.rknn"
    model = model if model.exists() else EXAMPLES / name.partition("_for_")[0] / f"{name}.rknn"
    driver = Recorder(weight, internal, task, io)
    submitted(driver, model, "pixels", tmp_path)
    assert [name for name, _, _ in driver.seen] == recording.names
    for (task_name, record, words), wanted, expected in zip(driver.seen, recording.records, recording.words):
        assert list(record) == wanted.tolist(), task_name
        assert words.tolist() == expected.tolist(), task_name


@recorded(CAPTURES)
def test_the_kernel_is_given_what_a_real_chip_was_given(name: str, tmp_path: Path) -> None:
    path = SILICON / f"{name}.json"
    told = json.loads(path.read_text(encoding="utf-8"))
    base = {buffer: facts["dma"] for buffer, facts in told["buffers"].items()}
    driver = Recorder(base["weight"], base["internal"], base["task"], [base["input"], base["output"]])
    driver.commands(told["commands_offset_in_weight_buffer"], len(told["commands"]))
    submitted(driver, path.with_suffix(".rknn"), "floats", tmp_path)
    assert driver.words.tolist() == [int(word, 16) for word in told["commands"]]
    wanted = as_table(record for _, record, _ in driver.seen)
    assert all(row in told["tasks"] for row in wanted.tolist())
