"""The rig: programs that use the vendor's kernel interface, answered by a stand-in whose NPU is the machine."""

from __future__ import annotations

import ctypes as ct
import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from rknnlite_npu import rknpu_abi
from rknnlite_npu.placement import Bases
from rknnlite_npu.submission import Submission, plan
from rknnlite_npu.task import as_records
from rknnlite_npu.tensor_bytes import TensorBytes

import rknnlite
from rknnlite.files.pictures import read_picture
from rknnlite.formats import ModelFile
from tests.support.corpus import EXAMPLES, genuine
from tools.npu_rig.build import PROCESSORS
from tools.npu_rig.driver import Fault
from tools.npu_rig.kernel import Kernel
from tools.npu_rig.rknpu import RknpuDriver

from .rig import DEVICE, Shell, needs_processor, on_rig

RESNET = EXAMPLES / "resnet18"
MODEL = RESNET / "resnet18_for_RK3588.rknn"
SMALL = genuine("residual_add_relu.rk3588.i8")
TASKS = 0xB  # flags of a task buffer
PC_PINGPONG = 5


@pytest.fixture
def driver() -> RknpuDriver:
    return RknpuDriver()


@pytest.fixture
def kernel(driver: RknpuDriver) -> Iterator[Kernel]:
    with Kernel({DEVICE: driver}) as found:
        yield found
        assert found.errors == []


@pytest.fixture
def shell(kernel: Kernel, tmp_path: Path) -> Iterator[Shell]:
    with Shell(kernel, needs_processor("x86_64"), tmp_path) as found:
        assert found.ask("open") == ["ok", DEVICE, "rknpu", "20240828"]
        yield found


# -- the interface ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(PROCESSORS))
def test_structures_are_what_a_compiler_makes_of_them(name: str, tmp_path: Path) -> None:
    processor = needs_processor(name)
    lines = [
        f'printf("{kind} {field} %zu %zu\\n", offsetof(struct {kind}, {field}), sizeof(((struct {kind} *)0)->{field}));'
        for kind, structure in rknpu_abi.STRUCTURES.items()
        for field, *_ in structure._fields_
    ]
    lines += [f'printf("{kind} - %zu 0\\n", sizeof(struct {kind}));' for kind in rknpu_abi.STRUCTURES]
    lines += [
        f'printf("RKNPU_{command.name} - %lu 0\\n", (unsigned long)RKNPU_{command.name});'
        for command in rknpu_abi.Command
    ]
    source = tmp_path / "table.c"
    header = Path(__file__).parents[2] / "tools" / "npu_rig" / "rknpu_abi.h"
    source.write_text(
        f'#include <stddef.h>\n#include <stdio.h>\n#include "{header}"\nint main(void) {{\n'
        + "\n".join(lines)
        + "\nreturn 0; }\n"
    )
    program = tmp_path / "table"
    subprocess.run([str(processor.compiler), "-o", str(program), str(source)], check=True)
    command, _ = processor.running([str(program)], {})
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    wanted = [
        f"{kind} {field} {getattr(structure, field).offset} {getattr(structure, field).size}"
        for kind, structure in rknpu_abi.STRUCTURES.items()
        for field, *_ in structure._fields_
    ]
    wanted += [f"{kind} - {ct.sizeof(structure)} 0" for kind, structure in rknpu_abi.STRUCTURES.items()]
    sizes = {
        "ACTION": "UserAction", "SUBMIT": "Submit", "MEM_CREATE": "MemCreate", "MEM_MAP": "MemMap",
        "MEM_DESTROY": "MemDestroy", "MEM_SYNC": "MemSync",
    }  # fmt: skip
    wanted += [
        f"RKNPU_{command.name} - {rknpu_abi.request(command, ct.sizeof(rknpu_abi.STRUCTURES[sizes[command.name]]))} 0"
        for command in rknpu_abi.Command
    ]
    assert told == wanted


def test_both_revisions_of_a_job_have_one_size() -> None:
    assert ct.sizeof(rknpu_abi.Submit) == ct.sizeof(rknpu_abi.SubmitOld) == 104
    assert (ct.sizeof(rknpu_abi.MemCreateOld), ct.sizeof(rknpu_abi.MemCreate)) == (40, 48)


# -- a network ----------------------------------------------------------------------------------------------------


def picture() -> np.ndarray:
    """A seven, 224 x 224 x 3."""
    return read_picture(RESNET / "digit_224.png", 224, 224, 3)


