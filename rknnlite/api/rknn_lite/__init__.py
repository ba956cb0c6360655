"""``RKNNLite``: the class that programs written for rknn-toolkit-lite2 use, with the vendor's signatures.

Its methods never raise for a mistake of the caller: they log one E line, which names the remedy, and return
-1 or None. A traceback is logged only for what nobody foresaw.

A package, not a module: Python prefers it to the vendor's ``rknn_lite`` in the same folder (``_faces/vendor_files.py``).
"""

from __future__ import annotations

import functools
import os
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

from ..._faces.arguments import flags, is_file, path_of, shown
from ..._faces.log import FaceLog, listen, log_file, unlisten
from ..._version import __version__
from ...choosing import devices
from ...errors import RknnError
from ...files.reading import read_bytes
from ...formats import is_first_toolkit
from ...native.forks import made_before_fork
from ...runtime import resolve_ops
from ...spi import Step
from ...spi.custom_op import CustomOp, OpSource
from .. import _refuse_vendor_files  # noqa: F401  (first of its neighbours: they may be the vendor's)
from ..rknn_platform_utils import chip_families, model_platforms
from ..rknn_runtime import RKNNRuntime

__all__ = ["RKNNLite"]

_FACE_VERSION = "2.5.0"
_ROOT = str(Path(__file__).resolve().parents[2])
_INVALID_PATH = "Invalid RKNN model path: "
_NOT_LOADED = "Model is not loaded yet, this interface should be called after load_rknn!"
_NOT_INITED = "Runtime environment is not inited, please call init_runtime to init it first!"
_INIT = "Catch exception when init runtime!"
_FORKED = f"{made_before_fork('The runtime', 'this one opens its own')}."
_OPS = "Catch exception when register custom op."
_CORE = "Catch exception when set npu core mode."
_SET = "Catch exception when setting inputs."
_RUN = "Catch exception when running RKNN model."
_GET = "Catch exception when getting outputs."
_STEPS = {Step.SET_INPUTS: _SET, Step.RUN: _RUN, Step.GET_OUTPUTS: _GET}
_VERSION = "Catch exception when get sdk version"
_Method = TypeVar("_Method", bound=Callable[..., int])


def _old_calls_too(method: _Method) -> _Method:
    """Also take the arguments that ``init_runtime`` and ``load_rknn`` had in rknn-toolkit-lite 1.x."""
    names = frozenset(method.__code__.co_varnames[: method.__code__.co_argcount])

    @functools.wraps(method)
    def call(self: RKNNLite, *args: Any, **given: Any) -> int:
        if len(args) > 1 or not names.issuperset(given):
            args, given = self._in_our_words(method.__name__, args, given)
        return method(self, *args, **given)

    return cast(_Method, call)


