"""The surface that programs see: names, signatures, constants, attributes."""

from __future__ import annotations

import inspect
import logging
import subprocess
import sys
from pathlib import Path

import pytest

import rknnlite
import rknnlite.api
from rknnlite.api import RKNNLite

SIGNATURES = {
    "__init__": "(self, verbose=False, verbose_file=None)",
    "load_rknn": "(self, path, key_path=None)",
    "list_devices": "(self)",
    "init_runtime": "(self, target=None, device_id=None, async_mode=False, core_mask=0)",
    "inference": "(self, inputs, data_type=None, data_format=None, inputs_pass_through=None, "
    "get_frame_id=False, reuse_outputs=False)",
    "get_sdk_version": "(self)",
    "list_support_target_platform": "(self, rknn_model=None)",
    "release": "(self)",
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_signature_is_that_of_2_5_0(name: str) -> None:
    signature = inspect.signature(getattr(RKNNLite, name))
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    assert str(inspect.Signature(bare)) == SIGNATURES[name]


def test_there_are_no_other_methods() -> None:
    public = {name for name, value in vars(RKNNLite).items() if callable(value) and not name.startswith("_")}
    assert public == set(SIGNATURES) - {"__init__"} | {"reg_custom_op"}  # the one the PC toolkit has, too
    assert not {"__del__", "__enter__", "__exit__"} & set(vars(RKNNLite))


def test_constants() -> None:
    constants = {name: value for name, value in vars(RKNNLite).items() if name.startswith("NPU_CORE_")}
    assert constants == {
        "NPU_CORE_AUTO": 0,
        "NPU_CORE_0": 1,
        "NPU_CORE_1": 2,
        "NPU_CORE_2": 4,
        "NPU_CORE_0_1": 3,
        "NPU_CORE_0_1_2": 7,
        "NPU_CORE_ALL": 0xFFFF,
    }


def test_attributes_of_a_new_object() -> None:
    rknn = RKNNLite()
    assert rknn.target == "simulator"
    assert rknn.verbose is False
    assert rknn.rknn_data is None
    assert rknn.rknn_user_key is None
    assert rknn.load_model_in_npu is False
    assert rknn.rknn_runtime is None
    assert rknn.root_dir == str(Path(rknnlite.__file__).resolve().parent)
    assert isinstance(rknn.rknn_log.logger, logging.Logger)


def test_package_exports_one_name_and_carries_the_modules_that_programs_import() -> None:
    assert rknnlite.api.__all__ == ["RKNNLite"]
    from rknnlite.api import rknn_lite, rknn_log, rknn_platform_utils, rknn_runtime

    assert rknn_lite.RKNNLite is RKNNLite
    assert rknn_runtime.RKNNRuntime and rknn_runtime.RKNNOutput
    assert rknn_log and rknn_platform_utils


def test_import_is_light_and_leaves_logging_alone() -> None:
    program = (
        "import logging, sys\n"
        "before = (logging.root.handlers[:], logging.root.level, dict(logging._nameToLevel))\n"
        "import rknnlite.api\n"
        "assert before == (logging.root.handlers, logging.root.level, logging._nameToLevel)\n"
        "heavy = {'cv2', 'PIL', 'ruamel.yaml', 'psutil', 'onnx', 'rknnlite_cpu'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "" and done.stderr == ""
