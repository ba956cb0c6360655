"""``RKNN3Lite``: the class that programs written for rknn3-toolkit-lite use, with the vendor's signatures.

Its methods never raise for a mistake of the caller: they log one E line, which names the remedy, and return -1 or
None. What a callback of the program raises is raised.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Callable, TypeVar

from .._faces.arguments import described, flags, is_file, path_of, shown
from .._faces.log import log_file
from .._version import __version__
from ..abi.rknn3_enums import RKNN3CoreMask, RKNN3QueryCmd
from ..abi.rknn3_types import RKNN3Config, RKNN3Tensor, RKNN3TensorAttr
from ..errors import BackendUnavailable, ModelInvalid, ModelUnsupported, ParamInvalid
from ..files.reading import read_bytes
from ..formats import ModelFile
from ..formats.rkllm import SUFFIX
from ._llm_face import LlmFace
from ._query import dynamic_shapes, query
from .rknn3_log import rknn3Log
from .rknn3_runtime import RKNN3Runtime, list_devices
from .rknn3_session import RKNN3Session

__all__ = ["RKNN3Lite"]

T = TypeVar("T")
_FACE_VERSION = "1.0.0"
_PATHS = "Invalid RKNN weight path or model path: "
_NOT_LOADED = "Model is not loaded yet, this interface should be called after load_rknn!"
_NOT_INITED = "Runtime environment is not inited, please call init_runtime to init it first!"
_NOT_CNN = "This interface is only for RKNN model inference, please use session_run for LLM model inference!"
_NO_INPUTS = "inputs is None, the model requires input"
_FORMATS = "data_format length is not equal to inputs length"
_LOAD = "Catch exception when load model data!"
_MODEL_INIT = "rknn3_model_init,"
_STEPS = {ModelInvalid: _LOAD, BackendUnavailable: "Catch exception when load library!"}
_RUN = "Catch exception when running RKNN model."
_RELEASE = "Catch exception when release runtime."
_NEEDS_DEVICE = (
    "It needs the device: an RK1820 or RK1828 with librknn3_api.so. The CPU reference runs RKNPU2 networks and "
    "packages of rknnlite export-llm"
)
_BANNER = "=" * 46


class RKNN3Lite(LlmFace):
    """Runs one model on an RK1820 or RK1828, or anywhere on the CPU reference.

    An object serves one thread at a time, but for ``session_stop`` and ``session_query_state``.

    Args:
        llm_mode: the model is a language model.
        verbose: log D and I lines too.
        verbose_file: file that gets the log lines too, appended; used with ``verbose`` only.

    Examples:
        >>> rknn, tiny = RKNN3Lite(llm_mode=True), "examples/llm_chat/models/tiny"
        >>> rknn.load_rknn(f"{tiny}.rknn", f"{tiny}.weight")
        0
        >>> callback = RKLLMCallback(result_callback=lambda userdata, result, state: 0)
        >>> rknn.init_runtime("rk1820", 0xFF, llm_args=[{"max_new_tokens": 16}], llm_callback=callback)
        0
        >>> code, figures = rknn.session_run(prompt="What is 12 + 30?")
        >>> code
        0
        >>> "42" in "".join(rknn.stream("What is 12 + 30?"))
        True
        >>> rknn.release()
    """

    RKNN3CoreMask = RKNN3CoreMask

    def __init__(
        self,
        llm_mode: bool = False,
        verbose: bool = False,
        verbose_file: str | os.PathLike[str] | None = None,
    ) -> None:
        file = log_file(verbose_file)
        said, problems = flags({"llm_mode": llm_mode, "verbose": verbose})
        self.verbose = said["verbose"]
        self.rknn_log = rknn3Log(self.verbose, file)
        self.rknn_runtime: RKNN3Runtime | None = None
        self.llm: RKNN3Session | None = None
        self.rknn_config = RKNN3Config()
        self.model_data: Any = None
        self.weight_data: Any = None
        self.llm_mode = said["llm_mode"]
        self._files: tuple[ModelFile, ModelFile | None] | None = None
        self._sessions: dict[int, RKNN3Session] = {}
        line = f"rknn3-toolkit-lite version: {_FACE_VERSION} (spoken by rknnlite {__version__})"
        self.rknn_log.greet(line, self.verbose, verbose_file, file, problems)

    # -- load and initialise ------------------------------------------------------------------------------

    def load_rknn(
        self, model_path: str | os.PathLike[str], weight_path: str | os.PathLike[str] | None
    ) -> int:
        """Read the files of a model into ``model_data`` and ``weight_data``; their content is not looked at.

        Args:
            model_path: ``PREFIX.rknn``; in LLM mode also a ``.rkllm`` file, which has no other file beside it.
            weight_path: ``PREFIX.weight``. A network for another NPU, which the CPU reference plays, keeps its
                weights in the model file: there this file may be empty or absent.

        Returns:
            0, or -1 with an E line when a file cannot be read.
        """
        model, weight = _file(model_path), _file(weight_path)
        if model is not None and self.llm_mode and model.suffix == SUFFIX and model.is_file():
            if weight_path:
                said = f"{_PATHS}{shown(weight_path)} or {shown(model_path)}"
                self.rknn_log.e(f"{said} (a .rkllm file holds its weights: give None for weight_path)", False)
                return -1
            self.model_data, self.weight_data = b"", b""  # gigabytes, which only the library reads
            self._files = ModelFile(model), None
            return 0
        try:
            data = b"" if model is None else read_bytes(model)
            weights = None if weight is None else ModelFile(weight)  # large: mapped, not read
            weight_data = b"" if weights is None else weights.data
        except (OSError, ModelInvalid) as error:
            self.rknn_log.e(f"{_PATHS}{shown(weight_path)} or {shown(model_path)} ({error})", False)
            return -1
        if model is None or (weights is None and data[:4] != b"RKNN"):
            self.rknn_log.e(f"{_PATHS}{shown(weight_path)} or {shown(model_path)}", False)
            return -1
        self.model_data, self.weight_data = data, weight_data
        self._files = ModelFile(data, str(model)), weights if len(weight_data) else None
        return 0

    def init_runtime(
        self,
        target: str | None,
        core_mask: int,
        llm_args: Any = None,
        llm_callback: Any = None,
        llm_embed_path: str | os.PathLike[str] | None = None,
        device_id: str | bytes | None = None,
        decrypt_key_path: str | os.PathLike[str] | None = None,
    ) -> int:
        """Open the loaded model; an earlier runtime of this object is released first.

        Args:
            target: ``"rk1820"`` or ``"rk1828"``; None: whatever is attached, and for ``.rkllm`` files.
            core_mask: a bit per NPU core, as many as the model was converted for; 0 leaves the choice.
            llm_args: a dict of parameters of a session, or a list of one; see ``docs/rknn3lite.md``.
            llm_callback: an ``RKLLMCallback``, or a ``rknnlite.spi.llm.LlmCallbacks``. A session without arguments
                and callbacks is opened too; ``init_llm_session`` replaces it.
            llm_embed_path: embedding table, where no embed callback is given.
            device_id: one of ``get_devices_id``; None: the only one.
            decrypt_key_path: key of an encrypted model, for the device.

        Returns:
            0, or -1 with an E line.
        """
        self.rknn_log.d(f"target: {shown(target)}")
        if self._files is None:
            self.rknn_log.e(_NOT_LOADED, False)
            return -1
        if self._drop_runtime() != 0:
            return -1
        try:
            with self.rknn_log.listening():
                if target is not None and self._files[0].path is not None:
                    raise ParamInvalid(
                        f"target is {target!r}; a .rkllm file runs on the NPU of this board, so give target None"
                    )
                runtime = RKNN3Runtime(target, device_id, core_mask, self.rknn_log)
                self.rknn_config.run_core_mask = runtime.core_mask
                self._open(runtime, *self._files, decrypt_key_path)
        except Exception as error:
            self._tell(
                next((text for kind, text in _STEPS.items() if isinstance(error, kind)), _MODEL_INIT), error
            )
            return -1
        self.rknn_runtime = runtime
        if self.llm_mode and self.init_llm_session(llm_args, llm_callback, llm_embed_path) != 0:
            self._drop_runtime()
            return -1
        return 0

    def _open(self, runtime: RKNN3Runtime, model: ModelFile, weights: ModelFile | None, key: Any) -> None:
        """Open the model; what is said of a genuine device file says that the device is missing."""
        try:
            extra = {} if key is None else {"decrypt_key_path": _key_file(key)}
            runtime.open(model, weights, self.llm_mode, extra)
        except ModelUnsupported as error:
            if bytes(model.data[:4]) != b"RKNX":
                raise
            raise ModelUnsupported(f"{error} {_NEEDS_DEVICE}") from None

    # -- a network ----------------------------------------------------------------------------------------

    def inference(self, inputs: Any = None, data_format: Any = None) -> list[Any] | None:
        """Run a network once.

        Args:
            inputs: list of arrays in the model's order (one array, a tuple or a ``{name: array}`` mapping will
                do). Rank-4 inputs are NHWC. A model with dynamic shapes takes its shape from the arrays.
            data_format: ``"undefined"``, ``"nhwc"`` or ``"nchw"`` per input.

        Returns:
            One array per output, float32 in NCHW order; None with an E line when something does not fit.
        """
        problem = self._refusal(inputs, data_format)
        runtime = self.rknn_runtime
        if problem is not None or runtime is None:
            self.rknn_log.e(problem, False)
            return None
        answers: list[Any] = []
        code = self._try(_RUN, lambda: answers.extend(runtime.infer(inputs, data_format)))
        return answers if code == 0 else None

    def _refusal(self, inputs: Any, data_format: Any) -> str | None:
        if self.llm_mode:
            return _NOT_CNN
        if self.rknn_runtime is None:
            return _NOT_INITED
        if inputs is None:
            return _NO_INPUTS
        several = isinstance(data_format, (list, tuple)) and isinstance(inputs, (list, tuple))
        return _FORMATS if several and len(data_format) != len(inputs) else None

    def register_postprocess(self, plugin_path: str | os.PathLike[str]) -> int:
        """Let a post-process plugin for RK1820/RK1828 work on the outputs, after ``init_runtime``, before a run.

        ``inference`` and ``get_outputs_tensor_attr`` answer with the plugin's results then. Returns 0 or -1.
        """
        return self._with_runtime(
            "Catch exception when register custom ops plugins.",
            lambda runtime: runtime.cnn().register_postprocess(plugin_path),
        )

    # -- questions ----------------------------------------------------------------------------------------

    def get_sdk_version(self) -> str | None:
        """A banner with the versions of runtime (API) and driver (DRV); None before ``init_runtime``."""

        def banner(runtime: RKNN3Runtime) -> str:
            api, driver = runtime.versions
            return "\n".join((_BANNER, "RKNN3 VERSION:", f"  API: {api}", f"  DRV: {driver}", _BANNER))

        return self._ask("Catch exception when get sdk version.", banner)

    def get_devices_id(self) -> list[bytes]:
        """Ids of the coprocessors, for ``init_runtime(device_id=)``; needs no model."""
        ids: list[bytes] = []
        self._try(
            "Catch exception when list devices.", lambda: ids.extend(d.id.encode() for d in list_devices())
        )
        return ids

    def get_inputs_tensor_attr(self) -> list[RKNN3TensorAttr] | None:
        """Attributes of the inputs; None with an E line before ``init_runtime``."""
        return self._ask("Catch exception when get input attrs.", lambda runtime: runtime.attrs(False))

    def get_outputs_tensor_attr(self) -> list[RKNN3TensorAttr] | None:
        """Attributes of the outputs; None with an E line before ``init_runtime``."""
        return self._ask("Catch exception when get output attrs.", lambda runtime: runtime.attrs(True))

    def get_dynamic_shape_infos(self) -> list[dict[str, Any]] | None:
        """One dictionary per legal set of input shapes, empty for static ones; None with an E line."""
        return self._ask("Catch exception when get dynamic shapes.", dynamic_shapes)

    def rknn3_query(self, cmd: int | RKNN3QueryCmd, index: int = 0) -> Any:
        """The structure that answers a command (``index``: of which tensor); None with an E line."""
        return self._ask("Catch exception when query.", lambda runtime: query(runtime, cmd, index))

    # -- tensors for the output callback ------------------------------------------------------------------

    def create_mem(self, attr: RKNN3TensorAttr, tensor: RKNN3Tensor) -> Any:
        """Give ``tensor`` this attribute and memory for it; its ``mem``, or None with an E line."""
        return self._ask(
            "Catch exception when creat tensor.", lambda runtime: runtime.create_mem(attr, tensor)
        )

    def create_output_tensors(self, output_indices: Any = None) -> tuple[Any, int]:
        """Tensors with memory for some outputs, None: all. Returns (array, its length), or (None, 0)."""
        tensors = self._ask(
            "Catch exception when creat tensor.", lambda runtime: runtime.create_tensors(output_indices)
        )
        return (None, 0) if tensors is None else (tensors, len(tensors))

    def destroy_mem(self, mem: Any) -> int:
        """Free memory of ``create_mem``; returns 0, or -1 for memory that is not (or no longer) there."""
        return self._with_runtime(
            "Catch exception when destroy mem.", lambda runtime: runtime.destroy_mem(mem)
        )

    def _ask(self, headline: str, question: Callable[[RKNN3Runtime], T]) -> T | None:
        """What the runtime answers; None with an E line."""
        answers: list[T] = []
        code = self._with_runtime(headline, lambda runtime: answers.append(question(runtime)))
        return answers[0] if code == 0 else None

    def _with_runtime(self, headline: str, action: Callable[[RKNN3Runtime], Any]) -> int:
        runtime = self.rknn_runtime
        if runtime is None:
            self.rknn_log.e(_NOT_INITED, False)
            return -1
        return self._try(headline, lambda: action(runtime))

    # -- life ---------------------------------------------------------------------------------------------

    def release(self, session_index: int | None = None) -> None:
        """Stop a run, close sessions and runtime, or only one session; may be called at any time and again.

        The files stay loaded.
        """
        if session_index is None:
            self._drop_runtime()
        else:
            self._try(_RELEASE, lambda: self._close_session(session_index))

    def _drop_runtime(self) -> int:
        def dropped() -> None:
            for index in list(self._sessions):
                self._close_session(index)
            if self.rknn_runtime is not None:
                self.rknn_runtime.release()
                self.rknn_runtime = None

        return self._try(_RELEASE, dropped)


def _file(path: Any) -> Path | None:
    """The path when it is one and a file is there."""
    return Path(path_of(path) or "") if is_file(path) else None


def _key_file(given: Any) -> str:
    """The name of a key file; raises ParamInvalid for what is no path."""
    name = path_of(given)
    if name is None:
        raise ParamInvalid(f"decrypt_key_path is {described(given)}, must be the path of a key file")
    return name
