"""``RkllmCrashed`` under the name by which documents gave it first; see ``model_process``."""

from __future__ import annotations

from .model_process import RkllmCrashed

__all__ = ["RkllmCrashed"]
