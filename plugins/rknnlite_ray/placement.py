"""Where models may run: what a board offers to Ray, and what work with a model asks for.

A board offers its NPU cores as ``rknpu_core``, and the same number under the name of each platform whose files it
runs. Work with a model takes one of ``rknpu_core`` and one of the platform that its file was made for, so that Ray
places it on boards that can run it and never puts more of it there than there are cores.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Optional, Union

from rknnlite_protocol.traces import outgoing

from rknnlite import socs
from rknnlite.errors import DeviceUnavailable, ModelInvalid, ParamInvalid, TargetPlatformUnmatch
from rknnlite.extras import missing
from rknnlite.formats import ModelFile

from .problems import warn

__all__ = ["CORE", "Source", "check_offered", "map_arguments", "offered", "portable", "wanted"]

CORE = "rknpu_core"
"""The resource of which there is one per NPU core."""

Source = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview]


def offered(soc: socs.Soc, cores: Optional[int] = None) -> dict[str, int]:
    """What a machine with that SoC offers; ``cores``: so many of its cores, None for all. Raises ParamInvalid.

    Examples:
        >>> from rknnlite import socs
        >>> offered(socs.get("rk3588"))
        {'rknpu_core': 3, 'rk3588': 3}
        >>> offered(socs.get("rk3566"))
        {'rknpu_core': 1, 'rk3566': 1, 'rk3568': 1}
    """
    count = soc.cores if cores is None else cores
    if not 1 <= count <= soc.cores:
        cores_there = f"{soc.cores} NPU core{'s' * (soc.cores > 1)}"
        raise ParamInvalid(f"{soc.name} has {cores_there} to offer; {count} cannot be")
    return {CORE: count, **dict.fromkeys(soc.accepts or (soc.name,), count)}


def wanted(model: Source, backend: Optional[str] = None) -> dict[str, float]:
    """What work with a model asks of Ray for each worker: nothing where the CPU reference (``cpu``) is to compute.

    Raises:
        ModelInvalid: no usable model, or one for a platform that nobody knows.

    Examples:
        >>> wanted("examples/resnet18/resnet18_for_RK3588.rknn")
        {'rknpu_core': 1, 'rk3588': 1}
        >>> wanted("examples/resnet18/resnet18_for_RK3588.rknn", backend="cpu")
        {}
    """
    file = ModelFile(model if isinstance(model, (bytes, bytearray, memoryview)) else Path(model))
    named = {name.lower() for name in (*file.model.platforms, file.model.platform)}
    if backend == "cpu":
        return {}
    for soc in socs.table().values():
        for platform in soc.accepts:
            if platform in named:
                return {CORE: 1, platform: 1}
    raise ModelInvalid(
        f"{file.label} is for {', '.join(sorted(named)) or 'no platform'}, which no board offers; "
        f"known: {', '.join(socs.table())}"
    )


def check_offered(resources: Mapping[str, float], workers: int = 1) -> None:
    """Raise where the cluster that the program is connected to lacks what the workers ask for.

    Ray waits for it without end, as a node that has it may join. Leave this check out where one will.

    Raises:
        TargetPlatformUnmatch: no node has a SoC that runs the file.
        DeviceUnavailable: too few cores.
    """
    import ray

    there = ray.cluster_resources()
    for name, each in resources.items():
        have, need = there.get(name, 0), each * workers
        if have >= need:
            continue
        known = {key: there[key] for key in (CORE, *socs.table()) if key in there}
        told = ", ".join(f"{key}: {value:g}" for key, value in known.items()) or "no NPU"
        kind = DeviceUnavailable if name == CORE or have else TargetPlatformUnmatch
        raise kind(
            f"{workers} workers need {need:g} of the resource {name}, and the nodes of this cluster offer {told}; "
            "start Ray on the boards with what 'rknnlite fleet resources' prints, "
            + ("use fewer workers" if have else "convert the model for a SoC that is there")
            + ", or compute with backend='cpu'"
        )


def _present(resources: Mapping[str, float], workers: int) -> int:
    """So many of the workers as the cluster has cores for, at least one; raises what ``check_offered`` raises."""
    import ray

    check_offered(resources)
    there = ray.cluster_resources()
    most = min((int(there[name] // each) for name, each in resources.items() if each), default=workers)
    if most < workers:
        warn(
            "%d workers were asked for and the cluster has cores for %d: it goes on with those, and with more that join",
            workers, most,
        )  # fmt: skip
    return min(workers, most)


def portable(model: Source, ship: bool = True) -> Any:
    """What a worker on another machine opens: the bytes in Ray's object store (a reference), or the path as it is.

    Nodes fetch the bytes once each, and all workers of a node read the same memory.

    Raises:
        ModelInvalid: the file cannot be read. ParamInvalid: bytes that are not to be shipped.
    """
    if not ship:
        if isinstance(model, (bytes, bytearray, memoryview)):
            raise ParamInvalid("ship=False is for the path of a file that all nodes have, not for bytes")
        return os.fspath(model)
    import numpy as np
    import ray

    given = model if isinstance(model, (bytes, bytearray, memoryview)) else ModelFile(Path(model)).data
    return ray.put(np.frombuffer(given, np.uint8))


def map_arguments(
    model: Source,
    workers: Union[int, tuple[int, int]] = 1,
    *,
    backend: Optional[str] = None,
    batch_size: int = 32,
    ship: bool = True,
    resources: Optional[Mapping[str, float]] = None,
    num_cpus: Optional[float] = None,
    check: bool = True,
    traces: Optional[str] = None,
    **options: Any,
) -> dict[str, Any]:
    """Arguments of ``Dataset.map_batches(RknnPredictor, **map_arguments(...))``; connect to the cluster before.

    Args:
        model: path or bytes.
        workers: how many actors, each with one NPU core; a pair: at least and at most so many. Where the cluster has
            fewer cores, as many as it has, with a warning; more are started when boards join.
        backend: as for ``rknnlite.open``; ``"cpu"`` asks for no NPU.
        batch_size: rows that an actor gets at once.
        ship: send the bytes of the model to the nodes; False: all nodes have the file at this path.
        resources: what each actor asks for; None: what ``wanted`` says of model and backend.
        num_cpus: processors for each actor; None: 1 for the CPU reference, else 0, as they wait for the NPU.
        check: raise at once where no node of the cluster has what one worker asks for, see ``check_offered``.
        traces: as for ``RknnPredictor``; its spans belong to the one in which this is called, where there is one.
        options: further arguments of ``RknnPredictor``.

    Raises:
        ModelInvalid: no usable model. TargetPlatformUnmatch, DeviceUnavailable: see ``check_offered``.
    """
    try:
        import ray
    except ImportError as error:
        raise missing("ray", "fleets cannot be used", error) from None

    if resources is None:
        resources = wanted(model, backend)
    least, most = (workers, workers) if isinstance(workers, int) else workers
    if not 1 <= least <= most:
        raise ParamInvalid(
            f"workers={workers!r} must be a number from 1 on, or a pair of them, the smaller one first"
        )
    if not ray.is_initialized():
        ray.init()
    if check:
        least = _present(resources, least)
    if num_cpus is None:
        num_cpus = 1 if backend == "cpu" else 0
    arguments = {"model": portable(model, ship), "backend": backend, **options}
    if traces is not None:
        arguments.update(traces=traces, trace=outgoing())
    return {
        "fn_constructor_kwargs": arguments,
        "compute": ray.data.ActorPoolStrategy(min_size=least, max_size=most),
        "batch_size": batch_size,
        "batch_format": "numpy",
        "num_cpus": num_cpus,
        "resources": dict(resources),
    }
