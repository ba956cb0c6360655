"""What is opened along with a language model: a draft model, whose tokens are checked, and adapters (LoRA)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional

from rknnlite.errors import ModelUnsupported, ParamInvalid
from rknnlite.spi.llm import LlmContext, LlmSession

__all__ = ["DraftAndAdapters"]


@dataclass(frozen=True)
class DraftAndAdapters:
    """As a command line or a server is told.

    Attributes:
        draft: prefix of the package whose model guesses tokens; empty: none.
        speculate: ``LlmParams.speculate``.
        lora: what ``LlmContext.init_loras`` takes; empty: no adapters.
        lora_scale: of all of them.
    """

    draft: str = ""
    speculate: Optional[int] = None
    lora: str = ""
    lora_scale: float = 1.0

    @property
    def options(self) -> dict[str, Any]:
        """What ``open_llm`` is given for it."""
        return {"draft": self.draft} if self.draft else {}

    def open(self, context: LlmContext) -> None:
        """Make the adapters known to a model that was opened with ``options``.

        Raises ParamInvalid where the backend guesses no tokens, and what ``init_loras`` raises.
        """
        if (self.draft or self.speculate) and not context.traits.speculation:
            raise ParamInvalid(
                f"backend {context.backend_name} computes one token after the other and guesses none ahead; leave out draft and "
                "speculate, or choose the backend cpu"
            )
        if self.lora:
            context.init_loras(self.lora)

    def enable(self, session: LlmSession) -> None:
        """Use the adapters in a session of that model; raises ModelUnsupported where the runtime tells of none."""
        if not self.lora:
            return
        found = session.loras()
        if not found:
            raise ModelUnsupported(
                f"{self.lora}: the runtime names no adapters of it; choose the backend cpu"
            )
        for name, scale in found:
            session.enable_lora(name, scale * self.lora_scale)
