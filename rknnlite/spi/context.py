"""The contract of a context: one loaded model, ready to run, owned by one caller at a time."""

from __future__ import annotations

import abc
import os
from collections.abc import Callable, Mapping, Sequence
from threading import get_ident
from typing import TYPE_CHECKING, Any, Union

from numpy.typing import NDArray

from ..errors import ContextInvalid, InputInvalid, ParamInvalid, RknnError
from ..files.reading import descriptor_size
from ..tensor import QuantParams, TensorAttr
from .arguments import explain
from .exclusive import FREE, AsyncCalls
from .inputs import ShapesRefused, collect, shapes_of
from .types import AttrKind, Input, Memory, RawOutput, Step, Versions

if TYPE_CHECKING:
    from ..socs import Soc
    from .custom_op import CustomOp
    from .op_host import PostProcess

__all__ = ["Context"]

Array = NDArray[Any]
InputLike = Union[Array, Sequence[Any]]
_SET, _RUN, _GET = Step  # looked up per frame, and slow to look up in an enum


class Context(AsyncCalls, abc.ABC):
    """One model ready to run. Use it as a context manager or call ``close``; both may be repeated.

    A context serves one caller at a time: a second thread that comes in while a call is under way gets
    ``ContextInvalid`` instead of somebody else's result. Open one context per thread.

    Examples:
        >>> with rknnlite.open("examples/resnet18/resnet18_for_RK3588.rknn") as context:
        ...     image = np.zeros(context.inputs[0].dims, np.uint8)
        ...     (logits,) = context.infer(image)
        >>> logits.shape
        (1, 10)
    """

    _shape_chosen = False
    """Whether ``set_shapes`` was called; a backend whose models come with a shape chosen sets it True."""
    mixed_paths = False
    """For programs in C, which do so: inputs may be set where memory is bound to outputs, and the other way round. The CPU
    reference lets them; other backends keep the paths apart."""

    # -- what it is ---------------------------------------------------------------------------------------

    @property
    @abc.abstractmethod
    def backend_name(self) -> str:
        """Name of the backend that runs this context."""

    @property
    @abc.abstractmethod
    def inputs(self) -> list[TensorAttr]:
        """Attributes of the inputs for the current shapes (rank 4: NHWC), batch included."""

    @property
    @abc.abstractmethod
    def outputs(self) -> list[TensorAttr]:
        """Attributes of the outputs for the current shapes (rank 4: NCHW), batch included."""

    @property
    def native_inputs(self) -> list[TensorAttr]:
        """Attributes in the NPU's own layout and stride (RKNN user guide, 5.2.3)."""
        raise ParamInvalid(f"backend {self.backend_name} has no native attributes")

    @property
    def native_outputs(self) -> list[TensorAttr]:
        """Attributes in the NPU's own layout."""
        raise ParamInvalid(f"backend {self.backend_name} has no native attributes")

    @property
    @abc.abstractmethod
    def versions(self) -> Versions:
        """Runtime and driver versions."""

    @property
    @abc.abstractmethod
    def soc(self) -> Soc:
        """The SoC that runs the model, or that the CPU reference plays."""

    @property
    def platform(self) -> str:
        """What servers tell their clients that the model runs as, a word such as Triton's ``onnxruntime_onnx``."""
        return f"rknn_{self.soc.name}"

    @property
    def batch(self) -> int:
        """``rknn_batch_size`` of the model, 1 when it was built without."""
        return 1

    @property
    def shapes(self) -> list[list[tuple[int, ...]]]:
        """Legal input shapes of a dynamic model, one list (one shape per input) each; empty when static."""
        return []

    @property
    def custom_string(self) -> str:
        """The text that the author of the model stored in it."""
        return ""

    @property
    def core_num(self) -> int:
        """NPU cores that the model was converted for; 0 where it runs on any number."""
        return 0

    # -- settings -----------------------------------------------------------------------------------------

    def set_core_mask(self, mask: int) -> None:
        """Choose NPU cores; raises what the SoC's own runtime answers for an illegal mask.

        Without cores to choose from a legal mask changes nothing.
        """
        self.soc.check_core_mask(mask)

    def set_shapes(self, shapes: Sequence[Sequence[int]]) -> None:
        """Select one of ``shapes`` of a dynamic model, one entry per input in the order of ``inputs``."""
        raise ParamInvalid(f"the model has static shapes: {[list(attr.dims) for attr in self.inputs]}")

    def follow_shapes(self, inputs: Sequence[Input], passed_through: bool = False) -> None:
        """For ``set_inputs`` of a backend with dynamic shapes: select those that the arrays have, if they change.

        Args:
            inputs: one per model input.
            passed_through: take the shape of data that is passed through for that of its input; otherwise it says
                nothing, and such data goes with the shapes that were selected before.

        Raises:
            ShapesRefused: an InputInvalid; the model has no such shapes.
            InputInvalid: data is passed through before a shape was selected.
        """
        if not self.shapes:
            return
        given = shapes_of(inputs)
        if self._shape_chosen and given == [attr.dims for attr in self.inputs]:
            return
        if not passed_through and any(item.pass_through for item in inputs):
            if self._shape_chosen:
                return
            raise InputInvalid("choose the shape of a dynamic model before passing data through")
        self._work = self._work and get_ident()
        try:
            self.set_shapes(given)
        except ParamInvalid as error:
            raise ShapesRefused(str(error), given) from None
        self._shape_chosen = True

    def register_ops(self, ops: Sequence[CustomOp]) -> None:
        """Register custom operators, before a run; one of a type that is registered already replaces that one."""
        raise ParamInvalid(f"backend {self.backend_name} takes no custom operators")

    def register_postprocess(self, plugin: str | os.PathLike[str] | PostProcess) -> None:
        """Before the first run: let a post-process plugin for RK182x work on the outputs; its results replace them."""
        raise ParamInvalid(f"backend {self.backend_name} takes no post-process plugins")

    def set_batch_core_num(self, count: int) -> None:
        """Number of NPU cores that a model with ``rknn_batch_size`` above 1 may use."""
        raise ParamInvalid(f"backend {self.backend_name} cannot limit the cores of a batch")

    def limit_threads(self, count: int) -> bool:
        """How many threads runs may use where the CPU computes; False from a backend that does not compute there."""
        return False

    def attrs(self, kind: AttrKind) -> list[TensorAttr]:
        """Attributes of all inputs or outputs in one of the forms of the C API."""
        if kind in (AttrKind.INPUT, AttrKind.CURRENT_INPUT):  # all are those of the current shapes
            return self.inputs
        if kind in (AttrKind.OUTPUT, AttrKind.CURRENT_OUTPUT):
            return self.outputs
        if kind in (AttrKind.NATIVE_INPUT, AttrKind.CURRENT_NATIVE_INPUT):
            return self.native_inputs
        if kind in (AttrKind.NATIVE_OUTPUT, AttrKind.CURRENT_NATIVE_OUTPUT):
            return self.native_outputs
        raise ParamInvalid(f"backend {self.backend_name} does not answer {kind.value} attributes")

    # -- common path --------------------------------------------------------------------------------------

    @abc.abstractmethod
    def set_inputs(self, inputs: Sequence[Input]) -> None:
        """Take (copy, convert) all inputs for the next run; raises InputInvalid with the numbers that clash.

        A dynamic model takes the shapes of the arrays: the backend calls ``follow_shapes`` in here.
        """

    @abc.abstractmethod
    def run(self) -> None:
        """Run the model once on the inputs that were set; returns when it is done."""

    @abc.abstractmethod
    def get_outputs(self, want_float: bool = True) -> list[Array]:
        """Outputs of the last run in logical order: float32, or the stored elements (``want_float`` False)."""

    def get_outputs_into(self, arrays: Sequence[Array], want_float: bool = True) -> None:
        """As ``get_outputs``, but into ``arrays``: one C-contiguous array of the very shape and element type each.

        A backend overrides it where it can write there directly.
        """
        for array, output in zip(arrays, self.get_outputs(want_float)):
            array[...] = output

    @property
    def frame_id(self) -> int | None:
        """Number of the frame whose outputs were fetched last, None where the backend does not count them."""
        return None

    def start(self, timeout_ms: int = 0) -> int:
        """Begin a frame on the inputs that were set, and return its number, without waiting for it.

        What it raises is raised by the ``wait`` that asks for it, or by ``get_outputs``, which waits for the frame that
        it answers. Several frames may be under way where the runtime queues them: they are computed in their order,
        on the inputs of their beginning; a coprocessor has one at a time. ``close`` waits for the frame that is being
        computed and gives up the others.

        Args:
            timeout_ms: handed to a runtime that takes one with the run; how long to wait is said to ``wait``.

        Raises:
            ContextInvalid: there is nothing to run on.
            ParamInvalid: the backend has no such runs.
        """
        raise ParamInvalid(f"backend {self.backend_name} has no non-blocking runs")

    def wait(self, frame_id: int, timeout_ms: int = 0) -> None:
        """Wait for a frame that ``start`` began, and raise what it raised.

        Raises:
            RunTimeout: it was not done in ``timeout_ms`` (0: as long as it takes); wait again, it goes on.
            ParamInvalid: no such frame has begun.
        """
        raise ParamInvalid(f"backend {self.backend_name} has no non-blocking runs")

    def infer(
        self,
        *arrays: InputLike | Mapping[str, Array],
        layout: str | Sequence[str | None] | None = None,
        pass_through: bool | Sequence[bool] = False,
        raw: bool = False,
    ) -> list[Any]:
        """Set inputs, run, get outputs.

        Args:
            arrays: one array per input, or one list or one ``{name: array}`` mapping of them.
            layout: ``"nhwc"`` (default) or ``"nchw"``, for all rank-4 inputs or one per input.
            pass_through: hand the elements over untouched, for all inputs or one flag per input.
            raw: return quantised arrays with their scale and zero point.

        Returns:
            One float32 array (``raw``: one ``RawOutput``) per output, logical (NCHW) order.

        Raises:
            InputInvalid: number, rank, shape, dtype or values do not fit.
            ContextInvalid: closed, or in use by another thread.
        """
        self.take()
        try:
            given = arrays[0] if len(arrays) == 1 else list(arrays)
            inputs = collect(given, self.inputs, layout, pass_through, shapes=self.shapes)
            if not raw:
                return self.frame(inputs)
            outputs = self._stepwise(inputs, lambda: self.get_outputs(want_float=False))
        except Exception as error:  # here, as ``typed`` would cost every frame a call
            options = {"layout": layout, "pass_through": pass_through, "raw": raw}
            explain(error, Context.infer, (self, *arrays), options)
        finally:
            self.let_go()
        params = [attr.quant or QuantParams(1.0, 0) for attr in self.outputs]
        return [RawOutput(a, p.scale, p.zero_point) for a, p in zip(outputs, params)]

    def frame(self, inputs: Sequence[Input], into: Callable[[], list[Array]] | None = None) -> list[Array]:
        """Set inputs, run, get outputs, for a caller that holds the context (``take`` or ``exclusive``).

        Args:
            inputs: one per model input.
            into: gives the arrays to write, see ``get_outputs_into``; asked after the run, when a dynamic model
                has its shapes. None: fresh ones.

        Returns:
            One float32 array per output, logical (NCHW) order: those of ``into``, or fresh ones.

        Raises whatever the steps raise, and ``Step.of`` tells which one did.
        """
        try:
            if into is None:
                return self._stepwise(inputs, self.get_outputs)

            def fetch() -> list[Array]:
                arrays = into()
                self._work = get_ident()  # ``into`` may be the program's own, and call
                self.get_outputs_into(arrays)
                return arrays

            return self._stepwise(inputs, fetch)
        except Exception as error:
            explain(error, Context.frame, (self, inputs, into), {})

    def _stepwise(self, inputs: Sequence[Input], fetch: Callable[[], list[Array]]) -> list[Array]:
        """Set, run, fetch as one step, in which nobody else begins one."""
        if self._work:
            raise ContextInvalid(self._again_reason)
        step = _SET
        try:
            mine = self._work = get_ident()
            self.set_inputs(inputs)
            step, self._work = _RUN, mine
            self.run()
            step, self._work = _GET, mine
            return fetch()
        except Exception as error:
            step.mark(error)
            raise
        finally:
            self._work = FREE

    # -- zero-copy path -----------------------------------------------------------------------------------

    def create_mem(self, size: int, flags: int = 0) -> Memory:
        """Allocate a buffer that ``bind`` accepts."""
        raise ParamInvalid(f"backend {self.backend_name} has no zero-copy memory yet")

    def import_mem(self, handle: int, size: int, offset: int = 0) -> Memory:
        """Wrap ``size`` bytes from ``offset`` of a file descriptor (dma-buf, memfd), which stays the caller's."""
        raise ParamInvalid(f"backend {self.backend_name} cannot import memory yet")

    def import_fd(self, fd: int, size: int = 0, offset: int = 0) -> Memory:
        """``import_mem`` of all that a descriptor holds from ``offset`` on; of ``size`` bytes where that is given."""
        return self.import_mem(fd, size or max(0, descriptor_size(fd) - offset), offset)

    def import_phys(self, address: int, size: int, virtual: int = 0) -> Memory:
        """Wrap memory known by its physical address (and, for the CPU, its virtual one)."""
        raise ParamInvalid(f"backend {self.backend_name} cannot import physical memory")

    def bind(self, attr: TensorAttr, mem: Memory) -> None:
        """Use ``mem`` for the input or output that ``attr`` describes, until it is bound anew.

        ``attr`` is one of ``native_inputs`` or ``native_outputs``, or one with dtype, layout or pass_through
        edited as the RKNN user guide allows (tables 5-3 to 5-5). To be repeated after a change of shapes.
        """
        raise ParamInvalid(f"backend {self.backend_name} cannot bind memory yet")

    def set_weight_mem(self, mem: Memory) -> None:
        """Give the context its weight memory (opened with memory allocated outside); before the first run."""
        raise ParamInvalid(f"backend {self.backend_name} takes no weight memory")

    def set_internal_mem(self, mem: Memory) -> None:
        """Give the context its memory for internal tensors; contexts that run in turn may share one."""
        raise ParamInvalid(f"backend {self.backend_name} takes no internal memory")

    def sync(self, mem: Memory, direction: str) -> None:
        """Make CPU writes visible to the device (``"to_device"``), the reverse (``"from_device"``), ``"both"``."""
        raise ParamInvalid(f"backend {self.backend_name} has nothing to sync yet")

    # -- figures ------------------------------------------------------------------------------------------

    @property
    def last_run_us(self) -> int:
        """Duration of the last run in microseconds, input and output conversion left out; 0 before a run."""
        return 0

    def perf_table(self) -> Any:
        """Per-layer rows of the last run that was timed, what they add up to, and the table as text.

        Runs are timed in a context opened with ``collect_perf=True`` (or ``verbose``, or RKNN_LOG_LEVEL >= 4);
        a backend that can times one further run in any other.
        """
        raise RknnError(f"backend {self.backend_name} keeps no per-layer figures yet")

    def memory(self) -> Any:
        """Memory of the context in bytes."""
        raise RknnError(f"backend {self.backend_name} keeps no memory figures yet")

    def dump(self, directory: str | os.PathLike[str], golden: Any = None) -> Any:
        """Run once more on the last inputs and write every tensor to a folder; returns a ``rknnlite_insight.dumps.Dump``.

        With ``golden`` each node computes on the values that dump has for its operands, where it has them.
        """
        raise RknnError(f"backend {self.backend_name} cannot dump tensors")

    # -- life ---------------------------------------------------------------------------------------------

    def dup(self) -> Context:
        """A second context on the same weights with private activations (rknn_dup_context)."""
        raise RknnError(f"backend {self.backend_name} cannot duplicate contexts yet")

    def __enter__(self) -> Context:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{len(self.inputs)} inputs, {len(self.outputs)} outputs"
        return f"<{type(self).__name__} {state}>"
