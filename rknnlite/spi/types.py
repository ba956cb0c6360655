"""The small values that go over the contracts of ``rknnlite.spi``, where they are meant to be imported from."""

from __future__ import annotations

import abc
import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

from numpy.typing import NDArray

from ..errors import ParamInvalid
from ..layout import nchw_to_nhwc_shape
from ..tensor import Layout

if TYPE_CHECKING:
    from ..formats import ModelFile
    from .custom_op import CustomOp

__all__ = [
    "AttrKind",
    "Device",
    "Input",
    "Memory",
    "OpenOptions",
    "Options",
    "Probe",
    "RawOutput",
    "Step",
    "Versions",
    "check_options",
]

Array = NDArray[Any]


class Probe(NamedTuple):
    """Whether a backend can be used on this machine, and why (not).

    ``priority`` decides between available backends: the CPU reference has 0, real hardware 100. ``library`` and
    ``version`` are path and version of the vendor's runtime library, empty where there is none.

    Examples:
        >>> Probe(True, "computes on the CPU", priority=0).available
        True
    """

    available: bool
    reason: str
    priority: int = 0
    devices: tuple[str, ...] = ()
    library: str = ""
    version: str = ""

    def cause(self) -> tuple[str, str]:
        """Why a backend is not available, and what to do about it: reasons have the form "cause; remedy"."""
        cause, _, remedy = self.reason.partition("; ")
        return cause, remedy


class Device(NamedTuple):
    """What ``device_id`` can name when a model is opened: its id, its SoC, memory in bytes (0: not known).

    A coprocessor, or a board from afar, which has an ``address``.

    Examples:
        >>> Device("0001:11:00.0", "RK1820", memory_total=2 << 30).memory_total
        2147483648
    """

    id: str
    soc: str
    memory_total: int = 0
    memory_free: int = 0
    address: str = ""


class Versions(NamedTuple):
    """What ``RKNN_QUERY_SDK_VERSION`` answers: runtime and driver version.

    ``library`` is the name of the runtime library (``librknnrt``), empty where there is none.

    Examples:
        >>> with rknnlite.open("examples/resnet18/resnet18_for_RK3588.rknn") as context:
        ...     context.versions._fields
        ('api', 'driver', 'library')
    """

    api: str
    driver: str
    library: str = ""


class AttrKind(enum.Enum):
    """Which tensor attributes are asked for; ``CURRENT_*`` are those of the chosen dynamic shape.

    Examples:
        >>> with rknnlite.open("examples/resnet18/resnet18_for_RK3588.rknn") as context:
        ...     context.attrs(AttrKind.OUTPUT)[0].dims
        (1, 10)
    """

    INPUT = "input"
    OUTPUT = "output"
    NATIVE_INPUT = "native_input"
    NATIVE_OUTPUT = "native_output"
    NATIVE_NHWC_INPUT = "native_nhwc_input"
    NATIVE_NHWC_OUTPUT = "native_nhwc_output"
    CURRENT_INPUT = "current_input"
    CURRENT_OUTPUT = "current_output"
    CURRENT_NATIVE_INPUT = "current_native_input"
    CURRENT_NATIVE_OUTPUT = "current_native_output"

    @property
    def is_input(self) -> bool:
        """Whether it asks for inputs."""
        return self in _INPUT_KINDS


_INPUT_KINDS = frozenset(
    {
        AttrKind.INPUT,
        AttrKind.NATIVE_INPUT,
        AttrKind.NATIVE_NHWC_INPUT,
        AttrKind.CURRENT_INPUT,
        AttrKind.CURRENT_NATIVE_INPUT,
    }
)


class Step(enum.Enum):
    """The steps of a frame. An exception that ``Context.frame`` lets out tells by ``Step.of`` where it arose.

    Examples:
        >>> with rknnlite.open("examples/resnet18/resnet18_for_RK3588.rknn") as context:
        ...     try:
        ...         context.infer(np.zeros((1, 3), np.uint8))
        ...     except rknnlite.RknnError as error:
        ...         print(Step.of(error))
        Step.SET_INPUTS
    """

    SET_INPUTS = "set_inputs"
    RUN = "run"
    GET_OUTPUTS = "get_outputs"

    def mark(self, error: Exception) -> None:
        """Note on an exception that it arose in this step; an earlier note (of a frame inside) is replaced."""
        error.step = self  # type: ignore[attr-defined]

    @classmethod
    def of(cls, error: BaseException) -> Step:
        """The step that an exception arose in; SET_INPUTS for one that arose before a frame began."""
        step: Step = getattr(error, "step", cls.SET_INPUTS)
        return step


@dataclass
class Options:
    """How anything is opened: what ``Backend.probe_for`` and the choice of a backend look at.

    ``core_mask`` None leaves the SoC's default; ``soc`` overrides the model's; ``device_id`` is one of
    ``Backend.devices`` (None: the only one); ``extra`` are options of the backend.
    """

    core_mask: Optional[int] = None
    soc: Optional[str] = None
    device_id: Optional[str] = None
    extra: Mapping[str, Any] = field(default_factory=dict)


