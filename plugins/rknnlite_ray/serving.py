"""A model behind Ray Serve, on the paths of the Open Inference Protocol."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Optional, Union

from rknnlite.errors import ParamInvalid
from rknnlite.extras import missing
from rknnlite.formats import ModelFile

from .cores import WorkerCores
from .placement import Source, check_offered, wanted
from .replica import Replica

__all__ = ["deployment"]


def deployment(
    model: Source,
    name: Optional[str] = None,
    *,
    replicas: Union[int, tuple[int, int]] = 1,
    backend: Optional[str] = None,
    cores: WorkerCores = "spread",
    queue: int = 8,
    max_body: int = 64 << 20,
    ship: bool = True,
    resources: Optional[Mapping[str, float]] = None,
    num_cpus: Optional[float] = None,
    check: bool = True,
    autoscaling: Optional[Mapping[str, Any]] = None,
    traces: Optional[str] = None,
    **options: Any,
) -> Any:
    """An application for ``ray.serve.run``.

    It answers ``/v2``, ``/v2/health/live``, ``/v2/health/ready``, ``/v2/models/NAME``, ``.../ready`` and ``.../infer``
    over REST, with tensors as JSON or as bytes, like ``rknnlite serve``.

    Args:
        model: path or bytes.
        name: what clients call it; None: the name of the file without its ending.
        replicas: how many, each with one NPU core; a pair: at least and at most so many, by the load.
        backend: as for ``rknnlite.open``; ``"cpu"`` asks for no NPU.
        cores: cores of each replica, as for ``RknnPredictor``.
        queue: requests that a replica holds, and as many that wait before it. More are answered with 503.
        max_body: bytes of the largest request.
        ship: put the bytes of the model into the application; False: all nodes have the file at this path, which is
            better for files above some 50 MB, as Serve keeps applications in the memory of the head.
        resources, num_cpus, check: as for ``map_arguments``.
        autoscaling: more of Serve's ``autoscaling_config``, such as ``{"target_ongoing_requests": 2}``.
        traces: address of a collector of OpenTelemetry that gets a span for each request, below the client's; None: there are
            no spans.
        options: further arguments of ``rknnlite.open``.

    Raises:
        ModelInvalid: no usable model. TargetPlatformUnmatch, DeviceUnavailable: see ``check_offered``.
        ParamInvalid: bytes without a name, a wrong number of replicas.
    """
    try:
        from ray import serve
    except ImportError as error:
        raise missing("ray", "models cannot be served by Ray", error) from None

    if resources is None:
        resources = wanted(model, backend)
    least, most = (replicas, replicas) if isinstance(replicas, int) else replicas
    if not 0 <= least <= most or most < 1:
        raise ParamInvalid(
            f"replicas={replicas!r} must be a number from 1 on, or a pair of them, the smaller one first"
        )
    if check:
        check_offered(resources, max(1, least))
    if num_cpus is None:
        num_cpus = 1 if backend == "cpu" else 0
    count: dict[str, Any] = {"num_replicas": most}
    if least < most:
        limits = {"min_replicas": least, "max_replicas": most}
        count = {"autoscaling_config": {**limits, **(autoscaling or {})}}
    made = serve.deployment(
        Replica,
        name=f"rknnlite-{_name(model, name)}",
        ray_actor_options={"num_cpus": num_cpus, "resources": dict(resources)},
        max_ongoing_requests=queue,
        max_queued_requests=queue,
        **count,
    )
    return made.bind(
        model=_carried(model, ship),
        name=_name(model, name),
        backend=backend,
        cores=cores,
        max_body=max_body,
        traces=traces,
        **options,
    )


def _name(model: Source, name: Optional[str]) -> str:
    if name is None:
        if isinstance(model, (bytes, bytearray, memoryview)):
            raise ParamInvalid("a model that is given as bytes needs a name for its clients")
        name = Path(model).stem
    if not name or "/" in name:
        raise ParamInvalid(f"{name!r} cannot be the name of a model: it is part of a path")
    return name


def _carried(model: Source, ship: bool) -> Any:
    """Serve starts replicas long after this program has ended, and its objects with it: the bytes go along."""
    if isinstance(model, (bytes, bytearray, memoryview)):
        return bytes(model)
    return bytes(ModelFile(Path(model)).data) if ship else str(model)
