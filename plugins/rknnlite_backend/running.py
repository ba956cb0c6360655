"""What every backend says and checks alike while it runs: order of calls, inputs, frames by number, time limits.

A frame is prepared (``set_inputs`` or ``bind``), run, and fetched (``get_outputs``), in this order; or it is begun
(``start``) and waited for (``wait``) under its number. What stands here is said once, whoever computes. Nothing of it is
called in a frame that goes well, but for the checks of ``start`` and ``wait``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from rknnlite.errors import (
    ContextInvalid,
    InputInvalid,
    ParamInvalid,
    RknnError,
    RunTimeout,
    TargetPlatformUnmatch,
)
from rknnlite.spi.types import Input
from rknnlite.tensor import Layout, TensorAttr

if TYPE_CHECKING:
    from concurrent.futures import Future

    from rknnlite.socs import Soc

__all__ = [
    "both_paths",
    "check_dup",
    "check_timeout",
    "check_under_way",
    "find_shapes",
    "frame_late",
    "in_order",
    "no_data",
    "not_collected",
    "not_prepared",
    "not_run",
    "not_under_way",
    "outcome",
    "partly_bound",
    "run_late",
    "wait_done",
    "wrong_bytes",
    "wrong_rank",
    "wrong_shape",
]

T = TypeVar("T")


# -- the order of calls ------------------------------------------------------------------------------------


def not_prepared(how: str = "set inputs") -> ContextInvalid:
    """The error of a run that has nothing to run on; ``how`` it gets that."""
    return ContextInvalid(f"{how} before running")


def partly_bound(missing: Sequence[str], what: str = "tensors", how: str = "bind") -> ContextInvalid:
    """The error of a run of which some of ``what`` have memory, and those that are ``missing`` have not."""
    return ContextInvalid(f"memory is bound to some {what} only; {how} {', '.join(missing)} before running")


def both_paths() -> ContextInvalid:
    """The error of a call of the common path where memory is bound, and of the other way round."""
    return ContextInvalid(
        "the common path (set_inputs, get_outputs) and the zero-copy path (bind) must not be mixed on one context; "
        "open a second one"
    )


def not_run(wanted: str = "outputs") -> ContextInvalid:
    """The error of a question that only a run answers; ``wanted``: outputs, figures."""
    return ContextInvalid(f"run the model before asking for {wanted}")


def not_collected() -> RknnError:
    """The error of figures per layer from a library that keeps none unless it was told to at ``open``."""
    return RknnError("figures per layer are collected on request: open the model with collect_perf=True")


def no_data(what: str) -> ContextInvalid:
    """The error of ``what`` runs the model by itself, before there were inputs."""
    return ContextInvalid(f"{what} needs data to run on: call infer (or set_inputs) with inputs first")


# -- inputs and their shapes ---------------------------------------------------------------------------------


def in_order(inputs: Sequence[Input], attrs: Sequence[TensorAttr], label: str = "the model") -> list[Input]:
    """For ``set_inputs`` of a backend: one ``Input`` per model input, in the order of ``attrs``.

    Raises:
        InputInvalid: too many, too few, or one of them twice; the text says which are missing.
    """
    if len(inputs) == 1 == len(attrs) and inputs[0].index == attrs[0].index:  # as in most frames
        return [inputs[0]]
    by_index = {item.index: item for item in inputs}
    missing = [attr.name for attr in attrs if attr.index not in by_index]
    if missing or len(inputs) != len(attrs):
        raise InputInvalid(
            f"{label} needs inputs {[attr.name for attr in attrs]}, {len(inputs)} were given"
            + (f"; {missing} are missing" if missing else "")
        )
    return [by_index[attr.index] for attr in attrs]


def wrong_shape(attr: TensorAttr, shape: Sequence[int], layout: Layout) -> InputInvalid:
    """The error of data of another shape than its input has (rank 4: NHWC), given in ``layout`` and brought to NHWC."""
    turned = layout is Layout.NCHW and len(attr.dims) == 4
    hint = " (after the change from NCHW to NHWC)" if turned else ""
    return InputInvalid(f"input {attr.name}: expected shape {list(attr.dims)}, got {list(shape)}{hint}")


def wrong_rank(attr: TensorAttr, shape: Sequence[int]) -> InputInvalid:
    """The error of NCHW data that has not four dimensions."""
    return InputInvalid(f"input {attr.name}: NCHW data needs 4 dims, got {list(shape)}")


def wrong_bytes(attr: TensorAttr, got: int, legal: Sequence[int]) -> InputInvalid:
    """The error of data passed through to an input; ``legal`` are the numbers of bytes that it takes."""
    return InputInvalid(
        f"input {attr.name}: {got} bytes passed through, but the model's tensor ({attr.dtype.name} {list(attr.dims)}) "
        f"takes {' or '.join(map(str, legal))}"
    )


def find_shapes(
    label: str,
    wanted: Sequence[Sequence[int]],
    legal: Sequence[list[tuple[int, ...]]],
    inputs: Sequence[TensorAttr],
) -> int:
    """For ``set_shapes``: the number of the entry of ``legal`` that is wanted.

    Args:
        label: name of the model, for the errors.
        wanted: one shape per input.
        legal: ``Context.shapes``.
        inputs: ``Context.inputs``.

    Raises:
        ParamInvalid: the model is static; or it has no such shapes, with the code -1, which librknnrt answers. The text
            lists those that it has.
    """
    shapes = [tuple(int(dim) for dim in shape) for shape in wanted]
    if not legal:
        raise ParamInvalid(f"{label} has static shapes: {[list(attr.dims) for attr in inputs]}")
    for number, candidate in enumerate(legal):
        if shapes == candidate:
            return number
    listed = "; ".join(str([list(shape) for shape in candidate]) for candidate in legal)
    raise ParamInvalid(
        f"{label}: input shapes {[list(shape) for shape in shapes]} are not among the model's: {listed}",
        code=RknnError.code,
    )


def check_timeout(timeout_ms: int) -> None:
    """For ``start`` and ``wait``; raises ParamInvalid."""
    if timeout_ms < 0:
        raise ParamInvalid(f"timeout_ms is {timeout_ms}; give milliseconds, or 0 for as long as it takes")


def check_under_way(frame_id: int, oldest: int, newest: int | None) -> None:
    """For ``wait``: raise ParamInvalid unless a frame is one of ``oldest`` to ``newest`` (None: none has begun)."""
    if newest is None or not oldest <= frame_id <= newest:
        raise not_under_way(frame_id, newest)


def not_under_way(frame_id: int, newest: int | None) -> ParamInvalid:
    """The error of a ``wait`` for a frame that has not begun, or is long done; ``newest``: the last one that began."""
    last = "none has begun: call start" if newest is None else f"the last one that began is {newest}"
    return ParamInvalid(f"frame {frame_id} is not under way; {last}")


def wait_done(frame: Future[Any], number: int, timeout_ms: int) -> None:
    """Wait until a frame is done, whatever came of it; raises RunTimeout where that takes longer than ``timeout_ms``."""
    from concurrent import futures  # few programs begin frames

    futures.wait([frame], timeout_ms / 1000 if timeout_ms else None)
    if not frame.done():
        raise RunTimeout(frame_late(number, timeout_ms))


def outcome(frame: Future[T], number: int) -> T:
    """What came of a frame that is done: what its call returned or raised, ContextInvalid where it never began.

    Whoever calls keeps no name for the future meanwhile: the error would keep that call, and the call the error.
    """
    if frame.cancelled():
        raise ContextInvalid(f"frame {number} was given up: the context was closed before it began")
    try:
        return frame.result()
    finally:
        del frame


# -- time limits -------------------------------------------------------------------------------------------


def frame_late(number: int, timeout_ms: int) -> str:
    """What RunTimeout says of a frame that was not done in the time of ``wait``."""
    return f"frame {number} was not done in {timeout_ms} ms; it goes on, wait for it again"


def run_late(label: str, timeout_ms: int) -> str:
    """What RunTimeout says of a run that took longer than the options of ``open`` allow."""
    return f"{label} was not done in {timeout_ms} ms (timeout_ms)"


# -- duplicates --------------------------------------------------------------------------------------------


def check_dup(label: str, dynamic: bool, soc: Soc | None = None) -> None:
    """For ``dup``: raise ParamInvalid for a model of dynamic shapes, TargetPlatformUnmatch on a SoC without duplicates.

    ``soc`` is left out where the library answers for it.
    """
    if dynamic:
        raise ParamInvalid(f"{label} has dynamic shapes: such contexts cannot be duplicated")
    if soc is not None and soc.zero_copy_only:
        raise TargetPlatformUnmatch(f"{soc.name} has no rknn_dup_context; open the model again")
