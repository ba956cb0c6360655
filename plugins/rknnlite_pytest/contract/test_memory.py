"""Zero-copy, where the backend has it: memory, and a run on bound memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rknnlite import Context
from rknnlite.errors import ContextInvalid, RknnError
from rknnlite.spi import Backend, Input, Memory
from rknnlite.tensor import DType

from .promises import optional, promise, refused, same

__all__: list[str] = []  # pytest collects what is here


@pytest.fixture
def memory(context: Context, backend: Backend) -> Memory:
    """A buffer of 4096 bytes."""
    with optional(backend.name, "memory for zero-copy"):
        return context.create_mem(4096)


def test_memory_is_a_view_of_bytes(memory: Memory) -> None:
    view = memory.ndarray
    promise(
        view.dtype == np.uint8 and view.size == memory.size >= 4096 and view.flags.writeable,
        f"create_mem(4096) has {view.size} elements of {view.dtype}; Memory.ndarray is a writable uint8 view of all bytes",
    )
    view[:] = 7
    promise(
        (memory.ndarray == 7).all(),
        "what is written into Memory.ndarray is not there at the next look; give a view, no copy",
    )


def test_memory_is_closed_once(memory: Memory) -> None:
    memory.close()
    memory.close()
    with refused(
        ContextInvalid,
        call="Memory.ndarray after close",
        remedy="raise rknnlite_backend.zero_copy.closed_memory()",
    ):
        _ = memory.ndarray


def test_memory_ends_with_its_context(memory: Memory, context: Context) -> None:
    context.close()
    with refused(
        ContextInvalid, call="Memory.ndarray after its context's close", remedy="close all memory in _release"
    ):
        _ = memory.ndarray


def test_bound_memory_is_what_a_run_reads_and_writes(context: Context, backend: Backend) -> None:
    if context.shapes:
        context.set_shapes([attr.dims for attr in context.inputs])
    with optional(backend.name, "native attributes"):
        natives = context.native_inputs
    zeros = [np.zeros(attr.dims, attr.dtype.numpy) for attr in context.inputs]
    context.set_inputs(
        [
            Input(attr.index, array, attr.layout, pass_through=True)
            for attr, array in zip(context.inputs, zeros)
        ]
    )
    context.run()
    expected = context.get_outputs()
    with optional(backend.name, "dup, and thus no second context for bound memory"):
        twin = context.dup() if not context.shapes else None
    if twin is None:
        pytest.skip("contexts of dynamic shapes have no duplicates")
    with twin:
        for attr in natives:
            source = twin.create_mem(attr.size_with_stride or attr.size)
            source.ndarray[:] = 0
            twin.bind(replace(attr, pass_through=True), source)
            twin.sync(source, "to_device")
        wanted = [replace(attr, dtype=DType.FLOAT32) if attr.quant else attr for attr in twin.outputs]
        places = []
        for attr in wanted:
            places.append(twin.create_mem(max(attr.size, attr.size_with_stride)))
            twin.bind(attr, places[-1])
        twin.run()
        found = []
        for attr, place in zip(wanted, places):
            twin.sync(place, "from_device")
            elements = place.ndarray[: attr.size].copy().view(attr.dtype.numpy)
            found.append(elements.reshape(attr.dims).astype(np.float32))
    promise(
        same(found, expected),
        "a run on bound memory gives other outputs than the same elements by set_inputs; read and write what bind was given",
    )


def test_foreign_sizes_of_memory_are_refused(context: Context, backend: Backend) -> None:
    with optional(backend.name, "memory for zero-copy"):
        context.create_mem(64).close()
    with refused(RknnError, call="create_mem(-1)", remedy="rknnlite_backend.zero_copy.check_size does so"):
        context.create_mem(-1)
