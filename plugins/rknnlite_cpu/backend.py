"""The backend ``cpu``: always available, plays the SoC that the model names.

What computes is imported when something is opened: choosing a backend loads no kernels.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from rknnlite_backend.node_runners import NodeRunner, RunsNodes

from rknnlite import socs
from rknnlite.errors import ModelInvalid, ParamInvalid, TargetPlatformUnmatch
from rknnlite.formats import ModelFile
from rknnlite.log import logger
from rknnlite.spi import Backend, Context, Device, OpenOptions, Probe
from rknnlite.spi.types import Options, check_options

if TYPE_CHECKING:
    from rknnlite_graph.graph import Graph

    from rknnlite.spi import CustomOp
    from rknnlite.spi.llm import LlmContext, LlmOptions
    from rknnlite.spi.matmul import MatmulContext, MatmulSpec

__all__ = ["CpuBackend"]

_KEYS = ("user_key", "decrypt_key", "decrypt_key_path")


class CpuBackend(Backend, RunsNodes):
    """Executes graphs with numpy (and OpenCV where it is installed)."""

    name = "cpu"
    generation = "rknpu2"

    @property
    def generations(self) -> tuple[str, ...]:
        """It plays them all."""
        return ("rknpu1", "rknpu2", "rknpu3")

    def devices(self) -> list[Device]:
        """The coprocessor that is played."""
        return [Device("cpu", "rk1820")]

    def probe(self) -> Probe:
        return Probe(True, "CPU reference, always available", priority=0, devices=("cpu",))

    def refuses(self, model: ModelFile) -> str | None:
        try:
            _ = model.model
        except ModelInvalid as error:
            return str(error)
        return None

    def open(self, model: ModelFile, options: OpenOptions) -> Context:
        """Prepare the model; raises ModelInvalid, ModelUnsupported, ParamInvalid, TargetPlatformUnmatch."""
        from .context import CpuContext
        from .opened_model import OpenedModel

        self._check(model, options)
        return CpuContext(OpenedModel.of(model, play(model, options.soc), options))

    def node_runner(
        self,
        graph: Graph,
        nodes: Collection[int],
        label: str,
        ops: Mapping[str, CustomOp],
        declared: Collection[str],
    ) -> NodeRunner:
        """The numpy kernels of single nodes."""
        from .single_nodes import SingleNodes

        return SingleNodes.prepare(graph, nodes, label, ops, declared)

    def matmul(self, spec: MatmulSpec) -> MatmulContext:
        """Exact on integers; plays the SoC that the call names, else this board's, else an RK3588."""
        from rknnlite_backend.matmul import MATMUL_OPTIONS

        from .matmul import CpuMatmul

        check_options(self.name, spec.extra, MATMUL_OPTIONS)
        return CpuMatmul(spec)

    def refuses_llm(self, model: ModelFile) -> str | None:
        from rknnlite_llm.container.description import read_llm

        try:
            _ = read_llm(model)
        except ModelInvalid as error:
            return str(error)
        return None

    def open_llm(self, model: ModelFile, weights: ModelFile | None, options: LlmOptions) -> LlmContext:
        """Map the weights; raises ModelInvalid, ModelUnsupported, ParamInvalid."""
        from .llm import CpuLlmContext

        self._check(model, options)
        return CpuLlmContext(model, weights, options)

    def _check(self, model: ModelFile, options: Options) -> None:
        """Refuse options that mean nothing; those of a board that do nothing here, and might mislead, are told."""
        check_options(self.name, options.extra)
        if any(options.extra.get(name) is not None for name in _KEYS):
            logger.warning(
                "%s: a key is given, which the CPU reference ignores: it decrypts nothing", model.label
            )
        if options.extra.get("flags"):
            logger.info("%s: flags %#x do nothing on the CPU reference", model.label, options.extra["flags"])


def play(model: ModelFile, wanted: str | None) -> socs.Soc:
    """The SoC to play: ``wanted`` if the model was built for it, else the model's own."""
    accepted = [name.lower() for name in (*model.model.platforms, model.model.platform)]
    if wanted is None:
        for name in accepted:
            try:
                return socs.get(name)
            except ParamInvalid:
                continue
        raise ModelInvalid(f"{model.label}: built for {model.model.platform!r}, which is no SoC known here")
    soc = socs.get(wanted)
    # its own files stay on the device: what is played runs any network we can read
    if soc.generation == "rknpu3":
        return soc
    if not set(soc.accepts) & set(accepted):
        if model.model.generation != soc.generation:
            raise TargetPlatformUnmatch(
                f"{model.label} was built for {'/'.join(model.model.platforms)}, not for {soc.name}: the NPUs are of "
                f"different generations; convert the network again for {soc.name}, or leave the SoC out"
            )
        raise TargetPlatformUnmatch(
            f"{model.label} was built for {'/'.join(model.model.platforms)}, not for {soc.name}; "
            f"convert it with target_platform='{soc.name}', or leave the SoC out"
        )
    return soc
