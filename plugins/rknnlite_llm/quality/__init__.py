"""How good a package is: beside its source, on texts that are given (``rknnlite llm-eval``)."""

from __future__ import annotations

from .divergence import Agreement
from .evaluation import EvaluationSettings, Report, evaluate
from .mixed_precision import Mixed, export_mixed
from .texts import Text, packaged_texts, text_file

__all__ = [
    "Agreement",
    "EvaluationSettings",
    "Mixed",
    "Report",
    "Settings",
    "Text",
    "evaluate",
    "export_mixed",
    "packaged_texts",
    "text_file",
]

Settings = EvaluationSettings
"""Its name in earlier versions."""
