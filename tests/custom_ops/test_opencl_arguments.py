"""Arguments of kernels: lists of attributes, memory of a work group, several kernels with a buffer between them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rknnlite_insight.one_node import run_op

from rknnlite.errors import ParamInvalid

pytest.importorskip("pyopencl")
from rknnlite_opencl.device import unavailable

if unavailable():
    pytest.skip(f"no OpenCL: {unavailable()}", allow_module_level=True)
from rknnlite_opencl import Attr, AttrList, Count, In, Kernel, Local, OpenClOp, Out, Scratch

X = np.arange(1, 65, dtype=np.float32).reshape(1, 4, 4, 4)
TAPS = """kernel void taps(global const float *x, global const T *taps, int n, global float *y)
{ const int i = get_global_id(0); float sum = 0; for (int k = 0; k < n; k++) sum += taps[k] * x[i]; y[i] = sum; }"""


def length(ctx: Any) -> np.int32:
    return np.int32(len(ctx.attr("taps")))


def run(op: OpenClOp, attrs: dict[str, Any], shape: tuple[int, ...] = X.shape) -> np.ndarray:
    (y,) = run_op(op, [X], [np.zeros(shape, np.float32)], attrs)
    return y


@pytest.mark.parametrize(
    ("c_type", "argument"),
    [
        ("float", AttrList("taps")),
        ("int", AttrList("taps", np.int32)),
        ("float", lambda ctx: np.float32(ctx.attr("taps"))),
        ("float", np.float32([1, 2, 3])),
    ],
)
def test_a_list_is_a_buffer(c_type: str, argument: Any) -> None:
    op = OpenClOp("cstTaps", TAPS, "taps", [In(0), argument, length, Out(0)], options=f"-DT={c_type}")
    assert np.array_equal(run(op, {"taps": [1, 2, 3]}), X * 6)


def test_a_text_is_its_bytes() -> None:
    op = OpenClOp("cstTaps", TAPS, "taps", [In(0), AttrList("taps"), length, Out(0)], options="-DT=uchar")
    assert np.array_equal(run(op, {"taps": "AB"}), X * (65 + 66))


def test_a_list_for_a_number_is_refused_with_the_remedy() -> None:
    op = OpenClOp("cstTaps", TAPS, "taps", [In(0), Attr("taps"), length, Out(0)], options="-DT=float")
    with pytest.raises(ParamInvalid, match=r"is \[1, 2\], no number; pass AttrList\('taps', dtype\)"):
        run(op, {"taps": [1, 2]})
    op = OpenClOp("cstTaps", TAPS, "taps", [In(0), AttrList("taps"), length, Out(0)], options="-DT=float")
    with pytest.raises(ParamInvalid, match="no list of numbers"):
        run(op, {"taps": ["a", "b"]})


SUM = """
kernel void part(global const float *x, local float *room, global float *parts)
{
    const int l = get_local_id(0);
    room[l] = x[get_global_id(0)];
    for (int step = get_local_size(0) / 2; step > 0; step /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (l < step)
            room[l] += room[l + step];
    }
    if (l == 0)
        parts[get_group_id(0)] = room[0];
}
kernel void whole(global const float *parts, int n, global float *y)
{ float sum = 0; for (int i = 0; i < n; i++) sum += parts[i]; y[0] = sum; }"""


def sums(group: Any = (16,), scratch: int = 4, room: Any = 16) -> OpenClOp:
    parts = Scratch("parts", lambda ctx: ctx.inputs[0].n_elems // 16)
    first = [In(0), Local(room), parts]
    return OpenClOp(
        "cstSum",
        SUM,
        [
            Kernel("part", first, global_size=lambda ctx: (ctx.inputs[0].n_elems,), local_size=group),
            Kernel("whole", [Scratch("parts", scratch), np.int32(4), Out(0)], global_size=(1,)),
        ],
    )


def test_several_kernels_share_a_buffer_and_groups_have_memory() -> None:
    for op in (sums(), sums(group=lambda ctx: [16], room=lambda ctx: 16)):
        assert run(op, {}, (1,)) == X.sum()
        assert op.describe() == "kernel part, whole of OpenCL"


@pytest.mark.parametrize(
    ("op", "text"),
    [
        (sums(group=(24,)), r"global_size \[64\] is no multiple of local_size \[24\]; round it up"),
        (sums(group=(16, 1)), r"is no multiple of local_size \[16, 1\]"),
        (sums(scratch=5), "20 bytes, and 16 for another kernel"),
        (sums(room=0), "0 elements; at least 1"),
    ],
)
def test_what_does_not_fit(op: OpenClOp, text: str) -> None:
    with pytest.raises(ParamInvalid, match=text):
        run(op, {}, (1,))


def test_a_list_of_kernels_has_no_arguments_beside_it() -> None:
    with pytest.raises(ParamInvalid, match="each Kernel"):
        OpenClOp("cstSum", SUM, [Kernel("whole")], args=[Count()])
