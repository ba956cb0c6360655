"""``rknn_runtime.lib`` where no vendor library computes: the C functions that programs call beside the face.

Names, arguments and codes are those of librknnrt; ``context`` is the number to call them with. What is not here
does not exist, as in an older library: an AttributeError.
"""

from __future__ import annotations

import ctypes as ct
import itertools
from collections.abc import Callable
from typing import Any

from rknnlite._faces.log import FaceLog
from rknnlite.abi.rknn_api import SYNC_DIRECTIONS, MemSource, MemSync
from rknnlite.abi.rknn_op import CONTEXT, CustomOpStruct, OutputStruct, TensorAttrStruct, TensorMem
from rknnlite.errors import ContextInvalid, ParamInvalid, RknnError
from rknnlite.spi import Context, Memory

from .attrs import attr_of
from .context import CContext
from .custom_ops import StructOp, read_attr
from .memory import CMemories, CMemory
from .pointers import address, c_function, number, struct_at, structs_at
from .queries import NoRange

__all__ = ["CFunctions", "RKNNOutput"]

_numbers = itertools.count(1)


class RKNNOutput(OutputStruct):
    """``rknn_output`` of the C API, for programs that call ``rknn_outputs_get`` on ``lib`` themselves."""


class CFunctions:
    """The functions for one open model and its duplicates. Pointers may be anything that ctypes takes for one."""

    def __init__(self, opened: Context, log: FaceLog) -> None:
        self._log = log
        self.context = next(_numbers)
        self._contexts = {self.context: CContext(opened)}
        self._memories = CMemories()
        self.prototypes: dict[tuple[str, str], Any] = {}

    # -- contexts -----------------------------------------------------------------------------------------

    @c_function
    def rknn_dup_context(self, context_in: Any, context_out: Any) -> int:
        """Open a second context on the same weights; both arguments are pointers. ``rknn_destroy`` closes it."""

        def work() -> None:
            given = CONTEXT.from_address(address(context_in, ct.sizeof(CONTEXT))).value
            answer = CONTEXT.from_address(address(context_out, ct.sizeof(CONTEXT)))
            twin = self._context(given).opened.dup()
            answer.value = next(_numbers)
            self._contexts[answer.value] = CContext(twin)

        return self._code("rknn_dup_context", work)

    @c_function
    def rknn_destroy(self, context: Any) -> int:
        """Close a context; what it shared with the program stays until that is destroyed."""

        def work() -> None:
            self._context(context).opened.close()
            del self._contexts[number(context)]

        return self._code("rknn_destroy", work)

    @c_function
    def rknn_query(self, context: Any, command: Any, info: Any, size: Any) -> int:
        """Answer commands 0 to 17 into ``size`` bytes at ``info``."""
        return self._code(
            "rknn_query", lambda: self._context(context).query(number(command), info, number(size))
        )

    @c_function
    def rknn_set_core_mask(self, context: Any, mask: Any) -> int:
        """Choose NPU cores."""
        return self._code(
            "rknn_set_core_mask", lambda: self._context(context).opened.set_core_mask(number(mask))
        )

    @c_function
    def rknn_set_batch_core_num(self, context: Any, count: Any) -> int:
        """Limit the cores of a batch."""
        return self._code(
            "rknn_set_batch_core_num",
            lambda: self._context(context).opened.set_batch_core_num(number(count)),
        )

    @c_function
    def rknn_set_input_shapes(self, context: Any, count: Any, attrs: Any) -> int:
        """Choose the shapes of a dynamic model."""
        return self._code(
            "rknn_set_input_shapes", lambda: self._context(context).set_shapes(number(count), attrs)
        )

    # -- common path --------------------------------------------------------------------------------------

    @c_function
    def rknn_inputs_set(self, context: Any, count: Any, inputs: Any) -> int:
        """Take a copy of all inputs."""
        return self._code("rknn_inputs_set", lambda: self._context(context).set_inputs(number(count), inputs))

    @c_function
    def rknn_run(self, context: Any, extend: Any = None) -> int:
        """Run on the inputs that were set, or on bound memory; ``non_block`` in ``extend`` does not wait."""
        return self._code("rknn_run", lambda: self._context(context).run(extend))

    @c_function
    def rknn_wait(self, context: Any, extend: Any = None) -> int:
        """Wait for the frame that ``extend`` names, as long as it says."""
        return self._code("rknn_wait", lambda: self._context(context).wait(extend))

    @c_function
    def rknn_outputs_get(self, context: Any, count: Any, outputs: Any, extend: Any = None) -> int:
        """Fetch all outputs, in memory of ours until ``rknn_outputs_release``, or in the program's own."""
        return self._code(
            "rknn_outputs_get", lambda: self._context(context).outputs(number(count), outputs, extend)
        )

    @c_function
    def rknn_outputs_release(self, context: Any, count: Any, outputs: Any) -> int:
        """Give back what ``rknn_outputs_get`` holds for the program in these outputs."""
        return self._code(
            "rknn_outputs_release", lambda: self._context(context).release(number(count), outputs)
        )

    # -- memory -------------------------------------------------------------------------------------------

    @c_function
    def rknn_create_mem(self, context: Any, size: Any) -> Any:
        """Memory of zeros; NULL where there is none."""
        return self._new("rknn_create_mem", context, lambda opened: (opened.create_mem(number(size)), 0))

    @c_function
    def rknn_create_mem2(self, context: Any, size: Any, flags: Any) -> Any:
        """As ``rknn_create_mem``, cacheable or not, in SRAM if possible."""
        return self._new(
            "rknn_create_mem2", context, lambda opened: (opened.create_mem(number(size), number(flags)), 0)
        )

    @c_function
    def rknn_create_mem_from_fd(self, context: Any, fd: Any, virtual: Any, size: Any, offset: Any) -> Any:
        """Wrap ``size`` bytes from ``offset`` of a descriptor, which the program has mapped at ``virtual``."""

        def make(opened: Context) -> tuple[Memory, int]:
            begin, count = number(offset), number(size)
            mapping = address(virtual, begin + count, what="the mapping of the descriptor") if virtual else 0
            return opened.import_mem(number(fd), count, begin), mapping

        return self._new("rknn_create_mem_from_fd", context, make, MemSource.FROM_FD)

    @c_function
    def rknn_create_mem_from_phys(self, context: Any, phys: Any, virtual: Any, size: Any) -> Any:
        """Wrap memory by its physical address; where the CPU computes, ``virtual`` is what counts."""

        def make(opened: Context) -> tuple[Memory, int]:
            where = address(virtual, number(size), what="the virtual address") if virtual else 0
            return opened.import_phys(number(phys), number(size), where), where

        return self._new("rknn_create_mem_from_phys", context, make, MemSource.FROM_PHYS)

    @c_function
    def rknn_destroy_mem(self, context: Any, mem: Any) -> int:
        """Give memory back, also when its context is closed by now; what it wraps stays the program's."""
        return self._code("rknn_destroy_mem", lambda: self._memories.destroy(mem))

    @c_function
    def rknn_set_io_mem(self, context: Any, mem: Any, attr: Any) -> int:
        """Use memory for the input or output that ``attr`` describes."""

        def work() -> None:
            opened, found = self._context(context).opened, self._memories.find(mem)
            opened.bind(attr_of(struct_at(TensorAttrStruct, attr)), found.memory)

        return self._code("rknn_set_io_mem", work)

    @c_function
    def rknn_set_weight_mem(self, context: Any, mem: Any) -> int:
        """Give a context its memory for weights."""
        return self._code(
            "rknn_set_weight_mem",
            lambda: self._context(context).opened.set_weight_mem(self._memories.find(mem).memory),
        )

    @c_function
    def rknn_set_internal_mem(self, context: Any, mem: Any) -> int:
        """Give a context its memory for internal tensors."""
        return self._code(
            "rknn_set_internal_mem",
            lambda: self._context(context).opened.set_internal_mem(self._memories.find(mem).memory),
        )

    @c_function
    def rknn_mem_sync(self, context: Any, mem: Any, mode: Any) -> int:
        """Make writes visible: 1 to the device, 2 from it, 3 both. The context may be 0: the memory knows its own."""

        def work() -> None:
            found = self._memories.find(mem)
            if number(mode) not in SYNC_DIRECTIONS:
                raise ParamInvalid(f"mode is {number(mode)}; 1 is to the device, 2 from the device, 3 both")
            opened = self._context(context).opened if number(context) else self._owner(found)
            opened.sync(found.memory, SYNC_DIRECTIONS[MemSync(number(mode))])

        return self._code("rknn_mem_sync", work)

    # -- operators ----------------------------------------------------------------------------------------

    @c_function
    def rknn_register_custom_ops(self, context: Any, ops: Any, count: Any) -> int:
        """Register the operators of an array of ``rknn_custom_op``; those registered before stay."""

        def work() -> None:
            opened = self._context(context).opened
            opened.register_ops(
                [StructOp(struct) for struct in structs_at(CustomOpStruct, ops, number(count))]
            )

        return self._code("rknn_register_custom_ops", work)

    @c_function
    def rknn_custom_op_get_op_attr(self, op_ctx: Any, name: Any, answer: Any) -> None:
        """Inside a callback: an attribute of the node."""
        read_attr(op_ctx, getattr(name, "value", name), answer)

    # -- inside -------------------------------------------------------------------------------------------

    def _context(self, given: Any) -> CContext:
        found = self._contexts.get(number(given))
        if found is None or found.opened.closed:
            raise ContextInvalid("this context is closed, or the number is not that of rknn_runtime.context")
        return found

    def _owner(self, memory: CMemory) -> Context:
        if memory.owner.closed:
            raise ContextInvalid("the context of this memory is closed")
        return memory.owner

    def _new(
        self,
        name: str,
        context: Any,
        make: Callable[[Context], tuple[Memory, int]],
        source: MemSource = MemSource.ALLOC_INSIDE,
    ) -> Any:
        """A pointer to new memory, NULL where there is none; ``make`` also tells where the program has mapped it."""
        made: list[Any] = []

        def work() -> None:
            opened = self._context(context).opened
            made.append(self._memories.add(opened, *make(opened), source))

        self._code(name, work)
        return made[0] if made else ct.POINTER(TensorMem)()

    def _code(self, name: str, work: Callable[[], None]) -> int:
        """The code that C would answer; what is wrong is logged."""
        try:
            work()
        except NoRange as error:
            return error.code
        except RknnError as error:
            self._log.e(f"{name} failed. error code: {error.name} ({error.code}); {error}", False)
            return error.code
        return 0
