"""``rknnlite.spi.llm`` under the name by which the first plugins and programs import it."""

from __future__ import annotations

from .spi.llm import *  # noqa: F403
from .spi.llm import __all__  # noqa: F401