_PRIORITIES = ("high", "medium", "low")
_INIT_FLAGS = 0x1FFFF  # all bits that rknn_init has a name for
_LEGAL: dict[str, Callable[[Any], bool]] = {
    "priority": lambda value: value in _PRIORITIES or type(value) is int,
    "outside": lambda value: value in (None, "all", "internal"),
    "flags": lambda value: isinstance(value, int) and 0 <= value <= _INIT_FLAGS,
    **dict.fromkeys(("user_key", "decrypt_key"), lambda value: value is None or isinstance(value, bytes)),
    **dict.fromkeys(
        (
            "collect_perf",
            "sram",
            "model_in_npu_memory",
            "engine_precise",
            "flush_inputs",
            "flush_outputs",
            "info_only",
            "load_model_in_npu",
            "precompile",
            "verify",
        ),
        lambda value: value in (False, True),
    ),
}
"""What options of the backends may be, where not everything is legal."""

_KNOWN = frozenset(_LEGAL) | {
    "attributes", "base_domain_id", "chat_template", "cpus", "cross_attention", "decrypt_key", "decrypt_key_path", "draft",
    "embed_flash", "engine", "fidelity", "image_tags", "in_process", "inputs", "library", "master", "max_new_tokens",
    "mirostat", "n_batch", "n_keep", "native_async", "npu_cores", "observe", "old_driver", "patience", "postprocess",
    "prefill_chunk", "sessions", "tool_tag", "user_internal", "user_key", "user_sram", "user_weight", "version",
}  # fmt: skip
"""Names of the options of our own backends: a program for one of them runs on another."""


def check_options(
    backend: str, given: Mapping[str, Any], known: Iterable[str] = _KNOWN, values: bool = True
) -> None:
    """Refuse options that no backend has, and illegal values; raises ParamInvalid with the nearest known name."""
    names = sorted(known)
    for name, value in given.items():
        if name not in names:
            import difflib  # only where there is a mistake

            near = difflib.get_close_matches(name, names, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
            raise ParamInvalid(f"option {name} is unknown to backend {backend}; {hint}")
        if values and not _is_legal(name, value):
            raise ParamInvalid(f"{name} {value!r:.80} is no legal value of that option of backend {backend}")


def _is_legal(name: str, value: Any) -> bool:
    try:
        return name not in _LEGAL or bool(_LEGAL[name](value))
    except Exception:  # an array of several, say
        return False


@dataclass
class OpenOptions(Options):
    """How a model is opened.

    For coprocessors: ``weights`` is the file beside the model, ``timeout_ms`` of a run (0: none). For backends that
    compute on the CPU: ``threads`` that may be used, None: as many as there are cores.

    Examples:
        >>> OpenOptions(core_mask=1, threads=2).core_mask
        1
    """

    custom_ops: Sequence[CustomOp] = ()
    async_mode: bool = False
    verbose: bool = False
    weights: Optional[ModelFile] = None
    timeout_ms: int = 0
    threads: Optional[int] = None


@dataclass
class Input:
    """Data for one model input.

    ``layout`` says how a rank-4 array lies (NHWC or NCHW; UNDEFINED for other ranks). With ``pass_through``
    the elements go to the input tensor untouched: no mean/std, no quantisation (RKNN user guide, 10.9).

    Examples:
        >>> image = np.zeros((1, 3, 224, 224), np.uint8)
        >>> Input(0, image, rknnlite.Layout.NCHW).nhwc_shape
        (1, 224, 224, 3)
    """

    index: int
    data: Array
    layout: Layout = Layout.NHWC
    pass_through: bool = False

    @property
    def nhwc_shape(self) -> tuple[int, ...]:
        """The shape of the data as ``Context.inputs`` and ``set_shapes`` count it: rank 4 as NHWC."""
        shape = tuple(self.data.shape)
        return nchw_to_nhwc_shape(shape) if self.layout is Layout.NCHW else shape


class RawOutput(NamedTuple):
    """A quantised output as the NPU leaves it: ``real = (data - zero_point) * scale``.

    Outputs that are not quantised have scale 1.0 and zero point 0.

    Examples:
        >>> raw = RawOutput(np.array([3, -1], np.int8), scale=0.5, zero_point=1)
        >>> (raw.data - raw.zero_point) * raw.scale
        array([ 1., -1.])
    """

    data: Array
    scale: float
    zero_point: int


class Memory(abc.ABC):
    """A buffer that the NPU (or the CPU reference) reads and writes in place.

    ``ndarray`` is a uint8 view of the very bytes. Released with its context or earlier, never twice.

    Examples:
        >>> with rknnlite.open("examples/resnet18/resnet18_for_RK3588.rknn") as context:
        ...     memory = context.create_mem(context.inputs[0].size)
        ...     memory.ndarray[:] = 0
        ...     memory.close()
    """

    size: int
    offset: int = 0
    fd: int = -1
    phys: int = 0

    @property
    @abc.abstractmethod
    def ndarray(self) -> Array:
        """A writable uint8 view of the whole buffer."""

    @abc.abstractmethod
    def close(self) -> None:
        """Release the buffer; calling it again does nothing."""
