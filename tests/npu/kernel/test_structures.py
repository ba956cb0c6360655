"""The structures of mainline's driver are what C compilers of three processors make of them."""

from __future__ import annotations

import ctypes as ct
import subprocess
from pathlib import Path

import pytest
from rknnlite_npu.kernel.rocket_abi import STRUCTURES, Job, Request

from tests.npu.rig import needs_processor
from tools.npu_rig.build import PROCESSORS

HEADER = Path(__file__).parents[3] / "tools" / "npu_rig" / "rocket_abi.h"


@pytest.mark.parametrize("name", sorted(PROCESSORS))
def test_structures_are_what_a_compiler_makes_of_them(name: str, tmp_path: Path) -> None:
    processor = needs_processor(name)
    assert processor.compiler is not None
    wanted, lines = [], []
    for kind, structure in STRUCTURES.items():
        wanted.append(ct.sizeof(structure))
        lines.append(f"sizeof(struct {kind})")
        for field, *_ in structure._fields_:
            wanted.append(getattr(structure, field).offset)
            lines.append(f"offsetof(struct {kind}, {field})")
    wanted += [int(request) for request in Request]
    lines += [request.name for request in Request]
    prints = "".join(f'printf("%lu\\n", (unsigned long)({line}));\n' for line in lines)
    source, program = tmp_path / "table.c", tmp_path / "table"
    source.write_text(
        f'#include <stddef.h>\n#include <stdio.h>\n#include "{HEADER}"\nint main(void) {{\n{prints}return 0; }}\n'
    )
    subprocess.run([processor.compiler, "-o", str(program), str(source)], check=True)
    command, environment = processor.running([str(program)], {})
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert [int(word) for word in done.stdout.split()] == wanted


def test_a_mainline_driver_reads_a_job_up_to_its_flags() -> None:
    assert (Job.flags.offset, ct.sizeof(Job)) == (40, 48)
