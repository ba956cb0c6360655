"""Opening a model on the backend that is chosen for it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import config, plugins
from .choosing import choose_backend
from .errors import ParamInvalid
from .formats import ModelFile
from .log import show
from .spi import Context, OpenOptions
from .spi.arguments import typed

if TYPE_CHECKING:
    from .spi.custom_op import CustomOp, OpSource
else:
    OpSource = Any  # what stands for an operator is seen when one is made of it

__all__ = ["known_ops", "open_model", "resolve_ops"]


@typed
def open_model(
    model: str | os.PathLike[str] | bytes | bytearray | memoryview | ModelFile,
    backend: str | None = None,
    core_mask: int | None = None,
    soc: str | None = None,
    custom_ops: Sequence[OpSource] = (),
    async_mode: bool = False,
    verbose: bool = False,
    weights: ModelFile | None = None,
    device_id: str | None = None,
    timeout_ms: int = 0,
    threads: int | None = None,
    **extra: Any,
) -> Context:
    """Open a model file, or the bytes of one, on a backend.

    Args:
        model: path, bytes or a ModelFile.
        backend: ``"cpu"``, ``"rknnrt"``, ...; None chooses (see ``choose_backend``).
        core_mask: NPU cores, see ``CoreMask``; None leaves the default.
        soc: SoC to play on the CPU reference, e.g. ``"rk3588"``; None takes the model's.
        custom_ops: operators for this context: ``CustomOp``, the PC toolkit's plain class, or the path of a
            compiled one. They come before those of plugins.
        async_mode: outputs are those of the previous run, so that a caller need not wait for the NPU.
        verbose: per-layer figures of every run in the log, and the log on stderr unless the application set
            logging up.
        weights: the weight file of a model for RK1820/RK1828.
        device_id: which coprocessor, see ``Backend.devices``; None: the only one.
        timeout_ms: longest run on a coprocessor, 0: no limit.
        threads: how many threads the CPU reference may use; None: as many as there are cores.
        extra: options of the backend. ``collect_perf=True`` times every run, for ``perf_table``. CPU reference:
            ``fidelity="float"`` computes the dequantised network in float, ``"simulator"`` (default) as the vendor's does,
            ``"table"`` also its activations by table, ``"silicon"`` in the integers that chips compute with;
            ``inputs="board"`` converts uint8 pixels as the runtime has the NPU do it;
            ``engine_precise=False`` lets engines differ from numpy in last steps, to be faster;
            ``attributes={node or type: {name: value}}``, those that a mini or old container does not store, and
            ``alpha`` of functions in int16 and bfloat16 layers;
            ``postprocess``, the path of a post-process plugin made for RK1820/RK1828 (or a ``PostProcess``), whose
            results take the place of the model's outputs.

    Raises:
        ModelInvalid: not a usable model.
        BackendUnavailable: nothing can run it.
        ParamInvalid, TargetPlatformUnmatch: illegal core mask or SoC.
    """
    file = model if isinstance(model, ModelFile) else ModelFile(_source(model))
    if verbose:
        show()
    options = OpenOptions(
        core_mask=core_mask,
        soc=soc or config.get("soc") or None,
        custom_ops=known_ops(custom_ops),
        async_mode=async_mode,
        verbose=verbose,
        weights=weights,
        device_id=device_id,
        timeout_ms=timeout_ms,
        threads=threads,
        extra=extra,
    )
    return choose_backend(file, backend, options).open(file, options)


def resolve_ops(sources: Sequence[OpSource]) -> list[CustomOp]:
    """Operators from what may stand for them; raises ParamInvalid, also for two of one type."""
    if isinstance(sources, (str, os.PathLike)) or not isinstance(sources, Iterable):
        raise ParamInvalid(f"custom_ops must be a list of operators, not {sources!r}")
    if isinstance(sources, (list, tuple)) and not sources:
        return []
    from .spi.custom_op import as_custom_op, distinct  # most networks have none

    ops: list[CustomOp] = []
    for source in sources:
        if isinstance(source, (str, os.PathLike)):
            ops += plugins.load_custom_ops(source)
        else:
            ops.append(as_custom_op(source))
    return distinct(ops)


def known_ops(sources: Sequence[OpSource]) -> list[CustomOp]:
    """These operators, and those of plugins for all other types."""
    given = resolve_ops(sources)
    types = {op.op_type for op in given}
    return [*(op for op in plugins.custom_ops() if op.op_type not in types), *given]


def _source(model: Any) -> Path | bytes | bytearray | memoryview:
    return model if isinstance(model, (bytes, bytearray, memoryview)) else Path(model)
