"""Runs a whole file on the machine: buffers, jobs, and the CPU's nodes between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from rknnlite.errors import OutOfMemory, ParamInvalid
from rknnlite.formats import Model

from .cores import Job
from .machine.machine import Counts, Machine
from .machine.memory import Bytes, Memory
from .placement import Bases
from .program import NpuNode, read_program
from .submission import Submission, plan_program

__all__ = ["MachineRun", "RunCpuNode"]

RunCpuNode = Callable[[NpuNode, Sequence[Bytes], Sequence[Bytes]], None]
"""Computes a node of the CPU: (node, native bytes of ``NpuNode.inputs``, of ``NpuNode.outputs``), where it writes its results. Views of the
NPU's memory, constants among them; nothing is copied."""

_PAGE = 4096
_FIRST = 0x0100_0000
_MOST_BYTES = 1 << 31


class MachineRun:
    """A file made ready once and run as often as one likes. Buffers are as large as whole pages, as the kernel makes them.

    Attributes:
        submission: the plan.
        memory: its buffers.
        counts: (index of the record in the file, what its task did) of the last run.
    """

    def __init__(self, model: Model, run_cpu_node: RunCpuNode, pixels: bool = False) -> None:
        """Args:
            run_cpu_node: computes what the runtime leaves to the CPU.
            pixels: inputs are uint8 pixels, which the NPU converts.

        Raises:
            ModelUnsupported: nothing is known of how such a model is submitted, or an NPU that the machine does not know.
            ModelInvalid: damaged.
        """
        program = read_program(model)
        io = (*program.inputs, *program.outputs)
        sizes = [program.weight_size, program.internal_size, *(program.tensors[i].size for i in io)]
        if sum(sizes) > _MOST_BYTES:
            raise OutOfMemory(f"the model's buffers have {sum(sizes)} bytes; the machine keeps {_MOST_BYTES} at most")
        starts = [_FIRST]
        for size in sizes:
            starts.append(starts[-1] + _pages(size))
        bases = Bases(weight=starts[0], internal=starts[1], io=starts[2:-1])
        self.submission: Submission = plan_program(program, bases, pixels)
        self.memory = Memory()
        image = self.submission.weight_image()
        for number, (start, size) in enumerate(zip(starts, sizes)):
            content = np.zeros(_pages(size), np.uint8)
            if number == 0:
                content[: len(image)] = image
            self.memory.map(start, content)
        self.counts: list[tuple[int, Counts]] = []
        self._machine = Machine(program.family)
        self._run_cpu_node = run_cpu_node

    def tensor_view(self, index: int) -> Bytes:
        """Bytes of tensor ``index`` of the program, as the NPU keeps it."""
        address = self.submission.placement.addresses[index]
        if address is None:
            raise ParamInvalid(f"tensor {index} lies in no buffer")
        return self.memory.view(address, self.submission.program.tensors[index].size)

    def input_view(self, number: int) -> Bytes:
        """Bytes of input ``number`` as the NPU keeps it; write there before a run."""
        return self.tensor_view(self.submission.program.inputs[number])

    def output_view(self, number: int) -> Bytes:
        """Bytes of output ``number`` as the NPU left it."""
        return self.tensor_view(self.submission.program.outputs[number])

    def run(self) -> None:
        """All jobs and nodes of the CPU, in order; raises MachineRefused."""
        self.counts = []
        program = self.submission.program
        cpu = [i for i, n in enumerate(program.nodes) if n.type and not n.on_npu and n.inputs and n.outputs]
        for job in self.submission.jobs():
            self._run_cpu([i for i in cpu if i < job.nodes[0]])
            cpu = [i for i in cpu if i > job.nodes[0]]
            self._run_job(job)
        self._run_cpu(cpu)

    def _run_job(self, job: Job) -> None:
        tasks = job.cores[0]
        self._machine.run(self.memory, [self.submission.tasks[i] for i in tasks])
        self.counts += zip(tasks, self._machine.counts)

    def _run_cpu(self, nodes: Sequence[int]) -> None:
        program = self.submission.program
        for index in nodes:
            node = program.nodes[index]
            sources, results = ([self.tensor_view(i) for i in side] for side in (node.inputs, node.outputs))
            self._run_cpu_node(node, sources, results)


def _pages(size: int) -> int:
    return max(1, -(-size // _PAGE)) * _PAGE
