"""The backend ``cpu``: always available, plays the SoC that the model names."""

from __future__ import annotations

from rknnlite import socs
from rknnlite.errors import ModelInvalid, ParamInvalid, TargetPlatformUnmatch
from rknnlite.formats import ModelFile
from rknnlite.spi import Backend, Context, OpenOptions, Probe
from rknnlite.spi_llm import LlmContext, LlmOptions

from .context import CpuContext

__all__ = ["CpuBackend"]


class CpuBackend(Backend):
    """Executes graphs with numpy (and OpenCV where it is installed)."""

    name = "cpu"
    generation = "rknpu2"

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
        return CpuContext(model, play(model, options.soc), options)

    def refuses_llm(self, model: ModelFile) -> str | None:
        try:
            _ = model.llm
        except ModelInvalid as error:
            return str(error)
        return None

    def open_llm(self, model: ModelFile, weights: ModelFile | None, options: LlmOptions) -> LlmContext:
        """Map the weights; raises ModelInvalid, ModelUnsupported, ParamInvalid."""
        from .llm import CpuLlmContext

        return CpuLlmContext(model, weights, options)


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
    if not set(soc.accepts) & set(accepted):
        raise TargetPlatformUnmatch(
            f"{model.label} was built for {'/'.join(model.model.platforms)}, not for {soc.name}; "
            f"convert it with target_platform='{soc.name}', or leave the SoC out"
        )
    return soc