class RKNNLite:
    """Runs one model.

    Calls and files of rknn-toolkit-lite 1.x are understood as well, its ``set_core_mask``, ``eval_memory`` and
    ``export_rknn_precompile_model`` included (docs/rknn1.md).

    An object serves one thread at a time; a second one gets an E line and None. Use one object per thread.

    Args:
        verbose: log D and I lines, and the runtime's figures per layer where the backend has them.
        verbose_file: file that gets the log lines too, appended; used with ``verbose`` only.

    Examples:
        >>> rknn = RKNNLite()
        >>> rknn.load_rknn("examples/resnet18/resnet18_for_RK3588.rknn")
        0
        >>> rknn.init_runtime(core_mask=RKNNLite.NPU_CORE_0)
        0
        >>> (logits,) = rknn.inference(inputs=[np.zeros((1, 224, 224, 3), np.uint8)])
        >>> logits.shape
        (1, 10)
        >>> rknn.release()
    """

    NPU_CORE_AUTO = 0
    NPU_CORE_0 = 1
    NPU_CORE_1 = 2
    NPU_CORE_2 = 4
    NPU_CORE_0_1 = 3
    NPU_CORE_0_1_2 = 7
    NPU_CORE_ALL = 0xFFFF

    def __init__(self, verbose: bool = False, verbose_file: str | os.PathLike[str] | None = None) -> None:
        file = log_file(verbose_file)
        said, problems = flags({"verbose": verbose})
        self.target = "simulator"
        self.verbose = said["verbose"]
        self.rknn_log = FaceLog(self.verbose, file)
        self.rknn_data: Any = None
        self.rknn_user_key: bytes | None = None
        self._model_label = ""
        self._custom_ops: dict[str, CustomOp] = {}
        self._init_args: tuple[Any, ...] = ()
        self.load_model_in_npu = False
        self._precompile = False
        self.rknn_runtime: RKNNRuntime | None = None
        self.root_dir = _ROOT
        line = f"rknn-toolkit-lite2 version: {_FACE_VERSION} (spoken by rknnlite {__version__})"
        self.rknn_log.greet(line, self.verbose, verbose_file, file, problems)

    # -- load and initialise ------------------------------------------------------------------------------

    def _in_our_words(self, name: str, args: Any, given: Any) -> Any:
        from .._first_toolkit import init_call, load_call

        if name == "init_runtime":
            args, given = init_call(args, given, self.rknn_log.once)
            self._precompile = given.pop("rknn2precompile", None) is not None
            return args, given
        call, self.load_model_in_npu = load_call(args, given)
        if self.load_model_in_npu:
            self.rknn_log.once(
                "load_model_in_npu has no effect: the file is read on this machine; copy it here."
            )
        return call

    def __getattr__(self, name: str) -> Any:
        """What only the class of rknn-toolkit-lite 1.x has."""
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        from .._first_toolkit import method

        return method(self, name)

    @_old_calls_too
    def load_rknn(self, path: str | os.PathLike[str], key_path: str | os.PathLike[str] | None = None) -> int:
        """Read a model file into ``rknn_data``; its content is not looked at.

        Args:
            path: the model file.
            key_path: key file of an encrypted model, kept in ``rknn_user_key``.

        Returns:
            0, or -1 when a file cannot be read.
        """
        data = self._read(path)
        if data is None:
            return -1
        self.rknn_data = data
        self._model_label = path_of(path) or ""
        self.rknn_user_key = None
        if key_path is not None:
            self.rknn_user_key = self._read(key_path, "Invalid RKNN key path: ")
            return 0 if self.rknn_user_key is not None else -1
        return 0

    def _read(self, path: Any, headline: str = _INVALID_PATH) -> bytes | None:
        name = path_of(path)
        if name is None:
            self.rknn_log.e(f"{headline}{shown(path) or None}", False)
            return None
        try:
            return read_bytes(Path(name))
        except FileNotFoundError:
            self.rknn_log.e(f"{headline}{name}", False)
        except (OSError, ValueError) as error:  # ValueError: a null character in the name
            self.rknn_log.e(f"{headline}{shown(name)!r} ({getattr(error, 'strerror', None) or error})", False)
        return None

    @_old_calls_too
    def init_runtime(
        self,
        target: str | None = None,
        device_id: str | None = None,
        async_mode: bool = False,
        core_mask: int = NPU_CORE_AUTO,
    ) -> int:
        """Open the loaded model; an earlier runtime of this object is released first.

        Args:
            target: None for the NPU of this board, or, on a PC, for the SoC that the model names; a SoC name
                such as ``"rk3588"`` makes the CPU reference play that SoC.
            device_id: a board from afar whose server runs the model: ``"HOST:PORT"``, or a name among ``remotes`` of the
                configuration. Serial numbers of adb are ignored: devices behind a cable are not supported.
            async_mode: outputs of the previous frame, where the backend does so.
            core_mask: NPU cores; AUTO is legal on every SoC.

        Returns:
            0, or -1 with an E line.
        """
        with self.rknn_log.listening():
            self.rknn_log.d(f"target: {shown(target)}")
            if self.rknn_data is None:
                self.rknn_log.e(_NOT_LOADED, False)
                return -1
            self._drop_runtime()
            self._init_args = (target, device_id, async_mode, core_mask)
            runtime = self._build(target, device_id, async_mode)
            if runtime is None:
                return -1
            try:
                if type(core_mask) is not int or core_mask != self.NPU_CORE_AUTO:
                    runtime.set_core_mask(core_mask)
            except Exception as error:
                self.rknn_log.tell(_CORE, error)
                self._close(runtime)
                return -1
            self.rknn_runtime = runtime
            return 0

    def reg_custom_op(self, custom_op: OpSource) -> int:
        """Register a custom operator, before or after ``init_runtime``; it stays over a re-initialisation.

        Args:
            custom_op: an object of the class that the PC toolkit takes, a ``rknnlite.CustomOp``, or the path of
                a compiled one. One of a type that is registered already replaces that one.

        Returns:
            0, or -1 with an E line.
        """
        try:
            with self.rknn_log.listening():
                ops = resolve_ops([custom_op])
                if self.rknn_runtime is not None:
                    self.rknn_runtime.register_ops(ops)
        except Exception as error:
            self.rknn_log.tell(_OPS, error)
            return -1
        self._custom_ops.update((op.op_type, op) for op in ops)
        return 0

    def _build(self, target: str | None, device_id: str | None, async_mode: bool) -> RKNNRuntime | None:
        try:
            runtime = RKNNRuntime(target, device_id, async_mode, self.rknn_log, verbose=self.verbose)
            runtime.model_label = self._model_label
            runtime.precompile = self._precompile
            runtime.custom_ops = list(self._custom_ops.values())
            runtime.build_graph(self.rknn_data, False, self.rknn_user_key)
        except RknnError as error:
            self.rknn_log.tell(f"{_INIT} RKNN init failed. error code: {error.name}.", error)
            return None
        except Exception as error:
            self.rknn_log.tell(_INIT, error)
            return None
        return runtime

    # -- inference ----------------------------------------------------------------------------------------

    def inference(
        self,
        inputs: Any,
        data_type: Any = None,
        data_format: Any = None,
        inputs_pass_through: Any = None,
        get_frame_id: bool = False,
        reuse_outputs: bool = False,
    ) -> list[Any] | None:
        """Run the model once.

        Args:
            inputs: an array, a list or tuple of arrays in the model's order, or a ``{name: array}`` mapping.
                Rank-4 inputs are NHWC; an image without the batch dimension is taken as a batch of one. A
                model with dynamic shapes takes its shape from the arrays.
            data_type: element type to convert the inputs to (``"uint8"``, ``"float32"``, ...), for all or per
                input; None keeps the arrays' own.
            data_format: ``"nhwc"`` or ``"nchw"`` in any case, for all or per input; for rank-4 inputs.
            inputs_pass_through: 0 or 1 per input; 1 hands the elements over untouched.
            get_frame_id: append the number of this run (the first is 0) to the outputs.
            reuse_outputs: return the same arrays at every call, overwritten; else fresh ones.

        Returns:
            One array per output, float32 in NCHW order; None with an E line when something does not fit.
        """
        runtime = self.rknn_runtime
        if runtime is None:
            self.rknn_log.e(_NOT_INITED, False)
            return None
        token = listen(self.rknn_log)
        try:
            return runtime.infer(
                inputs, data_type, data_format, inputs_pass_through, get_frame_id, reuse_outputs
            )
        except Exception as error:
            if not runtime.is_inherited:
                self.rknn_log.tell(_STEPS[Step.of(error)], error)
                return None
        finally:
            unlisten(token)
        self.rknn_log.w(_FORKED)
        if self.init_runtime(*self._init_args):
            return None
        return self.inference(
            inputs, data_type, data_format, inputs_pass_through, get_frame_id, reuse_outputs
        )

    # -- questions ----------------------------------------------------------------------------------------

    def get_sdk_version(self) -> str | None:
        """A banner with the versions of runtime (API) and driver (DRV); None before ``init_runtime``."""
        if self.rknn_runtime is None:
            self.rknn_log.e(_NOT_INITED, False)
            return None
        try:
            return self.rknn_runtime.get_sdk_version()[0]
        except Exception as error:
            self.rknn_log.tell(_VERSION, error)
            return None

    def list_devices(self) -> tuple[list[str], list[str]]:
        """Boards from afar that answer, as ``device_id`` takes them, and an empty list: nothing is attached by a cable.

        Asked are those of the configuration (``remotes``) and of ``RKNNLITE_REMOTE``.
        """
        if isinstance(self.rknn_data, bytes) and is_first_toolkit(memoryview(self.rknn_data)):
            from .._first_toolkit import attached

            return attached(self)
        try:
            found = [device for each in devices().values() for device in each if device.address]
        except Exception as error:
            self.rknn_log.tell("Catch exception when list devices.", error)
            found = []
        self.rknn_log.p("*" * 25)
        if found:
            self.rknn_log.p("all device(s) from afar:")
        for device in found:
            self.rknn_log.p(f"{device.id} ({', '.join(filter(None, (device.soc, device.address)))})")
        if not found:
            self.rknn_log.p("None devices connected.")
        self.rknn_log.p("*" * 25)
        return [device.id for device in found], []

    def list_support_target_platform(
        self, rknn_model: str | os.PathLike[str] | None = None
    ) -> OrderedDict[str, list[str]] | None:
        """Print the platforms there are, or those that can run a model file; needs no runtime.

        Returns:
            For a file ``filled_target_platform`` (what it names) and ``support_target_platform`` (what runs
            it); None without a file, and with an E line for one that is not a model.
        """
        if rknn_model is None:
            self._print_chip_families()
            return None
        if not is_file(rknn_model):
            self.rknn_log.e(f"{_INVALID_PATH}{shown(rknn_model) or None}", False)
            return None
        try:
            platforms = model_platforms(rknn_model)
        except Exception as error:
            self.rknn_log.tell(f"{_INVALID_PATH}{shown(rknn_model)}.", error)
            return None
        filled, supported = platforms.values()
        self.rknn_log.p("*" * 50)
        self.rknn_log.p(f"Target platforms filled in RKNN model:         {filled}")
        self.rknn_log.p(f"Target platforms supported by this RKNN model: {supported}")
        self.rknn_log.p("*" * 50)
        return platforms

    def _print_chip_families(self) -> None:
        self.rknn_log.p("*" * 50)
        self.rknn_log.p("Target platforms by chip family; a model made for one runs on its whole family:")
        for number, names in chip_families():
            self.rknn_log.p(f"chip family {number}: {', '.join(names)}")
        self.rknn_log.p("*" * 50)

    # -- life ---------------------------------------------------------------------------------------------

    def release(self) -> None:
        """Release the runtime; may be called at any time and again. The loaded model stays."""
        self._drop_runtime()

    def _drop_runtime(self) -> None:
        runtime, self.rknn_runtime = self.rknn_runtime, None
        if runtime is not None:
            self._close(runtime)

    def _close(self, runtime: RKNNRuntime) -> None:
        try:
            with self.rknn_log.listening():
                runtime.release()
        except Exception as error:
            self.rknn_log.tell("Catch exception when release runtime.", error)