class Submitted:
    """A network of one picture in buffers of the rig, as the vendor's library puts it there."""

    def __init__(self, shell: Shell, path: Path = MODEL, pixels: np.ndarray | None = None) -> None:
        self.shell = shell
        model = ModelFile(path).model
        program = plan(model, Bases(0x1000_0000, 0x2000_0000)).program
        io = [program.tensors[i].size for i in (*program.inputs, *program.outputs)]
        self.tasks, task_address = shell.create(program.record_bytes, TASKS)
        self.weights, weight = shell.create(program.weight_size)
        self.internal, internal = shell.create(program.internal_size)
        (self.input, source), (self.output, result) = (shell.create(size) for size in io)
        self.plan: Submission = plan(
            model, Bases(weight, internal, task_address, [source, result]), pixels=True
        )
        shell.write(self.weights, self.plan.weight_image())
        shell.write(self.tasks, as_records(self.plan.tasks))
        if pixels is None:
            pixels = picture() if path is MODEL else np.zeros(io[0], np.uint8)
        shell.write(self.input, pixels)

    def run(self, mask: int) -> list[list[str]]:
        """What every job answers."""
        answers = []
        for job in self.plan.jobs(mask):
            parts = [(core[0], len(core)) for core in job.cores if core]
            ranges = [(0, 0)] * 2 + parts if len(parts) == 3 else parts
            numbers = [n for part in (*ranges, *[(0, 0)] * (5 - len(ranges))) for n in part]
            count = sum(n for _, n in parts)
            words = [self.tasks, PC_PINGPONG, mask, parts[0][0], count, *numbers]
            answers.append(self.shell.ask("submit " + " ".join(map(str, words))))
        return answers

    def scores(self) -> np.ndarray:
        """What lies in front of the last node, which the CPU computes: the ten logits as int8."""
        (reshape,) = self.plan.cpu_nodes
        tensor = self.plan.program.tensors[reshape.inputs[0]]
        data = self.shell.read(self.internal, (tensor.offset or 0) + tensor.size)
        return data[tensor.offset :][:10].view(np.int8)


def expected() -> np.ndarray:
    """The same of the backend ``npu-machine``."""
    with rknnlite.open(MODEL, backend="npu-machine") as context:
        (scores,) = context.infer(picture()[None], raw=True)
    found: np.ndarray = scores.data.ravel()
    return found


@pytest.mark.parametrize(
    "name", ["x86_64", *(pytest.param(n, marks=pytest.mark.slow) for n in ("arm64", "armhf"))]
)
def test_a_digit_is_a_seven(name: str, kernel: Kernel, driver: RknpuDriver, tmp_path: Path) -> None:
    with Shell(kernel, needs_processor(name), tmp_path) as shell:
        assert shell.ask("open")[0] == "ok"
        submitted = Submitted(shell)
        assert {words[0] for words in submitted.run(0)} == {"ok"}
        scores = submitted.scores()
    assert scores.argmax() == 7
    assert np.array_equal(scores, expected())
    assert driver.jobs == len(submitted.plan.jobs()) and driver.refusals == []


@pytest.mark.parametrize("mask", [1, 2, 4])
def test_any_core_gives_the_same(shell: Shell, driver: RknpuDriver, mask: int) -> None:
    with rknnlite.open(SMALL, backend="npu-machine") as context:
        (attr,) = context.inputs
        pixels = np.random.default_rng(3).integers(0, 256, attr.dims).astype(np.uint8)
        (wanted,) = context.infer(pixels, raw=True)
        rows = np.zeros((attr.dims[1], attr.w_stride, attr.dims[3]), np.uint8)
        rows[:, : attr.dims[2]] = pixels[0]
    submitted = Submitted(shell, SMALL, rows)
    assert {words[0] for words in submitted.run(mask)} == {"ok"}, driver.refusals
    program = submitted.plan.program
    tensor = program.tensors[program.outputs[0]]
    form = TensorBytes.of(tensor, program.io[1].shape, program.io[1].dtype)
    assert np.array_equal(form.unpack(shell.read(submitted.output, tensor.size)), wanted.data)


@pytest.mark.slow
@pytest.mark.parametrize("mask", [3, 7])
def test_cores_share_a_network(shell: Shell, driver: RknpuDriver, mask: int) -> None:
    submitted = Submitted(shell)
    assert {words[0] for words in submitted.run(mask)} == {"ok"}, driver.refusals
    assert np.array_equal(submitted.scores(), expected())
    assert len(submitted.plan.jobs(mask)[0].cores) == bin(mask).count("1")


# -- what it refuses ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ("action 4 0", errno.EINVAL),  # it stops kernels
        ("create 0 0", errno.EINVAL),
        ("sync 1 4", errno.EINVAL),
        ("submit 1 4 0 0 1", errno.EINVAL),  # without PC
        ("submit 1 5 8 0 1", errno.EINVAL),  # no such core
        ("submit 1 5 0 0 0", errno.EINVAL),
        ("submit 1 5 0 0 1000", errno.EINVAL),  # more records than the buffer has
        ("submit 1 5 0 0 1", errno.ETIMEDOUT),  # nothing that is a program
    ],
)
def test_what_makes_no_sense_is_an_error(shell: Shell, line: str, number: int) -> None:
    shell.create(4096, TASKS)
    assert shell.ask(line)[::2] == ["error", str(number)]
    assert shell.numbers("create 4096 0")[0] == 2  # usable afterwards


