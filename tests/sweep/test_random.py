"""The random cases of tools/sweep: their generators draw the same everywhere, their committed verdicts are whole."""

from __future__ import annotations

import subprocess
import sys

from tests.support.corpus import ROOT

SWEEP = ROOT / "tools" / "sweep"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, cwd=ROOT)


def told(script: str) -> str:
    """What a script prints that finds the modules of the sweep, which is no package."""
    done = run("-c", f"import sys; sys.path.insert(0, {str(SWEEP)!r})\n{script}")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_verdicts_are_whole() -> None:
    done = run(str(SWEEP), "check")
    assert done.returncode == 0, done.stderr[-2000:]
    counts = {line.split()[0]: int(line.split()[1]) for line in done.stdout.splitlines()}
    assert set(counts) == {"rk3588", "rk3568", "rk3562", "rk3576", "rv1126b", "rv1106", "rv1103b"}
    assert min(counts.values()) >= 1500


def test_what_is_missing_or_unexplained_is_told() -> None:
    found = told(
        """
import verdicts
from random_cases import cases
known = {case.name: case for case in cases()}
entries = verdicts.read()
del entries["conv.0001"]
entries["conv.0002"] = verdicts.Entry("00000000", entries["conv.0002"].marks)
marks = dict(entries["conv.0003"].marks)
entries["conv.0003"] = verdicts.Entry(entries["conv.0003"].fingerprint, {**marks, "rk3588.i8": "~", "rk3568.i8": "?"})
print("\\n".join(verdicts.problems(entries, known)))
"""
    )
    assert "conv.0001: no verdict" in found
    assert "conv.0002: the generator draws another graph" in found
    assert "conv.0003: does not match for rk3588.i8, without a reason" in found
    assert "conv.0003: no verdict for rk3568.i8" in found


def test_a_case_is_drawn_from_its_name_alone() -> None:
    """One generator after another, or alone: the same graph, with the same bytes of its structure."""
    script = """
from random_cases import cases
names = ["conv.0007", "deconv.0011", "tokens.0003"]
found = {case.name: (case.record()[0].structure(), case.config) for case in ORDER}
print([found[name] for name in names])
"""
    forwards, backwards = (
        told(script.replace("ORDER", how)) for how in ("cases()", "reversed(list(cases()))")
    )
    assert forwards == backwards


def test_drawing_needs_no_onnx() -> None:
    assert told("import sys, random_cases\nprint([m for m in sys.modules if m.startswith('onnx')])") == "[]\n"


def test_the_kinds_that_were_missed_before_are_drawn() -> None:
    """Uneven transposed convolutions, one output channel, PRelu with one slope: found by the search at once."""
    found = told(
        """
from random_cases import cases
uneven = single = shared = 0
for case in cases():
    net, _ = case.record()
    for node in net._nodes:
        shapes = [net._constants[i].shape for i in node.inputs if i in net._constants]
        pads = node.attributes.get("pads", [0, 0])
        half = len(pads) // 2
        kernel = node.attributes.get("kernel_shape", [1])
        uneven += node.kind == "ConvTranspose" and (len(set(kernel)) > 1 or pads[:half] != pads[half:])
        single += node.kind == "Conv" and bool(shapes) and shapes[0][0] == 1  # those of others are computed
        shared += node.kind == "PRelu" and shapes[0] in ((1,), (1, 1, 1))
print(uneven, single, shared)
"""
    )
    assert min(map(int, found.split())) >= 40, found
