"""``info`` of several files: one after the other, a list with ``--json``; one that is broken keeps nobody from the others."""

from __future__ import annotations

from pathlib import Path

from tests.support.corpus import EXAMPLES

from .conftest import RESNET, Call

DUAL = EXAMPLES / "custom_op" / "dual_for_RK3588.rknn"


def test_one_after_the_other(call: Call) -> None:
    done = call("info", RESNET, DUAL)
    assert done.code == 0
    assert done.out == f"{call('info', RESNET).out}\n{call('info', DUAL).out}"


def test_a_list_for_programs_and_an_object_for_one(call: Call) -> None:
    found = call("info", "--json", RESNET, DUAL).data
    assert found == [call("info", "--json", file).data for file in (RESNET, DUAL)]


def test_one_that_cannot_be_read_keeps_nobody(call: Call, tmp_path: Path) -> None:
    done = call("info", "--json", tmp_path / "gone.rknn", RESNET)
    gone, there = done.data
    assert done.code == 3 and "gone.rknn cannot be read" in gone["error"] and there["model"] == str(RESNET)
    done = call("info", tmp_path / "gone.rknn", RESNET)
    assert done.code == 3 and "gone.rknn cannot be read" in done.out and "ConvRelu" in done.out