def test_the_reason_of_a_refusal_is_kept(shell: Shell, driver: RknpuDriver) -> None:
    submitted = Submitted(shell, SMALL)
    image = submitted.plan.weight_image()
    first = submitted.plan.program.tasks[submitted.plan.jobs()[0].cores[0][0]]
    at = submitted.plan.program.commands_offset + first.address
    image[at : at + 8].view("<u8")[0] = 0x0201_0000_0001_0FFC  # no register of the unit
    shell.write(submitted.weights, image)
    assert submitted.run(0)[0][0] == "error"
    assert len(driver.refusals) > 0 and "0x0ffc" in driver.refusals[0]
    submitted = Submitted(shell, SMALL)
    assert {words[0] for words in submitted.run(0)} == {"ok"}


def test_buffers_are_shared_by_descriptor(shell: Shell) -> None:
    handle, address = shell.create(4096)
    shell.write(handle, np.arange(100, dtype=np.uint8))
    assert shell.numbers(f"share {handle}")[:2] == [handle, address]
    assert shell.read(handle, 100).tolist() == list(range(100))
    shell.numbers(f"destroy {handle}")
    assert shell.create(4096)[1] == address  # the place is free again


def test_a_program_that_ends_gives_all_back(kernel: Kernel, driver: RknpuDriver, tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        with Shell(kernel, needs_processor("x86_64"), tmp_path) as shell:
            shell.ask("open")
            _, address = shell.create(1 << 20)
            assert address == 0xFFE0_0000
        kernel.idle()
    assert (
        len(list(Path("/proc/self/fd").iterdir())) <= before
    )  # others that earlier tests left may go meanwhile


# -- misbehaviour -------------------------------------------------------------------------------------------------


def test_a_call_fails_on_command(shell: Shell, driver: RknpuDriver) -> None:
    driver.faults.add(Fault("MEM_CREATE", error=errno.ENOMEM, after=1))
    shell.create(4096)
    assert shell.ask("create 4096 0") == ["error", "RKNPU_MEM_CREATE", str(errno.ENOMEM)]
    shell.create(4096)


def test_a_lost_job_is_told_as_done(shell: Shell, driver: RknpuDriver) -> None:
    submitted = Submitted(shell, SMALL)
    driver.faults.add(Fault("SUBMIT", times=-1))
    assert {words[0] for words in submitted.run(0)} == {"ok"}
    assert driver.jobs == 0 and not shell.read(submitted.output, 64).any()


def test_a_kernel_that_dies_leaves_no_device(shell: Shell, kernel: Kernel) -> None:
    shell.create(4096)
    kernel.die()
    assert shell.ask("action 1 0") == ["error", "RKNPU_ACTION", str(errno.ENODEV)]


# -- Python as a program ------------------------------------------------------------------------------------------

_PROGRAM = """
import fcntl, mmap, os, struct
from rknnlite_npu import rknpu_abi as abi
import ctypes as ct
print(sorted(os.listdir("/dev/dri")), os.path.exists("/dev/dri/card0"), open("/proc/device-tree/compatible").read())
fd = os.open("/dev/dri/card0", os.O_RDWR | os.O_CLOEXEC)
def call(command, value):
    fcntl.ioctl(fd, abi.request(command, ct.sizeof(value)), value)
    return value
print(call(abi.Command.ACTION, abi.UserAction(abi.Action.GET_DRV_VERSION, 0)).value)
create = call(abi.Command.MEM_CREATE, abi.MemCreate(size=5000, flags=abi.MemFlag.CACHEABLE))
where = call(abi.Command.MEM_MAP, abi.MemMap(handle=create.handle))
memory = mmap.mmap(fd, create.size, offset=where.offset)
memory[:3] = b"abc"
print(hex(create.dma_addr), create.size, memory[:4])
try:
    call(abi.Command.MEM_DESTROY, abi.MemDestroy(handle=9))
except OSError as error:
    print(error.errno)
"""


def test_pythons_own_calls_reach_it(driver: RknpuDriver) -> None:
    """``os.open``, ``fcntl.ioctl`` and ``mmap``: what transports are made of."""
    processor = needs_processor("x86_64")
    with Kernel({DEVICE: driver}, {"/proc/device-tree/compatible": b"rockchip,rk3588"}) as kernel:
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM],
            env={**os.environ, **on_rig(kernel, processor)},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "['card0'] True rockchip,rk3588", "908", "0xffefe000 8192 b'abc\\x00'", "22",
    ]  # fmt: skip
