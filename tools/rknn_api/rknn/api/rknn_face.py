"""The class ``RKNN`` of rknn-toolkit2 for files that are converted already.

Loading, running, measuring and comparing are rknnlite's. What converts is told to be the vendor's: an E line, and -1.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Optional, Union

import rknnlite
from rknnlite.api import RKNNLite
from rknnlite.errors import InputInvalid
from rknnlite.files.input_arrays import arrays_for
from rknnlite.files.writing import write_text

__all__ = ["RKNN"]

_CONVERTING = (
    "config", "load_caffe", "load_tensorflow", "load_tflite", "load_onnx", "load_darknet", "load_pytorch", "load_keras", "build",
    "export_rknn", "hybrid_quantization_step1", "hybrid_quantization_step2", "auto_hybrid_quantization",
    "export_encrypted_rknn_model", "codegen", "onnx_edit",
)  # fmt: skip
_REMEDY = (
    "it converts, which the vendor's rknn-toolkit2 does: install that in an environment of its own (python3 -m venv convert && "
    "convert/bin/pip install rknn-toolkit2), convert there, and give the .rknn file to load_rknn here"
)
_NOT_LOADED = "Model is not loaded yet, this interface should be called after load_rknn!"
_REPORT = "error_analysis.txt"
_Inputs = Sequence[Union[str, "os.PathLike[str]", Any]]


class RKNN(RKNNLite):
    """As rknn-toolkit2's, over rknnlite.

    Its methods never raise for a mistake of the caller: they log one E line and return -1 or None.
    """

    def init_runtime(  # type: ignore[override]
        self,
        target: Optional[str] = None,
        device_id: Optional[str] = None,
        perf_debug: bool = False,
        eval_mem: bool = False,
        async_mode: bool = False,
        core_mask: int = RKNNLite.NPU_CORE_AUTO,
        fallback_prior_device: str = "gpu",
    ) -> int:
        """Open the loaded model here: on this board's NPU, else on the CPU reference, which plays ``target``.

        Args:
            target, device_id, async_mode, core_mask: as for ``RKNNLite.init_runtime``.
            perf_debug, eval_mem: nothing to prepare; ``eval_perf`` and ``eval_memory`` answer without.
            fallback_prior_device: without effect; the CPU reference has no GPU to fall back to.

        Returns:
            0, or -1 with an E line.
        """
        return super().init_runtime(target, device_id, async_mode, core_mask)

    def inference(  # type: ignore[override]
        self,
        inputs: Any,
        data_format: Any = None,
        inputs_pass_through: Any = None,
        get_frame_id: bool = False,
    ) -> Optional[list[Any]]:
        """Run the model once; arguments as for ``RKNNLite.inference``, in the order of this class."""
        return super().inference(inputs, None, data_format, inputs_pass_through, get_frame_id)

    def eval_perf(self, is_print: bool = True, fix_freq: bool = True) -> Optional[str]:
        """The time of each layer, on made-up inputs.

        Args:
            is_print: print the table, too.
            fix_freq: without effect; frequencies are the user's (``rknnlite doctor`` tells them).

        Returns:
            The table; None with an E line.
        """
        table: Optional[str] = self._with_model("eval_perf", _timed)
        if table is not None and is_print:
            self.rknn_log.p(table)
        return table

    def eval_memory(self, is_print: bool = True) -> Optional[dict[str, int]]:
        """Bytes of weights and internal tensors, as the runtime counts them; None with an E line."""
        found: Optional[dict[str, int]] = self._with_model("eval_memory", _memory)
        for name, size in (found or {}).items() if is_print else ():
            self.rknn_log.p(f"{name}: {size / 1024:.2f} KiB")
        return found

    def accuracy_analysis(
        self,
        inputs: _Inputs,
        output_dir: str = "./snapshot",
        target: Optional[str] = None,
        device_id: Optional[str] = None,
    ) -> int:
        """How far each tensor of the network is from what its layers compute in float32, each alone and all together.

        The network in float is the file itself, its weights dequantised: rknn-toolkit2 compares with the network that
        it has converted, which is not in the file (``rknnlite compare`` takes that as ONNX).

        Args:
            inputs: one per input: a picture, a .npy or raw file, or an array.
            output_dir: where the table is written, as error_analysis.txt.
            target, device_id: a board, where there is one; the CPU reference computes without.

        Returns:
            0, or -1 with an E line.
        """
        options = {"soc": target, "device_id": device_id}

        def compare(context: rknnlite.Context) -> str:
            given = [
                arrays_for([os.fspath(item)], [attr])[0] if isinstance(item, (str, os.PathLike)) else item
                for item, attr in zip(inputs, context.inputs)
            ]
            if len(inputs) != len(context.inputs):
                raise InputInvalid(
                    f"{len(inputs)} inputs given, the model has {len(context.inputs)}: name one file or array for each"
                )
            with rknnlite.open(self.rknn_data, backend="cpu", fidelity="float") as golden:
                text = f"{rknnlite.compare(context, golden, given, 'single')}\n"
            write_text(_folder(output_dir) / _REPORT, text)
            return text

        text = self._with_model(
            "accuracy_analysis", compare, **{key: value for key, value in options.items() if value}
        )
        if text is None:
            return -1
        self.rknn_log.p(text)
        return 0

    def __getattr__(self, name: str) -> Any:
        """What converts is there and says what to install; all else is as in ``RKNNLite``."""
        if name in _CONVERTING:
            return lambda *args, **given: self._refuse(name)
        return super().__getattr__(name)

    def _refuse(self, name: str) -> int:
        self.rknn_log.e(f"{name} is not in rknnlite: {_REMEDY}", False)
        return -1

    def _with_model(self, name: str, work: Callable[[rknnlite.Context], Any], **options: Any) -> Any:
        """What ``work`` makes of a context of its own of the loaded model; None with an E line."""
        if self.rknn_data is None:
            self.rknn_log.e(_NOT_LOADED, False)
            return None
        try:
            with self.rknn_log.listening(), rknnlite.open(self.rknn_data, **options) as context:
                return work(context)
        except Exception as error:
            self.rknn_log.tell(f"Catch exception when {name}!", error)
            return None


def _timed(context: rknnlite.Context) -> str:
    context.infer(arrays_for([], context.inputs))
    return str(context.perf_table())


def _memory(context: rknnlite.Context) -> dict[str, int]:
    size = context.memory()
    return {"weight_memory": size.weight, "internal_memory": size.internal, "total_memory": size.total}


def _folder(name: str) -> Path:
    folder = Path(name)
    folder.mkdir(parents=True, exist_ok=True)
    return folder
