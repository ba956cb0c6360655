"""The runtime behind a face: one context of the core under the names that programs in the field call.

Unlike the face its methods raise: an ``RknnError``, with the number of the C API in ``code``.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import plugins, socs
from .._faces.arguments import described
from .._faces.wording import shapes_refused, wrong_rank
from ..errors import ContextInvalid, ParamInvalid, RknnError
from ..formats import ModelFile, is_first_toolkit
from ..log import level as log_level
from ..native.forks import Owner
from ..runtime import open_model
from ..spi import Context, CustomOp, Input
from ..spi.inputs import RankMismatch, ShapesRefused, as_they_are, per_input, truth
from ..tensor import TensorAttr
from ._inputs import prepare, tell_of_planes
from .rknn_log import RKNNLog

if TYPE_CHECKING:
    from ._tensor_attr import RKNNPerfRun, RKNNTensorAttr

__all__ = ["RKNNRuntime"]

Array = NDArray[Any]
_BANNER = "=" * 46
_PATIENCE = 5.0  # seconds without a frame after which a thread is told that the context is in use


class RKNNRuntime:
    """One model on one backend.

    A step (``set_inputs``, ``run``, ``get_outputs``) that another thread calls while a step is under way
    waits for it, so that programs may fetch outputs in one thread and set the next inputs in another.

    Args:
        target: SoC that the CPU reference shall play; None: this board's, or the model's.
        device_id: a board from afar, see ``RKNNLite.init_runtime``; anything else is not used.
        async_mode: outputs of the previous frame, where the backend does so.
        rknn_log: where warnings go.
        verbose: log what the model is, and the figures per layer of every run.
    """

    def __init__(
        self,
        target: str | None = None,
        device_id: str | None = None,
        async_mode: bool = False,
        rknn_log: RKNNLog | None = None,
        verbose: bool = False,
    ) -> None:
        self.target = target
        self.device_id = device_id
        self.async_mode = truth(async_mode, "async_mode")
        self.model_label = ""
        self.custom_ops: list[CustomOp] = []
        self.rknn_log = rknn_log or RKNNLog()
        self.verbose = truth(verbose, "verbose")
        self.precompile = False
        self._first_toolkit = False
        self.graph_is_built = False
        self._soc = _known_soc(target)
        self._ctx: Context | None = None
        self._lib: Any = None
        self._owner = Owner()
        self._turn = threading.RLock()
        self._frame = 0
        self._per_layer = False
        self._reused: list[Array] = []
        self._inputs: list[TensorAttr] = []
        self._outputs: list[TensorAttr] = []
        self._shapes: list[list[tuple[int, ...]]] = []

    # -- life ---------------------------------------------------------------------------------------------

    def build_graph(self, rknn_data: Any, quantize: bool = False, rknn_user_key: bytes | None = None) -> int:
        """Open the bytes of a model; returns 0.

        Raises:
            ModelInvalid, TargetPlatformUnmatch, BackendUnavailable and what else a backend answers.
        """
        if not isinstance(rknn_data, (bytes, bytearray, memoryview)):
            raise ParamInvalid(
                f"rknn_data is a {type(rknn_data).__name__}, must be the bytes of a model; call load_rknn, or set it to "
                "what open(path, 'rb').read() returns"
            )
        file = ModelFile(rknn_data, self.model_label)
        self.release()
        context = open_model(file, soc=self._soc.name if self._soc else None, **self._options(rknn_user_key))
        self._ctx = context
        self._owner = Owner()
        self._first_toolkit = is_first_toolkit(file.data)
        self._shapes = context.shapes
        self._inputs, self._outputs = context.inputs, context.outputs
        self.graph_is_built = True
        self._per_layer = self.verbose and (log_level() or 0) < 4  # there the library logs the same lines
        if self.verbose:
            from ._verbose import log_versions

            log_versions(self.rknn_log, file, context)
        return 0

    def release(self) -> None:
        """Close the context; may be called again."""
        context, self._ctx = self._ctx, None
        self._lib = None
        self.graph_is_built = False
        self._frame = 0
        self._reused = []
        if context is not None:
            context.close()

    def _options(self, user_key: bytes | None) -> dict[str, Any]:
        """What goes to the backend, only as far as it differs from the default."""
        options: dict[str, Any] = {"device_id": self.device_id} if isinstance(self.device_id, str) else {}
        if self.async_mode:
            options["async_mode"] = True
        if self.custom_ops:
            options["custom_ops"] = self.custom_ops
        if self.verbose:
            options["collect_perf"] = True  # not verbose: the lines go to this face's own log
        if self.precompile and "rknn1rt" in plugins.backends():
            options["precompile"] = True
        if user_key is not None:
            options["user_key"] = user_key
        library = self._get_rknn_api_lib_path()
        if library is not None:
            options["library"] = library
        return options

    def _get_rknn_api_lib_path(self) -> str | None:
        """Path of the vendor library to load; programs replace this method to choose one. None: search."""
        return None

    def _require(self) -> Context:
        if self._ctx is None:
            raise ContextInvalid("the runtime is released or was never built; call init_runtime again")
        return self._ctx

    def _attrs(self, is_output: bool) -> list[TensorAttr]:
        """Attributes for the current shapes; raises ContextInvalid when no model is open."""
        context = self._require()
        if self._shapes:  # those of a static model are asked once
            self._inputs, self._outputs = context.inputs, context.outputs
        return self._outputs if is_output else self._inputs

    # -- verbose ------------------------------------------------------------------------------------------

    def _log_layers(self, context: Context) -> None:
        try:
            rows = context.perf_table()
        except RknnError as error:
            self.rknn_log.d(f"No figures per layer: {error}")
            self._per_layer = False
            return
        for line in str(rows).splitlines():
            self.rknn_log.d(line)

    # -- what the model is --------------------------------------------------------------------------------

    @property
    def context(self) -> Any:
        """The number to call functions of ``lib`` with; None while no model is open."""
        handle = getattr(self._ctx, "handle", None)
        return handle if handle is not None or self._ctx is None else self.lib.context

    @property
    def opened(self) -> Context:
        """The context of the core; raises ContextInvalid while no model is open."""
        return self._require()

    @property
    def lib(self) -> Any:
        """The vendor's library by ctypes, or what stands for it where none computes; None while no model is open."""
        if self._ctx is not None and self._lib is None:
            library = getattr(self._ctx, "lib", None)
            self._lib = self._c_functions(self._ctx) if library is None else library
        return self._lib

    def _c_functions(self, context: Context) -> Any:
        from ..libraries import library  # few programs call C functions

        return library("capi").CFunctions(context, self.rknn_log)

    @property
    def is_inherited(self) -> bool:
        """Whether the model was opened by a parent process and cannot be used in this one."""
        return self._ctx is not None and self._ctx.closed and not self._owner.is_here

    @property
    def is_dynamic_shape(self) -> bool:
        """Whether the model has several input shapes."""
        return bool(self._shapes)

    def get_in_out_num(self) -> tuple[int, int]:
        """Number of inputs and of outputs."""
        return len(self._attrs(is_output=False)), len(self._attrs(is_output=True))

    def get_tensor_attr(self, index: int, is_output: bool = False) -> RKNNTensorAttr:
        """Attribute of one input or output for the current shapes; raises ParamInvalid for a bad index."""
        attrs = self._attrs(is_output)
        if not 0 <= index < len(attrs):
            what = "output" if is_output else "input"
            raise ParamInvalid(f"there is no {what} {index}, the model has {len(attrs)}")
        return _as_struct(attrs[index])

    def get_inputs(self) -> list[RKNNTensorAttr]:
        """Attributes of all inputs."""
        return [_as_struct(attr) for attr in self._attrs(is_output=False)]

    def get_output_shape(self, index: int | None = None) -> Any:
        """Shape of one output, or the list of all output shapes."""
        if index is None:
            return [list(attr.dims) for attr in self._attrs(is_output=True)]
        return list(self.get_tensor_attr(index, is_output=True).dims)

    def get_sdk_version(self) -> tuple[str, str, str]:
        """The banner that ``RKNNLite.get_sdk_version`` hands out, the runtime's and the driver's version."""
        versions = self._require().versions
        lines = (_BANNER, "RKNN VERSION:", f"  API: {versions.api}", f"  DRV: {versions.driver}", _BANNER)
        return "\n".join(lines), versions.api, versions.driver

    def get_run_perf(self) -> RKNNPerfRun:
        """Duration of the last run."""
        from ._tensor_attr import RKNNPerfRun

        return RKNNPerfRun(int(self._require().last_run_us))

    # -- settings -----------------------------------------------------------------------------------------

    def set_core_mask(self, core_mask: int) -> int:
        """Choose NPU cores; returns 0. AUTO is legal on every SoC, also on those that take no mask.

        Raises:
            ParamInvalid, TargetPlatformUnmatch: the text lists the legal masks.
        """
        context = self._require()
        try:
            mask = operator.index(core_mask)
        except Exception:  # whatever the object's own __index__ does
            raise ParamInvalid(
                f"core_mask must be an int such as NPU_CORE_0, not {described(core_mask)}"
            ) from None
        if mask != 0 or context.soc.masks:
            context.set_core_mask(mask)
        return 0

    def register_ops(self, ops: Sequence[CustomOp]) -> int:
        """Register custom operators with the open model; returns 0."""
        context = self._require()
        with self._turn, context.exclusive():
            context.register_ops(ops)
        return 0

    # -- one inference ------------------------------------------------------------------------------------

    def set_inputs(
        self, inputs: Any, data_type: Any = None, data_format: Any = None, inputs_pass_through: Any = None
    ) -> int:
        """Set all inputs, see ``RKNNLite.inference``; returns 0. Raises InputInvalid with the numbers."""
        context = self._require()
        with self._turn, context.exclusive():
            try:
                context.set_inputs(
                    self._prepare(context, inputs, data_type, data_format, inputs_pass_through)
                )
            except RankMismatch as error:
                raise wrong_rank(error) from None
            except ShapesRefused as error:
                raise shapes_refused(error, error.given, self._shapes) from None
        return 0

    def infer(
        self,
        inputs: Any,
        data_type: Any,
        data_format: Any,
        pass_through: Any,
        get_frame_id: bool,
        reuse_outputs: bool,
    ) -> list[Any]:
        """The three steps in one go; a second thread waits for its turn.

        Returns the outputs, and the frame id after them if asked for. What it raises tells by ``Step.of`` which
        step failed. What every frame goes through is written out here: each call costs, and frames are many.
        """
        if type(get_frame_id) is not bool or type(reuse_outputs) is not bool:
            get_frame_id = truth(get_frame_id, "get_frame_id")
            reuse_outputs = truth(reuse_outputs, "reuse_outputs")
        if pass_through is not None and not isinstance(pass_through, (bool, int, list, tuple)):
            pass_through = per_input(pass_through, len(self._inputs), "pass_through flags")
        context = self._ctx or self._require()
        try:
            context.take()
        except ContextInvalid:
            context.take_in_turn(lambda: self._frame, _PATIENCE)  # home-made pools let threads meet
        try:
            if self._first_toolkit and not pass_through:
                from ._first_toolkit import frame

                inputs, data_type = frame(inputs, data_type, self._inputs, self.rknn_log.once)
            quick = data_type is None and not pass_through and not self._shapes
            prepared = as_they_are(inputs, self._inputs, data_format) if quick else None
            if prepared is None:
                prepared = self._prepare(context, inputs, data_type, data_format, pass_through)
            elif data_format is not None:
                tell_of_planes(prepared, self.rknn_log.w)
            outputs: list[Any] = context.frame(prepared, self._to_reuse if reuse_outputs else None)
            number = self._frame
            self._frame = number + 1
            if self._per_layer:
                self._log_layers(context)
            if get_frame_id:
                return [*outputs, number if context.frame_id is None else context.frame_id]
            return list(outputs) if reuse_outputs else outputs
        except RankMismatch as error:
            raise wrong_rank(error) from None
        except ShapesRefused as error:
            raise shapes_refused(error, error.given, self._shapes) from None
        finally:
            context.let_go()

    def _prepare(
        self, context: Context, inputs: Any, data_type: Any, data_format: Any, pass_through: Any
    ) -> list[Input]:
        log = self.rknn_log
        prepared = prepare(
            inputs, self._inputs, data_type, data_format, pass_through, self._shapes, log.once, log.w
        )
        if self._shapes and any(item.pass_through for item in prepared):  # else the context does that
            context.follow_shapes(prepared, passed_through=True)
        return prepared

    def run(self, get_frame_id: bool = False) -> Any:
        """Run once; returns 0, or ``(0, frame id)`` where the first run is frame 0."""
        context = self._require()
        with self._turn, context.exclusive():
            context.run()
            frame = self._frame
            self._frame = frame + 1
            if self._per_layer:
                self._log_layers(context)
        return (0, frame) if get_frame_id else 0

    def get_outputs(self, get_frame_id: bool = False, reuse_outputs: bool = False) -> list[Array]:
        """Outputs of the last run, float32 in logical (NCHW) order; zeros of the right shape before a run.

        With ``reuse_outputs`` the same arrays come back at every call, overwritten.
        """
        context = self._require()
        with self._turn, context.exclusive():
            if self._frame == 0:
                self.rknn_log.once("The outputs are zeros: the model has not run yet.")
                return [np.zeros(attr.dims, np.float32) for attr in self._attrs(is_output=True)]
            if not reuse_outputs:
                return context.get_outputs(True)
            context.get_outputs_into(self._to_reuse())
            return list(self._reused)

    def _to_reuse(self) -> list[Array]:
        outputs = self._attrs(is_output=True) if self._shapes else self._outputs
        if [array.shape for array in self._reused] != [attr.dims for attr in outputs]:
            self._reused = [np.empty(attr.dims, np.float32) for attr in outputs]
        return self._reused


def _known_soc(target: str | None) -> socs.Soc | None:
    """The SoC of that name; raises ParamInvalid naming the ones there are."""
    if target is None:
        return None
    if not isinstance(target, str):
        raise ParamInvalid(f"target must be the name of a SoC such as 'rk3588', not {described(target)}")
    return socs.get(target)


def _as_struct(attr: TensorAttr) -> RKNNTensorAttr:
    from ._tensor_attr import RKNNTensorAttr  # many programs ask for no attributes

    return RKNNTensorAttr.of(attr)


def __getattr__(name: str) -> Any:
    """``RKNNOutput``, for programs that call C functions."""
    if name != "RKNNOutput":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ..libraries import library

    return library("capi").RKNNOutput
